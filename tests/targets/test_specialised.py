"""Specialised kernels give the bits of the portable ones, as plain C and on their own core."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from builders import random_feeds
from kernel_cases import chains, lines, many_layers, products, residuals, tables

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

PORTABLE = "armv7-a"  # an FPU and nothing else: what quantises multiplies floats
BOARD_TARGETS = ("cortex-m0", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc", "rv32imafc")
SPECIALISED = (*BOARD_TARGETS[:-1], "host")  # the last one has the kernels of the one before
EXPECTED = {
    "cortex-m0": {
        "dense": "narrow.blocked",
        "depthwise": "narrow.planes",
        "chains": "narrow.planes",
        "residuals": "narrow.planes",
        "tables": "portable.table",
        "products": "integers.portable.quantised_matmul",
        "lines": "narrow.planes",
    },
    "cortex-m3": {
        "dense": "interleaved.blocked",
        "depthwise": "integers.portable.depthwise",
        "chains": "integers.portable.depthwise",
        "residuals": "integers.portable.depthwise",
        "tables": "portable.table",
        "products": "integers.portable.quantised_matmul",
        "lines": "integers.portable.depthwise",
    },
    "cortex-m4": {
        "dense": "dsp.pairs",
        "depthwise": "dsp.planes",
        "chains": "dsp.planes",
        "residuals": "dsp.planes",
        "tables": "portable.table",
        "products": "dsp.products",
        "lines": "dsp.planes",
    },
    "host": {
        "dense": "sse2.s8",
        "depthwise": "vector.depthwise",
        "chains": "vector.depthwise",
        "residuals": "vector.depthwise",
        "tables": "portable.table",
        "products": "portable.quantised_matmul",
        "lines": "vector.depthwise",
    },
    "rv32imc": {
        "dense": "tiles.s8",
        "depthwise": "tiles.rows",
        "chains": "tiles.rows",
        "residuals": "tiles.s8",
        "tables": "portable.table",
        "products": "integers.portable.quantised_matmul",
        "lines": "tiles.rows",
    },
    "cortex-m55": {
        "dense": "helium.quads",
        "depthwise": "helium.octets",
        "chains": "helium.octets",
        "residuals": "helium.octets",
        "tables": "helium.table",
        "products": "dsp.products",
        "lines": "helium.octets",
    },
}
FIT_CORTEX_M0 = ("residuals",)  # its board has 16 KB of memory
MODELS = {
    "dense": many_layers(1, False, 30),
    "depthwise": many_layers(2, True, 30),
    "chains": chains(3),
    "residuals": residuals(6),
    "lines": lines(9),
    "tables": tables(7),
    "products": products(8),
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Job]:
    made = {
        (name, target): Job(model, random_feeds(model, 5), target)
        for name, model in MODELS.items()
        for target in (PORTABLE, *SPECIALISED)
    }
    run_jobs(list(made.values()), tmp_path_factory.mktemp("specialised"))
    for (name, target), job in made.items():
        assert not job.failure, f"{name} for {target}: {job.failure}"
    return made


@pytest.mark.parametrize("target", SPECIALISED)
@pytest.mark.parametrize("name", MODELS)
def test_plain_c(name: str, target: str, jobs: dict[tuple[str, str], Job]) -> None:
    """Every instruction has plain C, which sanitizers can watch."""
    used = {c.kernel.name for c in jobs[name, target].module.program.calls}  # type: ignore[union-attr]
    assert EXPECTED[target][name] in used
    assert jobs[name, target].output == jobs[name, PORTABLE].output


@pytest.mark.parametrize("target", BOARD_TARGETS)
@pytest.mark.parametrize("name", MODELS)
def test_on_its_core(
    name: str, target: str, jobs: dict[tuple[str, str], Job], tmp_path: Path
) -> None:
    path = tmp_path / "model.onnx"
    onnx.save(MODELS[name], path)
    bundle = compile_modules([ModuleSpec(path, "m", target)])
    interface = read_interface(bundle, "m")
    board = BOARDS[target]
    if target == "cortex-m0" and name not in FIT_CORTEX_M0:
        board = replace(BOARDS["cortex-m3"], target=target)  # which knows its instructions
    elf = link_firmware(bundle, interface, board)
    want = jobs[name, PORTABLE]
    result = run_on_board(elf, board, interface, want.feeds)
    for got, expected in zip(result.outputs, want.results, strict=True):
        for key, value in zip(got, expected.values(), strict=True):
            np.testing.assert_array_equal(got[key], value, err_msg=key)


def test_additions_are_vectors(jobs: dict[tuple[str, str], Job]) -> None:
    """On Cortex-M55 no residual addition is computed element by element."""
    module = jobs["residuals", "cortex-m55"].module
    assert module is not None
    text = "".join(module.sources.files.values())
    assert text.count("mlf_octet_sum(") == 4  # one in each of the model's four
    assert "mlf_octet_except(" in text
