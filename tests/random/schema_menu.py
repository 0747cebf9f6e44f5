"""The sixth generator: operators as their schemas have them, of opsets 7 to 24 and `com.microsoft`.

It knows next to nothing of what an operator does. Types are drawn from the schema, attributes and
small operands from words and numbers that the schema or the name of a parameter suggests, and what
onnxruntime does not take is drawn anew. Types that numpy lacks come from a Cast and go into one.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
import onnx
import onnxruntime
from apart import apart
from grow import Array, Feed, Network, session_of
from onnx import TensorProto, defs, helper, numpy_helper
from onnxruntime.capi import onnxruntime_pybind11_state as native
from schema_judge import Oracles
from schema_words import ATTRIBUTES, FLOATS, LISTS, RECIPES, SKIPPED, STEPS, WHOLE, WORDS

import mlftool.compile  # noqa: F401 - it loads all records
from mlftool.ops.base import known

MS = "com.microsoft"
FIRST_OPSET, LAST_OPSET = 7, 24
MOST = 600  # elements of a tensor
TRIES = 10
NARROW = {  # a type that numpy lacks -> the one that carries its values into and out of a network
    **dict.fromkeys((TensorProto.BFLOAT16,), TensorProto.FLOAT),
    **dict.fromkeys((TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E5M2), TensorProto.FLOAT),
    **dict.fromkeys((TensorProto.INT4, TensorProto.INT2), TensorProto.INT8),
    **dict.fromkeys((TensorProto.UINT4, TensorProto.UINT2), TensorProto.UINT8),
}
NATIVE = ("FLOAT", "DOUBLE", "FLOAT16", "INT8", "INT16", "INT32", "INT64")
NATIVE = (*NATIVE, "UINT8", "UINT16", "UINT32", "UINT64", "BOOL")
CODES = {getattr(TensorProto, n): n.lower() for n in NATIVE} | {
    k: TensorProto.DataType.Name(k).lower() for k in NARROW
}
BY_TEXT = {f"tensor({text})": code for code, text in CODES.items()}


@dataclass(frozen=True)
class Parameter:
    name: str
    type: str  # a type, or the name of a constraint
    option: str  # Single, Optional, Variadic


@dataclass(frozen=True)
class Schema:
    """What a draw has to know of an operator."""

    name: str
    domain: str
    inputs: tuple[Parameter, ...]
    outputs: tuple[int, int]  # least and most
    types: dict[str, tuple[int, ...]] = field(hash=False)
    attributes: dict[str, tuple[str, Any]] = field(hash=False)  # name -> kind, default


@cache
def schemas(opset: int) -> tuple[Schema, ...]:
    """Those that onnxruntime has a kernel or a definition of, or may have."""
    latest: dict[str, Any] = {}
    for one in defs.get_all_schemas_with_history():
        known = latest.get(one.name)
        newer = known is None or known.since_version < one.since_version
        if one.domain == "" and one.since_version <= opset and newer:
            latest[one.name] = one
    made = [_schema(s, _default) for s in latest.values() if not s.deprecated]
    theirs = [s for s in native.get_all_operator_schema() if s.domain == MS]
    made += [_schema(s, lambda _: None) for s in theirs]
    return tuple(sorted((s for s in made if s and s.name not in SKIPPED and _ours(s)), key=_key))


def _ours(schema: Schema) -> bool:
    """Of `com.microsoft`, most are for other processors; those that we compile are tried."""
    return not schema.domain or known(f"{schema.domain}.{schema.name}") is not None


def _key(schema: Schema) -> tuple[str, str]:
    return schema.domain, schema.name


def _default(attribute: Any) -> Any:
    proto = attribute.default_value
    return helper.get_attribute_value(proto) if proto and proto.type else None


def _schema(s: Any, default: Any) -> Schema | None:
    def option(p: Any) -> str:
        return str(p.option).rpartition(".")[2]

    def spelt(p: Any) -> str:
        return str(getattr(p, "type_str", None) or getattr(p, "typeStr", ""))

    types = {
        c.type_param_str: tuple(BY_TEXT[t] for t in c.allowed_type_strs if t in BY_TEXT)
        for c in s.type_constraints
    }
    kinds = {n: (str(a.type).rpartition(".")[2], default(a)) for n, a in s.attributes.items()}
    if any(k in ("GRAPH", "GRAPHS", "TYPE_PROTO") for k, _ in kinds.values()) or not s.inputs:
        return None
    inputs = tuple(Parameter(p.name, spelt(p), option(p)) for p in s.inputs)
    if any(p.type not in BY_TEXT and not types.get(p.type) for p in inputs):
        return None
    return Schema(s.name, s.domain, inputs, (s.min_output, s.max_output), types, kinds)


class NotThisError(Exception):
    """onnxruntime does not take it."""


class Drawer:
    """A network under construction."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.opset = int(
            rng.choice((7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 21, 22, 23, 24))
        )
        self.arrays: dict[str, Array] = {}  # of narrow types: what carries them
        self.codes: dict[str, int] = {}
        self.pool: list[str] = []
        self.inputs: dict[str, int] = {}
        self.consts: dict[str, TensorProto] = {}
        self.nodes: list[onnx.NodeProto] = []
        self.base = self.shape()
        self.drawn = 0
        self.scales: set[str] = set()  # inputs that are one

    def odds(self, share: float) -> bool:
        return bool(self.rng.random() < share)

    def pick(self, choices: Sequence[Any]) -> Any:
        if not len(choices):
            raise NotThisError
        return choices[int(self.rng.integers(len(choices)))]

    def shape(self) -> tuple[int, ...]:
        rank = self.pick((0, 1, 2, 2, 3, 3, 4, 4, 4, 4, 5, 6))
        extents = (1, 1, 2, 2, 3, 4, 4, 5, 6, 7, 8) if self.odds(0.9) else (0, 1, 2, 3)
        found = tuple(self.pick(extents) for _ in range(rank))
        return found if math.prod(found) <= MOST else found[:3]

    # Tensors.

    def name(self) -> str:
        return f"t{len(self.arrays)}"

    def tensor(self, code: int, shape: Sequence[int], const: bool, kind: str = "") -> str:
        name = self.keep(code, numbers(self.rng, code, tuple(shape), kind), const)
        if kind == "scale":
            self.scales |= {name, f"{name}_in"}
        return name

    def keep(self, code: int, array: Array, const: bool) -> str:
        name = self.name()
        self.arrays[name], self.codes[name] = array, code
        if const:
            self.consts[name] = proto(name, code, array)
        elif code in NARROW:
            feed = f"{name}_in"
            self.inputs[feed] = NARROW[code]
            self.arrays[feed], self.codes[feed] = array, NARROW[code]
            self.nodes.append(helper.make_node("Cast", [feed], [name], to=code))
        else:
            self.inputs[name] = code
        return name

    # Nodes.

    def draw(self) -> bool:
        """Whether onnxruntime takes the operator that is drawn."""
        every = schemas(self.opset)
        schema = self.pick([s for s in every if s.domain] if self.odds(0.25) else every)
        saved = (len(self.nodes), dict(self.inputs), dict(self.consts), dict(self.arrays))
        for _ in range(TRIES):
            try:
                self._node(schema)
                self.drawn += 1
                return True
            except NotThisError:
                count, self.inputs, self.consts, self.arrays = (
                    saved[0],
                    *map(dict, saved[1:]),
                )
                del self.nodes[count:]
        return False

    def _node(self, schema: Schema) -> None:
        chosen = {t: self._type(codes) for t, codes in schema.types.items() if codes}
        attrs = self._attributes(schema)
        recipe = RECIPES.get(schema.name)
        shapes = recipe(self.rng, attrs) if recipe and self.odds(0.9) else {}
        first: tuple[int, ...] | None = None
        names: list[str] = []
        for k, p in enumerate(schema.inputs):
            if p.option == "Optional" and self.odds(0.4) and p.name not in shapes:
                names.append("")
                continue
            code = BY_TEXT.get(p.type) or chosen[p.type]
            for _ in range(self.pick((1, 2, 3)) if p.option == "Variadic" else 1):
                name = self._operand(code, p, first, k, shapes)
                first = self.arrays[name].shape if first is None else first
                names.append(name)
        while names and not names[-1]:
            names.pop()
        least, most = schema.outputs
        count = max(least, 1) if self.odds(0.8) else min(most, 3)
        outs = [f"t{len(self.arrays) + i}" for i in range(count)]
        node = helper.make_node(schema.name, names, outs, domain=schema.domain, **attrs)
        for name, (code, array) in zip(outs, self._run(node), strict=True):
            if array.size > MOST or array.ndim > 7 or code not in CODES:
                raise NotThisError
            self.arrays[name], self.codes[name] = array, code
        self.nodes.append(node)
        self.pool += outs

    def _type(self, codes: Sequence[int]) -> int:
        if TensorProto.FLOAT in codes and self.odds(0.4):
            return int(TensorProto.FLOAT)
        recent = [self.codes[n] for n in self.pool if self.codes[n] in codes]
        return int(self.pick(recent if recent and self.odds(0.6) else codes))

    def _operand(
        self,
        code: int,
        p: Parameter,
        first: tuple[int, ...] | None,
        place: int,
        shapes: dict[str, tuple[int, ...]],
    ) -> str:
        name = p.name.lower()
        if p.name in shapes:
            fits = [
                n
                for n in self.pool
                if self.codes[n] == code and self.arrays[n].shape == shapes[p.name]
            ]
            if fits and self.odds(0.7):
                return str(self.pick(fits))
            kind = "scale" if "scale" in name else ""
            return self.tensor(code, shapes[p.name], self.odds(0.5 if place else 0.1), kind)
        for part, lists in LISTS.items():
            if part in name and code in (TensorProto.INT64, TensorProto.INT32):
                rank = len(first or ())
                values = np.asarray(lists(self.rng, rank, first or ()))
                dtype = helper.tensor_dtype_to_np_dtype(code)
                return self.keep(code, values.astype(dtype), self.odds(0.85))
        small = (
            "scale" in name or "zero_point" in name or name in ("epsilon", "ratio", "min", "max")
        )
        if small and place:
            shape = () if self.odds(0.7) or not first else (self.pick(first),)
            return self.tensor(code, shape, self.odds(0.85), "scale" if "scale" in name else "")
        fits = [n for n in self.pool if self.codes[n] == code]
        if fits and self.odds(0.75 if place == 0 else 0.4):
            return str(self.pick(fits[-4:]))
        shape = self._like(first) if first is not None else self.base
        return self.tensor(code, shape, self.odds(0.4 if place else 0.08))

    def _like(self, first: tuple[int, ...]) -> tuple[int, ...]:
        kind = self.pick(
            ("same", "same", "ones", "tail", "channel", "last", "scalar", "one", "any", "matrix")
        )
        if kind == "same" or not first:
            return first
        if kind == "ones":
            return tuple(n if self.odds(0.5) else 1 for n in first)
        if kind == "tail":
            return first[self.rng.integers(len(first)) :]
        if kind == "channel":
            return (first[min(1, len(first) - 1)],)
        if kind == "matrix":
            return (first[-1], self.pick((1, 2, 3, 5)))
        return {"last": (first[-1],), "scalar": (), "one": (1,), "any": self.shape()}[kind]

    def _attributes(self, schema: Schema) -> dict[str, Any]:
        attrs = {}
        rank = len(self.base)
        for name, (kind, default) in schema.attributes.items():
            if default is not None and self.odds(0.25):
                attrs[name] = default
            elif self.odds(0.45) and name not in ("axis", "to", "equation", "num_heads", "perm"):
                continue
            elif name in ATTRIBUTES:
                attrs[name] = ATTRIBUTES[name](self.rng, rank)
            elif kind == "STRING" and name in WORDS:
                attrs[name] = self.pick(WORDS[name])
            elif kind == "INT":
                flag = default in (0, 1) and self.odds(0.95)
                attrs[name] = int(self.pick((0, 1) if flag else WHOLE))
            elif kind == "FLOAT":
                attrs[name] = float(self.pick(FLOATS))
            elif kind == "INTS":
                spatial = max(1, rank - 2) * (2 if name == "pads" else 1)
                attrs[name] = [int(self.pick((0, 1, 1, 2, 3))) for _ in range(spatial)]
        return attrs

    def _run(self, node: onnx.NodeProto) -> list[tuple[int, Array]]:
        """What onnxruntime makes of one node whose operands are all constants."""
        read = [n for n in dict.fromkeys(node.input) if n]
        tensors = [proto(n, self.codes[n], self.arrays[n]) for n in read]
        outs = list(node.output)
        ends = [helper.make_empty_tensor_value_info(o) for o in outs]
        graph = helper.make_graph([node], "one", [], ends, tensors)
        try:
            session = session_of(modelled(graph, self.opset))
            codes = [BY_TEXT[o.type] for o in session.get_outputs()]
            if any(c in NARROW for c in codes):
                session = session_of(modelled(_carried(graph, codes), self.opset))
            return list(zip(codes, map(np.asarray, session.run(None, {})), strict=True))
        except Exception as error:
            raise NotThisError(str(error)) from None

    def network(self, name: str) -> Network:
        read = {i for n in self.nodes for i in n.input}
        made = [o for n in self.nodes for o in n.output if o in self.pool]
        outs = [o for o in made if o not in read or self.odds(0.2)]
        ins = [i for i in self.inputs if i in read]
        infos = [
            helper.make_tensor_value_info(i, self.inputs[i], self.arrays[i].shape) for i in ins
        ]
        consts = [t for n, t in self.consts.items() if n in read]
        ends = [helper.make_empty_tensor_value_info(o) for o in outs]
        graph = helper.make_graph(self.nodes, name, infos, ends, consts)
        graph = _carried(graph, [self.codes[o] for o in outs], typed=True)
        model = modelled(graph, self.opset)
        feeds: list[Feed] = [{i: self.arrays[i] for i in ins}]
        carries = {f"{n}_in": c for n, c in self.codes.items() if f"{n}_in" in self.inputs}
        tame = any(n.op_type in STEPS or n.op_type.startswith("Q") for n in self.nodes)
        for kind in ("", "tame" if tame else "special"):
            feed = {}
            for i in ins:
                mine, code = "scale" if i in self.scales else kind, carries.get(i, self.inputs[i])
                feed[i] = numbers(self.rng, code, self.arrays[i].shape, mine)
            feeds.append(feed)
        return Network(name, model, _taken(model, feeds), "schemas", Oracles)


