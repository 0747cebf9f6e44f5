"""One run of one module: the place, the results, the costs, and their report."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.mlf import Bundle
from mlftool.mlf.interface import Interface
from mlftool.runtime.boards import BOARDS, Board, choice, find
from mlftool.runtime.compare import Comparison
from mlftool.runtime.host import build_runner
from mlftool.runtime.link import Footprint, footprint, link_firmware
from mlftool.runtime.runner import RunResult, run_on_board, run_on_host
from mlftool.runtime.vectors import Array
from mlftool.sizes import in_bytes
from mlftool.targets import TARGETS

HOST = "host"


@frozen
class Place:
    """Where a module runs: `host`, or a target on a board; `named` is what else people call it."""

    target: str
    board: Board | None = None
    named: str = "this computer"

    @property
    def title(self) -> str:
        return self.board.title if self.board else self.named


def place_for(target: str, on: str | None, file: str = "") -> Place:
    """The place that `on` names; without it, the one that fits code compiled for `target`."""
    wanted = on or (HOST if target in TARGETS and TARGETS[target].is_host else target)
    if wanted == HOST or (wanted in TARGETS and TARGETS[wanted].is_host):
        return Place(HOST)
    if board := find(wanted, target):
        return Place(board.target, board)
    text = f"no simulated board for target '{wanted}'; got it from "
    text += "--on" if on else "the archive"
    raise MlfError(Problem("MLF0610", text, file, help=choice(on, (HOST, *BOARDS))))


def check_processor(target: str, place: Place, file: str = "") -> Problem | None:
    """A warning if code for `target` is not what suits the board. Raises MlfError if it cannot run.

    Of TVM's archives the target is not known; they pass.
    """
    board = place.board
    if board is None or target not in TARGETS or target == board.target:
        return None
    made, own = TARGETS[target], TARGETS[board.target]
    text = f"the code is for {target}; {board.title} is a {board.target}"
    hint = f"compile the model for it: mlftool compile MODEL -o FILE.tar --target {board.target}"
    if made.big_endian != own.big_endian or made.instructions - own.features:
        raise MlfError(Problem("MLF0613", text, file, help=hint))
    text += ", whose own kernels are faster or smaller"
    return Problem("MLF0613", text, file, help=hint, severity="warning")


def execute(
    bundle: Bundle,
    interface: Interface,
    place: Place,
    samples: Sequence[Mapping[str, Array]],
    runner: Path | None = None,
    repetitions: int = 1,
) -> tuple[RunResult, Footprint | None]:
    """Runs all samples, with `runner` if that program is built already. Raises MlfError."""
    if runner is not None and not os.path.isfile(runner):
        raise MlfError(Problem("MLF0609", "no such program", str(runner)))
    board = place.board
    if board is None:
        program = runner or build_runner(bundle, interface)
        return run_on_host(program, interface, samples, repetitions), None
    elf = runner or link_firmware(bundle, interface, board)
    sizes = None if board.hosted else footprint(elf)
    return run_on_board(elf, board, interface, samples, repetitions), sizes


def report(
    interface: Interface,
    place: Place,
    result: RunResult,
    sizes: Footprint | None,
    comparison: Comparison | None,
    accuracy: float | None,
) -> dict[str, Any]:
    """The run as JSON. What was not measured is absent; an infinite error is null."""
    data: dict[str, Any] = {
        "schema_version": 1,
        "module": interface.module,
        "target": place.target,
        "samples": len(result.outputs),
        "passed": comparison is None or comparison.passed,
        "workspace_bytes": interface.workspace_bytes,
        "constants_bytes": interface.constants_bytes,
    }
    if comparison is not None:
        data |= {
            "elements": comparison.elements,
            "mismatches": comparison.mismatches,
            "max_abs_error": _finite(comparison.max_abs_error),
            "max_rel_error": _finite(comparison.max_rel_error),
            "rmse": _finite(comparison.distance.rmse),
            "cosine": comparison.distance.cosine,
            "tolerances": {
                name: {"absolute": t.absolute, "relative": t.relative}
                for name, t in comparison.tolerances.items()
            },
        }
    if accuracy is not None:
        data["accuracy"] = accuracy
    # Counts are whole numbers, microseconds are not.
    for key in ("instructions", "stack_bytes", "microseconds", "microseconds_min"):
        if key in result.figures:
            value = result.figures[key]
            data[key] = value if key.startswith("microseconds") else round(value)
    if sizes is not None:
        data |= {"flash_bytes": sizes.flash, "ram_bytes": sizes.ram}
    return data


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def summary(data: Mapping[str, Any], title: str, comparison: Comparison | None) -> str:
    """The report for people: a few lines, sizes in bytes and KiB."""
    count = data["samples"]
    lines = [f"{data['module']} on {data['target']} ({title}): {_plural(count, 'sample')}"]
    if comparison is not None:
        verdict = "equal to the reference within"
        if not comparison.passed:
            verdict = f"{comparison.mismatches} outside"
        verdict += f" {comparison.allowed}"
        lines.append(f"  outputs       {_plural(data['elements'], 'element')}, {verdict}")
        error = "infinite" if data["max_abs_error"] is None else f"{data['max_abs_error']:.6g}"
        lines.append(
            f"  largest error {error}" + (f" ({comparison.worst})" if comparison.worst else "")
        )
        rmse = "infinite" if data["rmse"] is None else f"{data['rmse']:.6g}"
        cosine = "-" if data["cosine"] is None else f"{data['cosine']:.9f}"
        lines.append(f"  RMSE, cosine  {rmse}, {cosine}")
    if "accuracy" in data:
        lines.append(f"  accuracy      {100 * data['accuracy']:.2f} %")
    if "instructions" in data:
        lines.append(f"  instructions  {data['instructions']:,} per inference")
    if "microseconds" in data:
        lines.append(f"  time          {data['microseconds_min']:,.1f} us per inference (best)")
    for key, name in (("flash", "flash"), ("ram", "RAM"), ("stack", "stack")):
        if f"{key}_bytes" in data:
            lines.append(f"  {name:<13} {in_bytes(data[f'{key}_bytes'])}")
    return "\n".join(lines)


def _plural(count: int, noun: str) -> str:
    return f"{count:,} {noun}" + ("" if count == 1 else "s")
