"""onnxruntime's mixtures of experts in terms of the standard's operators: each expert is computed
for all rows if one of them selects it, and added by the weights of the rows that do."""

from __future__ import annotations

import math

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, helper

from mlftool.onnx_rules.scope import Refuse
from mlftool.onnx_rules.steps import Steps
from mlftool.ops.base import UnsupportedError
from mlftool.ops.microsoft import microsoft

FLOAT = onnx.TensorProto.FLOAT
_ROUTES = "activation_alpha activation_beta activation_type k normalize_routing_weights"
_GLU = "swiglu_fusion swiglu_limit use_sparse_mixer"
_PARTS = tuple(f"fc{k}_expert_weight_bits" for k in (1, 2, 3))
_BITS = (
    f"block_size expert_weight_bits {' '.join(_PARTS)} accuracy_level quant_type weights_prepacked"
)
PLAIN = ("relu", "gelu", "silu", "identity")


@microsoft(MoE=f"xxx?x??? {_ROUTES} {_GLU}")
def _experts(s: Steps) -> None:
    normal = bool(s.attrs.get("normalize_routing_weights", 0))
    _mixed(s, [(s.x(2), s.x(3)), (s.x(4), s.x(5))], normal, (6, 7))


@microsoft(QMoE=f"xxx??x??????????????? {_ROUTES} {_GLU} {_BITS}")
def _quantised_experts(s: Steps) -> None:
    """Rows or blocks of weights have scales; without zero points the middle of the range is 0.
    Whatever `normalize_routing_weights` says, the weights of a row add up to 1, as onnxruntime's.
    """
    own = (0, -1, s.attrs.get("expert_weight_bits", 4))
    _only(s, quant_type=("int",), weights_prepacked=(0, -1), **dict.fromkeys(_PARTS, own))
    layers = [(_real(s, 2, 3, 11), s.x(4)), (_real(s, 5, 6, 12), s.x(7))]
    _mixed(s, layers, True, (8, 9, 10, *range(13, 21)))


def _only(s: Steps, **known: tuple[object, ...]) -> None:
    for name, values in known.items():
        if (given := s.attrs.get(name, values[0])) not in values:
            said = f"{s.node.op_type} with {name} {given}"
            raise UnsupportedError(f"{said}; supported: {', '.join(map(str, values))}")


