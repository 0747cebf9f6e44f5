"""Epilogues of vector kernels: sums are requantised or added to a bias, followed by a residual
addition or a Relu, and stored without leaving the registers.

Other epilogues have no vector form here; their elements are computed one by one.
"""

from __future__ import annotations

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.dtype import of
from mlftool.ir.graph import Array, Node, View
from mlftool.ir.rounding import Rounding
from mlftool.ops.base import Operand, Trait, is_a
from mlftool.ops.contraction import Contraction, Quantisation, blocks, is_narrow
from mlftool.ops.scalar import Store, operand_kind, tensor_operand
from mlftool.targets.kernels.parts import Residual, after_core, is_relu, residual
from mlftool.targets.requantise.twice import multipliers, takes


@frozen
class Finish:
    """How `lanes` sums of neighbouring channels are stored."""

    lanes: int
    type: str  # of an output element: "f32", "s8" or "u8"
    quantisation: Quantisation | None  # None: floats, to which the bias comes
    biased: bool
    relu: bool
    residual: Residual | None
    operands: tuple[Operand, ...]
    inplace: tuple[str, ...]
    includes: tuple[str, ...] = ()

    @property
    def includes_residual(self) -> bool:
        return any(o.name == "fused0" for o in self.operands)

    def row(self, form: str, vectors: int, index: str, oc: int) -> list[str]:
        """C statements that store vectors of neighbouring channels, named as `form` % 0, 1 ..., the
        first element of which is output `index` and one of `oc` output channels."""
        n, lines, channel = self.lanes, [], "oc"
        accs = [form % k for k in range(vectors)]
        oc = oc if oc % (vectors * n) else 0
        for k in range(0, len(accs), 2):
            starts = range(k, len(accs))[:2]
            places = [f" + {i * n}" if i else "" for i in starts]
            if self.pairs and not oc and len(places) == 2:
                values = [
                    self._integers(acc, index + place, channel + place, False)
                    for acc, place in zip(accs[k:], places, strict=False)
                ]
                limits = ", ".join(map(str, self._limits(False)))
                both = f"y + {index}{places[0]}, {', '.join(values)}, {limits}"
                lines.append(f"mlf_put2_{self.type}_x{n}({both});")
                continue
            for acc, i, place in zip(accs[k:], starts, places, strict=False):
                count = f"{oc} - {channel}{f' - {i * n}' if i else ''}" if oc else ""
                lines.append(self.line(acc, index + place, channel + place, count))
        return lines

    def both(self, accs: tuple[str, str], indices: tuple[str, str], channel: str) -> str:
        """The C statement that stores two vectors of the same channels, at two places."""
        texts = [self._integers(a, i, channel, False) for a, i in zip(accs, indices, strict=True)]
        places = ", ".join(f"y + {i}" for i in indices)
        limits = ", ".join(map(str, self._limits(False)))
        return f"mlf_put_both_{self.type}_x{self.lanes}({places}, {', '.join(texts)}, {limits});"

    @property
    def pairs(self) -> bool:
        """Whether two vectors are stored at once."""
        return self.lanes == 8 and self.quantisation is not None

    def line(self, acc: str, index: str, channel: str, count: str = "") -> str:
        """The C statement that stores the vector `acc`; `count` is how many lanes are channels, ""
        if all."""
        some, more = ("_some", f", {count}") if count else ("", "")
        if self.quantisation is None:
            value, limits = self._float(acc, index, channel), ""
        else:
            value = self._integers(acc, index, channel, True)
            limits = "".join(f", {n}" for n in self._limits(True)[1:])
        return f"mlf_put_{self.type}{some}_x{self.lanes}(y + {index}, {value}{limits}{more});"

    def _limits(self, moved: bool) -> tuple[int, int, int]:
        """A zero point to add, unless `moved` says that it was, the least and the largest value."""
        if self.residual:
            return 0, self.residual.result.low, self.residual.result.high
        q = self.quantisation
        assert q
        return 0 if moved else q.y_zero_point, q.lo, q.hi

    def _float(self, acc: str, index: str, channel: str) -> str:
        n = self.lanes
        text = f"mlf_load_f32x{n}(b + {channel}) + {acc}" if self.biased else acc
        if self.includes_residual:
            text = f"mlf_load_f32x{n}(fused0 + {index}) + ({text})"
        return f"mlf_relu_x{n}({text})" if self.relu else text

    def _integers(self, acc: str, index: str, channel: str, moved: bool) -> str:
        """C text of the results as int32; with its zero point if `moved`."""
        n, q = self.lanes, self.quantisation
        assert q
        add = q.y_zero_point if moved or self.residual else 0
        if q.rounding is Rounding.TWICE:
            numbers = ", ".join(f"mlf_load_i32x{n}({name} + {channel})" for name in ("m", "by"))
            text = f"mlf_rescaled_x{n}({acc}, {numbers})"
            text = f"{text} + ({add})" if add else text
        else:
            one = q.scale.size == 1
            scale = f"mlf_all_f32x{n}(scale[0])" if one else f"mlf_load_f32x{n}(scale + {channel})"
            if not moved and not self.residual:
                return f"mlf_scaled_x{n}({acc}, {scale})"
            text = f"mlf_requantize_x{n}({acc}, {scale}, {q.y_zero_point})"
        if self.residual is None:
            return text
        s, after = self.residual.sum, self.residual.result
        other = f"mlf_load_s8_x{n}(fused0 + {index})"
        text = f"mlf_clamp_x{n}({text}, {q.lo}, {q.hi}) * {s.m} + {other} * {s.n} + ({s.add})"
        for value, step in after.exceptions:
            text = f"mlf_except_x{n}({text}, {value}, {step})"
        return f"({text}) >> {after.shift}"


