"""C expressions over one element: literals, operands, and the bodies of fused nodes.

The elementwise family writes expressions with these, and every kernel that fuses a prologue or an
epilogue calls `Body` to turn the fused nodes into C statements, so fused and unfused arithmetic is
the same text and gives the same bits.
"""

from __future__ import annotations

import math
import string
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.dtype import DType, float32, int32
from mlftool.ir.graph import Array, Graph, Node, TensorType, View
from mlftool.ir.holes import Number, filled, operand, real, whole, with_operands
from mlftool.ir.operations import NOTHING, Operations, of_text, times
from mlftool.ops.base import OPS, Operand, Trait, has
from mlftool.ops.pairs import Pair, in_integers
from mlftool.ops.shorts import Short, short_form


@frozen
class Scalar:
    """A C expression of one element; `value` if it is known at compile time."""

    c: str
    dtype: DType
    value: float | int | None = None

    def __str__(self) -> str:
        return self.c


def literal(value: Any, dtype: DType) -> str:
    """`value` as a C constant of type `dtype`, exactly."""
    if dtype.kind == "s":
        return f"mlf_string_of({c_string(value)})"
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        number, (least, most) = int(value), dtype.range
        assert least <= number <= most, f"{number} is no {dtype}"
        suffix = "U" if dtype.kind == "u" and dtype.bits >= 32 else ""
        if number == -(1 << 63):
            return "(-INT64_C(9223372036854775807) - 1)"
        if dtype.bits == 64:
            return f"INT64_C({number})" if dtype.kind == "i" else f"UINT64_C({number})"
        if number == -(1 << 31):
            return "(-2147483647 - 1)"
        return f"{number}{suffix}" if number >= 0 else f"({number})"
    if dtype.codec:
        return literal(float(dtype.numpy.type(value)), float32)
    number = dtype.numpy.type(value)
    if math.isnan(number):
        text = "NAN"
    elif math.isinf(number):
        text = "INFINITY"
    else:
        text = _decimal(abs(number)) + ("f" if dtype.bits == 32 else "")
    return f"-{text}" if np.signbit(number) and not math.isnan(number) else text


@lru_cache(4096, typed=True)  # typed: 0.1 of float32 is another number than that of float64
def _decimal(number: np.floating[Any]) -> str:
    """The shortest decimal that reads back as `number`, which is finite and not negative."""
    text = np.format_float_scientific(number, unique=True, trim="0", exp_digits=1)
    _, exponent = text.split("e")
    if -5 < int(exponent) < 7:
        text = np.format_float_positional(number, unique=True, trim="0")
    return text


def number(value: Any, dtype: DType) -> str:
    """`literal`, as a hole where its type in C is int or float."""
    text = literal(value, dtype)
    if dtype.codec or dtype.name == "float32":
        return real(text) if math.isfinite(dtype.numpy.type(value)) else text
    small = (dtype.kind == "i" and dtype.bits <= 32) or (dtype.kind == "u" and dtype.bits < 32)
    return whole(text) if small and int(value) != -(1 << 31) else text


def constant(value: Any, dtype: DType) -> Scalar:
    """A value that is known at compile time."""
    return Scalar(number(value, dtype), dtype, value)


_PLAIN = frozenset((string.ascii_letters + string.digits + " _-./:").encode())


def c_string(text: str | bytes) -> str:
    """A string literal for untrusted text: whatever could end it or mean something is octal."""
    data = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
    return '"' + "".join(chr(b) if b in _PLAIN else f"\\{b:03o}" for b in data) + '"'


class Exact(str):
    """Text of an expression whose value is one of its type already: no rounding is needed."""

    __slots__ = ()


def fetch(dtype: DType, array: str, index: str) -> str:
    """C text of the value of an element of a tensor."""
    if dtype.packed:
        name = f"mlf_get_{'u' if dtype.codec else dtype.kind}{dtype.bits}"
        return widen(dtype, f"{name}({array}, {index})")
    return widen(dtype, f"{array}[{index}]")


def widen(dtype: DType, element: str) -> str:
    """The value that the stored `element` stands for."""
    return f"mlf_float_of_{dtype.codec}({element})" if dtype.codec else element