def _real(s: Steps, w: int, scale: int, zero: int) -> str:
    """Weights [experts, rows, depth] as floats, of 4 or 8 bits, two of 4 in a byte."""
    _only(s, expert_weight_bits=(4, 8))
    bits, block = s.attrs.get("expert_weight_bits", 4), s.attrs.get("block_size", 0)
    experts, rows, width = s.shape(w, 3)
    depth = width * (8 // bits)
    blocks = -(-depth // block) if block > 0 else 1
    if depth % blocks or s.type(scale).elements != experts * rows * blocks:
        found = f"scales {s.type(scale)} and blocks of {block}"
        raise Refuse("MLF0303", f"{found} do not fit weights {s.type(w)}")
    value = s("Cast", _whole(s, s.x(w), (experts, rows, depth), bits), to=FLOAT)
    shape = (experts, rows, blocks, depth // blocks)
    value = s("Reshape", value, s.const(shape, np.int64))
    middle = s.const(float(1 << (bits - 1)))
    if s.x(zero):
        # Those of blocks begin each row with a byte; of one block, rows follow one another.
        row = blocks + blocks % (8 // bits) if block > 0 else 1
        if s.type(zero).elements * 8 != experts * rows * row * bits:
            raise Refuse("MLF0303", f"zero points {s.type(zero)} do not fit weights {s.type(w)}")
        wide = _whole(s, s.x(zero), (experts, rows, row), bits)
        if row > blocks:
            wide = s("Slice", wide, *(s.const([v], np.int64) for v in (0, blocks, 2)))
        middle = s("Reshape", s("Cast", wide, to=FLOAT), s.const([*shape[:3], 1], np.int64))
    scales = s("Reshape", s.x(scale), s.const([*shape[:3], 1], np.int64))
    value = s("Mul", s("Sub", value, middle), scales)
    return s("Reshape", value, s.const((experts, rows, depth), np.int64))


def _whole(s: Steps, x: str, shape: tuple[int, ...], bits: int) -> str:
    """One number in a byte, where two are: the lower four bits come first."""
    if bits == 8:
        return x
    four = [s.const(v, np.uint8) for v in (16,) * 2]
    high = s("Div", x, four[0])
    low = s("Sub", x, s("Mul", high, four[1]))
    place = s.const([-1], np.int64)
    pairs = [s("Unsqueeze", part, place) for part in (low, high)]
    return s("Reshape", s("Concat", *pairs, axis=-1), s.const(shape, np.int64))


def _mixed(s: Steps, layers: list[tuple[str, str]], normal: bool, unread: tuple[int, ...]) -> None:
    """`layers` are weights [experts, out, in] and biases, "" for none. Inputs `unread` are those of
    other forms."""
    if given := [s.x(i) for i in unread if s.x(i)]:
        raise UnsupportedError(f"{s.node.op_type} with '{given[0]}'; supported: two layers")
    _only(s, use_sparse_mixer=(0,), activation_type=("relu", *PLAIN, "swiglu"))
    shape, experts = s.shape(0, 2, 3), s.shape(1, 2)[1]
    k = s.attrs.get("k", 1)
    if not 1 <= k <= experts:
        raise Refuse("MLF0303", f"k is {k} of {experts} experts")
    x = s("Reshape", s.x(0), s.const([-1, shape[-1]], np.int64))
    routes = _routes(s, k, normal)
    total = ""
    for e in range(experts):
        number = s.const(e, np.int64)
        mine = [
            tuple(name and s("Gather", name, number, axis=0) for name in layer) for layer in layers
        ]
        route = s("Gather", routes, s.const([e], np.int64), axis=1)
        zero = s.const(0.0)
        used = s("Greater", s("ReduceMax", route, keepdims=0), zero)
        rows = math.prod(shape[:-1]), shape[-1]
        value = _chosen(s, used, x, route, mine, rows)
        total = s("Add", total, value) if total else value
    s("Reshape", total, s.const(shape, np.int64), out=0)


def _routes(s: Steps, k: int, normal: bool) -> str:
    """[rows, experts]: what each expert's result is times, 0 for those that are not selected."""
    count, places = s.const([k], np.int64), ""
    chances = s("Softmax", s.x(1), axis=-1)
    logits = s("TopK", s.x(1), count, axis=-1)
    s.made[-1].output.append(places := s.fresh(f"{logits}.places"))
    if normal:
        weights = s("Softmax", logits, axis=-1)
    else:
        weights = s("GatherElements", chances, places, axis=1)
    zeros = s.const(np.zeros(s.shape(1, 2)))
    return s("ScatterElements", zeros, places, weights, axis=1)


def _chosen(
    s: Steps, used: str, x: str, route: str, layers: list[tuple[str, ...]], rows: tuple[int, int]
) -> str:
    """An expert's part of the sum, [rows, width], if a row selects it."""
    of = route
    t = Steps(NodeProto(output=[f"{of}.then"]), [], taken=s.taken)
    t.attrs.update(s.attrs)
    t("Mul", _expert(t, x, layers), route, out=0)
    o = Steps(NodeProto(output=[f"{of}.else"]), [], taken=s.taken)
    o("Identity", o.const(np.zeros(rows)), out=0)
    return s("If", used, then_branch=_graph(t), else_branch=_graph(o))


def _graph(s: Steps) -> GraphProto:
    name = s.node.output[0]
    return helper.make_graph(
        s.made, f"{name}.graph", [], [helper.make_tensor_value_info(name, FLOAT, None)]
    )


def _expert(s: Steps, x: str, layers: list[tuple[str, ...]]) -> str:
    first = _dense(s, x, *layers[0])
    return _dense(s, _active(s, first), *layers[1])


def _dense(s: Steps, x: str, w: str, bias: str) -> str:
    made = s("MatMul", x, s("Transpose", w, perm=[1, 0]))
    return s("Add", made, bias) if bias else made


def _active(s: Steps, x: str) -> str:
    word = s.attrs.get("activation_type", "relu")
    if word != "swiglu":
        if word == "gelu":
            return s("Gelu", x, approximate="tanh")
        return s({"relu": "Relu", "silu": "Swish", "identity": "Identity"}[word], x)
    if (fusion := s.attrs.get("swiglu_fusion", 0)) != 1:
        raise UnsupportedError(f"swiglu_fusion {fusion}; supported: 1")
    # Gate and value of a unit are neighbours.
    place, step = [s.const([v], np.int64) for v in (0, 1)], s.const([2], np.int64)
    end, axis = s.const([np.iinfo(np.int64).max], np.int64), s.const([-1], np.int64)
    gate, value = (s("Slice", x, begin, end, axis, step) for begin in place)
    if (limit := s.attrs.get("swiglu_limit")) is not None:
        most, least = s.const(limit), s.const(-limit)
        gate, value = s("Min", gate, most), s("Clip", value, least, most)
    by = s.const(s.attrs.get("activation_alpha", 1.0))
    open_ = s("Mul", gate, s("Sigmoid", s("Mul", gate, by)))
    return s("Mul", open_, s("Add", value, s.const(s.attrs.get("activation_beta", 0.0))))
