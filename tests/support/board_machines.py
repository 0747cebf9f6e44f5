"""Simulated boards as machines that programs.py builds for: their C library reads and writes files
of this computer, by semihosting or as programs of Linux.

A Cortex-M0's code runs on the board of a Cortex-M3, which has its instructions and more memory.
"""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path

from batch import Job
from programs import Build, Machine, run_programs

from mlftool.mlf.runtime_tree import crt_root
from mlftool.runtime import toolchain
from mlftool.runtime.boards import BOARDS, Board
from mlftool.runtime.runner import qemu_command
from mlftool.targets import TARGETS

SHARING = 10  # modules, which have room in a board's memory together
ROOMY = {"cortex-m0": "cortex-m3", "rv32imac": "rv32imc"}
_STACK = ("-nostartfiles", "-DSEMIHOSTED", "-Wl,--defsym=__stack_size=0x40000")
# picolibc opens no files by itself, and asks for memory by another name.
_PICOLIBC = (
    "--oslib=semihost",
    *(
        f"-Wl,--defsym={a}={b}"
        for a, b in (("initialise_monitor_handles", "_init"), ("sbrk", "_sbrk"))
    ),
)


def machine_of(target: str) -> Machine:
    """The board of a target: programs for it are compiled with `flags_of(target)`."""
    board = BOARDS[ROOMY.get(target, target)]
    name = toolchain.find(toolchain.compiler_of(TARGETS[target]))[0]
    if board.hosted:
        return Machine(name, (), board.linkopts, _starter(board))
    root = crt_root() / "boards"
    linking = [*(f"-I{root / p}" for p in (*board.parts, board.name)), f"-L{root}"]
    linking += [f"-T{crt_root() / board.script}", *_STACK]
    linking += _PICOLIBC if "riscv" in board.parts else ("--specs=rdimon.specs",)
    sources = [root / "common/start.c", *sorted((root / board.parts[0]).glob("*.c"))]
    return Machine(name, tuple(map(str, sources)), tuple(linking), _starter(board))


def flags_of(target: str) -> tuple[str, ...]:
    """Of the machine, and those with which its compiler finds a C library."""
    found = toolchain.find(toolchain.compiler_of(TARGETS[target]))
    return (*found[1:], *TARGETS[target].cflags)


def is_here(target: str) -> bool:
    """Whether this computer has the compiler and the simulator."""
    board = BOARDS[ROOMY.get(target, target)]
    needed = toolchain.compiler_of(TARGETS[target]), toolchain.simulator_of(board.simulator)
    return all(shutil.which(program.name) for program in needed)


def run_on(target: str, jobs: Sequence[Job], work: Path, level: str) -> None:
    """Compiled jobs for `target` on its board, optimised and with all warnings, some of them in one
    program: they get its results, or what is wrong."""
    build, machine = Build(level, processor=flags_of(target)), machine_of(target)
    for k in range(0, len(jobs), SHARING):
        part = [job.program() for job in jobs[k : k + SHARING]]
        ran = run_programs(part, work / str(k), build, machine=machine)
        for job, program, done in zip(jobs[k:], part, ran, strict=False):
            job.failure = done.failure
            job.results = [] if done.failure else program.results(done.output)


def _starter(board: Board):
    def start(program: Path, argument: str) -> list[str]:
        command = qemu_command(board, program, [argument])
        if "-icount" not in command:
            return command
        at = command.index("-icount")  # counted instructions take longer
        return command[:at] + command[at + 2 :]

    return start
