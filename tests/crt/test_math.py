"""The functions of mlf/math.h are at most 1 ULP off everywhere, those of math64.h at most 3 on
samples, the same bits on every machine; and the shared headers are clean in every dialect."""

from __future__ import annotations

import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).absolute().parents[2]
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-pedantic")
WARNINGS += ("-ffp-contract=off",)
INCLUDE = f"-I{ROOT / 'crt/include'}"
USER = """#include "mlf/convert.h"
#include "mlf/math.h"
float user(float x);
float user(float x) {
  const float y = mlf_expf(x) + (float)mlf_clamp_i32(mlf_round_even(x), -9, 9);
  return mlf_tanhf(y) + mlf_rintf(y) + mlf_powf(x, y) + mlf_float_of_f16(mlf_f16_of_float(y));
}
"""


# Function -> hash of its results for every 9973rd float. A new value means new bits for every user.
FUNCTIONS = {
    "exp": "c5839296",
    "expm1": "df811462",
    "log": "38f6cffb",
    "log1p": "10a82398",
    "sin": "8746ad54",
    "cos": "a34d4ad3",
    "tan": "dd5224e9",
    "asin": "6ec76f59",
    "acos": "83ce8b31",
    "atan": "c45c76f3",
    "sinh": "c544908c",
    "cosh": "df23e754",
    "tanh": "a94809a0",
    "asinh": "db1d3594",
    "acosh": "9b894135",
    "atanh": "f1da8853",
    "erf": "6b6fd61e",
}
# Those with a form that selects, for vectors, and one that jumps.
SELECTING = ("exp", "tanh", "erf")
MOST_ULP_DOUBLE = 3.0
# Bit patterns where something changes: subnormals, the largest numbers, infinity and nans of both
# signs, the last finite and first subnormal results of exp, 1, pi / 2, where sums of tanh end,
# where polynomials of erf meet.
EDGES = (0x00000000, 0x80000000, 0x7F7FFFF0, 0xFF7FFFF0, 0x42B17000, 0xC2AEAC00, 0xC2CFF000)
EDGES += (0x3F7FF800, 0xBF7FF800, 0x3FC90000, 0x41118000, 0x397FF800, 0x41880000, 0x42200000)
EDGES += (0x3F1FF800, 0xBF9FF800, 0x407AD800)


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A program that measures each function, by its name; the double ones end in "64"."""
    folder = tmp_path_factory.mktemp("math")
    wanted = {f: ("math_ulp.c", f"-DFUNCTION=mlf_{f}f", f"-DEXACT={f}") for f in FUNCTIONS}
    for f in FUNCTIONS:
        wanted[f + "64"] = ("math64_ulp.c", f"-DFUNCTION=mlf_{f}", f"-DEXACT={f}l")
    for f in SELECTING:
        jumps = "-DMLF_SELECTS=0", f"-DFUNCTION=mlf_{f}f", f"-DEXACT={f}"
        wanted[f + "_jumps"] = ("math_ulp.c", *jumps)
    for name, how in (("sqrt", "-DUNUSED"), ("sqrt_digits", "-DMLF_ROOT_BY_DIGITS")):
        wanted[name] = ("math_ulp.c", how, "-DFUNCTION=mlf_sqrtf", "-DEXACT=sqrt")
    wanted["pow64"] = ("math64_ulp.c", "-DPOWER", "-DUNUSED")

    def build(name: str) -> None:
        source, *defines = wanted[name]
        flags = ["-std=c99", "-O2", *WARNINGS, INCLUDE, *defines]
        command = ["gcc", *flags, ROOT / "tests/crt" / source, "-o", folder / name, "-lm"]
        subprocess.run(command, check=True)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(build, wanted))
    return {name: folder / name for name in wanted}


def measure(program: Path, *args: object) -> dict[str, str]:
    run = subprocess.run([program, *map(str, args)], capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    return dict(pair.split("=") for pair in run.stdout.split())


@pytest.mark.parametrize("function", FUNCTIONS)
def test_is_within_one_ulp_on_a_strided_slice(function: str, programs: dict[str, Path]) -> None:
    # 9973 is prime to 2^32, so the walk meets every exponent, both signs, infinities and nans.
    result = measure(programs[function], 0, 9973, 430_650)
    assert float(result["max_ulp"]) <= 1.0
    assert result["hash"] == FUNCTIONS[function]


@pytest.mark.parametrize("function", FUNCTIONS)
def test_is_right_at_edges(function: str, programs: dict[str, Path]) -> None:
    for first in EDGES:
        assert float(measure(programs[function], first, 1, 4096)["max_ulp"]) <= 1.0


@pytest.mark.parametrize("function", SELECTING)
def test_selecting_and_jumping_have_the_same_bits(function: str, programs: dict[str, Path]) -> None:
    jumps = programs[function + "_jumps"]
    assert measure(jumps, 0, 9973, 430_650)["hash"] == FUNCTIONS[function]
    for first in EDGES:
        assert measure(jumps, first, 1, 4096) == measure(programs[function], first, 1, 4096)


def test_roots_by_digits_are_rounded_to_the_nearest(programs: dict[str, Path]) -> None:
    """As cores without the instruction compute them."""
    results = [measure(programs[name], 0, 9973, 430_650) for name in ("sqrt", "sqrt_digits")]
    assert results[0] == results[1]
    assert float(results[0]["max_ulp"]) < 0.5
    for first in (*EDGES, 0x007FF800, 0x00800000, 0x7F7FF800):
        whole, digits = (measure(programs[n], first, 1, 4096) for n in ("sqrt", "sqrt_digits"))
        assert whole == digits


@pytest.mark.parametrize(
    "core",
    [
        "arm-none-eabi-gcc -mthumb -mcpu=cortex-m0",
        "arm-none-eabi-gcc -mthumb -mcpu=cortex-m3",
        "arm-none-eabi-gcc -mthumb -mcpu=cortex-m4 -mfpu=fpv4-sp-d16 -mfloat-abi=hard",
        "arm-none-eabi-gcc -mthumb -mcpu=cortex-m55 -mfloat-abi=hard",
        "riscv64-unknown-elf-gcc --specs=picolibc.specs -march=rv32imc -mabi=ilp32",
        "riscv64-unknown-elf-gcc --specs=picolibc.specs -march=rv32imafc -mabi=ilp32f",
    ],
)
def test_roots_need_no_library(core: str, tmp_path: Path) -> None:
    """C's sqrtf sets errno, for which newlib links 1 KB of RAM."""
    program, *flags = core.split()
    if shutil.which(program) is None:
        pytest.skip(f"{program} is not installed")
    code = "float user(float x);\nfloat user(float x) { return mlf_sqrtf(x); }\n"
    (tmp_path / "user.c").write_text('#include "mlf/root.h"\n' + code)
    flags += ["-std=c99", "-O2", *WARNINGS, INCLUDE, "-c", "user.c", "-o", "user.o"]
    subprocess.run([program, *flags], check=True, cwd=tmp_path)
    names = program.replace("-gcc", "-nm"), "-u", "user.o"
    missing = subprocess.run(names, check=True, cwd=tmp_path, capture_output=True, text=True)
    assert "sqrt" not in missing.stdout


