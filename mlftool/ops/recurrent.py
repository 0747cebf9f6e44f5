"""Recurrent layers: RNN, GRU and LSTM are one walk through time with a cell of their own.

Per direction and sequence: the rows of W and R give the sums of all gates from the element of this
step and the last state, in the standard's order of gates; then the cell makes the next state. Each
sum is (W x + R h) + (Wb + Rb), products as mlf/dot.h adds them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from onnx import NodeProto

from mlftool.frozen import frozen, replace
from mlftool.ir.dtype import DType
from mlftool.ir.graph import Node, View
from mlftool.ir.operations import NOTHING, STEP, Operations, of_text, times, total
from mlftool.onnx_rules.boxes import each_alone
from mlftool.onnx_rules.protos import attributes
from mlftool.ops.base import Attributes, Facts, Forms, Kernel, Operand, Trait, UnsupportedError, op
from mlftool.ops.contraction import BLOCK
from mlftool.ops.elementwise import Maths
from mlftool.ops.plain import float_of, plain_kernel
from mlftool.ops.scalar import Scalar, expressed

# What activations are called with if the node does not say: (alpha, beta), None where not taken.
# The standard's are those of the operators of these names, of which two are gone.
NEEDED = float("inf")
DEFAULTS: dict[str, tuple[float | None, float | None]] = {
    "Affine": (NEEDED, NEEDED),
    "Relu": (None, None),
    "LeakyRelu": (0.01, None),
    "ThresholdedRelu": (1.0, None),
    "Tanh": (None, None),
    "ScaledTanh": (NEEDED, NEEDED),
    "Sigmoid": (None, None),
    "HardSigmoid": (0.2, 0.5),
    "Elu": (1.0, None),
    "Softsign": (None, None),
    "Softplus": (None, None),
}
SPELT = {name.lower(): name for name in DEFAULTS}
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}
_BACKWARDS = {"forward": [0], "reverse": [1], "bidirectional": [0, 1]}
CALL = 40  # instructions of a panel beyond its products, counted on Cortex-M4
USUAL = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}


class Activation:
    """One of a cell's functions, applied to C text."""

    def __init__(self, name: str, alpha: float | None, beta: float | None, row: DType) -> None:
        self.name, self.row, self.m = name, row, Maths(row, row)
        self.attrs = {k: v for k, v in (("alpha", alpha), ("beta", beta)) if v is not None}

    def __call__(self, c: str) -> str:
        """C text of the function of `c`, which must be a variable."""
        m, alpha = self.m, self.attrs.get("alpha", 1.0)
        if self.name == "Affine":
            return f"{m.lit(alpha)} * {c} + {m.lit(self.attrs['beta'])}"
        if self.name == "ScaledTanh":
            inner = m.call("tanh", f"{m.lit(self.attrs['beta'])} * {c}")
            return f"{m.lit(alpha)} * {inner}"
        node = Node(self.name, (), (), self.attrs)
        return expressed(node, self.row, [Scalar(c, self.row)])


def _activations(v: View, row: DType, directions: int) -> list[list[Activation]]:
    """Those of each direction; parameters are given in order to those that take them. Of more
    than there are directions, as exporters copy the default pair, the first count."""
    each = len(USUAL[v.core.op])
    names = (v.attr("activations") or list(USUAL[v.core.op]) * directions)[: each * directions]
    unknown = [n for n in names if n.lower() not in SPELT]
    if unknown:
        raise UnsupportedError(f"activation {unknown[0]}; supported: {', '.join(DEFAULTS)}")
    alphas, betas = iter(v.attr("activation_alpha") or ()), iter(v.attr("activation_beta") or ())
    made = []
    for name in (SPELT[n.lower()] for n in names):
        alpha, beta = DEFAULTS[name]
        alpha = alpha if alpha is None else next(alphas, alpha)
        beta = beta if beta is None else next(betas, beta)
        if alpha is NEEDED or beta is NEEDED:
            text = f"activation {name} without activation_alpha and activation_beta"
            raise UnsupportedError(f"{text}, for which the standard has no defaults")
        made.append(Activation(name, alpha, beta, row))
    if len(made) != each * directions:
        text = f"{len(made)} activations; supported: {each} for each of {directions} directions"
        raise UnsupportedError(text)
    return [made[d * each : (d + 1) * each] for d in range(directions)]


def _layout(v: View, directions: int, hidden: int) -> dict[str, Any]:
    """Strides of time, batch and direction in x, in the sequence of states and in the last ones."""
    batch_first = bool(v.attr("layout", 0))
    first, second, inputs = v.x(0).shape
    batch, time = (first, second) if batch_first else (second, first)
    row = directions * hidden
    return {
        "batch": batch,
        "time": time,
        "inputs": inputs,
        "x_time": inputs if batch_first else batch * inputs,
        "x_batch": time * inputs if batch_first else inputs,
        "y_time": row if batch_first else batch * row,
        "y_batch": time * row if batch_first else hidden,
        "y_direction": hidden if batch_first else batch * hidden,
        "state_batch": row if batch_first else hidden,
        "state_direction": hidden if batch_first else batch * hidden,
    }


