"""Specialised kernels give the bits of the portable ones, as plain C and on their own core."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from batch import WARNINGS, Job, build_jobs, compile_job, compile_model
from board_machines import run_on
from builders import random_feeds
from families import FAMILIES
from helium_cases import along_one_axis, coinciding, shares, sixteens
from kernel_cases import (
    biases,
    chains,
    dilated,
    few_channels,
    grouped,
    integer_products,
    integer_windows,
    lines,
    long_dense,
    many_layers,
    products,
    residuals,
    sparse_layers,
    strips,
    tabled,
    uncentred,
    wide_layers,
    wide_windows,
)
from window_cases import maxima, means, pairs, standardised, tables

from mlftool.compile import Module, ModuleSpec, plan_module
from mlftool.describe import bundle as bundle_of
from mlftool.ir.graph import View
from mlftool.ops import UnsupportedError
from mlftool.ops.base import Bid
from mlftool.plan.program import Program
from mlftool.runtime import toolchain
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board
from mlftool.targets import TARGETS
from mlftool.targets.kernels import KERNELS

PORTABLE = "armv7-a"  # an FPU and nothing else: what quantises multiplies floats
# Most optimised where instructions have intrinsics of their own; elsewhere gcc takes half as long.
LEVELS = {"cortex-m4": "-O2", "cortex-m55": "-O2"}
BOARD_TARGETS = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc", "rv32imafc")
SPECIALISED = (*BOARD_TARGETS[:-1], "host")  # the last one has the kernels of the one before
OPERATORS = (
    *("QLinearConv", "ConvInteger", "com.microsoft.QGemm", "QLinearMatMul", "MatMulInteger"),
    *("com.microsoft.QLinearAveragePool", "mlf.Table", "mlf.QLinearSoftmax"),
    *("MaxPool", "QuantizeLinear", "mlf.QLinearLayerNormalization"),
)
FEATURES = {target: TARGETS[target].features for target in SPECIALISED}
# What bids on these models and never wins, since another kernel of the core is better each time.
BEATEN: dict[str, set[str]] = {
    "cortex-m0": {"integers.portable.quantised_matmul"},
    "cortex-m3": {"integers.portable.quantised_matmul"},
    "cortex-m4": set(),
    "cortex-m55": {"dsp.dense", "dsp.pairs", "dsp.rows", "dsp.sixes", "dsp.triples"}
    | {"dsp.rows_of_four", "dsp.two_by_two", "dsp.wide_dense"},
    "host": set(),
    "rv32imc": {"integers.portable.blocked", "integers.portable.quantised_matmul"},
}
FIT_CORTEX_M0 = ("residuals",)  # its board has 16 KB of memory
MODELS = {
    "dense": many_layers(1, False, 30),
    "depthwise": many_layers(2, True, 30),
    "dilated": dilated(28),
    "grouped": grouped(27, 24),
    "few_channels": few_channels(21),
    "uncentred": uncentred(24),
    "chains": chains(3),
    "windows": chains(4, wide_windows),
    "residuals": residuals(6),
    "biases": biases(16),
    "strips": strips(10),
    "lines": lines(9),
    "tables": tables(7),
    "tabled": tabled(23),
    "means": means(11),
    "maxima": maxima(25),
    "pairs": pairs(26),
    "products": products(8),
    "standardised": standardised(29),
    "integer_products": integer_products(20),
    "integer_windows": integer_windows(22),
    "wide": wide_layers(12, 24),
    "sixteens": sixteens(17),
    "shares": shares(18),
    "along_one_axis": along_one_axis(19),
    "coinciding": coinciding(23),
    "sparse": sparse_layers(14, 18),
    "small": long_dense(15),
    # Weights that two channels in a halfword cannot hold.
    "least": FAMILIES["dsp_two_by_two"][1](),
    "least_dense": FAMILIES["dsp_rows_of_four"][1](),
}


@pytest.fixture(scope="module", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    """A model: what is made of it, all its tests share."""
    return str(request.param)


class Compiled(dict[tuple[str, str], Job]):
    """(model, target) -> its job, compiled when somebody asks."""

    def __missing__(self, key: tuple[str, str]) -> Job:
        name, target = key
        feeds = self[name, PORTABLE].feeds if target != PORTABLE else random_feeds(MODELS[name], 5)
        job = self[key] = Job(MODELS[name], feeds, target, f"{name}_{target}".replace("-", "_"))
        compile_job(job)
        return job


@pytest.fixture(scope="module")
def jobs(selected: Callable[[str], bool], tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    """Those of a shard for PORTABLE and the cores with kernels of their own, run here."""
    made = Compiled()
    mine = [made[n, t] for n in filter(selected, MODELS) for t in (PORTABLE, *SPECIALISED)]
    build_jobs(mine, tmp_path_factory.mktemp("here"), optimised=for_this_computer)
    return made


@pytest.fixture(scope="module")
def on_board(
    selected: Callable[[str], bool], jobs: Compiled, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str], dict[str, Job]]:
    """Target -> model -> its job as its compiler optimises it, on the target's board: the models of
    a shard share programs there."""

    @cache
    def ran(target: str) -> dict[str, Job]:
        mine = {n: replace(jobs[n, target]) for n in filter(selected, MODELS)}
        run_on(target, [*mine.values()], tmp_path_factory.mktemp(target), LEVELS.get(target, "-O1"))
        return mine

    return ran


def for_this_computer(module: Module) -> bool:
    """What runs on no board is optimised here; test_on_its_core has the other cores' compilers do
    it, with the same warnings, and compares the same outputs."""
    return module.spec.target == "host"


@pytest.mark.parametrize("target", SPECIALISED)
def test_plain_c(name: str, target: str, jobs: Compiled) -> None:
    """Every instruction has plain C, which sanitizers can watch."""
    for made in (PORTABLE, target):
        assert not jobs[name, made].failure, f"for {made}: {jobs[name, made].failure}"
    assert jobs[name, target].output == jobs[name, PORTABLE].output


@pytest.fixture(scope="module")
def programs() -> Mapping[str, Sequence[Program]]:
    """Target -> all models planned for it. A model's targets follow each other, since the compiler
    then imports it once."""
    made: dict[str, list[Program]] = {target: [] for target in SPECIALISED}
    for model in MODELS.values():
        for target, planned in made.items():
            planned.append(plan_module(ModuleSpec(model, "m", target)).program)
    return made


@pytest.mark.parametrize("target", SPECIALISED)
def test_every_kernel_is_among_them(target: str, programs: Mapping[str, Sequence[Program]]) -> None:
    """Every kernel of the core for these operators makes bids on these models, and wins one."""
    bids: set[str] = set()
    won: set[str] = set()
    silent = {s.bid for op in OPERATORS for s in KERNELS[op] if s.fits(FEATURES[target])}
    silent -= {s.bid for op in OPERATORS for s in KERNELS[op] if s.measured}
    for program in programs[target]:
        for call in program.calls:
            v = View(program.graph, call.node)
            bids |= {call.kernel.name, *(name for name, _ in call.rivals)}
            won.add(call.kernel.name)
            silent -= {bid for bid in silent if made(bid, v)}
    assert silent == set()
    assert {name for name in bids - won if not name.startswith("portable.")} == BEATEN[target]


def made(bid: Bid, v: View) -> bool:
    ours = [s for s in KERNELS.get(v.node.op, ()) if s.bid is bid]
    try:
        return bool(ours) and bid(v) is not None
    except UnsupportedError:
        return False


@pytest.mark.parametrize("target", BOARD_TARGETS)
def test_on_its_core(
    name: str,
    target: str,
    jobs: Compiled,
    on_board: Callable[[str], dict[str, Job]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As its compiler optimises it, which warns of nothing."""
    want, got = jobs[name, PORTABLE], on_board(target)[name]
    assert not want.failure, want.failure
    assert not got.failure, got.failure
    results = got.results
    if target == "cortex-m0" and name in FIT_CORTEX_M0:
        compiler = toolchain.compiler_of(TARGETS[target])
        monkeypatch.setenv(compiler.variable, " ".join((compiler.name, *WARNINGS)))
        results = on_the_least_board(got)
    for outputs, expected in zip(results, want.results, strict=True):
        for value, wanted in zip(outputs.values(), expected.values(), strict=True):
            np.testing.assert_array_equal(value, wanted)


def on_the_least_board(job: Job) -> Sequence[Mapping[str, Any]]:
    bundle = bundle_of([job.compiled])
    interface = read_interface(bundle, job.name)
    elf = link_firmware(bundle, interface, BOARDS["cortex-m0"], optimise="-O1")
    return run_on_board(elf, BOARDS["cortex-m0"], interface, job.feeds).outputs


def test_biases_are_vectors() -> None:
    """Nor is an addition of constants, nor are slopes. Of four layers with an addition the one of
    five channels takes dsp.planes, 1,843 instructions on the simulated core; helium.octets, which
    pads to eight channels, takes 1,937 (`mlftool tune`, gcc 12.2, November 2026)."""
    text = "".join(compile_model(MODELS["biases"], target="cortex-m55").sources.files.values())
    assert text.count("mlf_octet_biased(") == 3
    assert text.count("mlf_octet_sloped(") == 3


def test_additions_are_vectors() -> None:
    """On Cortex-M55 no residual addition is computed element by element."""
    text = "".join(compile_model(MODELS["residuals"], target="cortex-m55").sources.files.values())
    assert text.count("mlf_octet_sum(") == 4  # one in each of the model's four
    assert "mlf_octet_except(" in text
