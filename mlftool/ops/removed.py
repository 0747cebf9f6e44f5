"""Operators of the standard's first opsets that it has removed, in terms of those that it has:
CoreML's and Caffe2's converters wrote them, and onnxruntime still runs them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlftool.onnx_rules.boxes import as_it_is
from mlftool.onnx_rules.scope import Refuse
from mlftool.onnx_rules.steps import Steps
from mlftool.ops.base import Expansion, Signature, expands

KINDS: Mapping[str, str] = {
    **dict.fromkeys(("alpha", "beta"), "FLOAT"),
    "border": "INTS",
    "bias": "FLOATS",
}


def removed(scale: str = "FLOAT", **signatures: str) -> Callable[[Expansion], Expansion]:
    """Operators with their signatures; `scale` is the kind of the attribute of that name."""

    def register(expansion: Expansion) -> Expansion:
        for name, text in signatures.items():
            kinds, said = {**KINDS, "scale": scale}, Signature.of(text)
            expands(name, kinds=kinds, signature=said, extents=as_it_is)(expansion)
        return expansion

    return register


def _times(s: Steps, value: str, factor: float, out: int | None = None) -> str:
    return s("Mul", value, s.const(factor, s.type(0).dtype.numpy), out=out)


@removed(Affine="x alpha beta")
def _affine(s: Steps) -> None:
    """alpha * x + beta."""
    beta = s.const(s.attrs.get("beta", 0.0), s.type(0).dtype.numpy)
    s("Add", _times(s, s.x(0), s.attrs.get("alpha", 1.0)), beta, out=0)


@removed(Scale="x scale")
def _scale(s: Steps) -> None:
    _times(s, s.x(0), s.attrs.get("scale", 1.0), out=0)


@removed(ScaledTanh="x alpha beta", ParametricSoftplus="x alpha beta")
def _scaled(s: Steps) -> None:
    """alpha * f(beta * x)."""
    value = _times(s, s.x(0), s.attrs["beta"])
    value = s("Tanh", value) if s.node.op_type == "ScaledTanh" else s("Softplus", value)
    _times(s, value, s.attrs["alpha"], out=0)


@removed(ImageScaler="x bias scale")
def _image_scaler(s: Steps) -> None:
    """scale * x + bias, a bias for each channel."""
    channels, bias = s.shape(0, 4)[1], s.attrs["bias"]
    if len(bias) != channels:
        raise Refuse("MLF0303", f"has {len(bias)} biases; the image has {channels} channels")
    added = s.const([[[b]] for b in bias], s.type(0).dtype.numpy)
    s("Add", _times(s, s.x(0), s.attrs.get("scale", 1.0)), added, out=0)


@removed(Crop="x border scale", scale="INTS")
def _crop(s: Steps) -> None:
    """Without the borders (left, top, right, bottom), or from the first two on `scale` elements
    (height, width)."""
    extents, border, size = s.shape(0, 4)[2:], s.attrs["border"], s.attrs.get("scale", [])
    if len(border) != 4 or len(size) not in (0, 2):
        text = f"border {border} and scale {size}; expected 4 and 2 whole numbers"
        raise Refuse("MLF0303", text)
    first = border[1::-1]
    last = [f + n for f, n in zip(first, size, strict=True)] if size else []
    last = last or [n - b for n, b in zip(extents, border[:1:-1], strict=True)]
    if not all(0 <= f <= e <= n for f, e, n in zip(first, last, extents, strict=True)):
        text = f"leaves {first} ... {last} of an image of {list(extents)} (height, width)"
        raise Refuse("MLF0303", text)
    s("Slice", s.x(0), *(s.const(v, "int64") for v in (first, last, [2, 3])), out=0)


@removed(DynamicSlice="xxx?")
def _dynamic_slice(s: Steps) -> None:
    s("Slice", *(s.x(k) for k in range(4) if s.x(k)), out=0)
