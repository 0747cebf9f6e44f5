"""onnxruntime's LSTM with quantised weights, in the standard's terms."""

from __future__ import annotations

import numpy as np
import onnx
from onnx import GraphProto, NodeProto, helper

from mlftool.onnx_rules.scope import Refuse
from mlftool.onnx_rules.steps import Steps
from mlftool.ops.microsoft import microsoft
from mlftool.ops.recurrent import USUAL

FLOAT = onnx.TensorProto.FLOAT
UNUSUAL = ("activation_alpha", "activation_beta", "clip", "input_forget", "layout")
_ATTRIBUTES = "activation_alpha activation_beta activations clip direction hidden_size input_forget"
WAYS = {"forward": 1, "reverse": 1, "bidirectional": 2}


@microsoft(DynamicQuantizeLSTM=f"xxx?????xxxx>3 {_ATTRIBUTES}")
def _dynamic_lstm(s: Steps) -> None:
    """All elements that a product reads are quantised together, as onnxruntime does: the input
    once, the state in each step, which is a Scan.

    With other activations, peepholes or lengths of sequences the products stay float."""
    functions = s.attrs.get("activations") or list(USUAL["LSTM"])
    usual = functions == list(USUAL["LSTM"]) * (len(functions) // 3)
    if not usual or any(map(s.attrs.get, UNUSUAL)) or s.x(4) or s.x(7):
        _in_float(s)
        return
    time, batch, width = s.shape(0, 3)
    directions, hidden, rows = s.shape(2, 3)
    attrs = s.known_to("LSTM")
    way = attrs.get("direction", "forward")
    if WAYS.get(way) != directions or {4 * attrs.get("hidden_size", hidden), rows} != {4 * hidden}:
        text = f"weights of the state are {s.type(2)}, direction {str(way)[:20]}"
        raise Refuse("MLF0303", f"{text}; expected [directions, hidden_size, 4 * hidden_size]")
    for k in (8, 9, 10, 11):
        s.type(k)  # they cannot be left out
    x = s("Reshape", s.x(0), s.const([time * batch, width], np.int64))
    xs, x_zero, x_scale = _quantised(s, x)
    made = []
    for d in range(directions):
        w, w_scale, w_zero, r, r_scale, r_zero = (_part(s, k, d) for k in (1, 8, 9, 2, 10, 11))
        total = s("Cast", s("MatMulInteger", xs, w, x_zero, w_zero), to=FLOAT)
        gates = s("Mul", total, s("Mul", x_scale, w_scale))
        gates = s("Reshape", gates, s.const([time, batch, 4 * hidden], np.int64))
        zeros = s.const(np.zeros((batch, hidden)))
        states = [_part(s, k, d) if s.x(k) else zeros for k in (5, 6)]
        bias = s.const(np.zeros(4 * hidden))
        if s.x(3):
            both = s("Reshape", _part(s, 3, d), s.const([2, 4 * hidden], np.int64))
            bias = s("ReduceSum", both, s.const([0], np.int64), keepdims=0)
        back = d == 1 or way == "reverse"
        made.append(_walked(s, [*states, gates], (r, r_scale, r_zero, bias), back))
    for out, axis in ((0, 1), (1, 0), (2, 0)):
        if s.wants(out):
            place = s.const([axis], np.int64)
            parts = [s("Unsqueeze", each[out], place) for each in made]
            s("Concat", *parts, axis=axis, out=out)


def _part(s: Steps, k: int, direction: int) -> str:
    return s("Gather", s.x(k), s.const(direction, np.int64), axis=0)


def _quantised(s: Steps, x: str) -> tuple[str, str, str]:
    """Its bytes, their zero point and their scale."""
    made = s("DynamicQuantizeLinear", x)
    scale, zero = s.fresh(f"{made}.scale"), s.fresh(f"{made}.zero")
    s.made[-1].output.extend([scale, zero])
    return made, zero, scale


def _walked(
    s: Steps, given: list[str], weights: tuple[str, str, str, str], back: bool
) -> tuple[str, str, str]:
    """All hidden states, the last one and the last cell: a Scan over the sums that the gates have
    of the input, from `given` states on. `weights` are of the hidden state, and a bias."""
    graph = _step(Steps(NodeProto(output=[f"{given[-1]}.step"]), []), given[-1], weights)
    way = {f"scan_{of}_directions": [int(back)] for of in ("input", "output")}
    last = s("Scan", *given, out=None, body=graph, num_scan_inputs=1, **way)
    names = f"{last}.cell", f"{last}.all"
    s.made[-1].output.extend(names)
    return names[1], last, names[0]


def _step(s: Steps, of: str, weights: tuple[str, str, str, str]) -> GraphProto:
    """The next hidden state and cell from the last ones and the gates' sums of the input."""
    r, r_scale, r_zero, bias = weights
    given = [f"{of}.{name}" for name in ("hidden", "cell", "gates")]
    bytes_, zero, scale = _quantised(s, given[0])
    total = s("Cast", s("MatMulInteger", bytes_, r, zero, r_zero), to=FLOAT)
    sums = s("Add", s("Add", given[2], s("Mul", total, s("Mul", scale, r_scale))), bias)
    first = s("Split", sums, axis=1, num_outputs=4)
    s.made[-1].output.extend(parts := [f"{first}.{k}" for k in range(3)])
    enter, leave, forget = (s("Sigmoid", part) for part in (first, *parts[:2]))
    cell = s("Add", s("Mul", forget, given[1]), s("Mul", enter, s("Tanh", parts[2])))
    hidden = s("Mul", leave, s("Tanh", cell))
    made = (hidden, cell, s("Identity", hidden))
    infos = [helper.make_tensor_value_info(name, FLOAT, None) for name in (*given, *made)]
    return helper.make_graph(s.made, "step", infos[:3], infos[3:])


def _in_float(s: Steps) -> None:
    """As the model that was quantised."""
    weights = []
    for at, scale in ((1, 8), (2, 10)):
        shape = (s.shape(at, 3)[0], 1, -1)
        by = [s("Reshape", s.x(scale + k), s.const(shape, np.int64)) for k in (0, 1)]
        wide = [s("Cast", name, to=FLOAT) for name in (s.x(at), by[1])]
        value = s("Mul", s("Sub", *wide), by[0])
        weights.append(s("Transpose", value, perm=[0, 2, 1]))
    rest = [s.x(k) for k in range(3, 8)]
    s("LSTM", s.x(0), *weights, *rest, out=0, **s.known_to("LSTM"))
    s.made[-1].output[:] = list(s.node.output)
