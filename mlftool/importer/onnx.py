"""ONNX model -> Graph: a work list takes each node through the stages below, until one of them
keeps the node, refuses it, or gives others that stand for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from onnx import GraphProto, ModelProto, NodeProto, helper

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.frozen import frozen, replace
from mlftool.importer.calls import called, with_functions
from mlftool.importer.checks import checked, worded
from mlftool.importer.extents import adapted, produced
from mlftool.importer.folding import empty, folded, of_shapes
from mlftool.importer.graphs import add_initializers, declared_in, ordered
from mlftool.importer.inference import inferred, typed
from mlftool.importer.interface import (
    check_names,
    check_output,
    declare_sources,
    declared_type,
    read_opsets,
)
from mlftool.importer.kept import expanded, inlined, kept
from mlftool.importer.protos import place
from mlftool.importer.remedies import for_extents, with_remedies
from mlftool.importer.sequences import left_out, listed_input, listed_outputs, of_sequences
from mlftool.importer.shaped import shaped
from mlftool.importer.structure import all_results
from mlftool.importer.subgraphs import control
from mlftool.importer.tensors import sound, too_large
from mlftool.ir import dtype
from mlftool.ir.graph import Graph, TensorType
from mlftool.onnx_rules.boxes import keep_shape
from mlftool.onnx_rules.protos import names_in
from mlftool.onnx_rules.scope import KEEP, Next, Outcome, Refuse, Replace, Rule, Scope


def known_inputs(scope: Scope, node: NodeProto) -> Outcome:
    """Leave out what reads a value whose producer had a problem, which is listed already."""
    return KEEP if any(n and n not in scope.types for n in node.input) else Next(node)


STAGES: tuple[Rule, ...] = (
    called,
    of_sequences,
    known_inputs,
    worded,
    sound,
    control,
    adapted,
    expanded,
    inferred,
    empty,
    inlined,
    folded,
    produced,
    shaped,
    typed,
    of_shapes,
    checked,
    kept,
)


ASSUMED = 64  # elements along each axis, of results without a limit, to find further ones


@frozen
class _Item:
    """A node that waits for stage number `stage`, or for what `then` says of it."""

    scope: Scope
    node: NodeProto
    stage: int = 0
    then: Callable[[], Outcome] | None = None


def walk(scope: Scope, nodes: Iterable[NodeProto]) -> None:
    """Import nodes, which come after those they read; problems go to the scope's list."""
    todo = _items(scope, nodes)[::-1]
    while todo:
        todo += _taken(todo.pop())[::-1]


def _items(scope: Scope, nodes: Iterable[NodeProto]) -> list[_Item]:
    return [_Item(replace(scope, index=k), node) for k, node in enumerate(nodes)]


def _taken(item: _Item) -> list[_Item]:
    """Take a node as far as it goes; what is to do before the items that wait."""
    scope, node, stage = item.scope, item.node, item.stage
    try:
        outcome = item.then() if item.then else Next(node)
        while isinstance(outcome, Next):
            node, stage = outcome.node, stage + 1
            outcome = STAGES[stage - 1](scope, node)
    except Refuse as refused:
        outcome = refused
    if isinstance(outcome, Refuse):
        where = place(node, scope.index)
        scope.problem(outcome.code, outcome.text, where, for_extents(scope, node, outcome))
    if not isinstance(outcome, Replace):
        return []
    inner = outcome.scope or scope
    if outcome.scalars is not None:
        declare_sources(outcome.nodes, inner.declared, outcome.scalars)
    items = _items(inner, outcome.nodes)
    return [*items, _Item(scope, node, stage, outcome.then)] if outcome.then else items


def import_model(
    model: ModelProto, name: str, file: str, input_shapes: Mapping[str, Sequence[int]]
) -> Graph:
    """A loaded model with static types; messages call it `file`. Raises MlfError with every
    problem found."""
    scope = _scope(model, file, input_shapes)
    before = len(scope.problems)
    scope = with_functions(scope, model)
    try:
        return _imported(model.graph, name, scope, len(scope.problems) - before)
    except MlfError as error:
        raise MlfError([*error.problems, *_further(model, scope)]) from None


def _further(model: ModelProto, scope: Scope) -> list[Problem]:
    """Problems of further results that need a limit, found by assuming limits for known ones."""
    found: list[Problem] = []
    limits = dict(scope.input_shapes)
    while new := scope.unbounded.keys() - limits.keys():
        limits |= {name: (ASSUMED,) * scope.unbounded[name] for name in new}
        scope = with_functions(_scope(model, scope.file, limits), model)
        with suppress(MlfError):
            _imported(model.graph, "", scope, 0)
        asked = [f"--input-shape {name}:" for name in scope.unbounded.keys() - limits.keys()]
        found += [p for p in scope.problems if any(word in p.help for word in asked)]
    return found


