"""Maxima of windows, one axis after the other: first along columns, which fills a line for each row
of windows, then along this line. So a window of K x K reads 2 K elements, not K * K, and no step
tests for the image's edges. Processors with such instructions take four or sixteen bytes at a time.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.ir.graph import View
from mlftool.ops import OPS
from mlftool.ops.base import STACK_LIMIT_BYTES, Kernel, Operand
from mlftool.ops.scalar import tensor_operand
from mlftool.targets.kernels import kernel

NAMES = {"int8": "s8", "uint8": "u8", "int16": "s16"}  # of functions of mlf/maxima.h


@kernel("MaxPool", needs="mve", unless="size")
def vectors(v: View) -> Kernel | None:
    lanes = 16 // v.y.dtype.bytes
    made = _lines(v, "helium.max_pool", lanes, 1.0)
    # Without padding and with whole vectors of channels gcc's loop is as good, and needs no line.
    plain = OPS[v.core.op].kernel(v)
    whole = plain and v.y.shape[-1] % lanes == 0 and not plain.params["padded"]
    return None if whole else made


@kernel("MaxPool", needs="dsp", unless="mve size")
def words(v: View) -> Kernel | None:
    return _lines(v, "dsp.max_pool", 4 // v.y.dtype.bytes, 3.0)


@kernel("MaxPool", needs="", unless="dsp vector size")
def elements(v: View) -> Kernel | None:
    return _lines(v, "lines.max_pool", 1, 4.0)


def _lines(v: View, name: str, lanes: int, each: float) -> Kernel | None:
    """`lanes` elements at a time; loading them takes `each` instructions."""
    of, made = NAMES.get(v.x(0).dtype.name), OPS[v.core.op].kernel(v)
    if of is None or made is None or v.node.body or made.params["place"]:
        return None
    if len(made.params["axes"]) > 2:
        return None
    one = {"n": 1, "o": 1, "kernel": 1, "stride": 1, "dilation": 1, "pad": 0}
    y, x = (one, one, *made.params["axes"])[-2:]
    channels, bytes_ = made.params["channels"], v.y.dtype.bytes
    rows_inside = y["pad"] == 0 and _reach(y) <= y["n"]
    if (not rows_inside and y["dilation"] > 1) or (y["o"] - 1) * y["stride"] - y["pad"] >= y["n"]:
        return None
    line = max(_reach(x), x["pad"] + x["n"])
    direct = line == x["n"] and y["kernel"] == 1 and y["dilation"] == 1
    if not direct and line * channels * bytes_ > STACK_LIMIT_BYTES:
        return None
    rows = made.params["batch"] * y["o"]
    runs = rows * (1 if x["stride"] == 1 else x["o"])
    loads = rows * channels * (x["n"] * y["kernel"] * (not direct) + x["o"] * x["kernel"])
    stores = rows * channels * (x["n"] * (not direct) + x["o"])
    scratch = Operand("line", v.y.dtype.c, "scratch", bytes=line * channels * bytes_)
    return Kernel(
        name,
        "maxima.c.j2",
        {
            **{"of": of, "rows": y, "columns": x, "batch": made.params["batch"]},
            **{"channels": channels, "line": line, "direct": direct, "inside": rows_inside},
            "least": v.y.dtype.range[0],
        },
        (
            tensor_operand(v.graph, "x", v.core.inputs[0]),
            Operand("y", v.y.dtype.c, "out", v.node.outputs[0]),
            *([] if direct else [scratch]),
        ),
        cost=(loads * each + stores * 3.0) / lanes + runs * 12.0 + rows * 10.0,
        includes=("mlf/mve_maxima.h" if lanes * bytes_ == 16 else "mlf/maxima.h",),
        overlap=made.overlap,
    )


def _reach(axis: Mapping[str, int]) -> int:
    """Elements from the first one in a window to the last."""
    return (axis["o"] - 1) * axis["stride"] + (axis["kernel"] - 1) * axis["dilation"] + 1
