"""Driving the test runner of crt/runner: samples in, outputs and what an inference costs out."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from mlftool.errors import CHECK_FAILED, ENVIRONMENT, MlfError, Problem
from mlftool.frozen import frozen
from mlftool.mlf.interface import Interface, Tensor
from mlftool.progress import step
from mlftool.runtime import toolchain
from mlftool.runtime.sandbox import confined
from mlftool.runtime.vectors import Array
from mlftool.targets import TARGETS

if TYPE_CHECKING:
    from mlftool.runtime.boards import Board

# How a program is started with these arguments.
Command = Callable[[Sequence[str]], list[str]]

# Which byte of a number comes first: the lowest, the highest, or as on this computer.
Order = Literal["<", ">", "="]

TIME_LIMIT_SECONDS = 600  # of a program that measures
_BAD_COUNTER, _UNWRITABLE = 3, 4  # runner.c's exit statuses


@frozen
class RunResult:
    """Outputs per sample, and the figures of the runner's line, such as {"instructions": 123.0}."""

    outputs: tuple[dict[str, Array], ...]
    figures: Mapping[str, float]


def run_on_host(
    program: Path,
    interface: Interface,
    samples: Sequence[Mapping[str, Array]],
    repetitions: int = 1,
    time_limit: float = 300.0,
) -> RunResult:
    """Runs a program of host.build_runner. Raises MlfError when it fails or takes too long."""

    def command(arguments: Sequence[str]) -> list[str]:
        return [str(program.resolve()), *arguments]

    with step(f"running {interface.module} on this computer"):
        return _run(command, program, interface, samples, repetitions, time_limit)


def run_on_board(
    elf: Path,
    board: Board,
    interface: Interface,
    samples: Sequence[Mapping[str, Array]],
    repetitions: int = 1,
    time_limit: float = 600.0,
) -> RunResult:
    """Runs a firmware of link.link_firmware under QEMU, which counts instructions."""

    def command(arguments: Sequence[str]) -> list[str]:
        return qemu_command(board, elf.resolve(), arguments)

    order: Order = ">" if TARGETS[board.target].big_endian else "<"
    with step(f"running {interface.module} on {board.title}"):
        return _run(command, elf, interface, samples, repetitions, time_limit, order)


def qemu_command(board: Board, elf: Path, arguments: Sequence[str]) -> list[str]:
    """The command line of a simulation; the program sees argv = ["firmware", *arguments].

    `-icount shift=0` lets virtual time pass by 1 ns per instruction; align and sleep off let it
    run as fast as it can. The console is stdout. Arguments must have no commas and no spaces: the
    program gets them as one line.
    """
    program = (*toolchain.find(toolchain.simulator_of(board.simulator)), *board.simulator[1:])
    if not Path(program[0]).name.startswith("qemu-system-"):
        return [*program, str(elf), *arguments]
    semihosting = "enable=on,target=native,chardev=console"
    semihosting += "".join(f",arg={a}" for a in ("firmware", *arguments))
    return [
        *program,
        *("-icount", "shift=0,align=off,sleep=off"),
        *("-display", "none", "-monitor", "none", "-serial", "none"),
        *("-chardev", "stdio,id=console,signal=off", "-semihosting-config", semihosting),
        *("-kernel", str(elf)),
    ]


def _run(
    command: Command,
    program: Path,
    interface: Interface,
    samples: Sequence[Mapping[str, Array]],
    repetitions: int,
    time_limit: float,
    order: Order = "=",
) -> RunResult:
    # File names of our own choice in a directory of our own: nothing of the user's reaches the
    # program's command line, which cannot hold spaces on a board.
    with tempfile.TemporaryDirectory(prefix="mlftool-run-") as folder:
        work = Path(folder)
        with (work / "inputs.bin").open("wb") as stream:
            for sample in samples:
                stream.writelines(_in_order(sample[t.name], t, order) for t in interface.inputs)
        arguments = command(("inputs.bin", "outputs.bin", str(repetitions)))
        arguments = confined(arguments, work, program)
        text = _execute(arguments, work, program, interface.module, time_limit)
        made = work / "outputs.bin"
        if not made.is_file():
            raise _no_runner(program, "ends well and writes no outputs")
        data = made.read_bytes()
    return RunResult(
        _outputs(data, interface, len(samples), order), _figures(text, interface.module)
    )