def narrow(dtype: DType, value: str) -> str:
    """What is stored for `value`, which is one of the type."""
    return f"mlf_{dtype.codec}_of_float({value})" if dtype.codec else value


def settle(dtype: DType, text: str) -> str:
    """`text` rounded, wrapped or converted to a value of the type."""
    if isinstance(text, Exact) or dtype.name in ("float32", "float64", "string"):
        return text
    if dtype.codec:
        return widen(dtype, narrow(dtype, text))
    if dtype.packed:
        return f"mlf_wrap_{dtype.kind}{dtype.bits}({text})"
    return f"({dtype.c})({text})"


def integer_of(dtype: DType, source: DType, text: str) -> str:
    """A float without its fraction as an integer, as mlf/convert.h has those that do not fit."""
    kind = {"uint64": "u64", "uint32": "i64", "int64": "i64"}.get(dtype.name, "i32")
    return f"mlf_{kind}_of_{'double' if source.bits == 64 else 'float'}({text})"


def put(dtype: DType, array: str, index: str, value: str) -> str:
    """C statement that stores `value`. Packed tensors must be stored in ascending order."""
    if dtype.packed:
        return f"mlf_put_{dtype.bits}({array}, {index}, {narrow(dtype, value)});"
    return f"{array}[{index}] = {narrow(dtype, value)};"


def conversions(*dtypes: DType) -> tuple[str, ...]:
    """The header that `fetch`, `settle` and `put` need for these types, if any."""
    return ("mlf/convert.h",) if any(d.codec or d.packed for d in dtypes) else ()


_MIRRORED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "==": "=="}


def compared(a: Scalar, sign: str, b: Scalar) -> str:
    """`a sign b` in C; "true" or "false" where the type of one and the value of the other decide,
    or an integer meets itself, which C compilers complain of."""
    if a.value is not None and b.value is None:
        a, sign, b = b, _MIRRORED[sign], a
    if b.value is not None and a.value is None and a.dtype.kind in "iu":
        low, high = a.dtype.range
        at_low, at_high = b.value <= low, b.value >= high
        if (sign == "<" and at_low) or (sign == ">" and at_high):
            return "false"
        if (sign == ">=" and at_low) or (sign == "<=" and at_high):
            return "true"
    if str(a) == str(b) and not a.dtype.is_float:
        return "true" if "=" in sign else "false"
    return f"{a} {sign} {b}"


ExprFn = Callable[..., str]


def expressed(node: Node, dtype: DType, args: Sequence[Scalar | None]) -> str:
    """C text of an elementwise node's value, not settled to `dtype` yet."""
    expression = OPS[node.op].expression
    assert expression is not None, node.op
    return expression(node, dtype, args)


def _spelled(
    node: Node, dtype: DType, args: Sequence[Scalar | None]
) -> tuple[str, tuple[int, ...]]:
    """C text of a node's value, settled to `dtype`, and how often it has each operand.

    A type, a constant or an attribute may make an operand superfluous.
    """
    names = [a.c if a else "" for a in args]
    open_ = [a and replace(a, c=operand(names.index(a.c))) for a in args]
    text: str = settle(dtype, expressed(node, dtype, open_))
    return with_operands(text, names)


def _kept(node: Node, dtype: DType, args: Sequence[Scalar | None]) -> set[str]:
    """The operands that C has and that are no constants: a remainder by 1, for one, has none."""
    names = [a.c for a in args if a and a.value is None]
    shown = [a and (replace(a, c=f"x{names.index(a.c)}[0]") if a.c in names else a) for a in args]
    types = {f"x{names.index(a.c)}": a.dtype.value_c for a in args if a and a.c in names}
    text = filled(settle(dtype, expressed(node, dtype, shown)), types=types)
    return {name for k, name in enumerate(names) if f"x{k}[0]" in text}


# What parameters of fused tensors and results of fused nodes are called, with a number: no template
# that holds fused statements may declare such a name.
FUSED, RESULT = "fused", "t"


