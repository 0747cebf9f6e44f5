"""Generated C gives its bits whatever a compiler does with a * b + c by default.

IDEs and makefiles compile C as gnu11 or gnu17, where GCC and clang contract products and sums on
cores that have a fused multiply-add; with -std=c99 GCC does not.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from elftools.elf.elffile import ELFFile
from shared import REPO

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.targets import TARGETS

MODELS = REPO / "examples" / "models"
COMPILERS = {
    "cortex-m4": ["arm-none-eabi-gcc"],
    "cortex-m7": ["arm-none-eabi-gcc"],
    "cortex-m55": ["arm-none-eabi-gcc"],
    "x86-64-v3": ["gcc"],
    "x86-64-v3 by clang": ["clang"],
    "cortex-m55 by clang": ["clang", "--target=arm-none-eabi"],
}
# clang 14's assembler does not know the extension that kernels for Helium name.
CASES = [
    (build, model)
    for build in COMPILERS
    for model in ("gesture_float32", "gesture_int8", "vibration_float32")
    if (build, model) != ("cortex-m55 by clang", "gesture_int8")
]
PLAIN = """float f(float a, float b, float c);
float f(float a, float b, float c) { return a * b + c; }
"""


def code(command: list[str], source: Path) -> dict[str, bytes]:
    """The machine code of `source`, by section."""
    made = source.with_suffix(".o")
    subprocess.run([*command, "-c", source, "-o", made], check=True)
    with made.open("rb") as file:
        return {s.name: s.data() for s in ELFFile(file).iter_sections() if s["sh_flags"] & 4}


@pytest.mark.parametrize(("build", "model"), CASES)
def test_the_default_of_the_compiler_changes_nothing(
    build: str, model: str, tmp_path: Path
) -> None:
    if not shutil.which(COMPILERS[build][0]):
        pytest.skip(f"{COMPILERS[build][0]} is not installed")
    target = build.split()[0]
    made = compile_modules([ModuleSpec(MODELS / f"{model}.onnx", "m", target)])
    for name, data in made.files.items():
        if name.startswith("codegen/host/"):
            file = tmp_path / name.removeprefix("codegen/host/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    flags = ["-std=gnu11", "-O2", *TARGETS[target].cflags, f"-I{tmp_path}/include"]
    if build == "cortex-m55 by clang":  # has no C library of its own
        flags += ["-isystem", newlib()]
    command = [*COMPILERS[build], *flags]
    off = [*command, "-ffp-contract=off"]
    # The flags do contract where nothing forbids it.
    plain = tmp_path / "plain.c"
    plain.write_text(PLAIN)
    assert code(command, plain) != code(off, plain)
    for source in sorted(tmp_path.glob("src/*.c")):
        assert code(command, source) == code(off, source), source.name


def newlib() -> str:
    """The folder of newlib's headers for Arm."""
    command = ["arm-none-eabi-gcc", "-print-sysroot"]
    root = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    found = [d for d in (f"{root}/include", "/usr/include/newlib") if Path(d, "math.h").exists()]
    if not found:
        pytest.skip("apt-get install libnewlib-arm-none-eabi")
    return found[0]
