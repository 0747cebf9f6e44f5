"""Memory pools of the user's own: what goes where, that it fits, and the same bits as without."""

from __future__ import annotations

import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import OWN
from test_memory import check_plan, interval_sets, overlap_in_time

from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.errors import MlfError
from mlftool.mlf.interface import Interface
from mlftool.plan.blocks import Interval
from mlftool.plan.pools import fill
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.host import build_runner
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board, run_on_host
from mlftool.runtime.vectors import load_vectors, samples_of
from mlftool.targets import TARGETS
from mlftool.targets.pools import Pool, parse_pools

MODEL = OWN / "digits_int8.onnx"
FAST, SLOW = "tcm=1KiB", "sram=2KiB"
# Kernels in vectors copy their input, for which there is no room here.
PLAIN = replace(TARGETS["host"], features=frozenset({"fpu"}))


def samples(interface: Interface) -> list[dict[str, Any]]:
    return samples_of(load_vectors(MODEL.with_suffix(".npz")), interface.inputs, "m")[:3]


@settings(max_examples=60)
@given(interval_sets(), st.lists(st.integers(0, 9999), min_size=14, max_size=14))
def test_blocks_keep_inside_their_pools(blocks: list[Interval], heat: list[int]) -> None:
    pools = [Pool("a", 320), Pool("b", 640), Pool("c", 1 << 20)]
    heats = {b.name: h for b, h in zip(blocks, heat, strict=False)}
    filled = fill(pools, blocks, {}, heats, 12)
    assert sorted(b.name for f in filled for b in f.blocks) == sorted(b.name for b in blocks)
    for f in filled:
        at = f.placement.offsets
        assert f.bound <= f.size_bytes <= f.pool.size_bytes
        for k, a in enumerate(f.blocks):
            for b in f.blocks[:k]:
                low, high = sorted((a, b), key=lambda i: at[i.name])
                apart = at[low.name] + low.size_bytes <= at[high.name]
                assert apart or not overlap_in_time(a, b)


def test_the_hottest_block_is_in_the_fastest_pool() -> None:
    blocks = [Interval("cold", 64, 0, 3), Interval("hot", 64, 1, 2), Interval("large", 256, 0, 3)]
    heat = {"cold": 100, "hot": 900, "large": 1600}
    fast, slow = fill([Pool("f", 64), Pool("s", 512)], blocks, {}, heat, 4)
    assert [b.name for b in fast.blocks] == ["hot"]
    assert [b.name for b in slow.blocks] == ["large", "cold"]


def test_size_goes_first_where_heat_leaves_no_room() -> None:
    blocks = [Interval("hot", 64, 0, 3), Interval("large", 256, 0, 3)]
    first, second = fill([Pool("f", 256), Pool("s", 64)], blocks, {}, {"hot": 9999}, 4)
    assert [b.name for b in first.blocks] == ["large"]
    assert [b.name for b in second.blocks] == ["hot"]


@pytest.mark.parametrize("io", [False, True])
@pytest.mark.parametrize(
    "pools", [(FAST, SLOW), (f"{FAST}@.bss.tcm", SLOW), (f"{FAST}@.bss.tcm", f"{SLOW}@.bss.sram")]
)
def test_the_same_bits(pools: tuple[str, ...], io: bool) -> None:
    plain = compile_modules([ModuleSpec(MODEL, "m", PLAIN)])
    interface = read_interface(plain, "m")
    feeds = samples(interface)
    want = run_on_host(build_runner(plain, interface), interface, feeds, 1).outputs
    module = compile_module(ModuleSpec(MODEL, "m", PLAIN, workspace_io=io, pools=pools))
    memory = module.program.memory
    for region, limit in zip(memory.regions, (1024, 2048), strict=True):
        assert 0 < region.size_bytes <= limit
    check_plan(module)
    bundle = compile_modules([module.spec])
    interface = read_interface(bundle, "m")
    assert list(interface.pools) == sorted(p.partition("=")[0] for p in pools if "@" not in p)
    got = run_on_host(build_runner(bundle, interface), interface, feeds, 1).outputs
    for one, other in zip(got, want, strict=True):
        for name, value in other.items():
            assert one[name].tobytes() == value.tobytes()


@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
def test_sections_on_a_board() -> None:
    spec = ModuleSpec(MODEL, "m", "cortex-m4", pools=(f"{FAST}@.bss.tcm", SLOW))
    bundle = compile_modules([spec])
    interface = read_interface(bundle, "m")
    elf = link_firmware(bundle, interface, BOARDS["cortex-m4"])
    assert re.search(r"\.bss\.tcm\s+0x", Path(elf).with_suffix(".map").read_text())
    result = run_on_board(elf, BOARDS["cortex-m4"], interface, samples(interface))
    want = load_vectors(MODEL.with_suffix(".npz"))
    for name, value in result.outputs[0].items():
        np.testing.assert_array_equal(value.ravel(), want[name][0].ravel())


def test_too_small() -> None:
    with pytest.raises(MlfError, match="finds no place in the memory pools; got a 64 \\+ b 128"):
        compile_module(ModuleSpec(MODEL, pools=("a=64", "b=128")))


@pytest.mark.parametrize(
    ("pools", "said"),
    [
        (("fast",), "memory pool 'fast', expected NAME=BYTES"),
        (("Fast=64",), "memory pool 'Fast=64'"),
        (("a=0",), "memory pool 'a=0'"),
        (('a=64@."x"',), "memory pool"),
        (("a=64", "a=128"), "memory pool 'a' is given twice; rename one"),
    ],
)
def test_what_is_no_pool(pools: tuple[str, ...], said: str) -> None:
    with pytest.raises(MlfError, match=re.escape(said)):
        parse_pools(pools)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"executor": "graph"}, "pools with executor 'graph'; expected aot"),
        ({"interface_api": "packed"}, "pools with interface-api 'packed'; expected c"),
    ],
)
def test_who_knows_no_pools(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(MlfError, match=said):
        compile_module(ModuleSpec(MODEL, pools=(FAST, SLOW), **asked))
