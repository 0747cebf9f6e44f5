"""Manifests grown from the schema: the keys are known, their places and values not always right.

    python tests/manifest/grown.py 20000 --first 0

Each is checked as `mlftool check` does, in a folder with the models of examples: problems of one
line with a place, or none, in time. Any exception, MLF0900, and any other line is a finding.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import copy
import io
import os
import random
import re
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))

from mlftool.cli import main  # noqa: E402
from mlftool.manifest import schema  # noqa: E402

SECONDS = 5  # of processor time, each
LINE = re.compile(r".*: (error|warning)\[MLF0[1-9]\d\d\]: .+|help: .+|m\.yaml: no problems")
VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, 1, -1, 2**31, 2**63, 2**64, 0.5, 1e308, float("inf"), float("nan")),
    *("", " ", "a", "~", "null", "yes", "0x10", "1:30", "1e3", "..", "/", "../x", "a/b", "//:x"),
    *("@a//b:c", "é", "\u202e", "a\nb", "a: b", "- a", "x" * 300, "host", "cortex-m4", "4KiB"),
    *([], [[]], [None], {}, {"": ""}, {1: 2}, {None: None}, [1, 2, 3], ["a", "a"]),
)


def _keys(part: Any) -> Iterator[tuple[str, Any]]:
    """Every key that the schema knows, with what it says of its values."""
    if isinstance(part, dict):
        yield from part.get("properties", {}).items()
        for value in part.values():
            yield from _keys(value)
    elif isinstance(part, list):
        for value in part:
            yield from _keys(value)


KEYS = sorted(_keys(schema()), key=lambda item: item[0])


class Grower:
    """One manifest, from the trees of others."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)

    def manifest(self, seeds: list[Any]) -> bytes:
        tree, other = (copy.deepcopy(self.rng.choice(seeds)) for _ in range(2))
        for _ in range(self.rng.choice((1, 1, 2, 3, 5))):
            self._change(tree, other)
        flow = self.rng.choice((None, None, False, True))
        text = yaml.safe_dump(tree, default_flow_style=flow, sort_keys=False, allow_unicode=True)
        return text.encode("utf-8", "surrogatepass")

    def _change(self, tree: Any, other: Any) -> None:
        at = self.rng.choice(list(_nodes(tree)))
        what = self.rng.randrange(7)
        if isinstance(at, list):
            if what < 2 or not at:
                at.insert(self.rng.randint(0, len(at)), self._value(other))
            elif what < 4:
                at.append(copy.deepcopy(self.rng.choice(at)))
            else:
                at[self.rng.randrange(len(at))] = self._value(other)
        elif what < 2 or not at:
            key, about = self.rng.choice(KEYS)
            at[key] = self._fitting(about, other)
        elif what == 2:
            del at[self.rng.choice(list(at))]
        elif what == 3:
            key = self.rng.choice(list(at))
            at[self.rng.choice(KEYS)[0]] = at.pop(key)
        elif what == 4:
            at[self.rng.choice([v for v in VALUES if not isinstance(v, (list, dict))])] = (
                self._value(other)
            )
        else:
            at[self.rng.choice(list(at))] = self._value(other)

    def _fitting(self, about: Any, other: Any) -> Any:
        """Mostly one of the values that the schema names or of its type."""
        named = about.get("enum") if isinstance(about, dict) else None
        if named and self.rng.random() < 0.8:
            return self.rng.choice(named)
        kinds: dict[Any, Any] = {"boolean": True, "integer": 3, "string": "kws", "array": ["kws"]}
        if isinstance(about, dict) and self.rng.random() < 0.5:
            kind = about.get("type")
            return copy.deepcopy(kinds.get(kind if isinstance(kind, str) else "", {}))
        return self._value(other)

    def _value(self, other: Any) -> Any:
        if self.rng.random() < 0.3:
            return copy.deepcopy(self.rng.choice(list(_nodes(other))))
        return copy.deepcopy(self.rng.choice(VALUES))


def _nodes(tree: Any) -> Iterator[Any]:
    """The mappings and lists of a tree."""
    if isinstance(tree, (dict, list)):
        yield tree
        for value in tree.values() if isinstance(tree, dict) else tree:
            yield from _nodes(value)


def seeds() -> list[Any]:
    good = sorted(Path(__file__).parent.glob("good/*.yaml"))
    files = [*good, *sorted((ROOT / "examples").glob("*.yaml"))]
    return [yaml.safe_load(f.read_text()) for f in files]


def complaint(data: bytes) -> str:
    """What is wrong with how `mlftool check` takes a manifest in this folder, or ""."""
    Path("m.yaml").write_bytes(data)
    said, began = io.StringIO(), time.process_time()
    try:
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = main(["check", "m.yaml"])
    except BaseException as error:
        return f"raised {error!r}"
    lines = said.getvalue().splitlines()
    if code not in (0, 1, 2) or "MLF0900" in said.getvalue():
        return f"exit {code}: {lines[:3]}"
    if code and not any(" error[MLF" in line for line in lines):
        return f"exit {code} without an error: {lines[:3]}"
    if odd := next((line for line in lines if not LINE.fullmatch(line)), None):
        return f"a line of another form: {odd[:200]}"
    if time.process_time() - began > SECONDS:
        return f"took {time.process_time() - began:.1f} s"
    return ""


def main_() -> int:
    parser = argparse.ArgumentParser(description="check manifests that are grown from the schema")
    parser.add_argument("count", type=int, help="how many")
    parser.add_argument("--first", type=int, default=0, help="the first seed (0)")
    args = parser.parse_args()
    os.environ["MLF_REPORTS"] = ""
    trees, counts = seeds(), collections.Counter[str]()
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(ROOT / "examples" / "models", Path(folder) / "models")
        os.chdir(folder)
        for seed in range(args.first, args.first + args.count):
            data = Grower(seed).manifest(trees)
            text = complaint(data)
            counts["found" if text else "fine"] += 1
            if text:
                print(f"{seed}: {text[:400]}", flush=True)
        os.chdir("/")
    print(dict(counts))
    return int(counts["found"] > 0)


if __name__ == "__main__":
    sys.exit(main_())
