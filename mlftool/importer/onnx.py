"""ONNX model -> Graph in one walk: a node whose inputs are all known becomes constants, any other
gets its static types. The standard's own package does the typing and the evaluation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import ModelProto, NodeProto, TensorProto, helper
from onnx import numpy_helper as np_helper
from onnx.shape_inference import InferenceError, infer_node_outputs

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.importer.checks import Facts, wrong
from mlftool.importer.expansions import EXPANSIONS, OPSETS, Steps, standard_form
from mlftool.importer.extents import Symbols, adapt, keep_shape, produce
from mlftool.importer.functions import body_of, has_body, inlined
from mlftool.importer.interface import (
    check_names,
    check_output,
    completed,
    declare_sources,
    declared_type,
)
from mlftool.importer.load import load_model, model_name
from mlftool.importer.opset import RESOLVERS, Draft, modernise
from mlftool.importer.own import is_own, result_types
from mlftool.importer.protos import (
    domain_of,
    first_line,
    op_name,
    place,
    plain,
    type_name,
    type_proto,
)
from mlftool.importer.sequences import imported, listed_input, listed_outputs
from mlftool.importer.shapes import value_of_shapes
from mlftool.importer.structure import (
    CONTROL,
    REWRITTEN,
    check_values,
    execution_order,
    unknown_operators,
)
from mlftool.importer.subgraphs import import_control
from mlftool.importer.tensors import checked_value, too_large
from mlftool.ir import dtype
from mlftool.ir.graph import Array, Graph, Node, TensorType
from mlftool.ops import OPS, Trait, UnsupportedError, has
from mlftool.ops.reference import evaluate_proto

KNOWN = OPS.keys() | REWRITTEN | RESOLVERS.keys()  # operators whose definition we do not need
MAX_FOLDED_BYTES = 2**28  # what one node may make of constants
OLDEST_OPSET = 1
# Without inference of their own, or as good: the type is the input's.
LIKE_FIRST = ("GroupNormalization", "StringNormalizer")


def import_onnx(
    model: Path | ModelProto,
    name: str,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    data_files: Sequence[Path] = (),
) -> Graph:
    """The model, a file or a proto, with static types. Raises MlfError with every problem found."""
    loaded = load_model(model, data_files)
    return Importer(loaded, str(model_name(model)), input_shapes or {}).run(name)


class Importer:
    """The state of one walk."""

    def __init__(
        self, model: ModelProto, file: str, input_shapes: Mapping[str, Sequence[int]]
    ) -> None:
        self.model, self.file, self.input_shapes = model, file, input_shapes
        self.problems: list[Problem] = []
        self.where = ""  # the node and attribute whose subgraph this is
        self.types: dict[str, TensorType] = {}
        self.symbols: dict[str, Symbols] = {}  # of tensors with extents known at run time
        self.consts: dict[str, Array] = {}
        self.sequences: dict[str, tuple[str, ...]] = {}  # of tensors
        self.absent: set[str] = set()  # optionals that hold nothing
        self.nodes: list[Node] = []
        self.opsets: dict[str, int] = {}
        self.spoiled: set[str] = set()  # initialisers with a problem, which is listed already
        infos = (*model.graph.value_info, *model.graph.output)
        self.declared = {info.name: info.type for info in infos}
        kinds = ((i.name, i.type.tensor_type) for i in model.graph.input)
        flat = {n for n, t in kinds if t.HasField("shape") and not t.shape.dim}
        declare_sources(model.graph.node, self.declared, flat)

    def run(self, name: str) -> Graph:
        self._opsets()
        self.add_initializers()
        inputs = self._inputs()
        defined = self.types.keys() | self.spoiled | {i.name for i in self.model.graph.input}
        check_values(self.model.graph, defined, self.problem)
        self._raise()
        order = execution_order(self.model.graph, self.problem)
        unknown_operators(order, self.opsets, self.consts, self.problem)
        self._raise()
        for index, node in enumerate(order):
            self.node(node, index)
        outputs = tuple(o.name for o in self.model.graph.output)
        outputs = listed_outputs(self, outputs)
        if not outputs and not self.problems:
            help = (
                "say what a sequence 'x' holds by the shapes of its elements: --input-shape x.0:2,3"
            )
            self.problem(
                "MLF0206", "gives no tensors, only empty sequences or optionals", help=help
            )
        for output in outputs:
            if output not in self.types and not self.problems:
                self.problem("MLF0207", f"output '{output}' is never computed")
        problems = len(self.problems)
        for info in self.model.graph.output:
            if info.name in self.types and not problems:
                check_output(info, self._known(info.name), self.problem)
        self._raise()
        outputs = self._with_shapes(outputs)
        return Graph(name, inputs, outputs, tuple(self.nodes), self.types, self.consts)

    def problem(self, code: str, message: str, path: str = "", help: str = "") -> None:
        self.problems.append(Problem(code, message, self.file, path=self.where + path, help=help))

    def _raise(self) -> None:
        if self.problems:
            raise MlfError(self.problems)

    def _opsets(self) -> None:
        newest = onnx.defs.onnx_opset_version()
        for entry in self.model.opset_import:
            domain = "" if entry.domain == "ai.onnx" else entry.domain
            if domain in self.opsets:
                self.problem("MLF0204", f"opset of domain '{entry.domain}' is imported twice")
            self.opsets[domain] = entry.version
        version = self.opsets.setdefault("", 0)
        if version == 0:
            self.opsets[""] = newest
            if any(not domain_of(node) for node in self.model.graph.node):
                self.problem("MLF0204", "the model imports no opset of the default domain")
        elif not OLDEST_OPSET <= version <= newest:
            self.problem(
                "MLF0204",
                f"opset {version}; expected {OLDEST_OPSET} to {newest}",
                help="convert the model with onnx.version_converter",
            )

    def add_initializers(self) -> None:
        for tensor in self.model.graph.initializer:
            self.constant(tensor.name, tensor)
        if self.model.graph.sparse_initializer:
            self.problem("MLF0205", "sparse initialisers; expected dense ones")
            self.spoiled |= {s.values.name for s in self.model.graph.sparse_initializer}

    def constant(self, name: str, tensor: TensorProto) -> None:
        self.spoiled.add(name)
        if name in self.consts:
            self.problem("MLF0207", "is defined twice", f"tensor '{name}'")
        value = checked_value(name, tensor, self.problem)
        if value is not None:
            self.spoiled.discard(name)
            self.add_const(name, value)

    def add_const(self, name: str, value: Array) -> None:
        self.consts[name] = np.ascontiguousarray(dtype.slots(value)).reshape(value.shape)
        self.types[name] = TensorType(dtype.of(value), tuple(value.shape))

    def _too_large(self, type_: TensorType, where: str) -> bool:
        return too_large(type_, where, self.problem)

    def _inputs(self) -> tuple[str, ...]:
        names = []
        for info in self.model.graph.input:
            if info.name in self.consts:
                continue  # an initialiser with a default that callers may override: ours may not
            listed = listed_input(self, info)
            if listed is not None:
                names += listed
                continue
            names.append(info.name)
            given = self.input_shapes.get(info.name)
            type_ = declared_type(info, given, self.problem)
            if type_ is not None and not self._too_large(type_, f"input '{info.name}'"):
                self.types[info.name] = type_
        for name in sorted(set(self.input_shapes) - set(names)):
            self.problem(
                "MLF0208",
                f"shape given for '{name}', which is not an input of the model",
                help=did_you_mean(name, names) if names else "",
            )
        check_names("input", names, self.problem)
        check_names("output", [o.name for o in self.model.graph.output], self.problem)
        for output in self.model.graph.output:
            if output.name in names:  # files of test vectors could not tell the two apart
                self.problem(
                    "MLF0207",
                    f"'{output.name}' is an input and an output",
                    help="put an Identity node between them",
                )
        return tuple(names)

    def node(self, node: NodeProto, index: int) -> None:
        """Evaluate, or type and keep, one node."""
        if imported(self, node, index):
            return
        if any(name and name not in self.types for name in node.input):
            return  # its producer had a problem, which is listed already
        if op_name(node) in CONTROL:
            import_control(self, node, index)
            return
        adapted = adapt(self, node, index)
        if adapted is None:
            return
        node = adapted
        if op_name(node) in EXPANSIONS:
            self._expand(node, index)
            return
        found = self._infer(node, index)
        if found is None:
            return
        known = all(name in self.consts for name in node.input if name)
        if not known and all(_is_empty(found.get(n)) for n in node.output if n):
            self._nothing(node, found)
        elif known and not has(op_name(node), Trait.QUANTISE) and not is_own(node):
            if self._affordable(found, index, node):
                self._evaluate(node, index)
        elif self._inline(node, index) or produce(self, node, index):
            return
        elif all(self._typed(n, found.get(n), place(node, index)) for n in node.output if n):
            types = [self.types[n] for n in node.input if n]
            value = value_of_shapes(node, types, self.types.get(node.output[0]), self.opsets)
            if value is None:
                self._keep(node, index)
            else:
                self.add_const(node.output[0], value)

    def _inline(self, node: NodeProto, index: int) -> bool:
        """Import the operator's definition in its place if it has one and we have no kernel."""
        opset = self.opsets[domain_of(node)]
        if op_name(node) in KNOWN or not has_body(node, opset):
            return False
        types = [type_proto(self.types[n], self.symbols.get(n, ())) for n in node.input if n]
        body = body_of(node, opset, types)
        if body is None:
            return False
        imports = {"" if o.domain == "ai.onnx" else o.domain: o.version for o in body.opset_import}
        flat = {n for n in node.input if n and not self.types[n].shape}
        self._import_all(inlined(node, body, opset), imports, index, flat)
        return True

    def _expand(self, node: NodeProto, index: int) -> None:
        """Import the other operators that this one stands for."""
        steps = Steps(node, [self.types.get(n) for n in node.input])
        try:
            EXPANSIONS[op_name(node)](steps)
        except UnsupportedError as error:
            self.problem("MLF0302", str(error), place(node, index))
            return
        except (KeyError, IndexError):
            self.problem("MLF0303", "lacks an input or an attribute", place(node, index))
            return
        self._import_all(steps.made, OPSETS, index)

    def _import_all(
        self,
        nodes: Sequence[NodeProto],
        opsets: Mapping[str, int],
        index: int,
        flat: Collection[str] = (),
    ) -> None:
        """Import what stands for a node, written for `opsets`."""
        outside, self.opsets = self.opsets, {**self.opsets, **opsets}
        declare_sources(nodes, self.declared, flat)
        for inner in nodes:
            self.node(inner, index)
        self.opsets = outside

    def _nothing(self, node: NodeProto, found: Mapping[str, Any]) -> None:
        """Tensors without elements are known, whatever their producer reads."""
        for name in filter(None, node.output):
            tensor = found[name].tensor_type
            shape = [d.dim_value for d in tensor.shape.dim]
            self.add_const(name, np.zeros(shape, dtype.BY_ONNX[tensor.elem_type].numpy))

    def _affordable(self, found: Mapping[str, Any], index: int, node: NodeProto) -> bool:
        """Whether a node's values are small enough to compute them."""
        for name, proto in found.items():
            if proto is None:
                continue
            tensor = proto.tensor_type
            dims = [d.dim_value for d in tensor.shape.dim]
            if tensor.elem_type in dtype.BY_ONNX and all(d > 0 for d in dims):
                type_ = TensorType(dtype.BY_ONNX[tensor.elem_type], tuple(dims))
                if type_.bytes > MAX_FOLDED_BYTES:
                    self.problem(
                        "MLF0206",
                        f"makes a constant '{name}' of {type_.bytes} bytes; "
                        f"expected at most {MAX_FOLDED_BYTES}",
                        place(node, index),
                    )
                    return False
        return True

    def _evaluate(self, node: NodeProto, index: int) -> None:
        try:
            results = evaluate_proto(node, [self.consts.get(n) for n in node.input], self.opsets)
        except Exception as error:
            self.problem("MLF0303", f"cannot be evaluated: {first_line(error)}", place(node, index))
            return
        for name, value in zip(node.output, results, strict=False):
            listed = isinstance(value, list)
            kind = "sequence" if listed else np.asarray(value).dtype
            if name and (listed or not dtype.is_known(np.asarray(value))):
                self.problem(
                    "MLF0205",
                    f"makes a constant of type {kind}; supported: {dtype.SUPPORTED}",
                    place(node, index),
                )
            elif name:
                self.add_const(name, np.asarray(value))

    def _infer(self, node: NodeProto, index: int) -> Mapping[str, Any] | None:
        """Types of the node's outputs by the standard's own inference."""
        where = place(node, index)
        if any(a.HasField("sparse_tensor") for a in node.attribute):
            self.problem("MLF0205", "is a sparse constant; expected a dense one", where)
            return None
        if is_own(node):
            return self._own(node, where)
        types = {n: type_proto(self.types[n], self.symbols.get(n, ())) for n in node.input if n}
        data = {
            n: np_helper.from_array(dtype.texts(self.consts[n]))
            for n in node.input
            if n in self.consts and self.consts[n].size <= 1024
        }
        imports = [helper.make_opsetid(d, v) for d, v in self.opsets.items()]
        try:
            schema = onnx.defs.get_schema(
                node.op_type, self.opsets[domain_of(node)], domain_of(node)
            )
            spoken = standard_form(node)
            found = infer_node_outputs(schema, spoken, types, data, opset_imports=imports)
        except (
            InferenceError,
            onnx.onnx_cpp2py_export.shape_inference.InferenceError,
            onnx.checker.ValidationError,
            ValueError,
            RuntimeError,
        ) as error:
            self.problem("MLF0303", f"is not valid: {first_line(error)}", where)
            return None
        if op_name(node) in LIKE_FIRST:
            found = {node.output[0]: types[node.input[0]]}
        names = filter(None, node.output)
        known = self.bounds
        return {n: completed(found.get(n), self.declared.get(n), known) for n in names}

    def _own(self, node: NodeProto, where: str) -> Mapping[str, Any] | None:
        try:
            return result_types(node, self.types)
        except UnsupportedError as error:
            self.problem("MLF0303", f"is not valid: {error}", where)
            return None

    def _typed(self, name: str, proto: Any, where: str) -> bool:
        if proto is None or not proto.HasField("tensor_type"):
            self.problem("MLF0303", f"type of output '{name}' cannot be inferred", where)
            return False
        tensor = proto.tensor_type
        bounds = self.bounds
        symbols = tuple(d.dim_param if d.dim_param in bounds else "" for d in tensor.shape.dim)
        dims = [
            d.dim_value if d.HasField("dim_value") else bounds.get(d.dim_param)
            for d in tensor.shape.dim
        ]
        if tensor.elem_type not in dtype.BY_ONNX:
            self.problem(
                "MLF0205", f"output '{name}' has element type {type_name(tensor.elem_type)}", where
            )
            return False
        if any(d is not None and d < 0 for d in dims):
            shown = ",".join("?" if d is None else str(d) for d in dims)
            self.problem(
                "MLF0206", f"output '{name}' has shape {shown}; expected none negative", where
            )
            return False
        if not tensor.HasField("shape") or None in dims:
            self.problem(
                "MLF0206",
                f"shape of output '{name}' is not known before run time",
                where,
                "bind the model's symbolic dimensions with --input-shape",
            )
            return False
        type_ = TensorType(dtype.BY_ONNX[tensor.elem_type], tuple(d for d in dims if d is not None))
        self.types[name] = type_
        if any(symbols):
            self.symbols[name] = symbols
        return not self._too_large(type_, where)

    def _known(self, name: str) -> TensorType:
        """A tensor's type with -1 for extents that are not known."""
        type_, symbols = self.types[name], self.symbols.get(name)
        if not symbols:
            return type_
        shape = tuple(-1 if s else n for s, n in zip(symbols, type_.shape, strict=True))
        return TensorType(type_.dtype, shape)

    @property
    def bounds(self) -> dict[str, int]:
        """The upper bound of each symbol."""
        return {
            symbol: self.types[name].shape[axis]
            for name, symbols in self.symbols.items()
            for axis, symbol in enumerate(symbols)
            if symbol
        }

    def without_symbols(self, node: NodeProto) -> None:
        """Import `node` as if its inputs filled their boxes."""
        hidden, self.symbols = self.symbols, {}
        self.node(node, 0)
        self.symbols = hidden | self.symbols

    def _with_shapes(self, outputs: tuple[str, ...]) -> tuple[str, ...]:
        """The outputs, and the true shape of each that has one, as int32 `<name>.shape`."""
        shapes = []
        for name in outputs:
            if name in self.symbols:
                shapes.append(self.fresh(f"{name}.shape"))
                keep_shape(self, name, shapes[-1], dtype.int32)
        return (*outputs, *shapes)

    def _keep(self, node: NodeProto, index: int) -> None:
        attrs = {a.name: plain(helper.get_attribute_value(a)) for a in node.attribute}
        types = [self.types.get(n) for n in node.input]
        values = [self.consts.get(n) for n in node.input]
        first = next(name for name in node.output if name)
        facts = Facts(op_name(node), attrs, types, values, self.types[first])
        problem = wrong(facts)
        if problem:
            self.problem("MLF0303", problem, place(node, index))
            return
        draft = Draft(
            op_name(node),
            list(node.input),
            list(node.output),
            attrs,
            types,
            [self.types[n] if n else self.types[first] for n in node.output],
            lambda hint, value: self._new_const(f"{node.output[0]}.{hint}", value),
            lambda op, x, type_: self._emit(op, x, type_, node),
            self.add_const,
            values,
        )
        if not domain_of(node):
            modernise(draft, self.opsets[""])
        if draft.out_shape:
            out = draft.outputs[0]
            self.types[out] = TensorType(self.types[out].dtype, draft.out_shape)
        while draft.inputs and not draft.inputs[-1]:
            draft.inputs.pop()
        while draft.outputs and not draft.outputs[-1]:
            draft.outputs.pop()
        self.nodes.append(
            Node(
                draft.op,
                tuple(draft.inputs),
                tuple(draft.outputs),
                draft.attrs,
                node.name or f"{node.op_type}_{index}",
            )
        )

    def _emit(self, op: str, x: str, type_: TensorType, like: NodeProto) -> str:
        """A node that makes `type_` of `x`; returns the name of its value."""
        name = self.fresh(f"{like.output[0]}.{x}")
        self.types[name] = type_
        self.nodes.append(Node(op, (x,), (name,), {}, f"{like.name or like.op_type} {op}"))
        return name

    def _new_const(self, hint: str, value: Array) -> str:
        name = self.fresh(hint)
        self.add_const(name, value)
        return name

    def fresh(self, hint: str) -> str:
        """A name that no value has."""
        while hint in self.types:
            hint += "_"
        return hint


def _is_empty(proto: Any) -> bool:
    """Whether a type has no elements, for certain."""
    if proto is None or not proto.HasField("tensor_type"):
        return False
    tensor = proto.tensor_type
    dims = tensor.shape.dim
    known = all(d.HasField("dim_value") and d.dim_value >= 0 for d in dims)
    return tensor.elem_type in dtype.BY_ONNX and known and any(d.dim_value == 0 for d in dims)
