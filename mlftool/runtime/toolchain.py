"""The programs that running needs: where they are, and what to install if they are missing."""

from __future__ import annotations

import functools
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from mlftool.errors import BAD_INPUT, ENVIRONMENT, MlfError, Problem
from mlftool.frozen import frozen
from mlftool.progress import step
from mlftool.runtime.overflow import too_small
from mlftool.runtime.sandbox import confined
from mlftool.targets import Target


@frozen
class Program:
    """A program by its usual name; `variable` may name another, with arguments."""

    name: str
    variable: str
    packages: str  # Debian's
    purpose: str
    flags: tuple[str, ...] = ()  # that every use of it needs

    @property
    def install(self) -> str:
        return f"apt-get install {self.packages}"


CC = Program("cc", "CC", "gcc libc6-dev", "to run models on this computer")
CXX = Program("c++", "CXX", "g++", "to run models with C++ sources on this computer")
BUBBLEWRAP = Program("bwrap", "MLFTOOL_BWRAP", "bubblewrap", "to run archives in a sandbox")
# What a name of a cross compiler begins with -> the compiler. mlftool.targets says whose it is.
CROSS: Mapping[str, Program] = {
    "arm-none-eabi": Program(
        "arm-none-eabi-gcc",
        "MLFTOOL_ARM_GCC",
        "gcc-arm-none-eabi libnewlib-arm-none-eabi",
        "to build firmware for Cortex-M",
    ),
    "riscv64-unknown-elf": Program(
        "riscv64-unknown-elf-gcc",
        "MLFTOOL_RISCV_GCC",
        "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf",
        "to build for RISC-V",
        # Debian has no other C library for it, and gcc does not find this one by default.
        ("--specs=picolibc.specs",),
    ),
    "aarch64-linux-gnu": Program(
        "aarch64-linux-gnu-gcc",
        "MLFTOOL_AARCH64_GCC",
        "gcc-aarch64-linux-gnu libc6-dev-arm64-cross",
        "to build for 64-bit Arm",
    ),
    "arm-linux-gnueabihf": Program(
        "arm-linux-gnueabihf-gcc",
        "MLFTOOL_ARMHF_GCC",
        "gcc-arm-linux-gnueabihf libc6-dev-armhf-cross",
        "to build for 32-bit Arm with Linux",
    ),
    "powerpc-linux-gnu": Program(
        "powerpc-linux-gnu-gcc",
        "MLFTOOL_POWERPC_GCC",
        "gcc-powerpc-linux-gnu libc6-dev-powerpc-cross",
        "to build for big-endian PowerPC",
    ),
}
ARM_GCC = CROSS["arm-none-eabi"]


@frozen
class Alternative:
    """Another way to compile C for the processors of a cross compiler, which Bazel takes for
    platforms that have a constraint of this name (rules/platforms)."""

    name: str
    toolchain: str  # a key of CROSS: what links, and whose C library is used if `program` has none
    program: Program


ALTERNATIVES = (
    Alternative(
        "picolibc",
        "arm-none-eabi",
        Program(
            ARM_GCC.name,
            ARM_GCC.variable,
            "gcc-arm-none-eabi picolibc-arm-none-eabi",
            "to build firmware with picolibc",
            ("--specs=picolibc.specs",),
        ),
    ),
    Alternative(
        "clang",
        "arm-none-eabi",
        Program(
            "clang",
            "MLFTOOL_ARM_CLANG",
            f"clang {ARM_GCC.packages}",
            "to build firmware with clang",
            # The caller names newlib's headers; this computer's are not for boards. The last,
            # so that enums are as wide as in newlib and libgcc.
            ("--target=arm-none-eabi", "-nostdlibinc", "-fshort-enums"),
        ),
    ),
)


def _variable(qemu: str) -> str:
    """MLFTOOL_QEMU_ARM for the machine, MLFTOOL_QEMU_USER_ARM for programs of Linux."""
    name = qemu.replace("qemu-", "qemu-user-").replace("qemu-user-system-", "qemu-")
    return f"MLFTOOL_{name}".upper().replace("-", "_")


# The simulators that a board.json may name, all of them QEMU.
_QEMU = {
    "qemu-system-arm": "qemu-system-arm",
    "qemu-system-riscv32": "qemu-system-misc",
    "qemu-system-riscv64": "qemu-system-misc",
    "qemu-aarch64": "qemu-user",
    "qemu-arm": "qemu-user",
    "qemu-ppc": "qemu-user",
}
SIMULATORS: Mapping[str, Program] = {
    name: Program(
        name,
        "MLFTOOL_QEMU_ARM"
        if name == "qemu-system-arm"
        else f"MLFTOOL_{name.upper()}".replace("-", "_"),
        package,
        "to run firmware on simulated boards" if "system" in name else "to run programs for Linux",
    )
    for name, package in _QEMU.items()
}
QEMU_ARM = SIMULATORS["qemu-system-arm"]


def optional() -> tuple[Program, ...]:
    """What only some boards need."""
    every = (*CROSS.values(), *SIMULATORS.values())
    return tuple(program for program in every if program not in (ARM_GCC, QEMU_ARM))


def compiler_of(target: Target) -> Program:
    """What compiles C for a target."""
    return CROSS[target.toolchain] if target.toolchain else CC


