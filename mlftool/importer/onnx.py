"""ONNX model -> Graph in one walk: a node whose inputs are all known becomes constants, any other
gets its static types. The standard's own package does the typing and the evaluation."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper
from onnx import numpy_helper as np_helper
from onnx.shape_inference import InferenceError, infer_node_outputs

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.importer.load import load_model
from mlftool.importer.opset import Draft, modernise
from mlftool.ir import dtype
from mlftool.ir.edit import toposort
from mlftool.ir.graph import Array, Graph, Node, TensorType
from mlftool.ops import OPS, Trait, has
from mlftool.ops.reference import evaluate_proto

MAX_TENSOR_BYTES = 2**31 - 1  # offsets in generated C are int32
OLDEST_OPSET = 7


def import_onnx(
    path: Path,
    name: str,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    data_files: Sequence[Path] = (),
) -> Graph:
    """The model in `path` with static types. Raises MlfError with every problem found."""
    model = load_model(path, data_files)
    return Importer(model, str(path), input_shapes or {}).run(name)


class Importer:
    """The state of one walk."""

    def __init__(
        self, model: ModelProto, file: str, input_shapes: Mapping[str, Sequence[int]]
    ) -> None:
        self.model, self.file, self.input_shapes = model, file, input_shapes
        self.problems: list[Problem] = []
        self.types: dict[str, TensorType] = {}
        self.consts: dict[str, Array] = {}
        self.nodes: list[Node] = []
        self.opsets: dict[str, int] = {}

    def run(self, name: str) -> Graph:
        self._opsets()
        self._initializers()
        inputs = self._inputs()
        order = self._order()
        self._unknown_operators(order)
        self._raise()
        for index, node in enumerate(order):
            self._node(node, index)
        outputs = tuple(o.name for o in self.model.graph.output)
        for output in outputs:
            if output not in self.types and not self.problems:
                self._problem("MLF0207", f"output '{output}' is never computed")
        self._raise()
        return Graph(name, inputs, outputs, tuple(self.nodes), self.types, self.consts)

    def _problem(self, code: str, message: str, path: str = "", help: str = "") -> None:
        self.problems.append(Problem(code, message, self.file, path=path, help=help))

    def _raise(self) -> None:
        if self.problems:
            raise MlfError(self.problems)

    def _opsets(self) -> None:
        newest = onnx.defs.onnx_opset_version()
        for entry in self.model.opset_import:
            domain = "" if entry.domain == "ai.onnx" else entry.domain
            self.opsets[domain] = entry.version
        version = self.opsets.get("")
        if version is None:
            self._problem("MLF0204", "the model imports no opset of the default domain")
            self.opsets[""] = newest
        elif not OLDEST_OPSET <= version <= newest:
            self._problem(
                "MLF0204",
                f"opset {version}; expected {OLDEST_OPSET} to {newest}",
                help="convert the model with onnx.version_converter",
            )

    def _initializers(self) -> None:
        for tensor in self.model.graph.initializer:
            self._constant(tensor.name, tensor)
        if self.model.graph.sparse_initializer:
            self._problem("MLF0205", "sparse initialisers; expected dense ones")

    def _constant(self, name: str, tensor: TensorProto) -> None:
        where = f"tensor '{name}'"
        if tensor.data_type not in dtype.BY_ONNX:
            self._problem(
                "MLF0205",
                f"element type {_type_name(tensor.data_type)}; "
                f"supported: {', '.join(d.name for d in dtype.DTYPES)}",
                where,
            )
            return
        if any(d < 0 for d in tensor.dims):
            self._problem(
                "MLF0206", f"dimensions {list(tensor.dims)}; expected none negative", where
            )
            return
        if self._too_large(TensorType(dtype.BY_ONNX[tensor.data_type], tuple(tensor.dims)), where):
            return
        if name in self.consts:
            self._problem("MLF0207", "is defined twice", where)
        try:
            value = np_helper.to_array(tensor)
        except Exception as error:
            self._problem(
                "MLF0206",
                f"its data do not fit its shape {list(tensor.dims)}: {_first_line(error)}",
                where,
            )
            return
        self._add_const(name, value)

    def _add_const(self, name: str, value: Array) -> None:
        self.consts[name] = np.ascontiguousarray(value).reshape(value.shape)
        self.types[name] = TensorType(dtype.of(value), tuple(value.shape))

    def _too_large(self, type_: TensorType, where: str) -> bool:
        if type_.bytes > MAX_TENSOR_BYTES:
            self._problem(
                "MLF0206",
                f"{type_} has {type_.bytes} bytes; expected at most {MAX_TENSOR_BYTES}",
                where,
            )
            return True
        return False

    def _inputs(self) -> tuple[str, ...]:
        names = []
        for info in self.model.graph.input:
            if info.name in self.consts:
                continue  # an initialiser with a default that callers may override: ours may not
            names.append(info.name)
            type_ = self._declared(info)
            if type_ is not None:
                self.types[info.name] = type_
        for name in sorted(set(self.input_shapes) - set(names)):
            self._problem(
                "MLF0208",
                f"shape given for '{name}', which is not an input of the model",
                help=did_you_mean(name, names) if names else "",
            )
        if len(set(names)) != len(names):
            self._problem("MLF0207", "an input is listed twice")
        return tuple(names)

    def _declared(self, info: ValueInfoProto) -> TensorType | None:
        """Type of a graph input, with run-time dimensions taken from `input_shapes`."""
        where = f"input '{info.name}'"
        if not info.type.HasField("tensor_type"):
            self._problem(
                "MLF0205",
                f"is a {info.type.WhichOneof('value') or 'typeless value'}; expected a tensor",
                where,
            )
            return None
        tensor = info.type.tensor_type
        if tensor.elem_type not in dtype.BY_ONNX:
            self._problem(
                "MLF0205",
                f"element type {_type_name(tensor.elem_type)}; supported: "
                f"{', '.join(d.name for d in dtype.DTYPES)}",
                where,
            )
            return None
        given = self.input_shapes.get(info.name)
        if not tensor.HasField("shape") and given is None:
            self._problem(
                "MLF0206", "has no shape", where, f"give it: --input-shape {info.name}:1,3,32,32"
            )
            return None
        dims = [
            d.dim_value if d.HasField("dim_value") else d.dim_param or "?" for d in tensor.shape.dim
        ]
        shape = self._bind(dims, given, where, info.name, tensor.HasField("shape"))
        if shape is None:
            return None
        type_ = TensorType(dtype.BY_ONNX[tensor.elem_type], shape)
        return None if self._too_large(type_, where) else type_

    def _bind(
        self, dims: list[Any], given: Sequence[int] | None, where: str, name: str, ranked: bool
    ) -> tuple[int, ...] | None:
        shown = ",".join(map(str, dims))
        if given is not None:
            fits = not ranked or (
                len(given) == len(dims)
                and all(not isinstance(d, int) or d == g for d, g in zip(dims, given, strict=True))
            )
            if not fits:
                self._problem(
                    "MLF0208",
                    f"shape {','.join(map(str, given))} does not fit the model's {shown}",
                    where,
                )
                return None
            return tuple(given)
        if any(not isinstance(d, int) for d in dims):
            example = ",".join("1" if not isinstance(d, int) else str(d) for d in dims)
            self._problem(
                "MLF0206",
                f"shape {shown} is not known before run time",
                where,
                f"bind it: --input-shape {name}:{example}, or input_shapes in the manifest",
            )
            return None
        if any(d < 0 for d in dims):
            self._problem("MLF0206", f"shape {shown}; expected no negative dimension", where)
            return None
        return tuple(dims)

    def _order(self) -> list[NodeProto]:
        """All nodes in execution order, having checked that every value is defined exactly once."""
        defined = set(self.types) | set(self.consts) | {i.name for i in self.model.graph.input}
        nodes = list(self.model.graph.node)
        for index, node in enumerate(nodes):
            for out in node.output:
                if out and out in defined:
                    self._problem(
                        "MLF0207", f"output '{out}' is defined twice", _where(node, index)
                    )
                defined.add(out)
        for index, node in enumerate(nodes):
            for name in node.input:
                if name and name not in defined:
                    self._problem(
                        "MLF0207",
                        f"input '{name}' is not defined by any node, initialiser or graph input",
                        _where(node, index),
                    )
        for output in self.model.graph.output:
            if output.name not in defined:
                self._problem("MLF0207", f"output '{output.name}' is not defined by any node")
        self._raise()
        shells = [Node(str(i), tuple(n.input), tuple(n.output)) for i, n in enumerate(nodes)]
        try:
            order = toposort(shells, [o.name for o in self.model.graph.output])
        except ValueError as error:
            self._problem("MLF0207", f"value '{error}' depends on itself")
            self._raise()
        return [nodes[int(shell.op)] for shell in order]

    def _unknown_operators(self, order: list[NodeProto]) -> None:
        """Name every operator that cannot work, before anything else is tried."""
        for index, node in enumerate(order):
            if not _is_known(node, self.opsets):
                self._problem(
                    "MLF0301",
                    f"operator '{_op_name(node)}' of opset "
                    f"{self.opsets.get(_domain(node), '?')} does not exist",
                    _where(node, index),
                    did_you_mean(_op_name(node), OPS),
                )
            elif any(
                a.type in (AttributeProto.GRAPH, AttributeProto.GRAPHS) for a in node.attribute
            ):
                self._problem(
                    "MLF0302",
                    f"operator '{node.op_type}' has a subgraph; control flow is not supported yet",
                    _where(node, index),
                )

    def _node(self, node: NodeProto, index: int) -> None:
        """Evaluate, or type and keep, one node."""
        if any(name and name not in self.types for name in node.input):
            return  # its producer had a problem, which is listed already
        if node.op_type == "Constant" and not _domain(node):
            self._evaluate(node, index)
            return
        known = all(name in self.consts for name in node.input if name)
        if known and not has(_op_name(node), Trait.QUANTISE):
            self._evaluate(node, index)
            return
        if not self._infer(node, index):
            return
        self._keep(node, index)

    def _evaluate(self, node: NodeProto, index: int) -> None:
        try:
            results = evaluate_proto(node, [self.consts.get(n) for n in node.input], self.opsets)
        except Exception as error:
            self._problem(
                "MLF0303", f"cannot be evaluated: {_first_line(error)}", _where(node, index)
            )
            return
        for name, value in zip(node.output, results, strict=False):
            if name and np.asarray(value).dtype.name not in dtype.BY_NAME:
                self._problem(
                    "MLF0205",
                    f"makes a constant of type {np.asarray(value).dtype}; "
                    f"supported: {', '.join(dtype.BY_NAME)}",
                    _where(node, index),
                )
            elif name:
                self._add_const(name, np.asarray(value))

    def _infer(self, node: NodeProto, index: int) -> bool:
        """Types of the node's outputs by the standard's own inference."""
        where = _where(node, index)
        types = {n: _type_proto(self.types[n]) for n in node.input if n}
        data = {
            n: np_helper.from_array(self.consts[n])
            for n in node.input
            if n in self.consts and self.consts[n].size <= 1024
        }
        imports = [helper.make_opsetid(d, v) for d, v in self.opsets.items()]
        try:
            schema = onnx.defs.get_schema(node.op_type, self.opsets[_domain(node)], _domain(node))
            found = infer_node_outputs(schema, node, types, data, opset_imports=imports)
        except (
            InferenceError,
            onnx.onnx_cpp2py_export.shape_inference.InferenceError,
            onnx.checker.ValidationError,
            ValueError,
            RuntimeError,
        ) as error:
            self._problem("MLF0303", f"its inputs do not fit together: {_first_line(error)}", where)
            return False
        for name in node.output:
            if name and not self._typed(name, found.get(name), where):
                return False
        return True

    def _typed(self, name: str, proto: Any, where: str) -> bool:
        if proto is None or not proto.HasField("tensor_type"):
            self._problem("MLF0303", f"type of output '{name}' cannot be inferred", where)
            return False
        tensor = proto.tensor_type
        dims = [d.dim_value if d.HasField("dim_value") else None for d in tensor.shape.dim]
        if tensor.elem_type not in dtype.BY_ONNX:
            self._problem(
                "MLF0205", f"output '{name}' has element type {_type_name(tensor.elem_type)}", where
            )
            return False
        if not tensor.HasField("shape") or any(d is None or d < 0 for d in dims):
            self._problem(
                "MLF0206",
                f"shape of output '{name}' is not known before run time",
                where,
                "bind the model's symbolic dimensions with --input-shape",
            )
            return False
        type_ = TensorType(dtype.BY_ONNX[tensor.elem_type], tuple(d for d in dims if d is not None))
        self.types[name] = type_
        return not self._too_large(type_, where)

    def _keep(self, node: NodeProto, index: int) -> None:
        attrs = {a.name: _plain(helper.get_attribute_value(a)) for a in node.attribute}
        draft = Draft(
            _op_name(node),
            list(node.input),
            list(node.output),
            attrs,
            [self.types.get(n) for n in node.input],
            lambda hint, value: self._new_const(f"{node.output[0]}.{hint}", value),
        )
        if not _domain(node):
            modernise(draft, self.opsets[""])
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

    def _new_const(self, hint: str, value: Array) -> str:
        name = hint
        while name in self.types:
            name += "_"
        self._add_const(name, value)
        return name


def _type_proto(type_: TensorType) -> onnx.TypeProto:
    return helper.make_tensor_type_proto(type_.dtype.onnx, type_.shape)


def _is_known(node: NodeProto, opsets: Mapping[str, int]) -> bool:
    if _op_name(node) in OPS and _domain(node):
        return True
    version = opsets.get(_domain(node))
    return version is not None and onnx.defs.has(node.op_type, version, _domain(node))


def _domain(node: NodeProto) -> str:
    return "" if node.domain == "ai.onnx" else str(node.domain)


def _op_name(node: NodeProto) -> str:
    return f"{_domain(node)}.{node.op_type}" if _domain(node) else str(node.op_type)


def _where(node: NodeProto, index: int) -> str:
    return f"node '{node.name or index}' ({_op_name(node)})"


def _type_name(code: int) -> str:
    try:
        return str(TensorProto.DataType.Name(code)).lower()
    except ValueError:
        return f"number {code}"


def _first_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _plain(value: Any) -> Any:
    """An attribute's value in Python's own types."""
    if isinstance(value, bytes):
        return value.decode("utf-8", "replace")
    if isinstance(value, TensorProto):
        return np_helper.to_array(value)
    if isinstance(value, (list, tuple)) or (
        hasattr(value, "__iter__") and not isinstance(value, str)
    ):
        return [_plain(v) for v in value]
    return value
