"""Generated C gives its bits whatever flags it is built with, or does not compile.

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
from mlftool.runtime.toolchain import compiler_of, find
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


def generate(model: str, target: str, folder: Path) -> list[Path]:
    """The model's C sources, in `folder` with the headers they include."""
    made = compile_modules([ModuleSpec(MODELS / f"{model}.onnx", "m", target)])
    for name, data in made.files.items():
        if name.startswith("codegen/host/"):
            file = folder / name.removeprefix("codegen/host/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    return sorted(folder.glob("src/*.c"))


@pytest.mark.sampled(6)
@pytest.mark.parametrize(("build", "model"), CASES)
def test_the_default_of_the_compiler_changes_nothing(
    build: str, model: str, tmp_path: Path
) -> None:
    if not shutil.which(COMPILERS[build][0]):
        pytest.skip(f"{COMPILERS[build][0]} is not installed")
    target = build.split()[0]
    sources = generate(model, target, tmp_path)
    flags = ["-std=gnu11", "-O2", *TARGETS[target].cflags, f"-I{tmp_path}/include"]
    if build == "cortex-m55 by clang":  # has no C library of its own
        flags += ["-isystem", newlib()]
    command = [*COMPILERS[build], *flags]
    off = [*command, "-ffp-contract=off"]
    # The flags do contract where nothing forbids it.
    plain = tmp_path / "plain.c"
    plain.write_text(PLAIN)
    assert code(command, plain) != code(off, plain)
    for source in sources:
        assert code(command, source) == code(off, source), source.name


def newlib() -> str:
    """The folder of newlib's headers for Arm."""
    command = ["arm-none-eabi-gcc", "-print-sysroot"]
    root = subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
    found = [d for d in (f"{root}/include", "/usr/include/newlib") if Path(d, "math.h").exists()]
    if not found:
        pytest.skip("apt-get install libnewlib-arm-none-eabi")
    return found[0]


@pytest.mark.parametrize(
    ("flag", "text"),
    [
        ("-ffast-math", "rounding steps"),
        ("-Ofast", "rounding steps"),
        ("-funsafe-math-optimizations", "rounding steps"),
        ("-freciprocal-math", "rounding steps"),
        ("-ffinite-math-only", "rounding steps"),
        ("-fno-signed-zeros", "rounding steps"),
        ("-fsingle-precision-constant", "mlf_constants_of_double_are_double"),
    ],
)
def test_flags_that_change_floats_do_not_compile(flag: str, text: str, tmp_path: Path) -> None:
    source = tmp_path / "m.c"
    source.write_text('#include "mlf/math.h"\n')
    command = ["gcc", f"-I{REPO}/crt/include", "-c", str(source), "-o", str(tmp_path / "m.o")]
    assert subprocess.run(command, capture_output=True).returncode == 0
    done = subprocess.run([*command, flag], capture_output=True, text=True)
    assert done.returncode != 0
    assert text in done.stderr


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", TARGETS)
def test_a_debug_build_compiles(target: str, tmp_path: Path) -> None:
    """With -O0 assembly has fewer registers."""
    command = find(compiler_of(TARGETS[target]))
    for model in ("gesture_int8", "digits_int8", "gesture_float32"):
        sources = generate(model, target, tmp_path / model)
        flags = [*TARGETS[target].cflags, "-O0", f"-I{tmp_path / model}/include"]
        for source in sources:
            code([*command, *flags], source)
