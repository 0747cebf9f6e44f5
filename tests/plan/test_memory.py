"""The memory plan: nothing that is alive overlaps, in place never destroys what is still read, and
the arena that a module declares is exactly what it touches."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batch import INCLUDE, compile_model, write_sources
from builders import Net
from hypothesis import given, settings
from hypothesis import strategies as st
from shared import NETWORKS, Network

import mlftool.backend
from mlftool.compile import Module, ModuleSpec, compile_module
from mlftool.plan.blocks import Interval, may_overlap
from mlftool.plan.placement import best_placement, first_fit, lower_bound
from mlftool.plan.program import Program

# Liveness bounds of the MLPerf networks, inputs and outputs counted, Relu fused: bytes.
LIVENESS = {"kws": 16000, "vww": 55296, "ic": 49152, "ad": 768}


@st.composite
def interval_sets(draw: Callable[[st.SearchStrategy[Any]], Any]) -> list[Interval]:
    count = draw(st.integers(0, 14))
    result = []
    for k in range(count):
        first = draw(st.integers(0, 11))
        last = draw(st.integers(first, 11))
        size = 16 * draw(st.integers(1, 40))
        result.append(Interval(f"b{k}", size, first, last))
    return result


def overlap_in_time(a: Interval, b: Interval) -> bool:
    return a.first <= b.last and b.first <= a.last


def handed_over(
    intervals: list[Interval], distances: list[tuple[int, int]]
) -> dict[tuple[str, str], tuple[int, int]]:
    """Which blocks may overlap, and how: each where one ends and another begins."""
    pairs = [(a, b) for a in intervals for b in intervals if a.last == b.first != a.first]
    return {(a.name, b.name): d for (a, b), d in zip(pairs, distances, strict=False)}


@settings(max_examples=150)
@given(interval_sets())
def test_placements_never_overlap(intervals: list[Interval]) -> None:
    bound, peak = lower_bound(intervals, 12)
    placed = best_placement(intervals, bound)
    assert placed.keys() == {i.name for i in intervals}
    for k, a in enumerate(intervals):
        assert placed[a.name] >= 0
        assert placed[a.name] % 16 == 0
        for b in intervals[:k]:
            if overlap_in_time(a, b):
                one, two = sorted((a, b), key=lambda i: placed[i.name])
                assert placed[one.name] + one.size_bytes <= placed[two.name]
    size = max((placed[i.name] + i.size_bytes for i in intervals), default=0)
    assert size >= bound
    alive = sum(i.size_bytes for i in intervals if i.first <= peak <= i.last)
    assert alive == bound
    assert best_placement(intervals, bound) == placed


PAIR = st.tuples(st.integers(-400, 99), st.integers(99, 400))
DISTANCES = st.lists(PAIR, min_size=30, max_size=30)  # of two blocks that may overlap


@settings(max_examples=150)
@given(interval_sets(), DISTANCES)
def test_only_what_may_overlap_does(
    intervals: list[Interval], distances: list[tuple[int, int]]
) -> None:
    overlaps = handed_over(intervals, distances)
    bound, _ = lower_bound(intervals, 12)
    placed = best_placement(intervals, bound, overlaps)
    for k, a in enumerate(intervals):
        assert placed[a.name] >= 0
        assert placed[a.name] % 16 == 0
        for b in intervals[:k]:
            if overlap_in_time(a, b):
                one, two = sorted((a, b), key=lambda i: placed[i.name])
                apart = placed[one.name] + one.size_bytes <= placed[two.name]
                at = placed[a.name], placed[b.name]
                assert apart or may_overlap(overlaps, a.name, at[0], b.name, at[1])


@settings(max_examples=60)
@given(interval_sets(), DISTANCES)
def test_first_fit_is_the_lowest_place(
    intervals: list[Interval], distances: list[tuple[int, int]]
) -> None:
    overlaps = handed_over(intervals, distances)
    placed = first_fit(intervals, overlaps)

    def fits(block: Interval, at: int, others: list[Interval]) -> bool:
        return all(
            at + block.size_bytes <= placed[o.name]
            or placed[o.name] + o.size_bytes <= at
            or may_overlap(overlaps, block.name, at, o.name, placed[o.name])
            for o in others
            if overlap_in_time(block, o)
        )

    for k, block in enumerate(intervals):
        lowest = next(at for at in range(0, 1 << 20, 16) if fits(block, at, intervals[:k]))
        assert placed[block.name] == lowest


@settings(max_examples=60)
@given(interval_sets())
def test_the_search_never_loses_to_first_fit(intervals: list[Interval]) -> None:
    bound, _ = lower_bound(intervals, 12)

    def height(placed: dict[str, int]) -> int:
        return max((placed[i.name] + i.size_bytes for i in intervals), default=0)

    plain = first_fit(sorted(intervals, key=lambda i: (-i.size_bytes, i.first, i.name)))
    assert height(best_placement(intervals, bound)) <= height(plain)


def replaces(program: Program, name: str, out: str, distances: dict[str, tuple[int, int]]) -> bool:
    """Whether an output that lies where it does may overlap the input `name`."""
    place, (least, most) = program.memory.place, distances[name]
    if program.storage(name) not in place or out not in place:
        return False
    apart = place[program.storage(name)].offset_bytes - place[out].offset_bytes
    return least <= apart <= most


def check_plan(module: Module) -> None:
    """Walk the steps as the device does, remembering what each byte holds."""
    program = module.program
    graph, memory = program.graph, program.memory
    outside = {*graph.consts}
    if not program.workspace_io:
        outside |= {*graph.inputs, *graph.outputs}
    holds: dict[tuple[str, int], str] = {}

    def bytes_of(name: str) -> list[tuple[str, int]]:
        buffer = memory.place[name]
        first = buffer.offset_bytes
        return [(buffer.pool, b) for b in range(first, first + graph.types[name].bytes)]

    for name in set(graph.inputs) - outside:
        assert not any(b in holds for b in bytes_of(name)), f"'{name}' lies in another input"
        holds |= dict.fromkeys(bytes_of(name), name)
    for step, call in enumerate(program.calls):
        operands = call.kernel.operands
        reads = {program.storage(o.value) for o in operands if o.role == "in"} - outside
        for name in reads:
            whole = all(holds.get(b) == name for b in bytes_of(name))
            assert whole, f"step {step}: '{name}' was overwritten"
        out = program.storage(call.node.outputs[0])
        distances = {**call.kernel.overlap, **dict.fromkeys(call.kernel.inplace, (0, 0))}
        may_replace = {
            program.storage(n) for n in distances if replaces(program, n, out, distances)
        }
        kept = {
            program.storage(o.value)
            for o in operands
            if o.role == "in" and o.value not in distances
        }
        if out not in outside:
            regions = {r.pool.name: r.size_bytes for r in memory.regions}
            for b in bytes_of(out):
                assert b[1] < regions[b[0]]
                if holds.get(b) in reads:
                    assert holds[b] in may_replace, f"step {step}: clobbers '{holds[b]}'"
                    assert holds[b] not in kept, f"step {step}: clobbers '{holds[b]}'"
                holds[b] = out
        for more in (program.storage(o) for o in call.node.outputs[1:] if o):
            if more not in outside:
                assert not any(holds.get(b) in {*reads, out} for b in bytes_of(more))
                holds |= dict.fromkeys(bytes_of(more), more)
    for name in set(graph.outputs) - outside:
        assert all(holds[b] == name for b in bytes_of(name)), f"output '{name}' was overwritten"


@pytest.mark.sampled(6)
@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_no_network_reads_what_was_overwritten(network: Network) -> None:
    for target in ("host", "rv32imc", "cortex-m4"):
        module = compile_module(ModuleSpec(network.path, "m", target))
        memory = module.program.memory
        assert memory.size_bytes >= memory.lower_bound_bytes
        check_plan(module)


@pytest.mark.parametrize("network", [n for n in NETWORKS if n.shared], ids=str)
def test_mlperf_arenas_meet_the_liveness_bound(network: Network) -> None:
    name, kind = network.name.split("_")
    if name not in LIVENESS:
        pytest.skip("no bound was measured for this network")
    for target in ("rv32imc", "cortex-m3", "cortex-m4"):
        module = compile_module(ModuleSpec(network.path, "m", target))
        bound = LIVENESS[name] * (4 if kind == "fp32" else 1)
        assert module.program.memory.size_bytes <= bound


def test_a_chain_needs_its_two_largest_neighbours() -> None:
    net = Net()
    y = net.input("x", np.float32, (1, 8))
    for n, m in ((8, 100), (100, 60), (60, 20), (20, 4)):
        y = net.node("Gemm", y, net.const(np.ones((n, m)), np.float32))
    memory = compile_model(net.model(y)).program.memory
    assert memory.size_bytes == memory.lower_bound_bytes == 400 + 240
    assert memory.proof
    assert memory.peak_step == 1


def test_a_diamond_runs_one_branch_after_the_other() -> None:
    """The model interleaves two branches, which would keep both wide tensors: 760 bytes."""
    net = Net()
    x = net.input("x", np.float32, (1, 8))
    wide = [net.node("Gemm", x, net.const(np.ones((8, n)), np.float32)) for n in (100, 90)]
    thin = [
        net.node("Gemm", w, net.const(np.ones((n, 4)), np.float32))
        for w, n in zip(wide, (100, 90), strict=True)
    ]
    module = compile_model(net.model(net.node("Concat", *thin, axis=1)))
    assert module.program.memory.size_bytes == 400 + 16
    check_plan(module)


PARTS = st.lists(st.integers(1, 40), min_size=1, max_size=4)


@settings(max_examples=25)
@given(PARTS, st.integers(1, 6), st.integers(0, 4), st.sampled_from((np.int32, np.float64)))
def test_parts_of_a_concat_may_be_in_its_result(
    widths: list[int], rows: int, again: int, kind: type
) -> None:
    """Of one row and of several, of long rows and short ones, a part twice."""
    net, rng = Net(), np.random.default_rng(rows)
    names = [net.input(f"x{k}", kind, (rows, n)) for k, n in enumerate(widths)]
    parts = [net.node("CumSum", name, net.const(1, np.int64)) for name in names]
    joined = net.node("Concat", *parts, *parts[again:], axis=1)
    model = net.model(net.node("CumSum", joined, net.const(0, np.int64)))
    check_plan(compile_model(model, target="cortex-m4"))
    feeds = [rng.integers(-9, 9, (rows, n)).astype(kind) for n in widths]
    sums = [np.cumsum(x, axis=1, dtype=kind) for x in feeds]
    wanted = np.cumsum(np.concatenate([*sums, *sums[again:]], axis=1), axis=0, dtype=kind)
    np.testing.assert_array_equal(mlftool.backend.run_model(model, feeds)[0], wanted)


@pytest.mark.parametrize("workspace_io", [False, True])
def test_an_input_is_apart_from_the_concat_it_is_part_of(workspace_io: bool) -> None:
    """It is copied by memcpy, which takes less time than memmove, so the two must not overlap."""
    net = Net()
    x = net.input("x", np.int32, (1, 40))
    made = net.node("CumSum", x, net.const(1, np.int64))
    joined = net.node("Concat", x, made, x, axis=1)
    model = net.model(net.node("CumSum", joined, net.const(0, np.int64)))
    module = compile_module(ModuleSpec(model, "m", "cortex-m4", workspace_io=workspace_io))
    check_plan(module)
    text = module.sources.lib1
    assert (text.count("memcpy(y"), text.count("memmove(y")) == (2, 1)
    given = np.arange(40, dtype=np.int32)[None]
    wanted = np.concatenate([given, np.cumsum(given, axis=1), given], axis=1)
    np.testing.assert_array_equal(mlftool.backend.run_model(model, [given])[0], wanted)


def joined(channels: list[int], size: int, axis: int) -> int:
    """Bytes of the workspace in which stored convolutions of size x size pixels are joined."""
    net, zero, parts = Net(), np.int8(0), []
    x = net.dq(net.input("x", np.int8, (1, 1, size, size)), 0.1, zero)
    for n in channels:
        w = net.dq(net.const(np.ones((n, 1, 1, 1), np.int8)), 0.1, zero)
        parts.append(net.q(net.node("Conv", x, w), 0.1, zero))
    whole = net.node("Concat", *parts, axis=axis)
    model = net.model(net.node("MaxPool", whole, kernel_shape=[size, size]))
    module = compile_model(model, target="cortex-m4")
    check_plan(module)
    return module.program.memory.size_bytes


def test_a_concat_of_channels_takes_one_part_less() -> None:
    """The last part is the end of the result, so that its last row is at its place."""
    assert joined([16, 16], 32, 1) <= 3 * 16 * 32 * 32 + 32


def test_a_concat_of_whole_parts_is_where_they_are() -> None:
    """Images of one channel, one after the other."""
    assert joined([1, 1, 1], 32, 0) == 3 * 32 * 32


def test_in_place_chains_cost_one_buffer() -> None:
    net = Net()
    y = net.node("Softmax", net.input("x", np.float32, (3, 40)))
    for _ in range(3):
        y = net.node("Softmax", y)
    assert compile_model(net.model(y)).program.memory.size_bytes == 480


def test_in_place_respects_another_view_of_the_same_bytes() -> None:
    """The Gemm reads one view of a buffer, its fused Add another of the same shape."""
    module = compile_model(two_views())
    check_plan(module)


def two_views() -> Any:
    net = Net()
    r = net.node("Softmax", net.input("x", np.float32, (6, 4)))
    a = net.node("Reshape", r, net.const([3, 8], np.int64))
    y = net.node("Gemm", a, net.const(np.ones((8, 8)), np.float32))
    y = net.node("Add", y, net.node("Reshape", r, net.const([3, 8], np.int64)))
    return net.model(net.node("Softmax", net.node("Neg", y)))


def test_plans_are_deterministic() -> None:
    first, second = compile_model(two_views()), compile_model(two_views())
    assert first.program.memory == second.program.memory
    assert first.sources == second.sources


@pytest.mark.parametrize("network", [n for n in NETWORKS if not n.shared], ids=str)
def test_the_arena_is_exactly_sufficient(network: Network, tmp_path: Path) -> None:
    """With a pool of the declared size between guard bytes, no guard is touched, and the last
    16 bytes of the pool are: one block less would not do."""
    module = compile_module(ModuleSpec(network.path, "m", "cortex-m4"))
    graph, size = module.imported, module.program.memory.size_bytes
    assert size
    write_sources(module, tmp_path)
    parameters = ["void *"] * len((*graph.inputs, *graph.outputs)) + ["unsigned char *"]
    tensors = [np.zeros(graph.types[n].bytes, np.uint8) for n in (*graph.inputs, *graph.outputs)]
    blocks = "".join(f"static double t{k}[{t.size // 8 + 1}];\n" for k, t in enumerate(tensors))
    arguments = ", ".join(f"t{k}" for k in range(len(tensors)))
    (tmp_path / "main.c").write_text(
        f"int tvmgen_m___tvm_main__({', '.join(parameters)});\n{blocks}"
        f"static _Alignas(16) unsigned char pool[{size} + 128];\n"
        "int main(void) {\n"
        f"  for (int fill = 0; fill < 256; fill += 85) {{\n"
        "    int touched = 0;\n"
        "    for (int i = 0; i < (int)sizeof pool; i++) pool[i] = (unsigned char)fill;\n"
        f"    tvmgen_m___tvm_main__({arguments}, pool + 64);\n"
        f"    for (int i = 0; i < 64; i++)\n"
        f"      if (pool[i] != fill || pool[{size} + 64 + i] != fill) return 1;\n"
        f"    for (int i = 0; i < 16; i++) touched += pool[{size} + 48 + i] != fill;\n"
        "    if (touched) return 0;\n  }\n  return 2;\n}\n"
    )
    command = ["gcc", "-std=c11", "-O1", "-w", f"-I{INCLUDE}", "main.c", "m_lib1.c", "-o", "arena"]
    subprocess.run(command, cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "arena"]).returncode == 0