@pytest.mark.parametrize("function", SELECTING)
def test_loops_become_vectors(function: str, tmp_path: Path) -> None:
    source = tmp_path / "loop.c"
    loop = f"for (int i = 0; i < n; i++) y[i] = mlf_{function}f(x[i]);"
    head = "void loop(const float *x, float *y, int n)"
    source.write_text(f'#include "mlf/math.h"\n{head};\n{head} {{\n  {loop}\n}}\n')
    command = ["gcc", "-std=c99", "-O3", *WARNINGS, INCLUDE, "-fopt-info-vec", "-c", source]
    run = subprocess.run(
        [*command, "-o", tmp_path / "loop.o"], capture_output=True, text=True, check=True
    )
    assert "loop vectorized" in run.stderr


@pytest.mark.parametrize("function", [*FUNCTIONS, "pow"])
def test_double_is_within_a_few_ulp(function: str, programs: dict[str, Path]) -> None:
    assert float(measure(programs[function + "64"], 100_000)["max_ulp"]) <= MOST_ULP_DOUBLE


@pytest.mark.slow
@pytest.mark.parametrize("function", FUNCTIONS)
def test_is_within_one_ulp_of_all_floats(function: str, programs: dict[str, Path]) -> None:
    result = measure(programs[function])
    assert result["inputs"] == str(1 << 32)
    assert float(result["max_ulp"]) <= 1.0


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
