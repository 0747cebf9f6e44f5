"""mlf_expf is at most 1 ULP off everywhere, and the shared headers are clean in every dialect."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-pedantic")
WARNINGS += ("-ffp-contract=off",)
INCLUDE = f"-I{ROOT / 'crt/include'}"
USER = """#include "mlf/math.h"
float user(float x);
float user(float x) { return mlf_expf(x) + (float)mlf_clamp_i32(mlf_round_even(x), -9, 9); }
"""


@pytest.fixture(scope="module")
def exp_ulp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    program = tmp_path_factory.mktemp("math") / "exp_ulp"
    source = ROOT / "tests/crt/exp_ulp.c"
    command = ["gcc", "-std=c99", "-O2", *WARNINGS, INCLUDE, source, "-o", program, "-lm"]
    subprocess.run(command, check=True)
    return program


def measure(program: Path, *args: object) -> dict[str, str]:
    run = subprocess.run([program, *map(str, args)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return dict(pair.split("=") for pair in run.stdout.split())


def test_exp_is_within_one_ulp_on_a_strided_slice(exp_ulp: Path) -> None:
    # 997 is prime to 2^32, so the walk meets every exponent, both signs, infinities and nans.
    assert float(measure(exp_ulp, 0, 997, 4_307_890)["max_ulp"]) <= 1.0


@pytest.mark.parametrize(
    "first",
    [
        0x7F7FFFF0,  # FLT_MAX, inf, nans
        0xFF7FFFF0,  # -FLT_MAX, -inf, nans
        0x42B17000,  # the last finite results and the first infinite ones
        0xC2AEAC00,  # normal to subnormal results
        0xC2CFF000,  # the last subnormal results and the first zeros
        0x00000000,  # 0 and subnormal inputs
        0x80000000,
    ],
    ids=hex,
)
def test_exp_is_right_at_its_edges(exp_ulp: Path, first: int) -> None:
    assert float(measure(exp_ulp, first, 1, 4096)["max_ulp"]) <= 1.0


@pytest.mark.slow
def test_exp_is_within_one_ulp_of_all_floats(exp_ulp: Path) -> None:
    result = measure(exp_ulp)
    assert result["inputs"] == str(1 << 32)
    assert float(result["max_ulp"]) <= 1.0
    assert result["hash"] == "836c41bd"  # a new value means new bits for every user


@pytest.mark.parametrize(
    "compiler",
    [
        "gcc -std=c99",
        "gcc -std=c99 -DMLF_USE_LIBM",
        "gcc -std=c17 -O3 -march=x86-64-v3",
        "g++ -x c++ -std=c++11",
        "g++ -x c++ -std=c++20",
        "arm-none-eabi-gcc -std=c99 -mcpu=cortex-m3 -mthumb",
        "arm-none-eabi-gcc -std=c99 -mcpu=cortex-m55 -mthumb -mfloat-abi=hard",
        "arm-none-eabi-g++ -x c++ -std=c++11 -mcpu=cortex-m4 -mthumb",
    ],
)
def test_headers_compile_without_a_warning(compiler: str, tmp_path: Path) -> None:
    program, *flags = compiler.split()
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    source = tmp_path / "user.c"
    source.write_text(USER)
    command = [program, *flags, *WARNINGS, INCLUDE, "-c", source, "-o", tmp_path / "user.o"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert (run.returncode, run.stderr) == (0, "")


@pytest.mark.parametrize("flag", ["-ffast-math", "-mfpmath=387"])
def test_headers_refuse_inexact_arithmetic(flag: str, tmp_path: Path) -> None:
    source = tmp_path / "user.c"
    source.write_text(USER)
    command = ["gcc", "-std=c99", flag, INCLUDE, "-c", source, "-o", tmp_path / "user.o"]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode != 0
    assert "#error" in run.stderr
