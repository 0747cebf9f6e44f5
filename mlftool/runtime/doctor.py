"""Which of the programs and packages that mlftool uses this computer has."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path

from mlftool.errors import MlfError
from mlftool.frozen import frozen
from mlftool.runtime import toolchain
from mlftool.runtime.toolchain import Program


@frozen
class Finding:
    """One line: `found` is a version, `install` the command that would bring it.

    Without something `needed`, a documented command fails; the rest is for development.
    """

    name: str
    ok: bool
    needed: bool
    found: str
    install: str
    purpose: str


# distribution, least version, needed, purpose
_PACKAGES = (
    ("numpy", (1, 26), True, "arrays"),
    ("onnx", (1, 21), True, "to read models"),
    ("PyYAML", (6, 0), True, "to read manifests"),
    ("Jinja2", (3, 1), True, "to write C"),
    ("pyelftools", (0, 30), True, "to read firmware"),
    ("tflite", (2, 18), False, "to read TensorFlow Lite models"),
    ("flatbuffers", (25,), False, "to read TensorFlow Lite models"),
    ("onnxruntime", (1, 20), False, "reference results of init and quantize"),
    ("rich", (13,), False, "to show progress on a terminal"),
    ("pyserial", (3, 5), False, "to drive boards over a serial line"),
    ("pymongo", (4,), False, "parameters as BSON"),
    ("pytest", (8, 0), False, "the tests of mlftool itself"),
)

_PROGRAMS = (
    (toolchain.CC, True),
    (toolchain.ARM_GCC, True),
    (toolchain.QEMU_ARM, True),
    *((program, False) for program in toolchain.optional()),
    (Program("bazel", "BAZEL", "bazel-bootstrap", "to build with Bazel; ./bazelw finds it"), False),
)


def examine() -> tuple[Finding, ...]:
    """Everything that is looked for, in the order of use."""
    programs = (_program(p, needed) for p, needed in _PROGRAMS)
    packages = (_package(*row) for row in _PACKAGES)
    return (_python(), *packages, *programs, _newlib())


def _python() -> Finding:
    version = ".".join(map(str, sys.version_info[:3]))
    ok = sys.version_info >= (3, 11)
    return Finding("python", ok, True, version, "apt-get install python3", "3.11 or newer")


def _package(name: str, least: tuple[int, ...], needed: bool, purpose: str) -> Finding:
    wanted = f"{name}>={'.'.join(map(str, least))}"
    try:
        found = importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        found = ""
    numbers = [int("".join(filter(str.isdigit, n)) or 0) for n in found.split(".")[: len(least)]]
    ok = bool(found) and tuple(numbers) >= least
    return Finding(name, ok, needed, found, f"pip install '{wanted}'", purpose)


def _program(program: Program, needed: bool) -> Finding:
    try:
        command = toolchain.find(program)
    except MlfError:
        return Finding(program.name, False, needed, "", program.install, program.purpose)
    # Bazel's --version does not start its server; compilers and QEMU answer at once.
    run = subprocess.run([*command, "--version"], capture_output=True, text=True)
    found = (run.stdout.strip().splitlines() or [command[0]])[0]
    return Finding(program.name, True, needed, found, program.install, program.purpose)


def _newlib() -> Finding:
    """The C library that Debian packages apart from the Arm compiler."""
    install = "apt-get install libnewlib-arm-none-eabi"
    try:
        command = [*toolchain.find(toolchain.ARM_GCC), "-print-file-name=libc.a"]
        path = subprocess.run(command, capture_output=True, text=True).stdout.strip()
    except MlfError:
        path = ""
    ok = Path(path).is_absolute()
    return Finding("newlib", ok, True, path if ok else "", install, "the C library of firmware")