@frozen
class Panels:
    """How a kernel multiplies by x1 and x2 if it packs them: in panels of `columns` rows, whose
    products `function` of header `include` adds to as many sums (mlf/vfp.h says how). The rows
    beyond params["plain"] begin a panel of their own."""

    columns: int
    function: str
    include: str

    def padded(self, rows: int) -> int:
        return -(-rows // self.columns) * self.columns


def _rows(kind: str, hidden: int, panels: Panels | None) -> dict[str, Any]:
    """How many rows of weights the gates have, `plain` and the `rest`, a GRU's last gate, whose
    products wait for the reset; with `panels`, where the rest begins and how many rows are packed.
    `apart`: products by the state are added to sums of their own."""
    rows = GATES[kind] * hidden
    rest = hidden if kind == "GRU" else 0
    second, padded = (panels.padded(n) if panels else n for n in (rows - rest, rest))
    return {
        "hidden": hidden,
        "rows": rows,
        "plain": rows - rest,
        "rest": rest,
        "second": second,
        "panels": panels,
        "packed": second + padded,
        "apart": bool(panels and (rest or hidden > BLOCK)),
    }


def _of_cell(kind: str, functions: Sequence[Activation], row: DType) -> Operations:
    """What an element of a state takes in a step, beyond the products."""
    first, *more = (of_text(f("x"), row) for f in functions)
    made = GATES[kind] * (of_text("gates[j] = (own[j] + back[j]) + (b[j] + c[j])", row) + STEP)
    if kind == "RNN":
        return made + first
    if kind == "GRU":
        return made + 2 * first + more[0] + of_text("(1 - z[j]) * g[j] + z[j] * h[j] * r[j]", row)
    return made + 3 * first + total(*more) + of_text("f[j] * c[j] + i[j] * g[j] * o[j]", row)


def recurrent(v: View, panels: Panels | None = None, each: float | None = None) -> Kernel:
    """Any direction, layout, peephole, lengths of sequences, first states. `each`: instructions of
    a product where a processor has its own."""
    row = float_of(v, v.x(0).dtype)
    kind, m = v.core.op, Maths(row, row)
    gates, (directions, _, hidden) = GATES[kind], v.x(2).shape
    if v.x(1).shape[:2] != (directions, gates * hidden) or v.x(2).shape[1] != gates * hidden:
        raise UnsupportedError(f"weights {v.x(1)} and {v.x(2)} for {gates} gates of {hidden}")
    layout, rows, clip = _layout(v, directions, hidden), _rows(kind, hidden, panels), v.attr("clip")
    before = bool(v.attr("linear_before_reset", 0))
    sizes = {"gates": rows["packed"], "h": hidden}
    if kind == "LSTM" or (kind == "GRU" and not before):
        sizes["extra"] = hidden
    if rows["apart"]:
        sizes["back"] = rows["packed"]
    scratch = [Operand(k, row.c, "scratch", bytes=n * row.bytes) for k, n in sizes.items()]
    walks = _BACKWARDS[v.attr("direction", "forward")]
    functions = _activations(v, row, directions)
    cells = layout["batch"] * layout["time"] * hidden
    product = of_text("sum += x[i] * w[i]", row) + times(loop=0.25)
    steps, packed = directions * layout["batch"] * layout["time"], rows["packed"]
    sums, terms = steps * gates * hidden, layout["inputs"] + hidden
    macs = sums * terms
    cost = (each or 0.0) * packed * terms + (CALL * 2 * packed / panels.columns if panels else 0)
    kernel = plain_kernel(
        v,
        "recurrent",
        {
            **layout,
            **rows,
            "kind": kind,
            "block": BLOCK,
            "floating": row.c,
            "directions": list(enumerate(zip(walks, functions, strict=True))),
            "clip": (lambda c: m.clamp(c, -clip, clip)) if clip else None,
            "dots": "mlf_dots" if row.bits == 64 else "mlf_dotsf",
            "one": m.lit(1),
            "zero": m.lit(0),
            "before": before,
            "coupled": bool(v.attr("input_forget", 0)),
        },
        *scratch,
        operations=cells * total(*(_of_cell(kind, f, row) for f in functions))
        + (macs * product + 2 * sums * times(loop=1, whole=4) if each is None else NOTHING),
        includes=("mlf/math.h", panels.include if panels else "mlf/dot.h"),
    )
    return replace(kernel, macs=macs, cost=steps * cost)


def _forms(op: str) -> Callable[[Attributes], Forms]:
    """Those of X, W, R, B, the lengths, the states and, of an LSTM, the peepholes."""

    def forms(attrs: Attributes) -> Forms:
        gates = GATES[op]
        known = {"d": 2 if attrs.get("direction") == "bidirectional" else 1}
        known |= {"h": attrs["hidden_size"]} if "hidden_size" in attrs else {}
        x, state = ("bti", "bdh") if attrs.get("layout", 0) else ("tbi", "dbh")
        bias, rows = f"d[{2 * gates}h]", f"d[{gates}h]"
        each = (x, f"{rows}i", f"{rows}h", bias, "b", state)
        return ((*each, state, "d[3h]") if op == "LSTM" else each), known

    return forms


def _lengths(f: Facts) -> str:
    return f.beyond(4, 0, f.x[bool(f.attrs.get("layout", 0))], "sequence_lens")


def _sequences(node: NodeProto, rank: int) -> Sequence[int]:
    return (0 if attributes(node).get("layout") else 1,)


for _name in GATES:
    fields: dict[str, Any] = {"forms": _forms(_name), "extents": each_alone(_sequences)}
    fields["words"] = {"direction": tuple(_BACKWARDS)}
    op(_name, Trait.KEPT, checks=(_lengths,), **fields)(recurrent)