class Body:
    """The statements of a chain of elementwise nodes, reading values through `load`, and what they
    do.

    `env` maps value names to scalars that are at hand; all else is asked from `load`, which may be
    given integers to read in place of a constant.
    """

    def __init__(
        self,
        graph: Graph,
        nodes: Sequence[Node],
        env: Mapping[str, Scalar],
        load: Callable[..., Scalar],
        prefix: str = RESULT,
    ) -> None:
        self.statements: list[str] = []
        self.includes: list[str] = []
        self.operations = NOTHING
        self.env = dict(env)
        self._made: list[Scalar] = []
        self._read: set[str] = set()
        if pair := in_integers(graph, nodes):
            a = self._get(graph, pair.inputs[0], load)
            integers = pair.array is not None
            value = pair.inputs[1]
            b = load(value, pair.array) if integers else self._get(graph, value, load)
            last = nodes[-1].outputs[0]
            self.env[last] = self._pair(pair, a, b, graph.types[last].dtype, prefix)
            return
        if short := short_form(graph, nodes):
            last = nodes[-1].outputs[0]
            read = [self._get(graph, side.name, load) for side in short.sides]
            self.env[last] = self._short(short, read, graph.types[last].dtype, prefix)
            return
        for node in nodes:
            args = [self._get(graph, name, load) if name else None for name in node.inputs]
            dtype = graph.types[node.outputs[0]].dtype
            while has(node.op, Trait.STEPWISE) and len(args) > 2:
                args[:2] = [self._state(node, dtype, args[:2], prefix)]
            self.env[node.outputs[0]] = self._state(node, dtype, args, prefix)
            types = (graph.types[n].dtype for n in (*node.inputs, *node.outputs) if n)
            self.includes += [*OPS[node.op].includes, *conversions(*types)]
        if nodes:
            self._use_all(self.env[nodes[-1].outputs[0]])

    def _state(
        self, node: Node, dtype: DType, args: Sequence[Scalar | None], prefix: str
    ) -> Scalar:
        """A statement for one expression. Its operands are names, elements or constants, never
        other expressions: so text grows with the number of nodes only."""
        name = f"{prefix}{len(self.statements)}"
        text, _ = _spelled(node, dtype, args)
        self.operations += of_text(text, _computing(dtype, args))
        self._read |= _kept(node, dtype, args)
        self.statements.append(f"const {dtype.value_c} {name} = {text};")
        self._made.append(Scalar(name, dtype))
        return self._made[-1]

    def _use_all(self, result: Scalar) -> None:
        """What a type or an attribute made superfluous is used for nothing, and said to be."""
        for scalar in dict.fromkeys((*self.env.values(), *self._made)):
            if scalar.value is None and scalar != result and scalar.c not in self._read:
                self.statements.append(f"(void)({scalar.c});")

    def _pair(self, pair: Pair, a: Scalar, b: Scalar, out: DType, prefix: str) -> Scalar:
        t, result = f"{prefix}0", f"{prefix}1"
        texts = pair.t.text(a, b), pair.result.text(t)
        self.operations = of_text(texts[0], int32) + of_text(texts[1], int32)
        self.statements += [
            f"const int32_t {t} = {texts[0]};",
            f"const {out.c} {result} = ({out.c}){texts[1]};",
        ]
        return Scalar(result, out)

    def _short(self, short: Short, read: Sequence[Scalar], out: DType, prefix: str) -> Scalar:
        *moved, t, result = (f"{prefix}{k}" for k in range(len(read) + 2))
        form, tail, sides = short.form, short.tail, short.sides
        high = form.text(moved)
        value = usual = f"mlf_shift_clamp_i32({t}, {form.shift}, {form.low}, {form.high})"
        self.operations = of_text(high, int32) + of_text(usual, int32) + times(choose=1, whole=4)
        if form.near:
            scales = (*(side.scale for side in sides), *tail.limits, tail.scale)
            floats = ", ".join([*moved, *(number(n, float32) for n in scales)])
            limits = f"{Number(tail.zero_point)}, {form.low}, {form.high}"
            near = f"mlf_is_near({t}, {form.shift}, {Number(form.near)})"
            value = f"{near} ? {short.rarely}({floats}, {limits}) : {usual}"
            self.includes.append("mlf/shorts.h")
        for name, x, side in zip(moved, read, sides, strict=True):
            text = f"const int32_t {name} = (int32_t){x} - {Number(side.zero_point)};"
            self.statements.append(text)
        self.statements += [
            f"const int32_t {t} = {high};",
            f"const {out.c} {result} = ({out.c})({value});",
        ]
        return Scalar(result, out)

    def _get(self, graph: Graph, name: str, load: Callable[..., Scalar]) -> Scalar:
        if name not in self.env:
            value = graph.consts.get(name)
            dtype = graph.types[name].dtype
            if value is not None and value.size == 1 and dtype.kind != "s":
                self.env[name] = constant(value.item(), dtype)
            else:
                self.env[name] = load(name)
        return self.env[name]


