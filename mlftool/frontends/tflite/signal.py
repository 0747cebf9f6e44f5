"""TensorFlow Lite Micro's own operators of audio signals, in integers.

Those with a memory have it as a state of the model, which is zeros at first.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from mlftool.fixedpoint import fourier
from mlftool.frontends.tflite.contractions import rank
from mlftool.frontends.tflite.custom import options
from mlftool.frontends.tflite.movement import alike, made_shape
from mlftool.frontends.tflite.site import Key, Site, operator
from mlftool.ir import dtype
from mlftool.ir.graph import Array, TensorType

MOST = 2**15  # of lengths, channels and the like
MOST_BITS = 31


def typed(s: Site, inputs: Sequence[str], outputs: Sequence[str]) -> None:
    """Raises RefusedError unless inputs and outputs have these element types."""
    found = [t.dtype.name for t in (*s.types(), *s.made())]
    wanted = [*inputs, *outputs]
    s.expect(found == wanted, f"types {', '.join(found)}; supported: {', '.join(wanted)}")


def kept(s: Site, what: str, type_: TensorType, start: Array | None = None) -> tuple[str, Key]:
    """A state of this operator: its value when a call begins, and what it is called."""
    key = (f"{s.label}.{what}".encode(), s.node.outputs[0])
    s.expect(s.is_main, "an operator with a memory in a subgraph")
    if start is not None:
        s.draft.starts[key] = start
    return s.resource(key, type_), key


def becomes(s: Site, key: Key, type_: TensorType) -> str:
    """The value that a state will have."""
    made = s.draft.fresh(f"{bytes(key[0]).decode()}.new", type_)
    s.draft.variables[key] = made
    return made


@operator("SignalWindow")
def window(s: Site) -> None:
    x, w = s.x(0), s.x(1)
    typed(s, ("int16", "int16"), ("int16",))
    rank(s, 1, w)
    made_shape(s, x.type.shape)
    shift, size = options(s).number("shift", 0, MOST_BITS), w.type.elements
    s.expect(size > 0 and x.type.elements % size == 0, f"a window {w.type} for {x.type}")
    rows = TensorType(dtype.int16, (x.type.elements // size, size))
    parts = (s.reshaped(s.name(0), rows.shape), s.name(1))
    s.reshaped(s.add("mlf.WindowFixed", parts, rows, {"shift": shift}), x.type.shape, s.out())


@operator("SignalFftAutoScale")
def auto_scale(s: Site) -> None:
    typed(s, ("int16",), ("int16", "int32"))
    rank(s, 1, s.x())
    rank(s, 0, s.y(1))
    made_shape(s, s.x().type.shape)
    s.add("mlf.AutoScale", (s.name(),), s.out(), more=(s.out(1),))


def _transformed(s: Site, op: str, inverse: bool) -> None:
    x, length = s.x(), options(s).number("fft_length", 2, MOST)
    row = x.type.dtype
    s.expect(row.name in fourier.TYPES, f"{row}; supported: {', '.join(fourier.TYPES)}")
    alike(s, x)
    fits = length % 2 == 0 and bool(fourier.stages(length // 2))
    s.expect(fits, f"fft_length {length}; supported: twice a product of 2, 3 and 5")
    s.expect(bool(x.type.shape), f"an input {x.type}")
    *rows, last = x.type.shape
    spectrum = length + 2
    s.expect(last == spectrum if inverse else 0 < last <= length, f"{x.type} for {length} numbers")
    made_shape(s, (*rows, length if inverse else spectrum))
    rows_of(s, s.name(), length, op, s.out(), inverse)


def rows_of(
    s: Site, name: str, length: int, op: str, out: str | TensorType, inverse: bool = False
) -> str:
    """The transform of each row, or back to it, as the value `out` or a new one of that type."""
    half, row = length // 2, s.draft.types[name].dtype
    parts = (fourier.order(half), *fourier.factors(half, row, inverse))
    return s.add(op, (name, *(s.const(t, what="factors") for t in parts)), out)


@operator("SignalRfft")
def rfft(s: Site) -> None:
    """int16, int32 and float32; half of the length must be a product of 2, 3 and 5."""
    _transformed(s, "mlf.Rfft", inverse=False)


@operator("SignalIrfft")
def irfft(s: Site) -> None:
    """int16, int32 and float32; half of the length must be a product of 2, 3 and 5."""
    _transformed(s, "mlf.Irfft", inverse=True)


@operator("SignalEnergy")
def energy(s: Site) -> None:
    """Bins outside of start_index to end_index are 0; TensorFlow Lite Micro does not set them."""
    x, y, given = s.x(), s.y(), options(s)
    typed(s, ("int16",), ("uint32",))
    rank(s, 1, x, y)
    last = given.number("end_index", 0, MOST)
    first = given.number("start_index", 0, MOST)
    count = y.type.shape[0]
    s.expect(last <= count and 2 * last <= x.type.shape[0], f"bins up to {last} of {x.type}")
    s.expect(2 * count <= x.type.shape[0], f"an output {y.type} for {x.type}")
    s.add("mlf.Energy", (s.name(),), s.out(), {"first": first, "last": last})


@operator("SignalFilterBank")
def filter_bank(s: Site) -> None:
    typed(s, ("uint32", *["int16"] * 5), ("uint64",))
    rank(s, 1, *(s.x(i) for i in range(6)))
    channels = options(s).number("num_channels", 1, MOST)
    made_shape(s, (channels,))
    weights, shares, starts, places, widths = (s.known(i, "weights") for i in range(1, 6))
    fits = all(t.size >= channels + 1 for t in (starts, places, widths))
    s.expect(fits, f"starts and widths for fewer than {channels} channels")
    for at, n in ((starts, s.x().type.elements), (places, min(weights.size, shares.size))):
        ends = at[: channels + 1].astype(int) + np.maximum(widths[: channels + 1], 0)
        used = widths[: channels + 1] > 0
        inside = np.all((at[: channels + 1][used] >= 0) & (ends[used] <= n))
        s.expect(bool(inside), f"a channel beyond {n} elements")
    s.add("mlf.FilterBank", [s.name(i) for i in range(6)], s.out())


@operator("SignalFilterBankSquareRoot")
def square_root(s: Site) -> None:
    typed(s, ("uint64", "int32"), ("uint32",))
    made_shape(s, s.x().type.shape)
    s.expect(s.x(1).type.elements == 1, f"bits {s.x(1).type}; expected one number")
    s.add("mlf.RootOfSum", (s.name(0), s.reshaped(s.name(1), ())), s.out())


@operator("SignalFilterBankSpectralSubtraction")
def spectral_subtraction(s: Site) -> None:
    x, given = s.x(), options(s)
    typed(s, ("uint32",), ("uint32", "uint32"))
    rank(s, 1, x, s.y(0), s.y(1))
    count = given.number("num_channels", 1, MOST)
    s.expect(
        x.type.shape == s.y(0).type.shape == s.y(1).type.shape == (count,), "shapes that differ"
    )
    most = 2**31 - 1
    attrs = {
        "even": [given.number(n, 0, most) for n in ("smoothing", "one_minus_smoothing")],
        "odd": [
            given.number(n, 0, most)
            for n in ("alternate_smoothing", "alternate_one_minus_smoothing")
        ],
        "remaining": given.number("min_signal_remaining", 0, most),
        "clamping": given.number("clamping", 0, 1),
        "smooth": given.number("smoothing_bits", 0, MOST_BITS),
        "bits": given.number("spectral_subtraction_bits", 0, MOST_BITS),
    }
    noise, key = kept(s, "noise", x.type)
    s.add("mlf.SpectralSubtraction", (s.name(), noise), s.out(), attrs, more=(s.out(1),))
    s.draft.variables[key] = s.out(1)


@operator("SignalPCAN")
def pcan(s: Site) -> None:
    typed(s, ("uint32", "uint32", "int16"), ("uint32",))
    rank(s, 1, s.x(0), s.x(1), s.x(2), s.y())
    s.expect(s.x(0).type == s.x(1).type == s.y().type, "shapes that differ")
    shift = options(s).number("snr_shift", 0, 63)
    s.expect(s.x(2).type.elements >= 125, f"gains {s.x(2).type}; expected at least 125")
    s.add("mlf.Pcan", [s.name(i) for i in range(3)], s.out(), {"shift": shift})


@operator("SignalFilterBankLog")
def logarithm(s: Site) -> None:
    typed(s, ("uint32",), ("int16",))
    made_shape(s, s.x().type.shape)
    given = options(s)
    attrs = {
        "left": given.number("input_correction_bits", 0, MOST_BITS),
        "scale": given.number("output_scale", 0, 2**31 - 1),
    }
    s.add("mlf.LogOfSum", (s.name(),), s.out(), attrs)


@operator("SignalDelay")
def delay(s: Site) -> None:
    x, length = s.x(), options(s).number("delay_length", 0, MOST)
    typed(s, ("int16",), ("int16",))
    made_shape(s, x.type.shape)
    s.expect(bool(x.type.shape) and x.type.elements > 0, f"an input {x.type}")
    if not length:
        s.add("Identity", (s.name(),), s.out())
        return
    rows, size = x.type.elements // x.type.shape[-1], x.type.shape[-1]
    state = TensorType(dtype.int16, (rows, length))
    old, key = kept(s, "delayed", state)
    joined = _joined(s, old, s.reshaped(s.name(), (rows, size)))
    now = s.draft.fresh(f"{s.label}.now", TensorType(dtype.int16, (rows, size)))
    s.add("Split", (joined,), now, {"axis": 1}, more=(becomes(s, key, state),))
    s.reshaped(now, x.type.shape, s.out())


def _joined(s: Site, a: str, b: str) -> str:
    """Rows of `a`, followed by those of `b`."""
    (rows, m), (_, n) = (s.draft.types[name].shape for name in (a, b))
    return s.add("Concat", (a, b), TensorType(dtype.int16, (rows, m + n)), {"axis": 1})


@operator("SignalFramer")
def framer(s: Site) -> None:
    """Without prefill, frames that are not full yet are zeros, and the second output is false."""
    x, given = s.x(), options(s)
    typed(s, ("int16",), ("int16", "bool"))
    rank(s, 0, s.y(1))
    size, step = given.number("frame_size", 1, MOST), given.number("frame_step", 1, MOST)
    fits = x.type.shape and x.type.elements > 0 and x.type.shape[-1] % step == 0
    s.expect(bool(fits), f"steps of {step} in {x.type}")
    s.expect(step <= size, f"steps of {step} in frames of {size}")
    rows, count = x.type.elements // x.type.shape[-1], x.type.shape[-1] // step
    made_shape(s, (*x.type.shape[:-1], count, size))
    prefill = given.number("prefill", 0, 1)
    waiting = size - step if prefill else -(-size // step) * step - step
    whole = s.reshaped(s.name(), (rows, count * step))
    if waiting:
        state = TensorType(dtype.int16, (rows, waiting))
        old, key = kept(s, "samples", state)
        whole = _joined(s, old, whole)
        _last(s, whole, becomes(s, key, state))
    places = np.arange(count)[:, None] * step + np.arange(size)
    frames = TensorType(dtype.int16, (rows, count, size))
    found = s.add("Gather", (whole, s.const(places)), frames, {"axis": 1})
    if prefill or not waiting:
        s.add("Identity", (s.const(np.array(True)),), s.out(1))
    else:
        found = _filled(s, found, waiting // step)
    s.reshaped(found, s.y().type.shape, s.out())


def _last(s: Site, whole: str, out: str) -> None:
    """`out` is the last elements of the rows of `whole`."""
    n, count = s.draft.types[whole].shape[1], s.draft.types[out].shape[1]
    parts = [s.const(np.array([v], np.int64)) for v in (n - count, n, 1, 1)]
    s.add("Slice", (whole, *parts), out)


def _filled(s: Site, frames: str, missing: int) -> str:
    """The frames after the `missing` first ones of all calls; others are zeros. Output 1 says
    whether all are."""
    type_, one = s.draft.types[frames], TensorType(dtype.int32, (1,))
    count = type_.shape[1]
    seen, key = kept(s, "frames", one)
    many = TensorType(dtype.int32, (count,))
    numbers = s.add("Add", (seen, s.const(np.arange(count, dtype=np.int32))), many)
    wanted = s.const(np.array([missing], np.int32))
    flags = s.add("GreaterOrEqual", (numbers, wanted), TensorType(dtype.bool_, (count,)))
    s.reshaped(s.add("GreaterOrEqual", (seen, wanted), TensorType(dtype.bool_, (1,))), (), s.out(1))
    more = s.add("Add", (seen, s.const(np.array([count], np.int32))), one)
    s.add("Min", (more, wanted), becomes(s, key, one))
    mask = s.reshaped(flags, (count, 1))
    return s.add("Where", (mask, frames, s.const(np.int16(0))), type_)


@operator("SignalOverlapAdd")
def overlap_add(s: Site) -> None:
    x, y, step = s.x(), s.y(), options(s).number("frame_step", 1, MOST)
    row = x.type.dtype
    s.expect(row.name in ("int16", "float32"), f"{row}; supported: int16, float32")
    alike(s, x)
    s.expect(len(x.type.shape) >= 2 and x.type.elements > 0, f"an input {x.type}")
    *rest, frames, size = x.type.shape
    s.expect(step <= size, f"steps of {step} in frames of {size}")
    s.expect(
        y.type.elements == math.prod(rest) * frames * step and len(y.type.shape) == len(rest) + 1,
        f"an output {y.type} for {x.type}",
    )
    state = TensorType(row, (math.prod(rest), size))
    old, key = kept(s, "sums", state)
    more = (becomes(s, key, state),)
    s.add("mlf.OverlapAdd", (s.name(), old), s.out(), {"step": step}, more=more)


@operator("SignalStacker")
def stacker(s: Site) -> None:
    """Without a new output, the previous one is repeated and the second output is false."""
    x, y, given = s.x(), s.y(), options(s)
    typed(s, ("int16",), ("int16", "bool"))
    rank(s, 1, x, y)
    rank(s, 0, s.y(1))
    channels, step = given.number("num_channels", 1, MOST), given.number("stacker_step", 1, MOST)
    left = given.number("stacker_left_context", 0, MOST)
    count = left + given.number("stacker_right_context", 0, MOST) + 1
    s.expect(x.type.shape == (channels,), f"an input {x.type}; expected {channels} numbers")
    s.expect(step <= count, f"steps of {step} in stacks of {count}")
    made_shape(s, (channels * count,))
    waiting, waits = kept(s, "samples", y.type)
    before, said = kept(s, "output", y.type)
    number, one = TensorType(dtype.int32, (1,)), np.array([-1], np.int32)
    held, holds = kept(s, "held", number, one)
    more = [becomes(s, waits, y.type), becomes(s, said, y.type), becomes(s, holds, number)]
    attrs = {"left": left, "step": step}
    names = (s.name(), waiting, before, held)
    s.add("mlf.Stack", names, s.out(), attrs, more=(s.out(1), *more))
