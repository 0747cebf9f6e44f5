"""What a notebook shows of something with inputs and outputs: a table, without script or style."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape
from typing import Any, Protocol


class Tensor(Protocol):
    """What an input or output is known by."""

    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> Any: ...
    @property
    def shape(self) -> tuple[int, ...]: ...


def html(title: str, inputs: Iterable[Tensor], outputs: Iterable[Tensor]) -> str:
    """The table, with scale and zero point of quantised tensors."""
    heads = "".join(f"<th>{h}</th>" for h in ("", "name", "type", "shape", "quantised"))
    rows = [_row("input", t) for t in inputs] + [_row("output", t) for t in outputs]
    body = f"<table><thead><tr>{heads}</tr></thead><tbody>{''.join(rows)}</tbody></table>"
    return f"<div><code>{escape(title)}</code>{body}</div>"


def shape_of(tensor: Tensor) -> str:
    """As mlftool prints shapes: 1x3x32x32."""
    return "x".join(map(str, tensor.shape)) or "scalar"


def _row(kind: str, tensor: Tensor) -> str:
    scale, zero = (getattr(tensor, key, None) for key in ("scale", "zero_point"))
    stored = "" if scale is None else f"scale {scale:.6g}, zero point {zero or 0}"
    cells = (kind, tensor.name, str(tensor.dtype), shape_of(tensor), stored)
    return f"<tr>{''.join(f'<td>{escape(c)}</td>' for c in cells)}</tr>"