def _computing(out: DType, args: Sequence[Scalar | None]) -> DType:
    """The type in which an expression computes: floats, if it has any."""
    types = [out, *(a.dtype for a in args if a)]
    return next((t for t in types if t.is_float), types[min(1, len(types) - 1)])


MOST_READS = 16


def reads(
    types: Mapping[str, TensorType], consts: Mapping[str, Array], nodes: Sequence[Node]
) -> int:
    """How often the text of a prologue has the element that it starts from: `Load` writes each
    operand into the next expression, so what is read twice doubles. Counted up to MOST_READS + 1.
    """
    counts = {nodes[0].inputs[0]: 1}
    for node in nodes:
        args = [_any(n, types, consts) if n else None for n in node.inputs]
        _, found = _spelled(node, types[node.outputs[0]].dtype, args)
        total = sum(k * counts.get(n, 0) for k, n in zip(found, node.inputs, strict=True))
        counts[node.outputs[0]] = min(total, MOST_READS + 1)
    return counts[nodes[-1].outputs[0]]


def _any(name: str, types: Mapping[str, TensorType], consts: Mapping[str, Array]) -> Scalar:
    """An operand whose text does not matter; a constant has its first value."""
    value = consts[name].reshape(-1)[0].item() if name in consts else None
    return Scalar("", types[name].dtype, value)


def operand_kind(type_: TensorType, out: TensorType) -> str | None:
    """How a fused operand is indexed along an output: "scalar", "channel" (last axis), "linear".

    None if it broadcasts in any other way; such an operand is not fused into a kernel with a core.
    """
    if type_.elements == 1:
        return "scalar"
    if type_.elements == out.elements and _squeezed(type_.shape) == _squeezed(out.shape):
        return "linear"
    if out.shape and type_.elements == out.shape[-1] == (type_.shape or (0,))[-1]:
        return "channel"
    return None


