"""Derived attributes of operators on images beside windows (importer/opset.py), spelt out."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mlftool.importer.opset import Draft


def _conv_transpose(d: Draft) -> None:
    """Padding that is asked for by the output's extents is what is left over of the full result."""
    x, w = d.types[0], d.types[1]
    if x is None or w is None:
        return
    spatial, kernel = x.shape[2:], w.shape[2:]
    rank = len(spatial)
    strides = d.attrs.get("strides") or [1] * rank
    dilations = d.attrs.get("dilations") or [1] * rank
    extra = d.attrs.pop("output_padding", None) or [0] * rank
    pads = d.attrs.get("pads") or [0] * (2 * rank)
    auto_pad, stated = d.attrs.pop("auto_pad", "NOTSET"), d.attrs.pop("output_shape", None)
    out = d.out_types[0].shape[2:]
    if stated:  # onnx's inference forgets them where they are less than the input's
        out = tuple(stated[-rank:])
        d.out_shape = (x.shape[0], w.shape[1] * d.attrs.get("group", 1), *out)
    if auto_pad == "VALID":
        pads = [0] * (2 * rank)
    elif auto_pad != "NOTSET" or stated:
        totals = [
            max(0, (n - 1) * s + e + (k - 1) * dl + 1 - o)
            for n, s, e, k, dl, o in zip(
                spatial, strides, extra, kernel, dilations, out, strict=True
            )
        ]
        small = [t // 2 for t in totals]
        large = [t - t // 2 for t in totals]
        pads = small + large if auto_pad == "SAME_UPPER" else large + small
    d.attrs.update(kernel_shape=list(kernel), strides=strides, dilations=dilations, pads=pads)


def _max_unpool(d: Draft) -> None:
    """Indices count in the output that the window implies, whatever shape is asked for."""
    x = d.types[0]
    if x is None:
        return
    kernel = d.attrs["kernel_shape"]
    strides = d.attrs.get("strides") or [1] * len(kernel)
    pads = d.attrs.get("pads") or [0] * (2 * len(kernel))
    implied = [
        (n - 1) * s - pads[k] - pads[k + len(kernel)] + kernel[k]
        for k, (n, s) in enumerate(zip(x.shape[2:], strides, strict=True))
    ]
    d.attrs = {"mlf.implied": [*x.shape[:2], *implied]}
    d.inputs = d.inputs[:2]


SPATIAL_RESOLVERS: dict[str, Callable[[Draft], None]] = {
    "ConvTranspose": _conv_transpose,
    "MaxUnpool": _max_unpool,
}
