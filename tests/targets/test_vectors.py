"""Kernels of AVX2 and AVX-512 give the bits of the portable ones, and their C is clean."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from batch import (
    INCLUDE,
    WARNINGS,
    Job,
    build_jobs,
    compile_job,
    every,
    program_of,
    write_headers,
)
from builders import random_feeds
from kernel_cases import chains, many_layers, residuals
from programs import SANITIZED
from units import together, undeclared, write_program
from vector_cases import float_layers, recurrent_layers, vector_layers
from window_cases import pools

from mlftool.targets import CFLAGS, TARGETS

PORTABLE = "rv32imc"
MODELS = {
    "dense": many_layers(11, False, 30),
    "depthwise": many_layers(12, True, 30),
    "chains": chains(13),
    "residuals": residuals(16),
    "vectors": vector_layers(17),
    "floats": float_layers(18),
    "recurrent": recurrent_layers(19),
    "pools": pools(),
}
NEEDS = {"x86-64-v3": {"avx2", "fma", "bmi2"}, "x86-64-v4": {"avx512vl", "avx512_vnni"}}
EXPECTED = {
    "x86-64-v3": {
        "avx2.s8",
        "avx2.f32",
        "avx2.depthwise",
        "avx2.winograd2",
        "avx2.winograd4",
        "avx2.bytes",
        "avx2.average",
        "avx2.max_pool",
        "avx2.mean",
        "avx2.recurrent",
    },
    "x86-64-v4": {"avx512.s8", "avx512.f32", "avx512.depthwise", "avx512.recurrent"},
}


def jobs_for(target: str) -> dict[str, Job]:
    feeds = {name: random_feeds(model, 5) for name, model in MODELS.items()}
    for sample in feeds["pools"]:
        for values in (v for v in sample.values() if v.dtype == np.float32):
            for k, special in enumerate((np.nan, -0.0, 0.0, np.inf, -np.inf)):
                values.flat[3 * k :: 29] = special
    made = {
        name: Job(model, feeds[name], target, f"{name}_{target[-2:]}")
        for name, model in MODELS.items()
    }
    for job in made.values():
        compile_job(job)
    return made


@pytest.mark.parametrize("compiler", ["gcc", "g++", "clang"])
def test_code_for_sse2_reads_the_intrinsics_of_sse2_alone(tmp_path: Path, compiler: str) -> None:
    """immintrin.h takes longer to read than a small model to compile."""
    write_headers(tmp_path)
    (tmp_path / "a.c").write_text('#include "mlf/simd.h"\n')
    read = {
        flag: subprocess.run(
            [compiler, flag, f"-I{INCLUDE}", "-M", "a.c"],
            cwd=tmp_path, capture_output=True, text=True, check=True,
        ).stdout
        for flag in ("-msse2", "-mavx2")
    }  # fmt: skip

    assert "/emmintrin.h" in read["-msse2"]
    assert "/immintrin.h" not in read["-msse2"]
    assert "/immintrin.h" in read["-mavx2"]


@pytest.fixture(scope="module", params=NEEDS)
def target(request: pytest.FixtureRequest) -> str:
    """What is compiled for it, all its tests share."""
    return str(request.param)


@pytest.fixture(scope="module")
def jobs(target: str) -> dict[str, Job]:
    return jobs_for(target)


@pytest.fixture(scope="module")
def portable(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    jobs = jobs_for(PORTABLE)
    build_jobs(list(jobs.values()), tmp_path_factory.mktemp("portable"))
    return jobs


@pytest.mark.sampled(4)
def test_bits_of_the_portable_kernels(
    target: str, jobs: dict[str, Job], portable: dict[str, Job], tmp_path: Path
) -> None:
    info = Path("/proc/cpuinfo")
    if not info.exists() or not NEEDS[target] <= set(info.read_text().split()):
        pytest.skip(f"did not run: this processor cannot run {target}")
    used = {c.kernel.name for j in jobs.values() if j.module for c in j.module.program.calls}
    assert EXPECTED[target] <= used
    build = replace(SANITIZED, processor=TARGETS[target].cflags)
    build_jobs(list(jobs.values()), tmp_path, build, every)
    for name, job in jobs.items():
        assert not job.failure, f"{name}: {job.failure}"
        assert job.output == portable[name].output, name


@pytest.mark.sampled(4)
@pytest.mark.parametrize("compiler", ["gcc", "clang", "g++"])
def test_compiles_clean(target: str, jobs: dict[str, Job], compiler: str, tmp_path: Path) -> None:
    """All models as one file: gcc reads AVX's intrinsics for as long as it does these models."""
    cxx = ("-x", "c++", "-std=c++17", *WARNINGS)
    standard = cxx if compiler == "g++" else (*CFLAGS, *WARNINGS)
    modules = [program_of(job.compiled, ()) for job in jobs.values()]
    assert not any(map(undeclared, modules))  # what one includes is no other's
    for module in modules:
        write_program(module, tmp_path)
    (tmp_path / "all.c").write_text(together(modules, tmp_path))
    flags = (*standard, *TARGETS[target].cflags, "-fsyntax-only", f"-I{INCLUDE}")
    command = [compiler, *flags, "all.c"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:2000]
