"""Sequences and optionals: none of them is left in C. Against onnx's reference implementation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net
from cases import Case, Results
from onnx import TensorProto, helper
from oracle import onnxruntime_float

import mlftool.backend
from mlftool.advice import advice
from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError


def edited(opset: int) -> Case:
    """Insert and erase at both ends and between, positions counted from either end."""
    net = Net(opset)
    x, y, z = (net.input(n, np.float32, (2, k + 1)) for k, n in enumerate("xyz"))
    s = net.node("SequenceConstruct", x, y)
    s = net.node("SequenceInsert", s, z, net.const(np.int64(-1)))
    s = net.node("SequenceInsert", s, y)
    s = net.node("SequenceErase", s, net.const(np.int64(0)))
    first = net.node("SequenceAt", s, net.const(np.int64(-3)))
    joined = net.node("ConcatFromSequence", s, axis=1)
    return Case(f"edited_{opset}", net.model(first, joined, net.node("SequenceLength", s)),
                "reference")  # fmt: skip


def split(keepdims: int, sizes: Any) -> Case:
    net = Net()
    x = net.input("x", np.int32, (4, 5))
    given = [net.const(np.asarray(sizes, np.int64))] if sizes is not None else []
    s = net.node("SplitToSequence", x, *given, axis=1, keepdims=keepdims)
    last = net.node("SequenceAt", s, net.const(np.int64(-1)))
    model = net.model(last, net.node("SequenceLength", s))
    return Case(f"split_{keepdims}_{sizes}".replace(" ", ""), model, "reference")


def stacked(axis: int) -> Case:
    net = Net()
    x, y = (net.input(n, np.float32, (2, 3)) for n in "xy")
    s = net.node("SequenceInsert", net.node("SequenceEmpty"), x)
    s = net.node("SequenceInsert", s, y)
    return Case(f"stacked_{axis}", net.model(net.node("ConcatFromSequence", s, axis=axis,
                                                      new_axis=1)), "reference")  # fmt: skip


def unrolled() -> Case:
    """A Loop that collects its results in a sequence."""
    body = helper.make_graph(
        [
            helper.make_node("Cast", ["i"], ["f"], to=TensorProto.FLOAT),
            helper.make_node("Add", ["x", "f"], ["sum"]),
            helper.make_node("SequenceInsert", ["s", "sum"], ["s_out"]),
            helper.make_node("Identity", ["c"], ["c_out"]),
        ],
        "body",
        [
            helper.make_tensor_value_info("i", TensorProto.INT64, ()),
            helper.make_tensor_value_info("c", TensorProto.BOOL, ()),
            helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None),
        ],
        [
            helper.make_tensor_value_info("c_out", TensorProto.BOOL, ()),
            helper.make_tensor_sequence_value_info("s_out", TensorProto.FLOAT, None),
        ],
    )
    net = Net()
    net.input("x", np.float32, (2,))
    s = net.node("SequenceEmpty")
    s = net.node("Loop", net.const(np.int64(3)), net.const(np.array(True)), s, body=body)
    return Case("unrolled", net.model(net.node("ConcatFromSequence", s, axis=0)), "reference")


def optional() -> Case:
    net = Net()
    x = net.node("Optional", net.input("x", np.float32, (3,)))
    return Case("optional", net.model(net.node("OptionalGetElement", x)))


CASES = (
    *map(edited, (11, 21)),
    split(1, None),
    split(0, None),
    split(0, 2),
    split(1, [2, 3]),
    *map(stacked, (0, 1, -1)),
    unrolled(),
    optional(),
)


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("sequences"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_the_reference(case: Case, results: Results) -> None:
    results.check(case)


def _listed(change: Callable[[list[str]], onnx.NodeProto], count: int = 1) -> onnx.ModelProto:
    names = [f"s{k}" for k in range(count)]
    graph = helper.make_graph(
        [change(names)],
        "listed",
        [helper.make_tensor_sequence_value_info(n, TensorProto.FLOAT, None) for n in names],
        [helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None)],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])


def test_a_backend_takes_and_gives_lists() -> None:
    model = _listed(lambda names: helper.make_node("SequenceErase", names, ["y"]))
    tensors = [np.full((k + 1,), k, np.float32) for k in range(3)]
    prepared = mlftool.backend.prepare(model)
    for given in (tensors, tensors[:2]):
        (got,) = prepared.run([given])
        assert [t.tolist() for t in got] == [t.tolist() for t in given[:-1]]
    assert _refused(model, [tensors[:1]]).startswith("gives no tensors")


def _refused(model: onnx.ModelProto, inputs: Sequence[Any]) -> str:
    with pytest.raises(MlfError) as caught:
        mlftool.backend.prepare(model).run(inputs)
    (problem,) = caught.value.problems
    return problem.message


def _lists(text: str) -> onnx.ModelProto:
    return onnx.parser.parse_model('<ir_version: 9, opset_import: ["": 18]>\n' + text)


def test_positions_known_at_run_time() -> None:
    """Whatever stands there, of whatever shape: in a box, cut to its true extents."""
    model = _lists("""g (float[2,3] x, float[1,4] y, float[2,2] z, float[3,1] w, int64 p)
        => (float[a,b] at, seq(float) more, seq(float) less) {
        s = SequenceConstruct(x, y, z) at = SequenceAt(s, p)
        more = SequenceInsert(s, w, p) less = SequenceErase(s, p) }""")
    rng = np.random.default_rng(5)
    x, y, z, w = (rng.normal(size=n).astype(np.float32) for n in ((2, 3), (1, 4), (2, 2), (3, 1)))
    prepared = mlftool.backend.prepare(model)
    for p in range(-3, 3):
        at, more, less = prepared.run([x, y, z, w, np.array(p)])
        held = [x, y, z]
        assert at.tolist() == held[p].tolist()
        held.insert(p, w)
        assert [t.tolist() for t in more] == [t.tolist() for t in held]
        held = [x, y, z]
        del held[p]
        assert [t.tolist() for t in less] == [t.tolist() for t in held]


@pytest.mark.parametrize("axis", [0, 1])
def test_sizes_of_parts_known_at_run_time(axis: int) -> None:
    model = _lists(f"""g (int32[5,6] x, int64 each, int64[3] sizes)
        => (seq(int32) equal, int64 n, seq(int32) given) {{
        equal = SplitToSequence <axis = {axis}> (x, each) n = SequenceLength(equal)
        given = SplitToSequence <axis = {axis}> (x, sizes) }}""")
    x = np.arange(30, dtype=np.int32).reshape(5, 6)
    prepared = mlftool.backend.prepare(model)
    extent = x.shape[axis]
    for each, first in ((1, 0), (2, 1), (4, extent), (9, 2)):
        sizes = [first, (extent - first) // 2, extent - first - (extent - first) // 2]
        equal, n, given = prepared.run([x, np.array(each), np.array(sizes)])
        wanted = np.split(x, range(each, extent, each), axis)
        assert (int(n), [t.tolist() for t in equal]) == (len(wanted), [t.tolist() for t in wanted])
        wanted = np.split(x, np.cumsum(sizes)[:2], axis)
        assert [t.shape for t in given] == [t.shape for t in wanted]
        assert [t.tolist() for t in given] == [t.tolist() for t in wanted]


def test_branches_that_give_lists() -> None:
    model = _lists("""g (float[2] x, float[3] y, bool c) => (seq(float) s, float[k] t, int64 n) {
        s, t = If (c) <
            then_branch = a () => (seq(float) p, float[2] q)
                { p = SequenceConstruct(x, y) q = Neg(x) },
            else_branch = b () => (seq(float) r, float[3] u)
                { r = SequenceConstruct(y) u = Abs(y) }>
        n = SequenceLength(s) }""")
    x, y = np.array([1, -2], np.float32), np.array([-3, 4, -5], np.float32)
    prepared = mlftool.backend.prepare(model)
    s, t, n = prepared.run([x, y, np.array(True)])
    assert [e.tolist() for e in s] == [x.tolist(), y.tolist()]
    assert (t.tolist(), int(n)) == ((-x).tolist(), 2)
    s, t, n = prepared.run([x, y, np.array(False)])
    assert ([e.tolist() for e in s], t.tolist(), int(n)) == ([y.tolist()], np.abs(y).tolist(), 1)


LOOP = """g (float[2] x, int64 n, float most) => (seq(float) s, float[2] last) {
    empty = SequenceEmpty() t = Constant <value = bool {1}> ()
    s, last = Loop (n, t, empty, x) <body = b (int64 i, bool c, seq(float) r, float[2] v)
        => (bool d, seq(float) q, float[2] w) {
        w = Add(v, v) q = SequenceInsert(r, w) sum = ReduceSum <keepdims = 0> (w)
        d = Less(sum, most) }> }"""


def test_a_loop_that_collects_until_it_ends() -> None:
    """By its count or by its condition; not by more than its limit."""
    shapes = {"s": (4,)}
    module = mlftool.backend.MlfBackendRep(_lists(LOOP), shapes)
    x = np.array([1, 2], np.float32)
    for count, most, ran in ((0, 1e9, 0), (3, 1e9, 3), (9, 20.0, 3), (9, 1e9, 4)):
        s, last = module.run([x, np.array(count), np.array(most, np.float32)])
        assert [t.tolist() for t in s] == [(x * 2 ** (k + 1)).tolist() for k in range(ran)]
        assert last.tolist() == (x * 2**ran).tolist()
    message = _refused(_lists(LOOP), [x, np.array(1), np.array(1, np.float32)])
    assert message.endswith("say how many there are at most: --input-shape s:10")


# As torch writes EmbeddingBag: no trip count, a condition that counts to a constant, and within a
# condition on the number of the iteration. Labels of nodes need not differ.
COUNTED = """g (float[4,2] x) => (float[3,1,2] y) {
    empty = SequenceEmpty() t = Constant <value = bool {1}> ()
    zero = Constant <value = int64 {0}> () one = Constant <value = int64 {1}> ()
    three = Constant <value = int64 {3}> () first = Constant <value = int64[1] {0}> ()
    last, s = Loop (, t, zero, empty) <body = b (int64 i, bool c, int64 k, seq(float) r)
        => (bool d, int64 n, seq(float) q) {
        n = Add(k, one) d = Less(n, three) is_first = Equal(k, zero)
        from = Unsqueeze(k, first) to = Unsqueeze(n, first) row = Slice(x, from, to)
        z = If (is_first) <then_branch = u () => (float[1,2] v) { w = Neg(row) v = Exp(w) },
            else_branch = o () => (float[1,2] v) { w = Abs(row) v = Sqrt(w) }>
        q = SequenceInsert(r, z) }>
    y = ConcatFromSequence <axis = 0, new_axis = 1> (s) }"""


def test_a_loop_whose_condition_is_known() -> None:
    x = np.array([[1, 2], [-3, 4], [5, -6], [7, 8]], np.float32)
    (y,) = mlftool.backend.run_model(_lists(COUNTED), [x])
    wanted = [np.exp(-x[:1]), np.sqrt(np.abs(x[1:2])), np.sqrt(np.abs(x[2:3]))]
    np.testing.assert_allclose(y, wanted, rtol=1e-6)
    message = _refused(_lists(COUNTED.replace("int64 {3}", "int64 {300}")), [x])
    assert message == "its state is a sequence; supported: 256 iterations"


def test_a_sequence_of_unknown_length_cannot_be_joined() -> None:
    net = Net()
    s = net.node("SplitToSequence", net.input("x", np.float32, (4,)), net.input("n", np.int64, ()))
    model = net.model(net.node("ConcatFromSequence", s, axis=0))
    message = _refused(model, [np.zeros(4, np.float32), np.array(2)])
    assert message == "reads a sequence whose length is known only at run time"


def test_a_position_outside_of_a_sequence_is_refused() -> None:
    net = Net()
    s = net.node("SequenceConstruct", net.input("x", np.float32, (2,)))
    model = net.model(net.node("SequenceAt", s, net.const(np.int64(1))))
    assert _refused(model, [np.zeros(2, np.float32)]) == "position 1 in a sequence of 1"


def test_whether_an_optional_holds_something_is_a_constant() -> None:
    kind = helper.make_optional_type_proto(helper.make_tensor_type_proto(TensorProto.FLOAT, [2]))
    graph = helper.make_graph(
        [helper.make_node("OptionalHasElement", ["x"], ["y"])],
        "has",
        [helper.make_value_info("x", kind)],
        [helper.make_tensor_value_info("y", TensorProto.BOOL, ())],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)])
    prepared = mlftool.backend.prepare(model)
    assert [bool(prepared.run([x])[0]) for x in (np.zeros(2, np.float32), None)] == [True, False]


@pytest.mark.parametrize(
    ("kind", "said", "help"),
    [("optional(float[N,3])", "absent", "x:1,3"), ("seq(float[2])", "empty", "x.0:2")],
)
def test_an_input_that_holds_nothing_gives_a_warning(
    kind: str, said: str, help: str, tmp_path: Path
) -> None:
    """Only the user knows whether it will hold something; the help is taken as it is."""
    has = "OptionalHasElement" if "optional" in kind else "SequenceLength"
    out = "bool" if "optional" in kind else "int64"
    (tmp_path / "m.onnx").write_bytes(
        _lists(f"g ({kind} x, {out} z) => ({out} y, {out} w) {{ y = {has} (x) w = Identity (z) }}")
        .SerializeToString()
    )  # fmt: skip
    (found,) = advice(compile_module(ModuleSpec(tmp_path / "m.onnx", "m")))
    assert (found.code, found.path) == ("MLF0319", "input 'x'")
    assert said in found.message
    name, shape = found.help.split()[-1].split(":")
    assert f"{name}:{shape}" == help
    shapes = {name: tuple(map(int, shape.split(",")))}
    assert not [*advice(compile_module(ModuleSpec(tmp_path / "m.onnx", "m", input_shapes=shapes)))]


@pytest.mark.parametrize("keepdims", [0, 1])
def test_parts_as_outputs(keepdims: int) -> None:
    """The names of outputs are free for them."""
    model = _lists(f"""g (float[2,3] x) => (seq(float) s) {{
        s = SplitToSequence <axis = 1, keepdims = {keepdims}> (x) }}""")
    x = np.arange(6, dtype=np.float32).reshape(2, 3)
    (s,) = mlftool.backend.run_model(model, [x])
    wanted = [x[:, k : k + 1] if keepdims else x[:, k] for k in range(3)]
    assert [t.tolist() for t in s] == [t.tolist() for t in wanted]


def test_one_number_as_split_leaves_out_the_axis() -> None:
    """As torch's `unbind` is exported and onnxruntime does it; the standard says otherwise. Parts
    of a tensor whose other extents are known at run time have these, and so have stacks of them."""
    model = _lists("""g (float[4,2] x) => (int64[n] y, int64[n,2] z, int64[n,1] w, float[4] v) {
        found = NonZero(x) pairs = Transpose <perm = [1, 0]> (found)
        one = Constant <value = int64 {1}> () ones = Constant <value = int64[2] {1, 1}> ()
        p = SplitToSequence <axis = 1, keepdims = 0> (pairs, one)
        zero = Constant <value = int64 {0}> () first = SequenceAt(p, zero)
        second = SequenceAt(p, one) y = Add(first, second)
        z = ConcatFromSequence <axis = 1, new_axis = 1> (p)
        q = SplitToSequence <axis = 1, keepdims = 0> (pairs, ones) w = SequenceAt(q, one)
        r = SplitToSequence <axis = 1, keepdims = 0> (x, one) v = SequenceAt(r, one) }""")
    prepared = mlftool.backend.prepare(model)
    for x in ([[0, 1], [1, 1], [0, 0], [1, 0]], [[0] * 2] * 4, [[1] * 2] * 4):
        feed = np.array(x, np.float32)
        (wanted,) = onnxruntime_float(model, [{"x": feed}])
        for got, want in zip(prepared.run([feed]), wanted.values(), strict=True):
            assert (got.shape, got.tolist()) == (want.shape, want.tolist())


def test_an_axis_of_run_time_extent_is_not_split() -> None:
    model = _lists("""g (float[4] x) => (int64[1,1] y) {
        found = NonZero(x) p = SplitToSequence <axis = 1> (found)
        zero = Constant <value = int64 {0}> () y = SequenceAt(p, zero) }""")
    with pytest.raises(MlfError, match="splits an axis whose extent is known only at run time"):
        mlftool.backend.prepare(model)