def _taken(model: onnx.ModelProto, feeds: Sequence[Feed]) -> tuple[Feed, ...]:
    """Those samples of which onnxruntime makes tensors as large as of the first."""
    session, kept, shapes = session_of(model), [], None
    for feed in feeds:
        try:
            found = [np.asarray(f).shape for f in session.run(None, feed)]
        except Exception:
            continue
        if shapes in (None, found):
            kept.append(feed)
            shapes = found
    if not kept or not model.graph.input:
        raise NotThisError
    return tuple(kept) if len(kept) > 1 else (kept[0], kept[0])


def _carried(graph: onnx.GraphProto, codes: Sequence[int], typed: bool = False) -> onnx.GraphProto:
    """The graph, its outputs of narrow types cast to what numpy has."""
    for output, code in zip(graph.output, codes, strict=True):
        plain = NARROW.get(code, code)
        if code in NARROW:
            graph.node.append(
                helper.make_node("Cast", [output.name], [f"{output.name}_out"], to=plain)
            )
            output.name += "_out"
        if typed:
            output.CopyFrom(helper.make_tensor_value_info(output.name, plain, None))
    return graph


def modelled(graph: onnx.GraphProto, opset: int) -> onnx.ModelProto:
    imports = [helper.make_opsetid("", opset), helper.make_opsetid(MS, 1)]
    return helper.make_model(graph, opset_imports=imports, ir_version=10)


