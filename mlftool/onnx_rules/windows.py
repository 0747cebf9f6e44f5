"""Windows of pools and convolutions: what their attributes imply, spelt out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlftool.onnx_rules.draft import Draft
from mlftool.onnx_rules.scope import Scope


def halves(totals: Sequence[int], upper: bool) -> list[int]:
    """Pads of each axis, first those before it; of an odd number, more after it if `upper`."""
    small, large = [t // 2 for t in totals], [t - t // 2 for t in totals]
    return small + large if upper else large + small


def placed(attrs: Mapping[str, Any], rank: int) -> tuple[Sequence[int], ...]:
    """Strides, dilations and pads of windows over `rank` axes, as given or implied."""
    named = (("strides", [1] * rank), ("dilations", [1] * rank), ("pads", [0] * (2 * rank)))
    return tuple(attrs.get(name) or implied for name, implied in named)


def spelt_window(scope: Scope, d: Draft) -> None:
    """Spell out kernel_shape, strides, dilations and pads; global pooling becomes pooling."""
    type_ = d.types[0]
    if type_ is None:
        return
    spatial = type_.shape[2:]
    if d.op.startswith("Global"):
        d.op = d.op.removeprefix("Global")
        d.attrs["kernel_shape"] = list(spatial)
    weights = d.types[3 if d.op == "QLinearConv" else 1] if "Conv" in d.op else None
    kernel = d.attrs.get("kernel_shape") or (list(weights.shape[2:]) if weights else [])
    strides, dilations, pads = placed(d.attrs, len(spatial))
    auto_pad = d.attrs.pop("auto_pad", "NOTSET")
    same = auto_pad in ("SAME_UPPER", "SAME_LOWER")
    if same:
        totals = [
            max(0, (-(-n // s) - 1) * s + (k - 1) * dl + 1 - n)
            for n, s, k, dl in zip(spatial, strides, kernel, dilations, strict=True)
        ]
        pads = halves(totals, auto_pad == "SAME_UPPER")
    d.attrs.update(kernel_shape=kernel, strides=strides, dilations=dilations, pads=pads)
    if d.attrs.pop("ceil_mode", 0):
        out = _rounded_up(spatial, kernel, strides, dilations, pads)
        if same:
            out = [-(-n // s) for n, s in zip(spatial, strides, strict=True)]
        d.out_shape = (*type_.shape[:2], *out)
    if len(d.outputs) < 2:  # it is the order in which the second output counts
        d.attrs.pop("storage_order", None)


def _rounded_up(
    spatial: Sequence[int],
    kernel: Sequence[int],
    strides: Sequence[int],
    dilations: Sequence[int],
    pads: Sequence[int],
) -> list[int]:
    """Extents of a pool with ceil_mode. A window that would start past the input and its leading
    padding is dropped; onnx's own inference keeps it."""
    out = []
    for k, n in enumerate(spatial):
        begin, end = pads[k], pads[k + len(spatial)]
        rest = n + begin + end - (kernel[k] - 1) * dilations[k] - 1
        windows = -(-rest // strides[k]) + 1
        out.append(windows - ((windows - 1) * strides[k] >= n + begin))
    return out
