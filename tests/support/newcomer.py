"""What the tests of a first hour share: a model, a page, and how a session is compared with it."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from builders import Net
from shared import REPO

PAGE = REPO / "docs" / "first_hour.md"
_BLOCK = re.compile(r"(?<=^```console\n)((?:.|\n)*?)(?=^```$)", re.MULTILINE)


def network(path: Path) -> None:
    """A float network: two convolutions, a pooling and a dense layer, with random weights."""
    random, net = np.random.default_rng(7), Net()
    x = net.input("sound", np.float32, (1, 1, 24, 16))
    for k, (ins, outs) in enumerate(((1, 8), (8, 12))):
        w = net.const(random.normal(0, 0.3, (outs, ins, 3, 3)).astype(np.float32))
        x = net.node("Relu", net.node("Conv", x, w, pads=[1] * 4, strides=[1 + k] * 2))
    x = net.node("Flatten", net.node("GlobalAveragePool", x))
    x = net.node("MatMul", x, net.const(random.normal(0, 0.5, (12, 4)).astype(np.float32)))
    onnx.save(net.model(net.node("Softmax", x)), path)


def shown(session: int) -> list[str]:
    """The lines of a session on the page."""
    found: str = _BLOCK.findall(PAGE.read_text())[session]
    return found.splitlines()


def typed(session: int) -> list[str]:
    """The lines that the page types."""
    return [line[2:] for line in shown(session) if line.startswith("$ ")]


def matches_page(session: int, seen: Sequence[str]) -> None:
    """Fails unless the page shows what was seen but for figures, and how wide they are. With
    MLFTOOL_WRITE_PAGES=1 it is written instead."""
    if not os.environ.get("MLFTOOL_WRITE_PAGES"):
        assert _plain(seen) == _plain(shown(session))
        return
    page = PAGE.read_text()
    place = list(_BLOCK.finditer(page))[session]
    PAGE.write_text(page[: place.start()] + "\n".join(seen) + "\n" + page[place.end() :])


def _plain(lines: Sequence[str]) -> list[list[str]]:
    # What pip says depends on whether there is one.
    kept = [line for line in lines if not line.startswith("Successfully installed")]
    return [re.sub(r"[-\d,.+%#█░▏]+", " ", line).split() for line in kept]
