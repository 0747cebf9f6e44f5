"""Elementwise operators give the same bits on boards as on this computer, for the table of edge
values and for numbers of all magnitudes: elementary functions, remainders and roots of C libraries,
arithmetic of double without a unit for it, conversions, and contraction.

libgcc's sum of doubles for Thumb-2 was found by this: crt/boards/cortex_m/double.c replaces it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from batch import Job, compile_job
from board_machines import flags_of, is_here, machine_of
from builders import Net
from programs import HERE, Build, run_programs
from test_edges import ARITHMETIC, FLOATS, UNARY_FLOAT, binary, float_edges, unary

Array = np.ndarray[Any, Any]
BOARDS = ("cortex-m0", "cortex-m4", "rv32imc")
COUNT = 400


def of_all_magnitudes(dtype: Any) -> Array:
    """Every bit of a number drawn by itself: exponents of all sizes, subnormals, nans."""
    bits = np.dtype(f"u{np.dtype(dtype).itemsize}")
    words = np.random.default_rng(11).integers(0, np.iinfo(bits).max, COUNT, bits, endpoint=True)
    return words.view(dtype)


def neighbours(dtype: Any) -> tuple[Array, Array]:
    """Pairs whose exponents are 0 to 63 apart: sums in which what is cut off decides."""
    rng = np.random.default_rng(12)
    apart = np.arange(64).repeat(12)
    a, b = rng.uniform(1, 2, apart.size), -rng.uniform(1, 2, apart.size)
    a[::2] = 1.0  # of which the difference starts a bit lower
    return a.astype(dtype), np.ldexp(b, -apart).astype(dtype)


def sums(dtype: Any) -> Job:
    a, b = neighbours(dtype)
    net = Net()
    x, y = net.input("a", dtype, a.shape), net.input("b", dtype, b.shape)
    return Job(net.model(*(net.node(op, x, y) for op in ("Add", "Sub"))), [{"a": a, "b": b}])


def jobs(target: str) -> list[Job]:
    made = []
    for dtype in FLOATS:
        operators = UNARY_FLOAT.replace(" Shrink", "") if dtype is FLOATS[3] else UNARY_FLOAT
        edges = float_edges(dtype)
        made.append(unary(operators, dtype, np.concatenate([edges, of_all_magnitudes(dtype)])))
        made.append(binary(ARITHMETIC, dtype, edges[::2]))
        # The same operators on pairs of any numbers: a remainder takes thousands of steps.
        made.append(binary("Mod Div Mul Add", dtype, of_all_magnitudes(dtype)[:24]))
        if dtype in (np.float32, np.float64):
            made.append(sums(dtype))
    for k, job in enumerate(made):
        job.name, job.target = f"edges{k}", target
        compile_job(job)
    return made


def results(target: str, work: Path) -> list[dict[str, Array]]:
    is_host = target == "host"
    programs = [job.program() for job in jobs(target)]
    build = Build("-O2", processor=() if is_host else flags_of(target))
    ran = run_programs(programs, work, build, machine=HERE if is_host else machine_of(target))
    assert not any(r.failure for r in ran), [r.failure for r in ran if r.failure]
    return [p.results(r.output)[0] for p, r in zip(programs, ran, strict=True)]


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Array]]:
    return results("host", tmp_path_factory.mktemp("host"))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", BOARDS)
def test_the_bits_of_every_operator(
    target: str, here: list[dict[str, Array]], tmp_path: Path
) -> None:
    if not is_here(target):
        pytest.skip(f"did not run: the compiler or simulator of {target} is missing")
    there = results(target, tmp_path)
    wrong = [
        f"{name} of {want.dtype}: {int(bad.sum())} of {want.size}"
        for ours, theirs in zip(here, there, strict=True)
        for name, want in ours.items()
        if (bad := unlike(theirs[name], want)).any()
    ]
    assert not wrong


def unlike(got: Array, want: Array) -> Array:
    """Where bits differ; all nans are alike."""
    if want.dtype.kind == "b":
        return got != want
    bits = f"u{want.dtype.itemsize}"
    with np.errstate(invalid="ignore"):  # of nans that signal
        is_nan, other = (np.isnan(a.astype(np.float64)) for a in (want, got))
    return (got.view(bits) != want.view(bits)) & ~(is_nan & other)


def test_one_bit_is_seen() -> None:
    """Of zero's sign, too."""
    a = np.array([1.0, 0.0, np.nan], np.float32)
    b = np.array([np.nextafter(np.float32(1), np.float32(2)), -0.0, -np.nan], np.float32)
    assert unlike(a, b).tolist() == [True, True, False]
    narrow = a.astype(ml_dtypes.bfloat16)
    assert not unlike(narrow, narrow.copy()).any()