def proto(name: str, code: int, array: Array) -> TensorProto:
    if code in NARROW:
        return helper.make_tensor(name, code, array.shape, array.flatten().tolist())
    return numpy_helper.from_array(np.ascontiguousarray(array).reshape(array.shape), name)


def numbers(rng: np.random.Generator, code: int, shape: tuple[int, ...], kind: str = "") -> Array:
    """Values of a type, those of narrow types in what carries them. `kind`: scale, special, tame
    (special without what no integer stands for)."""
    dtype = helper.tensor_dtype_to_np_dtype(NARROW.get(code, code))
    if dtype.kind == "f":
        x = rng.normal(size=shape) * 10.0 ** rng.integers(-1, 2)
        x = np.where(rng.random(shape) < 0.2, np.round(x * 2) / 2, x)
        if kind == "scale":
            x = np.abs(x) * 0.1 + 0.01
        if kind == "special":
            tiny = np.finfo(dtype).smallest_subnormal
            odd = np.array([np.nan, np.inf, -np.inf, -0.0, 0.0, float(tiny)])
            x = np.where(rng.random(shape) < 0.25, rng.choice(odd, size=shape), x)
        if kind == "tame":
            x = np.where(rng.random(shape) < 0.25, rng.choice((0.0, -0.0, 1e-40), size=shape), x)
        return np.asarray(x).astype(dtype)
    if dtype.kind == "b":
        return np.asarray(rng.integers(0, 2, size=shape)).astype(dtype)
    bits = {"int4": 4, "uint4": 4, "int2": 2, "uint2": 2}.get(CODES[code], dtype.itemsize * 8)
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if dtype.kind == "i" else (0, 2**bits - 1)
    narrow = (
        (max(low, -100), min(high, 100)) if rng.random() < 0.5 else (max(low, -3), min(high, 5))
    )
    x = rng.integers(narrow[0], narrow[1], size=shape, endpoint=True)
    if kind in ("special", "tame"):
        ends = np.array([low, high, 0, min(high, 1)], dtype)
        return np.where(rng.random(shape) < 0.3, rng.choice(ends, size=shape), x.astype(dtype))
    return np.asarray(x).astype(dtype)


def drawn(seed: int, index: int) -> Network:
    """Network `index` of a seed, the same whenever it is asked for. onnxruntime aborts on some of
    what it should refuse, so it is asked in a process of its own."""
    attempt = 0
    while (network := _apart(seed, index, attempt)) is None:
        attempt += 1
    return network


def _apart(seed: int, index: int, attempt: int) -> Network | None:
    def work() -> tuple[bytes, Sequence[Feed]]:
        network = _attempt(seed, index, attempt)
        return network.model.SerializeToString(), network.feeds

    try:
        made = apart(work)
    except RuntimeError:  # onnxruntime refuses what was drawn
        made = None
    if made is None:
        return None
    model, feeds = onnx.load_model_from_string(made[0]), made[1]
    return Network(f"s{seed}_{index}", model, feeds, "schemas", Oracles)


def _attempt(seed: int, index: int, attempt: int) -> Network:
    maker = Drawer(np.random.default_rng([seed, index, attempt, 6]))
    wanted = maker.pick((1, 1, 1, 2, 3, 4, 6, 8))
    for _ in range(6 * wanted):
        if maker.draw() and maker.drawn == wanted:
            break
    return maker.network(f"s{seed}_{index}")


onnxruntime.set_default_logger_severity(4)