def _scope(model: ModelProto, file: str, input_shapes: Mapping[str, Sequence[int]]) -> Scope:
    scope = declared_in(model.graph, Scope(file, input_shapes))
    names = names_in(model.graph.node).union(i.name for i in model.graph.input)
    scope = replace(scope, opsets=read_opsets(model, scope.problem), names=names)
    add_initializers(scope, model.graph)
    return scope


def _imported(graph: GraphProto, name: str, scope: Scope, known: int) -> Graph:
    """`known` problems are of functions, which say nothing of the graph."""
    others = len(scope.problems)
    inputs = _inputs(graph, scope)
    known += len(scope.problems) - others  # unsupported operators are listed in any case
    defined = scope.types.keys() | scope.spoiled | {i.name for i in graph.input}
    order = ordered(scope, graph, defined, known)
    _raise(scope)
    walk(scope, order or ())
    outputs = listed_outputs(scope, [o.name for o in graph.output])
    if not outputs and not scope.problems:
        help = "say what a sequence 'x' holds by the shapes of its elements: --input-shape x.0:2,3"
        scope.problem("MLF0206", "gives no tensors, only empty sequences or optionals", help=help)
    for output in outputs:
        if output not in scope.types and not scope.problems:
            scope.problem("MLF0207", f"output '{output}' is never computed")
    outputs, remarks = _apart(scope, inputs, outputs)
    remarks += left_out(scope, graph.input)
    for info in graph.output if not scope.problems else ():
        if info.name in scope.types:
            made, stated = _known(scope, info.name), scope.limit(info.name)
            if text := check_output(info, made, stated, scope.problem):
                remarks.append(_remark(scope, info.name, text))
    for given in sorted(scope.input_shapes.keys() - set(inputs) - scope.limits_used):
        text = f"shape given for '{given}', which is not an input and has a known shape"
        scope.problem("MLF0208", text, help="leave it out")
    _raise(scope)
    outputs = _with_shapes(scope, outputs)
    made_of = (tuple(scope.nodes), scope.types, scope.consts)
    return Graph(name, inputs, outputs, *made_of, remarks=tuple(remarks))


def _apart(
    scope: Scope, inputs: tuple[str, ...], outputs: tuple[str, ...]
) -> tuple[tuple[str, ...], list[Problem]]:
    """Outputs that are inputs, and those that are listed again, become copies with names of their
    own: files of test vectors and the names of C's structs must tell them apart."""
    named: list[str] = []
    remarks = []
    for name in outputs:
        own = name
        if name in inputs or name in named:
            own = scope.fresh(f"{name}.out")
            walk(scope, [helper.make_node("Identity", [name], [own])])
            text = f"'{name}' is two outputs; one is '{own}'"
            if name in inputs:
                text = f"'{name}' is an input and an output; the output is '{own}'"
            remarks.append(Problem("MLF0316", text, scope.file, severity="warning"))
        named.append(own)
    return tuple(named), remarks


def _remark(scope: Scope, output: str, text: str) -> Problem:
    help = "export the model with the right shape, or expect the one that is computed"
    where = f"output '{output}'"
    return Problem("MLF0315", text, scope.file, path=where, help=help, severity="warning")


def _raise(scope: Scope) -> None:
    if scope.problems:
        raise MlfError(with_remedies(scope.problems))


def _inputs(graph: GraphProto, scope: Scope) -> tuple[str, ...]:
    names = []
    for info in graph.input:
        if info.name in scope.consts:
            continue  # an initialiser with a default that callers may override: ours may not
        listed = listed_input(scope, info)
        if listed is not None:
            names += listed
            continue
        names.append(info.name)
        type_ = declared_type(info, scope.input_shapes.get(info.name), scope.problem)
        if type_ is not None and (text := too_large(type_)):
            scope.problem("MLF0206", text, f"input '{info.name}'")
        elif type_ is not None:
            scope.types[info.name] = type_
    for name in sorted(scope.input_shapes.keys() - set(names) - all_results(graph)):
        scope.problem(
            "MLF0208",
            f"shape given for '{name}', which is not an input of the model",
            help=did_you_mean(name, names) if names else "",
        )
    outputs = dict.fromkeys(o.name for o in graph.output)
    check_names("input", names, scope.problem)
    check_names("output", [*outputs], scope.problem)
    return tuple(names)


def _known(scope: Scope, name: str) -> TensorType:
    """A tensor's type with -1 for extents that are not known."""
    type_ = scope.types[name]
    pairs = zip(scope.extents_of(name), type_.shape, strict=True)
    return TensorType(type_.dtype, tuple(-1 if s else n for s, n in pairs))


def _with_shapes(scope: Scope, outputs: tuple[str, ...]) -> tuple[str, ...]:
    """The outputs, and the true shape of each that has one, as int32 `<name>.shape`."""
    shapes = []
    for name in outputs:
        if name in scope.symbols:
            shapes.append(scope.fresh(f"{name}.shape"))
            keep_shape(scope, name, shapes[-1], dtype.int32)
    return (*outputs, *shapes)
