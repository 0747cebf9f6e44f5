"""Layers with memory, and what keeps values between calls."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlftool.frontends.tflite.contractions import biases, rank
from mlftool.frontends.tflite.custom import options
from mlftool.frontends.tflite.model import Tensor
from mlftool.frontends.tflite.movement import alike
from mlftool.frontends.tflite.site import Site, away, kind_of, operator, same_floats
from mlftool.ir.graph import Array, TensorType
from mlftool.ir.rounding import Rounding


def factor(real: float, rounding: Rounding = Rounding.TWICE) -> int:
    """What mlf_requantize_twice or _once takes for a scale."""
    return int(rounding.factors(np.array(real)).item())


def variable(s: Site, i: int) -> Tensor:
    """An input that keeps its value, and is changed."""
    s.expect(s.x(i).variable, f"a state '{s.x(i).name}' that is not a variable")
    return s.x(i)


def changed(s: Site, i: int) -> str:
    """A new value for variable `i`, which those after this operator read."""
    place, tensor = s.node.inputs[i], s.x(i)
    s.draft.values[place] = s.draft.fresh(f"{tensor.name or 'state'}.new", tensor.type)
    return s.draft.values[place]


@operator("SVDF")
def svdf(s: Site) -> None:
    x, wf, wt, y = s.x(0), s.known(1, "weights"), s.known(2, "weights"), s.y()
    state, ranks = variable(s, 4), s.option("rank")
    row = kind_of(s)
    s.expect(row != "int16", "int16; supported: float32, int8")
    s.expect(y.type.dtype == x.type.dtype, f"an output {y.type} for {x.type}")
    rank(s, 2, x, s.x(1), s.x(2), state, y)
    features, memory = wt.shape
    fits = wf.shape == (features, x.type.shape[1]) and ranks > 0 and features % ranks == 0
    fits = fits and state.type.shape == (x.type.shape[0], features * memory) and memory > 0
    s.expect(
        fits and y.type.shape == (x.type.shape[0], features // ranks), "shapes that do not fit"
    )
    if row == "float32":
        _float_svdf(s, wf, wt, ranks)
        return
    known = state.type.dtype == s.x(2).type.dtype and state.type.dtype.name in ("int8", "int16")
    s.expect(known, f"a state of {state.type.dtype} with weights of {s.x(2).type.dtype}")
    s.expect(wf.dtype == np.int8, f"weights of {s.x(1).type.dtype}; supported: int8")
    bias = biases(s, 3, features // ranks)
    s.expect(bias is not None and bias.dtype == np.int32, "no bias of int32, which TFLM needs")
    low, high = y.type.dtype.range
    attrs = {
        "rank": ranks,
        "x_zero": s.zero(x),
        "state_zero": s.zero(state),
        "first": factor(s.scale(x) * s.scale(s.x(1)) / s.scale(state)),
        "second": factor(s.scale(state) * s.scale(s.x(2)) / s.scale(y)),
        "after": s.zero(y),
        "low": low,
        "high": high,
    }
    names = [s.name(0), *(s.const(v) for v in (wf, wt, bias)), s.name(4)]
    s.add("mlf.SvdfFixed", names, s.out(), attrs, more=(changed(s, 4),))


def _float_svdf(s: Site, wf: Array, wt: Array, ranks: int) -> None:
    """The same of floats, whose fused activation counts."""
    y = s.y()
    same_floats(s, 1, 2, 3, 4)
    bias = biases(s, 3, y.type.shape[1])
    bias = np.zeros(y.type.shape[1], np.float32) if bias is None else bias
    names = [s.name(0), *(s.const(v) for v in (wf, wt, bias)), s.name(4)]
    made = s.add("mlf.Svdf", names, y.type, {"rank": ranks}, more=(changed(s, 4),))
    s.within(made, s.out())


GATES = 4
ABSENT = (9, 10, 11, 16, 17, 20, 21, 22, 23)  # peepholes, projection, normalisation


@operator("UNIDIRECTIONAL_SEQUENCE_LSTM")
def lstm(s: Site) -> None:
    x, y, row = s.x(0), s.y(), kind_of(s)
    s.expect(y.type.dtype == x.type.dtype, f"an output {y.type} for {x.type}")
    s.expect(not any(s.has(i) for i in ABSENT), "peepholes, a projection or layer normalisation")
    s.expect(s.option("fused_activation_function", 4) == 4, "an activation that is not TANH")
    h, c = variable(s, 18), variable(s, 19)
    rank(s, 3, x, y)
    rank(s, 2, h, c)
    inputs, hidden = x.type.shape[2], h.type.shape[1]
    major = bool(s.option("time_major", False))
    batch = x.type.shape[1 if major else 0]
    fits = h.type.shape == c.type.shape == (batch, hidden)
    s.expect(fits and y.type.shape == (*x.type.shape[:2], hidden), "shapes that do not fit")
    w = _stacked(s, 1, (hidden, inputs))
    r = _stacked(s, 5, (hidden, hidden))
    missing = [i for i in range(12, 16) if not s.has(i)]
    s.expect(not missing, "a gate without a bias")
    biases = [s.known(i, "biases").reshape(-1) for i in range(12, 16)]
    s.expect(all(b.shape == (hidden,) for b in biases), "a bias that does not fit")
    b = np.stack(biases)
    if row == "float32":
        same_floats(s, *range(1, 9), *range(12, 16), 18, 19)
        _float_lstm(s, w, r, b, major)
    else:
        _fixed_lstm(s, w, r, b, major)


def _stacked(s: Site, first: int, shape: tuple[int, int]) -> Array:
    """The weights of four gates as one array."""
    parts = [s.known(i, "weights") for i in range(first, first + GATES)]
    s.expect(all(p.shape == shape for p in parts), f"weights that are not all {shape}")
    s.expect(len({p.dtype for p in parts}) == 1, "weights of different types")
    return np.stack(parts)


def _float_lstm(s: Site, w: Array, r: Array, b: Array, major: bool) -> None:
    attrs = {"time_major": int(major), "clip": float(s.option("cell_clip", 0.0))}
    names = [s.name(0), *(s.const(v) for v in (w, r, b)), s.name(18), s.name(19)]
    s.add("mlf.LstmClipped", names, s.out(), attrs, more=(changed(s, 18), changed(s, 19)))


def _fixed_lstm(s: Site, w: Array, r: Array, b: Array, major: bool) -> None:
    x, h, c, wide = s.x(0), s.x(18), s.x(19), s.x().type.dtype.name == "int16"
    s.expect(w.dtype == np.int8 and r.dtype == np.int8, "weights that are not int8")
    s.expect(b.dtype == (np.int64 if wide else np.int32), "biases that are not int32, or int64")
    s.expect(h.type.dtype == x.type.dtype, f"a hidden state of {h.type.dtype}")
    s.expect(c.type.dtype.name == "int16", f"a cell of {c.type.dtype}; supported: int16")
    cell, how = s.scale(c), Rounding.ONCE if wide else Rounding.TWICE
    power = away(math.log2(cell))
    s.expect(cell == 2.0**power, "a scale of the cell that is not a power of two")
    clip = float(s.option("cell_clip", 0.0))
    clipped = int(min(max(clip / cell, -32768), 32767)) if clip > 0 else 32767
    attrs: dict[str, Any] = {
        "time_major": int(major),
        "x_zero": s.zero(x),
        "h_zero": s.zero(h),
        "w_zeros": [s.zero(s.x(i)) for i in range(1, 5)],
        "r_zeros": [s.zero(s.x(i)) for i in range(5, 9)],
        "w_factors": [factor(s.scale(x) * s.scale(s.x(i)) / 2.0**-12, how) for i in range(1, 5)],
        "r_factors": [factor(s.scale(h) * s.scale(s.x(i)) / 2.0**-12, how) for i in range(5, 9)],
        "keep": factor(2.0**-15 * cell / cell),
        "make": factor(2.0**-30 / cell),
        "give": factor(2.0**-30 / s.scale(h)),
        "clip": clipped,
        "clips": int(clip > 0),
        "tanh_m": 3 << max(12 + power, 0),
        "tanh_by": max(-(12 + power), 0),
    }
    s.expect(attrs["tanh_m"] < 2**15, "a scale of the cell that is too large")
    names = [s.name(0), *(s.const(v) for v in (w, r, b)), s.name(18), s.name(19)]
    s.add("mlf.LstmFixed", names, s.out(), attrs, more=(changed(s, 18), changed(s, 19)))


@operator("CIRCULAR_BUFFER")
def circular_buffer(s: Site) -> None:
    """The latest slots along axis 1; the input becomes the last one."""
    x, y = s.x(), s.y()
    rank(s, 4, x, y)
    alike(s, x)
    s.expect(y.variable, "an output that is not a variable, which would be overwritten")
    cycles = _cycles(s)
    s.expect(cycles == 1, f"{cycles} cycles, in all but one of which nothing is computed")
    one = (y.type.shape[0], 1, *y.type.shape[2:])
    s.expect(x.type.shape == one, f"an input {x.type} for {y.type}")
    old = s.held(s.node.outputs[0])
    ends = [0, 1, 0, 0], list(y.type.shape)
    parts = [s.const(np.array(v, np.int64)) for v in (*ends, [0, 1, 2, 3], [1, 1, 1, 1])]
    rest = TensorType(y.type.dtype, (one[0], y.type.shape[1] - 1, *one[2:]))
    names = [s.add("Slice", (old, *parts), rest), s.name()] if rest.shape[1] else [s.name()]
    s.add("Concat", names, s.out(), {"axis": 1})


def _cycles(s: Site) -> int:
    """The option cycles_max; without one it follows from the slots."""
    wanted = options(s).number("cycles_max", -(2**31), 2**31, 0)
    if wanted > 0:
        return wanted
    return 1 if s.y().type.shape[1] in (5, 13, 25) else 2


@operator("VAR_HANDLE")
def var_handle(s: Site) -> None:
    """Names a variable; equal names are one variable. The handle holds no value."""
    for place in s.node.outputs:
        s.draft.handles[place] = s.option("shared_name", b""), s.option("container", b"")
        del s.draft.values[place]


def _handle(s: Site) -> Any:
    found = s.draft.handles.get(s.node.inputs[0])
    s.expect(found is not None, "a handle that no VAR_HANDLE makes")
    return found


@operator("READ_VARIABLE", memory=(0,))
def read_variable(s: Site) -> None:
    key, type_ = _handle(s), s.y().type
    value = s.draft.variables.get(key)
    if value is None:
        value = s.resource(key, type_)
    s.expect(s.draft.types[value] == type_, f"an output {type_} for a variable of another type")
    s.add("Identity", (value,), s.out())


@operator("ASSIGN_VARIABLE", memory=(0,))
def assign_variable(s: Site) -> None:
    s.expect(s.is_main or s.draft.once, "a variable that is assigned in a subgraph")
    key, q = _handle(s), s.x(1).quantised
    s.draft.variables[key] = s.name(1)
    # TensorFlow Lite Micro fills the memory with the lowest byte of the zero point.
    low = int(q.zero_point[0]) & 255 if q is not None else 0
    type_ = s.x(1).type
    first = np.frombuffer(bytes([low]) * type_.bytes, type_.dtype.numpy).reshape(type_.shape)
    s.draft.filled.setdefault(key, first)