def _no_runner(program: Path, why: str) -> MlfError:
    """A program of the user's that is something else."""
    help = "the rule mlf_runner makes one; without --runner, mlftool run builds it"
    text = f"is not a test runner: {why}"
    return MlfError(Problem("MLF0609", text, str(program), help=help))


def _execute(
    arguments: Sequence[str], work: Path, program: Path, module: str, time_limit: float
) -> str:
    """The program's standard output. Raises MlfError unless it ends well and in time."""
    try:
        run = subprocess.run(
            arguments,
            cwd=work,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=time_limit,
        )
    except OSError as error:
        if error.filename is None:  # not of the program, such as too little memory
            raise
        raise _no_runner(program, f"cannot be started: {error.strerror}") from None
    except subprocess.TimeoutExpired:
        text = f"module '{module}' did not finish within {time_limit:g} seconds"
        raise MlfError(Problem("MLF0605", text), CHECK_FAILED) from None
    if run.returncode == 0:
        return run.stdout
    if run.returncode == _UNWRITABLE:
        text, help = f"the outputs of '{module}' cannot be written", "make room, then try again"
        raise MlfError(Problem("MLF0704", text, str(work.parent), help=help), ENVIRONMENT)
    text = f"module '{module}': {_complaint(run).removeprefix(f'{module}: ')}"
    status = ENVIRONMENT if run.returncode == _BAD_COUNTER else CHECK_FAILED
    raise MlfError(Problem("MLF0605", text), status)


def _complaint(run: subprocess.CompletedProcess[str]) -> str:
    """The line of a failed program that says why: ours, a sanitizer's, or the last one."""
    lines = [s.strip() for s in f"{run.stdout}\n{run.stderr}".splitlines() if s.strip()]
    marks = ("runner: ", "fault: ", "runtime error: ", "ERROR: AddressSanitizer", "qemu: fatal")
    for line in lines:
        if any(mark in line for mark in marks):
            return line.removeprefix("runner: ")
    ending = f"signal {-run.returncode}" if run.returncode < 0 else f"status {run.returncode}"
    return " ".join([*lines[-1:], f"(the program ended with {ending})"])


def _figures(text: str, module: str) -> dict[str, float]:
    """The numbers of the runner's last line of key=value pairs."""
    lines = text.strip().splitlines() or [""]
    try:
        pairs = (pair.split("=", 1) for pair in lines[-1].split())
        figures = {key: float(value) for key, value in pairs}
    except ValueError:
        figures = {}
    if "samples" not in figures:
        text = f"module '{module}': the program printed no result; got '{lines[-1]}'"
        raise MlfError(Problem("MLF0605", text), CHECK_FAILED)
    return figures


def _in_order(array: Array, tensor: Tensor, order: Order) -> bytes:
    return tensor.stored(array.astype(array.dtype.newbyteorder(order), copy=False))


def _outputs(
    data: bytes, interface: Interface, samples: int, order: Order
) -> tuple[dict[str, Array], ...]:
    expected = samples * sum(t.size_bytes for t in interface.outputs)
    if len(data) != expected:
        text = f"module '{interface.module}': {len(data)} bytes of output, expected {expected}"
        raise MlfError(Problem("MLF0605", text), CHECK_FAILED)
    results = []
    offset = 0
    for _ in range(samples):
        result: dict[str, Array] = {}
        for t in interface.outputs:
            there = np.dtype(t.dtype).newbyteorder(order)
            made = replace(t, dtype=there).restored(data[offset : offset + t.size_bytes])
            result[t.name] = made.astype(t.dtype, copy=False)
            offset += t.size_bytes
        results.append(interface.cut(result))
    return tuple(results)


def output_of(command: Sequence[str], folder: str | Path, failure: str) -> str:
    """What a program prints that measures code in `folder`. Raises MlfError, `failure` and why, if
    it cannot be started, fails, or takes longer than TIME_LIMIT_SECONDS."""
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
    except (OSError, subprocess.SubprocessError) as error:
        text = f"{failure}: {Path(command[0]).name}: {_reason(error)}"
        raise MlfError(Problem("MLF0605", text), CHECK_FAILED) from None
    return done.stdout


def _reason(error: OSError | subprocess.SubprocessError) -> str:
    """What the program said, or why it did not end."""
    if isinstance(error, subprocess.CalledProcessError):
        output = (error.stdout or "", error.stderr or "")
        return _complaint(subprocess.CompletedProcess(error.cmd, error.returncode, *output))
    if isinstance(error, subprocess.TimeoutExpired):
        return f"it did not finish within {error.timeout:g} seconds"
    return str(error)
