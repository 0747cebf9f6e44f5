"""ONNX model -> Graph in one walk: a node whose inputs are all known becomes constants, any other
gets its static types. The standard's own package does the typing and the evaluation."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from pathlib import Path

import numpy as np
from onnx import ModelProto, NodeProto, TensorProto, helper

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.importer.checks import Facts, wrong
from mlftool.importer.expansions import EXPANSIONS, OPSETS, Steps
from mlftool.importer.extents import Symbols, adapt, keep_shape
from mlftool.importer.folding import affordable, evaluate, is_empty, without_elements
from mlftool.importer.functions import body_of, has_body, inlined
from mlftool.importer.given import Numbers, with_values
from mlftool.importer.inference import infer, typed
from mlftool.importer.interface import (
    check_names,
    check_output,
    declare_sources,
    declared_type,
    read_opsets,
)
from mlftool.importer.load import load_hashed, model_name
from mlftool.importer.opset import RESOLVERS, Draft, modernise
from mlftool.importer.own import is_own
from mlftool.importer.producers import produce
from mlftool.importer.protos import (
    domain_of,
    first_line,
    op_name,
    place,
    plain,
    type_proto,
)
from mlftool.importer.sequences import imported, listed_input, listed_outputs
from mlftool.importer.shaped import shaped
from mlftool.importer.shapes import value_of_shapes
from mlftool.importer.structure import (
    CONTROL,
    REWRITTEN,
    all_results,
    check_values,
    execution_order,
    unknown_operators,
    unread_names,
    without_unread,
)
from mlftool.importer.subgraphs import import_control
from mlftool.importer.tensors import checked_value, too_large, unsound
from mlftool.ir import dtype
from mlftool.ir.graph import Array, Graph, Node, TensorType
from mlftool.ops import OPS, Trait, UnsupportedError, has
from mlftool.ops.folded import KEPT

KNOWN = OPS.keys() | REWRITTEN | RESOLVERS.keys()  # operators whose definition we do not need


def import_onnx(
    model: Path | ModelProto,
    name: str,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    data_files: Sequence[Path] = (),
    only_declared: bool = False,
    input_values: Mapping[str, Numbers] | None = None,
) -> Graph:
    """As `import_hashed`, without the hash."""
    return import_hashed(model, name, input_shapes, data_files, only_declared, input_values)[0]


def import_hashed(
    model: Path | ModelProto,
    name: str,
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    data_files: Sequence[Path] = (),
    only_declared: bool = False,
    input_values: Mapping[str, Numbers] | None = None,
) -> tuple[Graph, str]:
    """The model, a file or a proto, with static types; inputs in `input_values` become constants.
    And the SHA-256 of its one-file form. Raises MlfError with every problem found."""
    loaded, sha256 = load_hashed(model, data_files, only_declared)
    file, shapes = str(model_name(model)), input_shapes or {}
    if input_values:
        loaded = with_values(loaded, input_values, shapes, file)
        shapes = {k: v for k, v in shapes.items() if k not in input_values}
    return Importer(loaded, file, shapes).run(name), sha256


class Importer:
    """The state of one walk."""

    def __init__(
        self, model: ModelProto, file: str, input_shapes: Mapping[str, Sequence[int]]
    ) -> None:
        self.model, self.file, self.input_shapes = model, file, input_shapes
        self.problems: list[Problem] = []
        self.limits_used: set[str] = set()  # of `input_shapes`, those of tensors within the model
        self.where = ""  # the node and attribute whose subgraph this is
        self.types: dict[str, TensorType] = {}
        self.symbols: dict[str, Symbols] = {}  # of tensors with extents known at run time
        self.consts: dict[str, Array] = {}
        self.sequences: dict[str, tuple[str, ...]] = {}  # of tensors
        self.lengths: dict[str, str] = {}  # of sequences, where known only at run time
        self.absent: set[str] = set()  # optionals that hold nothing
        self.nodes: list[Node] = []
        self.opsets: dict[str, int] = {}
        self.spoiled: set[str] = set()  # initialisers with a problem, which is listed already
        infos = (*model.graph.value_info, *model.graph.output)
        self.unread = unread_names(model.graph)
        self.declared = {info.name: info.type for info in infos}
        kinds = ((i.name, i.type.tensor_type) for i in model.graph.input)
        flat = {n for n, t in kinds if t.HasField("shape") and not t.shape.dim}
        declare_sources(model.graph.node, self.declared, flat)

    def run(self, name: str) -> Graph:
        self.opsets = read_opsets(self.model, self.problem)
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
        for info in self.model.graph.output if not self.problems else ():
            if info.name in self.types:
                stated = self.limit(info.name)
                check_output(info, self._known(info.name), stated, self.problem)
        for name in sorted(self.input_shapes.keys() - set(inputs) - self.limits_used):
            text = f"shape given for '{name}', which is no input and has a known shape"
            self.problem("MLF0208", text, help="leave it out")
        self._raise()
        outputs = self._with_shapes(outputs)
        return Graph(name, inputs, outputs, tuple(self.nodes), self.types, self.consts)

    def problem(self, code: str, message: str, path: str = "", help: str = "") -> None:
        self.problems.append(Problem(code, message, self.file, path=self.where + path, help=help))

    def _raise(self) -> None:
        if self.problems:
            raise MlfError(self.problems)

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

    def too_large(self, type_: TensorType, where: str) -> bool:
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
            if type_ is not None and not self.too_large(type_, f"input '{info.name}'"):
                self.types[info.name] = type_
        within = all_results(self.model.graph)
        for name in sorted(self.input_shapes.keys() - set(names) - within):
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
        if text := unsound(node):
            self.problem("MLF0303", text, place(node, index))
            return
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
        found = infer(self, node, index)
        if found is None:
            return
        node = without_unread(node, found, self.unread)
        known = all(name in self.consts for name in node.input if name)
        known = known and op_name(node) not in KEPT
        if not known and all(is_empty(found.get(n)) for n in node.output if n):
            without_elements(self, node, found)
        elif known and not has(op_name(node), Trait.QUANTISE) and not is_own(node):
            if affordable(self, found, index, node):
                evaluate(self, node, index)
        elif (
            self._inline(node, index)
            or produce(self, node, index)
            or shaped(self, node, index, found)
        ):
            return
        elif all(typed(self, n, found.get(n), place(node, index)) for n in node.output if n):
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
        self.import_all(inlined(node, body, opset), imports, index, flat)
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
        except (ArithmeticError, TypeError, ValueError) as error:
            # Lists of all lengths and attributes of all kinds, which no schema relates.
            text = f"its inputs and attributes do not fit together: {first_line(error)}"
            self.problem("MLF0303", text, place(node, index))
            return
        self.import_all(steps.made, OPSETS, index)

    def import_all(
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

    def limit(self, name: str) -> tuple[int, ...]:
        """The greatest shape of a tensor within the model, as the user says; () if they do not."""
        given = self.input_shapes.get(name)
        if given is None:
            return ()
        self.limits_used.add(name)
        return tuple(given)

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
        if draft.out_shape and min(draft.out_shape) < 0:
            said = ",".join(map(str, draft.out_shape))
            text = f"output '{draft.outputs[0]}' has shape {said}; expected none negative"
            self.problem("MLF0206", text, place(node, index))
            return
        for out in filter(None, draft.outputs if draft.out_shape else ()):
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
