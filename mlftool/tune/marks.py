"""What each layer of a module takes on a simulated board.

The generated run function gets a mark in front of each call, which reads the board's counter, so a
figure is right to within a tick of that, 40 instructions or less.
"""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from mlftool.describe import bundle as bundle_of
from mlftool.errors import CHECK_FAILED, MlfError, Problem
from mlftool.module import Module
from mlftool.runtime.boards import Board
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import qemu_command

Sample = Mapping[str, "np.ndarray[Any, Any]"]

TIME_LIMIT_SECONDS = 600
# In front of each call the generated function has a line that ends with the kernel's name.
_CALL = re.compile(r"^  (?=// .*\([\w.]+\)$)", re.M)
_RUN = re.compile(r"^int32_t \w+\([^;{]*\) \{\n", re.M)
_MARKS = """
#include "platform.h"

static uint64_t tune_at[{steps} + 1];

static void tune_mark(int step) {{
  tune_at[step] = platform_counter_end();
}}

static void tune_print(void) {{
  for (int step = 0; step < {steps}; step++) {{
    uint64_t n = platform_counter_cost(tune_at[step], tune_at[step + 1]);
    char digits[24];
    char *at = digits + sizeof digits - 2;
    at[0] = '\\n';
    at[1] = '\\0';
    do {{
      *--at = (char)('0' + n % 10);
      n /= 10;
    }} while (n != 0);
    platform_print("layer=");
    platform_print(at);
  }}
}}

"""


@dataclass(frozen=True)
class Counted:
    """Instructions of each step, and what the module computed."""

    steps: tuple[int, ...]
    outputs: bytes

    @property
    def total(self) -> int:
        return sum(self.steps)


def count(module: Module, board: Board, sample: Sample, flags: str) -> Counted:
    """One inference, step by step. Raises MlfError."""
    bundle = bundle_of([_marked(module)])
    interface = read_interface(bundle, module.spec.module_name)
    elf = link_firmware(bundle, interface, board, optimise=flags)
    with tempfile.TemporaryDirectory(prefix="mlftool-tune-") as folder:
        data = b"".join(sample[t.name].tobytes() for t in interface.inputs)
        (Path(folder) / "inputs.bin").write_bytes(data)
        command = qemu_command(board, elf.resolve(), ("inputs.bin", "outputs.bin", "1"))
        text = _output(command, folder)
        outputs = (Path(folder) / "outputs.bin").read_bytes()
    counts = [int(n) for n in re.findall(r"^layer=(\d+)$", text, re.M)]
    # The runs before the last are not counted ones.
    return Counted(tuple(counts[-len(module.program.calls) :]), outputs)


def _output(command: list[str], folder: str) -> str:
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
            timeout=TIME_LIMIT_SECONDS,
        )
    except subprocess.SubprocessError as error:
        text = f"the program that counts instructions failed: {type(error).__name__}"
        raise MlfError(Problem("MLF0605", text), CHECK_FAILED) from None
    return done.stdout


def _marked(module: Module) -> Module:
    """The module with the counter read before each call and after the last."""
    steps = len(module.program.calls)
    files = dict(module.sources.files)
    for name, text in files.items():
        entry = list(_RUN.finditer(text))
        if not name.endswith(".c") or not entry or not _CALL.search(text, entry[-1].end()):
            continue
        head, body = text[: entry[-1].start()], text[entry[-1].start() :]
        body = "".join(
            f"  tune_mark({n - 1});\n  {part}" if n else part
            for n, part in enumerate(_CALL.split(body))
        )
        end = body.rindex("  return 0;")
        body = f"{body[:end]}  tune_mark({steps});\n  tune_print();\n{body[end:]}"
        files[name] = head + _MARKS.format(steps=steps) + body
    return replace(module, sources=replace(module.sources, files=files))