def simulator_of(command: Sequence[str]) -> Program:
    """The program that a board's command starts; one we do not know is a user's own."""
    name = command[0]
    return SIMULATORS.get(name) or Program(name, "MLFTOOL_SIMULATOR", name, "to run its programs")


def find(program: Program) -> tuple[str, ...]:
    """The command that starts `program`. Raises MlfError that says what to install."""
    given = os.environ.get(program.variable, "")
    command = shlex.split(given) or [program.name]
    path = shutil.which(command[0])
    if path is None:
        source = f" (from ${program.variable})" if given else ""
        text = f"'{command[0]}'{source} is not installed; it is needed {program.purpose}"
        problem = Problem("MLF0700", text, help=f"install it with: {program.install}")
        raise MlfError(problem, ENVIRONMENT)
    return (path, *command[1:], *program.flags)


def find_given(command: str) -> tuple[str, ...]:
    """A compiler that the user names, with arguments. Raises MlfError if it is not there."""
    try:
        program, *arguments = shlex.split(command)
    except ValueError as error:
        raise MlfError(Problem("MLF0400", f"compiler '{command}': {error}")) from None
    path = shutil.which(program)
    if path is None:
        help = "name an installed compiler, or leave it out for the target's usual compiler"
        raise MlfError(Problem("MLF0700", f"compiler '{program}' is not installed", help=help))
    return (path, *arguments)


@functools.cache
def identity(command: tuple[str, ...]) -> str:
    """What distinguishes this compiler from others: its path and the first line of --version."""
    run = subprocess.run([*command, "--version"], capture_output=True, text=True)
    return "\n".join([*command, *run.stdout.splitlines()[:1]])


# What the headers and functions that external code generators use belong to.
_LIBRARIES = (
    (r"arm_nn|arm_nnsupport|arm_.*_s8", "CMSIS-NN"),
    (r"arm_math|arm_common_tables|cmsis_", "CMSIS-Core or CMSIS-DSP"),
    (r"tvm_ethosu_runtime|TVMEthosULaunch|TVMDeviceEthosU|ethosu", "the Arm Ethos-U core driver"),
    (r"dnnl", "oneDNN"),
    (r"mkl|cblas", "a BLAS library"),
    (r"[Hh]exagon|HAP_", "the Hexagon SDK"),
)

_OWN = re.compile(r"_?_?tvmgen_|tvm__default_|fused_")  # functions that every compiler's module has


def library_of(name: str) -> str:
    """The library that a header or function belongs to; "" for those that are not known."""
    return next((library for pattern, library in _LIBRARIES if re.search(pattern, name)), "")


def _missing(stderr: str, what: str) -> Problem | None:
    """The problem of a header or of functions that the module needs and the archive lacks."""
    header = re.search(r"fatal error: '?([^:'\n]+)'?(?:: No such file| file not found)", stderr)
    functions = re.findall(r"undefined (?:reference to|symbol:) [`']?([A-Za-z_]\w*)", stderr)
    if header is None and not functions:
        return None
    names = list(dict.fromkeys(functions))
    needs = f"the header '{header[1]}'" if header else f"the function {', '.join(names[:5])}"
    library = library_of(needs)
    text = f"{what} needs {needs}, which the archive does not contain"
    if header is None and any(_OWN.match(n) for n in names):
        hint = "it is generated code: the archive lacks a file of codegen/host; export it again"
        return Problem("MLF0611", text, help=hint)
    hint = f"it belongs to {library}; " if library else ""
    hint += "build the module in your own project, with that library"
    return Problem("MLF0611", text, help=hint)


def _too_large(stderr: str, what: str, cwd: Path) -> Problem | None:
    """The problem of memories that a linker found too small: their size, and the size needed."""
    maps = "".join(file.read_text("utf-8", "replace") for file in cwd.glob("*.map"))
    if not (found := too_small(stderr, maps)):
        return None
    hint = "use a board with more memory, or save memory: --optimize size for flash, "
    hint += "--patches auto for RAM"
    return Problem("MLF0608", f"{what} does not fit: {found}", help=hint)


def compile_c(command: Sequence[str], arguments: Sequence[str], cwd: Path, what: str) -> None:
    """Runs a C compiler in `cwd`, whose path leaves no trace. Raises MlfError with its first error
    line."""
    unseen = f"-fdebug-prefix-map={os.path.realpath(cwd)}=."
    with step(f"{Path(command[0]).name}: {what}"):
        run = subprocess.run(
            confined([*command, unseen, *arguments], cwd),
            cwd=cwd,
            capture_output=True,
            text=True,
            errors="replace",
            env={**os.environ, "LC_ALL": "C"},  # the messages are read below
        )
    if run.returncode == 0:
        return
    if problem := _missing(run.stderr, what) or _too_large(run.stderr, what, cwd):
        raise MlfError(problem)
    lines = run.stderr.strip().splitlines() or [f"exit status {run.returncode}"]
    marks = ("error:", "overflowed", "relocation", "multiple definition")
    line = next((s for s in lines if any(m in s for m in marks)), lines[-1])
    text = f"{what} cannot be built with {Path(command[0]).name}: {line.strip()}"
    raise MlfError(Problem("MLF0608", text), BAD_INPUT)
