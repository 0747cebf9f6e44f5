"""The compilers that the C runtime is clean under, and the machines its tests run on."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from functools import cache

import pytest
from crt_build import SANITIZE


@dataclass(frozen=True)
class Machine:
    """A compiler with its options; `run` is what starts a program it made (None: not run)."""

    name: str
    compiler: str
    package: str  # what brings it on Debian
    run: tuple[str, ...] | None = None
    flags: tuple[str, ...] = ()  # for programs that run

    @property
    def command(self) -> list[str]:
        return self.compiler.split()

    def need(self) -> None:
        """Skips the test where the compiler, its C library or the emulator is missing."""
        missing = _missing(self)
        if missing:
            pytest.skip(f"apt-get install {self.package}: {missing}")


@cache
def _missing(machine: Machine) -> str:
    program = machine.command[0]
    if shutil.which(program) is None:
        return f"no {program}"
    if machine.run and shutil.which(machine.run[0]) is None:
        return f"no {machine.run[0]}"
    probe = [*machine.command, "-x", "c", "-", "-o", "/dev/null"]
    probe += machine.flags if machine.run is not None else ["-c"]
    text = "#include <string.h>\n#include <stdarg.h>\nint main(void) { return 0; }\n"
    done = subprocess.run(probe, input=text, capture_output=True, text=True)
    return done.stderr.strip()


ARM = "gcc-arm-none-eabi libnewlib-arm-none-eabi"
RISCV = "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf"
_RISCV_GCC = "riscv64-unknown-elf-gcc --specs=picolibc.specs"

MACHINES = (
    Machine("x86-64", "gcc", "gcc", (), SANITIZE),
    Machine("x86-64-unsigned-char", "gcc -funsigned-char", "gcc", (), SANITIZE),
    Machine("x86-64-clang", "clang", "clang libclang-rt-14-dev", (), SANITIZE),
    Machine("i386", "gcc -m32", "gcc-12-multilib", ()),
    Machine(
        "powerpc",  # high byte first
        "powerpc-linux-gnu-gcc",
        "gcc-powerpc-linux-gnu libc6-dev-powerpc-cross qemu-user",
        ("qemu-ppc",),
        ("-static",),
    ),
    Machine("cortex-m0", "arm-none-eabi-gcc -mcpu=cortex-m0 -mthumb", ARM),
    Machine(
        "cortex-m4",
        "arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -mfpu=fpv4-sp-d16",
        ARM,
    ),
    Machine("cortex-m55", "arm-none-eabi-gcc -mcpu=cortex-m55 -mthumb -mfloat-abi=hard", ARM),
    Machine("rv32imc", f"{_RISCV_GCC} -march=rv32imc -mabi=ilp32", RISCV),
    Machine("rv32imafc", f"{_RISCV_GCC} -march=rv32imafc -mabi=ilp32f", RISCV),
    Machine("rv64gc", f"{_RISCV_GCC} -march=rv64gc -mabi=lp64d", RISCV),
)
RUNNING = tuple(machine for machine in MACHINES if machine.run is not None)
BY_NAME = {machine.name: machine for machine in MACHINES}