def channels(count: int, width: int) -> Array:
    """The output channel of each lane, where `width` channels are computed at once."""
    return np.minimum(np.arange(-(-count // width) * width), count - 1)


def finish(
    v: View, c: Contraction, q: Quantisation | None, lanes: int, channel: Array, whole: bool
) -> Finish | None:
    """None where there is no vector form; `channel` is the output channel of each lane, `whole` if
    each lane of every vector is stored, once."""
    nodes = after_core(v)
    if q is None:
        return _floats(v, c, nodes, lanes, whole)
    if q.to_float or not v.y.dtype.is_int8 or not v.out.dtype.is_int8:
        return None
    if q.rounding is Rounding.TWICE:
        numbers = _twice(c, q, channel)
    else:
        exact = is_narrow(c, q)  # before the limits
        scale = q.scale if q.scale.size == 1 else q.scale[channel]
        numbers = {"scale": scale} if exact and q.rounding is Rounding.EVEN else None
    if numbers is None:
        return None
    type_ = "s8" if v.out.dtype.name == "int8" else "u8"
    operands = tuple(Operand(name, of(a).c, "const", array=a) for name, a in numbers.items())
    inplace = Store(v, "0", "0", "0").inplace
    if not nodes:
        return Finish(lanes, type_, q, False, False, None, operands, inplace)
    added = residual(v)
    if added is None or not whole:
        return None
    return Finish(lanes, type_, q, False, False, added, (*operands, added.other), inplace)


def _twice(c: Contraction, q: Quantisation, channel: Array) -> dict[str, Array] | None:
    """What a rounded product and its rounded shift read: multipliers and shifts."""
    if not takes(c, q):
        return None
    m, exponent = multipliers(c, q)
    if exponent.max() > 0:
        return None
    return {"m": m[channel].astype(np.int32), "by": (-exponent)[channel].astype(np.int32)}


def _floats(
    v: View, c: Contraction, nodes: tuple[Node, ...], lanes: int, whole: bool
) -> Finish | None:
    if v.out.dtype.name != "float32":
        return None
    operands: tuple[Operand, ...] = ()
    rest, core = list(nodes), v.core.outputs[0]
    if rest and is_a(rest[0], Trait.ADDITION) and whole:
        node = rest.pop(0)
        other = next((n for n in node.inputs if n != core), "")
        if not other:
            return None  # the sum is added to itself, and is in no memory
        if v.type(other).dtype.name != "float32" or operand_kind(v.type(other), v.out) != "linear":
            return None
        operands, core = (tensor_operand(v.graph, "fused0", other),), node.outputs[0]
    relu = bool(rest) and is_relu(rest[0])
    if len(rest) > relu or (rest and rest[0].inputs[0] != core):
        return None
    inplace = Store(v, "0", "0", "0").inplace
    return Finish(lanes, "f32", None, blocks(c) == 1, relu, None, operands, inplace)
