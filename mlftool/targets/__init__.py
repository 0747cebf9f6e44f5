"""What a device is: the features its kernels may use and how C is compiled for it.

Imports nothing heavy: manifests are checked against this table without numpy or onnx.
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from mlftool.frozen import frozen


@frozen
class Feature:
    """What a specialised kernel may ask for."""

    about: str
    llvm: str = ""  # of instructions that other processors lack: LLVM's name of them


FEATURES: Mapping[str, Feature] = {
    "fpu": Feature("single-precision hardware floats"),
    "doubles": Feature("double-precision hardware floats"),
    "dsp": Feature("ARMv7E-M SIMD in core registers", llvm="dsp"),
    "mve": Feature("Helium", llvm="mve"),
    "registers": Feature("thirty-two registers and no vectors"),
    "pipelined": Feature("a load takes one cycle for each register, also of several registers"),
    "narrow": Feature("instructions that reach eight registers"),
    "vector": Feature("vectors that gcc chooses"),
    "avx2": Feature("AVX2", llvm="avx2"),
    "avx512": Feature("AVX-512 with VNNI", llvm="avx512vnni"),
    # How the user wants it; mlftool.options says which words add these.
    "fused": Feature("products are added with one rounding"),
    "flushed": Feature("subnormal numbers may become zeros"),
    "size": Feature("code bytes count more than instructions"),
}


@frozen
class Target:
    """A device, or a family of devices that take the same code; `features` are of FEATURES."""

    name: str
    tvm: str  # the target string that TVM's tools expect in metadata.json
    features: frozenset[str]
    cflags: tuple[str, ...]  # machine flags for gcc and clang
    kind: str = "c"  # what archives hold: sources ("c") or object files ("llvm")
    mattr: tuple[str, ...] = ()  # "+dsp", "-mve": LLVM's names of what the machine has
    triple: str = ""  # what the compiler of object files is asked for, if not its own
    opt_level: str = "3"  # of object files: -O3
    big_endian: bool = False  # the high byte of a number comes first in memory
    toolchain: str = ""  # what the names of its cross compiler begin with; "": the computer's own

    @property
    def is_host(self) -> bool:
        return not self.toolchain

    @property
    def instructions(self) -> frozenset[str]:
        """The features without which its code does not compile; an FPU can be done without."""
        return frozenset(f for f in self.features if FEATURES[f].llvm)

    @property
    def machine(self) -> str:
        """What its objects are for, as `uname -m` says it; of the host ""."""
        word = self.toolchain.partition("-")[0]
        # One compiler makes both widths.
        return f"riscv{self.name[2:4]}" if word == "riscv64" else _UNAME.get(word, word)


# How the names of compilers begin -> `uname -m`, where they differ.
_UNAME = {"arm": "armv7l", "powerpc": "ppc"}


def _target(
    name: str, tvm: str, features: str, cflags: str, toolchain: str = "", big_endian: bool = False
) -> tuple[str, Target]:
    words = frozenset(features.split()), tuple(cflags.split())
    return name, Target(name, tvm, *words, toolchain=toolchain, big_endian=big_endian)


def _cortex_m(core: str, features: str, fpu: str, without: str = "") -> tuple[str, Target]:
    flags = f"-mcpu={core}{without} -mthumb {fpu}"
    return _target(core, f"c -keys=arm_cpu,cpu -mcpu={core}", features, flags, "arm-none-eabi")


def _riscv(arch: str, features: str, abi: str) -> tuple[str, Target]:
    flags = f"-march={arch} -mabi={abi}"
    # Code at any address: 64-bit RISC-V has its memory beyond the reach of medlow.
    flags += " -mcmodel=medany" if arch.startswith("rv64") else ""
    features += " registers"
    return _target(arch, f"c -keys=cpu -march={arch}", features, flags, "riscv64-unknown-elf")


TARGETS: Mapping[str, Target] = dict(
    (
        _target("host", "c -keys=cpu -model=host", "fpu doubles vector", ""),
        _target(
            "x86-64-v3",
            "c -keys=cpu -mcpu=x86-64-v3",
            "fpu doubles vector avx2",
            "-march=x86-64-v3",
        ),
        # VNNI is not part of the level, but every later processor of interest has it.
        _target(
            "x86-64-v4",
            "c -keys=cpu -mcpu=x86-64-v4",
            "fpu doubles vector avx2 avx512",
            "-march=x86-64-v4 -mavx512vnni",
        ),
        _target(
            "aarch64",
            "c -keys=arm_cpu,cpu -mtriple=aarch64-linux-gnu",
            "fpu doubles",
            "-march=armv8-a",
            "aarch64-linux-gnu",
        ),
        _target(
            "armv7-a",
            "c -keys=arm_cpu,cpu -mtriple=armv7a-linux-gnueabihf",
            "fpu doubles",
            "-march=armv7-a+fp -mfloat-abi=hard",
            "arm-linux-gnueabihf",
        ),
        _target(
            "powerpc",
            "c -keys=cpu -mtriple=powerpc-linux-gnu",
            "fpu doubles",
            "-mcpu=powerpc -mhard-float",
            "powerpc-linux-gnu",
            big_endian=True,
        ),
        _cortex_m("cortex-m0", "narrow", "-mfloat-abi=soft"),
        _cortex_m("cortex-m3", "", "-mfloat-abi=soft"),
        _cortex_m("cortex-m4", "dsp fpu", "-mfloat-abi=hard -mfpu=fpv4-sp-d16"),
        _cortex_m("cortex-m7", "dsp fpu doubles", "-mfloat-abi=hard -mfpu=fpv5-d16"),
        _cortex_m("cortex-m33", "dsp fpu pipelined", "-mfloat-abi=hard -mfpu=fpv5-sp-d16"),
        # MVE float instructions flush subnormals to zero, and gcc vectorises with them unasked:
        # results would differ from the host's. The scalar FPU and integer MVE stay.
        _cortex_m(
            "cortex-m55", "dsp fpu doubles mve pipelined", "-mfloat-abi=hard", without="+nomve.fp"
        ),
        _riscv("rv32imc", "", "ilp32"),
        _riscv("rv32imac", "", "ilp32"),
        _riscv("rv32imafc", "fpu", "ilp32f"),
        _riscv("rv64imac", "", "lp64"),
        _riscv("rv64gc", "fpu doubles", "lp64d"),
    )
)

# Bit identity between targets: compilers must not contract to fused multiply-adds.
CFLAGS = ("-std=c99", "-ffp-contract=off")


def debug_level() -> int:
    """MLF_DEBUG: 1 stages, 2 kernel bids and memory map, 3 the graph after each pass."""
    text = os.environ.get("MLF_DEBUG", "0")
    return int(text) if text.isdecimal() else 0
