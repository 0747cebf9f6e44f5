"""Bad models whose nodes have impossible attributes, subgraphs or constants, or are too many."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from bad_corpus import case, model, node, tensor, value
from onnx import ModelProto, NodeProto, TensorProto, helper, numpy_helper


def _transpose(**attrs: object) -> ModelProto:
    return model([node("Transpose", "x", **attrs)], outputs=[value("y", (4, 1))])


@case
def attribute_of_the_wrong_type(_: Path) -> ModelProto:
    return _transpose(perm="up")


@case
def attribute_out_of_range(_: Path) -> ModelProto:
    return _transpose(perm=[0, 7])


@case
def attribute_too_short(_: Path) -> ModelProto:
    return _transpose(perm=[0])


@case
def attribute_given_twice(_: Path) -> ModelProto:
    made = _transpose(perm=[1, 0])
    made.graph.node[0].attribute.append(helper.make_attribute("perm", [0, 1]))
    return made


@case
def attribute_without_type(_: Path) -> ModelProto:
    made = _transpose(perm=[1, 0])
    made.graph.node[0].attribute[0].type = 0
    return made


@case
def attribute_of_unknown_type(_: Path) -> bytes:
    ints, unknown = b"\xa0\x01\x07", b"\xa0\x01\x7f"  # field 20, AttributeProto.type
    return _transpose(perm=[1, 0]).SerializeToString().replace(ints, unknown)


@case
def attribute_that_is_neither_yes_nor_no(_: Path) -> ModelProto:
    return model([node("ReduceSum", "x", keepdims=2)])


OURS = (("", 17), ("com.microsoft", 1))


@case
def flag_of_onnxruntime_that_is_neither(_: Path) -> ModelProto:
    made = node("FusedGemm", "x x", domain="com.microsoft", transB=-1)
    return model([made], opsets=OURS)


@case
def precision_that_is_no_float(_: Path) -> ModelProto:
    scale = [tensor("s", np.float32(1))]
    return model([node("QuantizeLinear", "x s", precision=-9)], weights=scale, opsets=(("", 23),))


@case
def stash_type_that_is_no_float(_: Path) -> ModelProto:
    return model(
        [node("LayerNormalization", "x w", stash_type=7)],
        weights=[tensor("w", np.ones(1, np.float32))],
    )


@case
def scales_where_one_is_expected(_: Path) -> ModelProto:
    numbers = {"s": np.ones(2, np.float32), "z": np.uint8(0)}
    made = node("QLinearSigmoid", "q s z s z", domain="com.microsoft")
    weights = [tensor(name, value) for name, value in numbers.items()]
    return model([node("Cast", "x", "q", to=2), made], weights=weights, opsets=OURS)


@case
def attribute_refers_to_a_function(_: Path) -> ModelProto:
    made = _transpose(perm=[1, 0])
    made.graph.node[0].attribute[0].ref_attr_name = "perm"
    return made


@case
def attribute_nobody_knows(_: Path) -> ModelProto:
    return model([node("Relu", "x", colour="red")])


@case
def required_attribute_missing(_: Path) -> ModelProto:
    return model([node("Concat", "x x")], outputs=[value("y", (2, 4))])


@case
def required_attribute_of_pool_missing(_: Path) -> ModelProto:
    return model([node("MaxPool", "x")], [value("x", (1, 1, 4, 4))])


def _pool(**attrs: object) -> ModelProto:
    shape = (1, 1, 4, 4)
    return model([node("MaxPool", "x", **attrs)], [value("x", shape)], [value("y", shape)])


def _unpool(**attrs: object) -> ModelProto:
    shape = (1, 1, 2, 2)
    both = [value("x", shape), value("i", shape, 7)]
    return model([node("MaxUnpool", "x i", **attrs)], both, [value("y", (1, 1, 4, 4))])


@case
def unpooling_by_negative_windows(_: Path) -> ModelProto:
    return _unpool(kernel_shape=[-1, -1], strides=[2, 2])


@case
def unpooling_of_more_padding_than_output(_: Path) -> ModelProto:
    return _unpool(kernel_shape=[2, 2], pads=[9, 9, 9, 9])


@case
def more_points_than_an_int32(_: Path) -> ModelProto:
    boxes = [tensor("r", np.ones((1, 4))), numpy_helper.from_array(np.zeros(1, np.int64), "b")]
    made = node("RoiAlign", "x r b", sampling_ratio=1 << 31)
    return model([made], [value("x", (1, 1, 4, 4))], [value("y", (1, 1, 1, 1))], weights=boxes)


@case
def stride_zero(_: Path) -> ModelProto:
    return _pool(kernel_shape=[2, 2], strides=[0, 0])


@case
def stride_negative(_: Path) -> ModelProto:
    return _pool(kernel_shape=[2, 2], strides=[-1, -1])


@case
def kernel_negative(_: Path) -> ModelProto:
    return _pool(kernel_shape=[-2, -2])


@case
def kernel_zero(_: Path) -> ModelProto:
    return _pool(kernel_shape=[0, 0])


@case
def kernel_of_other_rank(_: Path) -> ModelProto:
    return _pool(kernel_shape=[2, 2, 2])


@case
def pads_negative(_: Path) -> ModelProto:
    return _pool(kernel_shape=[2, 2], pads=[-9, -9, -9, -9])


@case
def pads_too_few(_: Path) -> ModelProto:
    return _pool(kernel_shape=[2, 2], pads=[1])


@case
def pads_of_2_to_the_62(_: Path) -> ModelProto:
    return _pool(kernel_shape=[2, 2], pads=[1 << 62] * 4)


@case
def auto_pad_nonsense(_: Path) -> ModelProto:
    return _pool(kernel_shape=[2, 2], auto_pad="SIDEWAYS")


@case
def group_zero(_: Path) -> ModelProto:
    weights = [tensor("w", np.ones((1, 1, 3, 3)))]
    return model([node("Conv", "x w", group=0)], [value("x", (1, 1, 8, 8))], weights=weights)


@case
def group_does_not_divide(_: Path) -> ModelProto:
    weights = [tensor("w", np.ones((4, 2, 3, 3)))]
    return model([node("Conv", "x w", group=3)], [value("x", (1, 4, 8, 8))], weights=weights)


@case
def axis_out_of_range(_: Path) -> ModelProto:
    return model([node("Softmax", "x", axis=7)])


@case
def axis_out_of_range_before_13(_: Path) -> ModelProto:
    return model([node("Softmax", "x", axis=-9)], opsets=[("", 11)])


@case
def fewer_parts_than_outputs(_: Path) -> ModelProto:
    return model([node("Split", "x", "y z", axis=1, num_outputs=1)], opsets=[("", 18)])


def _condition() -> TensorProto:
    return numpy_helper.from_array(np.array([True]), "c")


@case
def axis_before_a_condition(_: Path) -> ModelProto:
    return model([node("Compress", "x c", axis=4)], weights=[_condition()], opsets=[("", 9)])


@case
def axis_of_a_scalar(_: Path) -> ModelProto:
    layer = node("Compress", "x c", axis=0)
    return model([layer], [value("x", ())], weights=[_condition()], opsets=[("", 9)])


@case
def axis_of_run_time_extents(_: Path) -> ModelProto:
    condition = helper.make_tensor_value_info("c", TensorProto.BOOL, [1])
    few = node("Compress", "x c", "f", "f", axis=0)
    return model([few, node("Concat", "f f", axis=2)], [value("x", (1, 4)), condition])


def _branch() -> object:
    return helper.make_graph([node("Relu", "x", "r")], "b", [], [value("r")])


def _body(outputs: int, states: int = 1) -> object:
    return helper.make_graph(
        [node("Identity", "c", "d"), node("Relu", "v0", "w0")],
        "b",
        [value("i", (), TensorProto.INT64), value("c", (), TensorProto.BOOL)]
        + [value(f"v{k}") for k in range(states)],
        [value("d", (), TensorProto.BOOL), value("w0"), value("w0")][:outputs],
    )


FLAG = value("c", (), TensorProto.BOOL)


@case
def if_without_else(_: Path) -> ModelProto:
    return model([node("If", "c", then_branch=_branch())], [value("x"), FLAG])


@case
def if_of_a_number(_: Path) -> ModelProto:
    return model([node("If", "x", then_branch=_branch(), else_branch=_branch())])


@case
def if_with_more_outputs_than_its_branches(_: Path) -> ModelProto:
    step = node("If", "c", "y z", then_branch=_branch(), else_branch=_branch())
    return model([step], [value("x"), FLAG])


@case
def loop_whose_body_forgets_the_state(_: Path) -> ModelProto:
    return model([node("Loop", "- - x", body=_body(1))])


@case
def loop_whose_body_takes_more(_: Path) -> ModelProto:
    return model([node("Loop", "- - x", body=_body(2, states=2))])


@case
def loop_whose_body_has_one_name_twice(_: Path) -> ModelProto:
    body = _body(2)
    body.input[0].name = body.input[2].name
    return model([node("Loop", "- - x", body=body)])


@case
def softmax_of_a_vector_before_13(_: Path) -> ModelProto:
    vectors = [value("x", (4,))], [value("y", (4,))]
    return model([node("Softmax", "x")], *vectors, opsets=[("", 7)])


@case
def slice_along_a_matrix_of_axes(_: Path) -> ModelProto:
    end = helper.make_tensor_value_info("e", TensorProto.INT64, [1])
    numbers = {"s": [0], "a": [[0]]}
    weights = [numpy_helper.from_array(np.array(v), n) for n, v in numbers.items()]
    return model([node("Slice", "x s e a")], [value("x", (4,)), end], weights=weights)


@case
def loop_counted_in_floats(_: Path) -> ModelProto:
    return model([node("Loop", "x - x", body=_body(2))])


@case
def scan_of_more_sequences_than_inputs(_: Path) -> ModelProto:
    return model([node("Scan", "x", body=_branch(), num_scan_inputs=3)])


@case
def scan_along_no_axis(_: Path) -> ModelProto:
    step = node("Scan", "x", body=_branch(), num_scan_inputs=1, scan_input_axes=[7])
    return model([step])


@case
def scan_with_more_directions_than_sequences(_: Path) -> ModelProto:
    body = helper.make_graph([node("Relu", "v", "w")], "b", [value("v", (4,))], [value("w", (4,))])
    attrs = {"num_scan_inputs": 1, "scan_input_directions": [0, 1]}
    return model([node("Scan", "x", body=body, **attrs)])


@case
def diagonal_that_is_two_numbers(_: Path) -> ModelProto:
    step = [node("Cast", "x", "k", to=7), node("Trilu", "x k")]
    return model(step, [value("x", (1, 4))])


@case
def number_of_largest_that_is_a_list(_: Path) -> ModelProto:
    inputs = [value("x"), value("k", (2,), TensorProto.INT64)]
    return model([node("TopK", "x k", "y i")], inputs, [value("y", (1, "k"))])


@case
def subgraph_reads_what_nobody_makes(_: Path) -> ModelProto:
    lost = helper.make_graph([node("Relu", "nowhere", "r")], "b", [], [value("r")])
    step = node("If", "c", then_branch=lost, else_branch=_branch())
    return model([step], [value("x"), FLAG])


@case
def subgraph_defines_a_name_again(_: Path) -> ModelProto:
    again = helper.make_graph([node("Relu", "x", "x")], "b", [], [value("x")])
    step = node("If", "c", then_branch=again, else_branch=_branch())
    return model([step], [value("x"), FLAG])


@case
def constant_without_value(_: Path) -> ModelProto:
    return model([node("Constant", "", "c"), node("Add", "x c")])


@case
def constant_of_a_huge_shape(_: Path) -> ModelProto:
    shape = helper.make_tensor("s", TensorProto.INT64, [3], [1 << 20] * 3)
    return model([node("ConstantOfShape", "s", "c"), node("Add", "x c")], weights=[shape])


@case
def tile_of_a_weight_to_terabytes(_: Path) -> ModelProto:
    times = helper.make_tensor("t", TensorProto.INT64, [1], [1 << 40])
    steps = [node("Tile", "w t", "c"), node("Add", "x c")]
    return model(steps, weights=[times, tensor("w", [1.0])])


@case
def expand_of_a_weight_to_terabytes(_: Path) -> ModelProto:
    shape = helper.make_tensor("s", TensorProto.INT64, [2], [1 << 20, 1 << 20])
    steps = [node("Expand", "w s", "c"), node("Add", "x c")]
    return model(steps, weights=[shape, tensor("w", [1.0])])


@case
def range_without_end(_: Path) -> ModelProto:
    numbers = {"a": 0, "b": 1 << 50, "d": 1}
    weights = [helper.make_tensor(k, TensorProto.INT64, [], [v]) for k, v in numbers.items()]
    return model([node("Range", "a b d", "c"), node("Add", "x c")], weights=weights)


@case
def constant_folding_divides_by_zero(_: Path) -> ModelProto:
    weights = [helper.make_tensor(n, TensorProto.INT64, [1], [0]) for n in "ab"]
    return model([node("Div", "a b", "s"), node("Reshape", "x s")], weights=weights)


@case
def random_numbers(_: Path) -> ModelProto:
    return model([node("RandomNormal", "", "r", shape=[1, 4]), node("Add", "x r")])


@case
def scale_zero(_: Path) -> ModelProto:
    steps = [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", name="d")]
    return model(steps, weights=[tensor("s", 0.0)])


@case
def scale_not_a_number(_: Path) -> ModelProto:
    steps = [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", name="d")]
    return model(steps, weights=[tensor("s", float("nan"))])


@case
def scales_of_another_number(_: Path) -> ModelProto:
    steps = [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", name="d")]
    return model(steps, weights=[tensor("s", [1.0] * 3)])


@case
def scales_of_more_dimensions(_: Path) -> ModelProto:
    """They would broadcast, along whichever axis."""
    steps = [node("QuantizeLinear", "x s", "q"), node("DequantizeLinear", "q s", name="d")]
    return model(steps, weights=[tensor("s", np.ones((1, 4)))])


@case
def bias_of_another_number(_: Path) -> ModelProto:
    weights = [tensor("w", np.ones((2, 1, 3, 3))), tensor("b", np.ones(5))]
    return model([node("Conv", "x w b")], [value("x", (1, 1, 8, 8))], weights=weights)


@case
def internal_operator(_: Path) -> ModelProto:
    made = model([node("Copy", "x", domain="mlf")], opsets=[("", 17), ("mlf", 1)])
    return made


@case
def attribute_list_of_a_million(_: Path) -> ModelProto:
    return _transpose(perm=list(range(1_000_000)))


def _chain(op: str, length: int) -> list[NodeProto]:
    return [node(op, f"v{i}", f"v{i + 1}", f"n{i}") for i in range(length)]


@case
def chain_of_5000_unknown_at_the_end(_: Path) -> ModelProto:
    steps = [*_chain("Relu", 5000), node("Reluu", "v5000", "y", "last")]
    return model(steps, [value("v0")], [value("y")])


@case
def chain_of_5000_in_reverse_order(_: Path) -> ModelProto:
    steps = [*_chain("Relu", 5000), node("Reluu", "v5000", "y", "last")][::-1]
    return model(steps, [value("v0")], [value("y")])


@case
def cycle_of_5000(_: Path) -> ModelProto:
    steps = [*_chain("Relu", 5000), node("Add", "v5000 x", "v0", "back")]
    return model(steps, [value("x")], [value("v7")])
