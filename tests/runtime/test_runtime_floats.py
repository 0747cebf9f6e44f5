"""Float arithmetic gives the same bits on this computer and on every board."""

from __future__ import annotations

import json
import shutil

import numpy as np
import pytest
from runtime_archives import metadata, tensor

from mlftool.mlf import Bundle
from mlftool.mlf.runtime_tree import headers_of
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.host import load_host
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

pytestmark = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)

COUNT = 16384
AT_ONCE = 1024  # the smallest board has 16 KiB of RAM
HEADER = """#include <stdint.h>
struct tvmgen_f_inputs { void *x; };
struct tvmgen_f_outputs { void *y; };
int32_t tvmgen_f_run(struct tvmgen_f_inputs *inputs, struct tvmgen_f_outputs *outputs);
"""
SOURCE = """#include "tvmgen_f.h"
#include "mlf/math.h"
static void apply(float *restrict y, const float *restrict x) {
  int i;
  for (i = 0; i < COUNT; i++) y[i] = EXPRESSION;
}
int32_t tvmgen_f_run(struct tvmgen_f_inputs *inputs, struct tvmgen_f_outputs *outputs) {
  apply(outputs->y, inputs->x);
  return 0;
}
"""


def function(expression: str) -> Bundle:
    source = SOURCE.replace("COUNT", str(AT_ONCE)).replace("EXPRESSION", expression)
    interface = {
        "schema_version": 1,
        "module": "f",
        "target": "host",
        "inputs": [tensor("x", "x", "float32", (AT_ONCE,))],
        "outputs": [tensor("y", "y", "float32", (AT_ONCE,))],
        "workspace_bytes": 0,
        "constants_bytes": 0,
    }
    return Bundle(
        {
            "metadata.json": metadata("f"),
            **headers_of([source.encode()]),
            "codegen/host/include/tvmgen_f.h": HEADER.encode(),
            "codegen/host/src/f_lib0.c": source.encode(),
            "executor-config/aot/f.json": json.dumps(interface).encode(),
        }
    )


def every_kind_of_float() -> np.ndarray:
    """All exponents and both signs; for exp also enough of the range where it is interesting."""
    random = np.random.default_rng(3)
    bits = random.integers(0, 2**32, COUNT // 2, np.uint32)
    near = random.uniform(-104, 90, COUNT - len(bits)).astype(np.float32)
    return np.concatenate([bits.view(np.float32), near])


@pytest.mark.sampled(6)
@pytest.mark.parametrize("board", BOARDS)
@pytest.mark.parametrize(
    ("expression", "where"),
    [
        ("mlf_expf(x[i])", "all"),
        ("x[i] * 0.25f + 1.0e-40f", "all"),  # subnormal results, and a sum that could be fused
        ("(float)mlf_round_even(x[i])", "near"),
    ],
)
def test_bits_are_equal_to_the_hosts(board: str, expression: str, where: str) -> None:
    bundle = function(expression)
    x = every_kind_of_float()
    if where == "near":
        x[: COUNT // 2] = np.linspace(-2e6, 2e6, COUNT // 2).round(1)
    feeds = [{"x": part} for part in x.reshape(-1, AT_ONCE)]
    run = load_host(bundle, optimise="-O3")
    host = np.concatenate([run(feed)["y"] for feed in feeds])
    interface = read_interface(bundle)
    elf = link_firmware(bundle, interface, BOARDS[board], optimise="-O3")
    outputs = run_on_board(elf, BOARDS[board], interface, feeds).outputs
    result = np.concatenate([made["y"] for made in outputs])
    # Which nan an operation gives is the processor's choice; that it is one is not.
    canonical = [np.where(np.isnan(a), np.float32(np.nan), a) for a in (host, result)]
    different = np.flatnonzero(canonical[0].view(np.uint32) != canonical[1].view(np.uint32))
    assert [(x[i], host[i], result[i]) for i in different[:3]] == []