def _squeezed(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(n for n in shape if n != 1)


def grouped(text: str) -> str:
    """C text as one operand: in parentheses if it has an operator outside of any."""
    depth = 0
    for letter in text:
        depth += (letter in "([") - (letter in ")]")
        if letter == " " and not depth:
            return f"({text})"
    return text


class Store:
    """What a kernel does with a finished element: the node's fused epilogue, then the store.

    `result` is the expression to store; `statements` come before it. `linear` and `channel` are the
    C indices of the element in the output and of its last axis.
    """

    lanes = 1  # elements that it computes at once

    def __init__(self, v: View, acc: str, linear: str, channel: str) -> None:
        nodes = v.node.body[v.node.body.index(v.core) + 1 :] if v.node.body else ()
        self.operands: list[Operand] = []
        self._graph, self._out = v.graph, v.out
        self._index = {"linear": linear, "channel": channel, "scalar": "0"}
        self._tables = {n.inputs[1] for n in nodes if has(n.op, Trait.TABLE)}
        env = {v.core.outputs[0]: Scalar(grouped(acc) if nodes else acc, v.y.dtype)}
        body = Body(v.graph, nodes, env, self._load)
        self.statements = body.statements
        self.operations = body.operations
        self.includes = tuple(body.includes)
        self.result = narrow(v.out.dtype, str(body.env[v.node.outputs[0]]))
        # What the core reads must stay whole until the last element is stored.
        before = v.node.body[: v.node.body.index(v.core) + 1] if v.node.body else (v.core,)
        kept = {name for n in before for name in n.inputs}
        self.inplace = tuple(
            o.value
            for o in self.operands
            if o.role == "in"
            and o.value not in kept
            and v.type(o.value).bytes == v.out.bytes
            and operand_kind(v.type(o.value), v.out) == "linear"
        )

    def _load(self, name: str, integers: Array | None = None) -> Scalar:
        type_ = self._graph.types[name]
        param = f"{FUSED}{len(self.operands)}"
        self.operands.append(tensor_operand(self._graph, param, name, integers))
        if name in self._tables:
            return Scalar(param, type_.dtype)
        kind = operand_kind(type_, self._out)
        assert kind, name
        dtype = type_.dtype if integers is None else int32
        return Scalar(fetch(dtype, param, self._index[kind]), dtype)


def tensor_operand(graph: Graph, param: str, name: str, integers: Array | None = None) -> Operand:
    """The parameter through which a kernel reads tensor `name`, constant or not, or the integers
    that stand for it."""
    if integers is not None:
        return Operand(param, "int32_t", "const", array=integers)
    ctype = graph.types[name].dtype.c
    if name in graph.consts:
        return Operand(param, ctype, "const", value=name, array=graph.consts[name])
    return Operand(param, ctype, "in", value=name)


def around(v: View, *inner: Operand, x: str = "") -> tuple[Operand, ...]:
    """Parameters x, which is the core's first input or another tensor, then `inner`, then y, the
    node's first output."""
    read = tensor_operand(v.graph, "x", x or v.core.inputs[0])
    return (read, *inner, Operand("y", v.out.dtype.c, "out", v.node.outputs[0]))


def read_by(v: View, reads: Mapping[str, int]) -> tuple[Operand, ...]:
    """Parameters for inputs of the core, by name and place."""
    return tuple(tensor_operand(v.graph, name, v.core.inputs[k]) for name, k in reads.items())


class Load:
    """What a kernel does with an element it reads: the node's fused prologue on input 0.

    `expr(c)` wraps the C text of the raw element. `tensor` is what is really read.
    """

    def __init__(self, v: View) -> None:
        nodes = v.node.body[: v.node.body.index(v.core)] if v.node.body else ()
        self._graph, self._nodes = v.graph, nodes
        self._result = v.core.inputs[0]
        self.tensor = nodes[0].inputs[0] if nodes else v.core.inputs[0]
        self.dtype = v.type(self.tensor).dtype
        types = (v.type(n).dtype for node in nodes for n in (*node.inputs, *node.outputs) if n)
        includes = [i for node in nodes for i in OPS[node.op].includes]
        self.includes = tuple(dict.fromkeys([*includes, *conversions(*types)]))

    def expr(self, c: str) -> str:
        """The value the core sees, given the C text of the stored element."""
        text = widen(self.dtype, c)
        env = {self.tensor: Scalar(text, self.dtype)}
        for node in self._nodes:
            args = self._arguments(node, env)
            dtype = self._graph.types[node.outputs[0]].dtype
            text, _ = _spelled(node, dtype, args)
            kept = _kept(node, dtype, args)
            unread = [a for a in args if a in env.values() and a and a.c not in kept]
            text = "".join(f"(void)({a}), " for a in unread) + text
            env[node.outputs[0]] = Scalar(f"({text})", dtype)
        return env[self._result].c

    @property
    def operations(self) -> Operations:
        """Of the expression, for each element that is loaded."""
        env, made = {self.tensor: Scalar("x", self.dtype)}, NOTHING
        for k, node in enumerate(self._nodes):
            args, dtype = self._arguments(node, env), self._graph.types[node.outputs[0]].dtype
            made += of_text(_spelled(node, dtype, args)[0], _computing(dtype, args))
            env[node.outputs[0]] = Scalar(f"x{k}", dtype)
        return made

    def _arguments(self, node: Node, env: Mapping[str, Scalar]) -> list[Scalar | None]:
        return [env[i] if i in env else self._const(i) if i else None for i in node.inputs]

    def _const(self, name: str) -> Scalar:
        value, dtype = self._graph.consts[name], self._graph.types[name].dtype
        return constant(value.item(), dtype)
