"""What the layers of a model compute: the model again, with their results as further outputs.

Of a quantised layer only what it stores becomes an output, never the float that it stands for, so
it is computed in integers as in the deployed module.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
from onnx import ModelProto, helper

from mlftool.compile import compile_modules
from mlftool.errors import MlfError
from mlftool.frontends.given import with_values
from mlftool.frontends.load import load_model
from mlftool.frontends.models import TFLite, imported, model_name, opened
from mlftool.frontends.tflite.reader import read
from mlftool.frozen import field, frozen, replace
from mlftool.ir.graph import Array, Graph, Node
from mlftool.mlf import Bundle
from mlftool.mlf.interface import Interface, Tensor
from mlftool.module import ModuleSpec
from mlftool.ops import Trait, is_a
from mlftool.ops.base import contracts, record
from mlftool.quantize.factors import Factors, noted
from mlftool.runtime.execute import Place, execute
from mlftool.runtime.interface import read_interface

ALL_AT_ONCE = 256 << 10  # bytes of further outputs that any board has room for


@frozen
class Result:
    """What a layer gives: tensor `name`, which stands for the float tensor `meant` if it is
    quantised and for itself if not. `node` is the layer's; `cut` is the result of an activation
    that cuts this one off, if that is all that reads it. `kind`, which counts operators after the
    layer's own, and `shape` tell layers apart where names do not. `fused` is the operator of each
    node that is computed with the layer, by the node's name, in order."""

    name: str
    meant: str
    node: str
    op: str
    kind: str
    shape: tuple[int, ...]
    cut: str = ""
    fused: Mapping[str, str] = field(default_factory=dict)


@frozen
class Traced:
    """A model that can be run with its layers' results. `factors` are those of tensors that a
    quantiser equalised."""

    spec: ModuleSpec
    model: ModelProto | TFLite
    results: tuple[Result, ...]
    bytes: Mapping[str, int]
    inputs: tuple[Tensor, ...]
    factors: Mapping[str, Factors]


def traced(spec: ModuleSpec) -> Traced:
    """Raises MlfError for a model that does not compile."""
    source = opened(spec.model)
    is_tflite = isinstance(source, TFLite)
    model = source if isinstance(source, TFLite) else _loaded(spec, source)
    values = spec.input_values if is_tflite else {}  # the others are in the model
    shapes = {k: v for k, v in spec.input_shapes.items() if k not in spec.input_values}
    plain = replace(spec, model=model, input_values=values, input_shapes=shapes, data_files=())
    with _said_of(spec):
        graph = imported(model, spec.module_name, shapes, input_values=values)[0]
        interface = _compiled(plain, model, ())[1]
    kept = {state.output for state in graph.states}  # in any order: another model's may differ
    named = (_named(model) | set(graph.outputs)) - kept
    results = tuple(_results(graph, named))
    sizes = {r.name: graph.types[r.name].bytes for r in results}
    shapes_of = {r.meant: r.shape for r in results}
    factors = {} if isinstance(model, TFLite) else noted(model, shapes_of, str(model_name(source)))
    return Traced(plain, model, results, sizes, interface.inputs, factors)


@frozen
class Finished:
    """A module of an archive: of its layers' results it gives the outputs alone."""

    bundle: Bundle
    interface: Interface

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        return self.interface.inputs

    @property
    def results(self) -> tuple[Result, ...]:
        return tuple(
            Result(t.name, t.name, "", "output", "output", t.shape) for t in self.interface.results
        )


def finished(spec: ModuleSpec) -> Finished:
    """A model, compiled as it is. Raises MlfError."""
    bundle = compile_modules([spec])
    return Finished(bundle, read_interface(bundle, spec.module_name, str(model_name(spec.model))))


@contextmanager
def _said_of(spec: ModuleSpec) -> Iterator[None]:
    """Problems of a model in memory are said of its file, those of other files of these."""
    try:
        yield
    except MlfError as error:
        if not isinstance(spec.model, Path):
            raise
        others = {str(path) for path in (spec.tuning, *spec.backend_files) if path}
        problems = [
            p if p.file in others else replace(p, file=str(spec.model)) for p in error.problems
        ]
        raise MlfError(problems, error.exit_code) from error.__cause__


def _loaded(spec: ModuleSpec, source: Path | ModelProto) -> ModelProto:
    """The model with its weights inside; inputs that are given are constants."""
    model = load_model(source, spec.data_files, spec.only_declared)
    return with_values(model, spec.input_values, spec.input_shapes, str(model_name(source)))


def _named(model: ModelProto | TFLite) -> set[str]:
    """The results that the model's file names."""
    if isinstance(model, ModelProto):
        return {name for node in model.graph.node for name in node.output if name}
    tensors = read(model.data, model.name).subgraphs[0].tensors
    return {t.name for t in tensors if t.name and t.data is None and not t.variable}


def _results(graph: Graph, named: set[str]) -> Iterator[Result]:
    """Those that the model's file names, in order."""
    made = {name: n for n in graph.nodes for name in n.outputs if name}
    readers: dict[str, list[Node]] = {}
    for node in graph.nodes:
        for name in node.inputs:
            readers.setdefault(name, []).append(node)
    found: dict[str, Node] = {}
    for node in graph.nodes:
        name = node.result
        layer = _computed_by(node, made, named) if name in named else None
        if layer is None:
            continue
        if is_a(layer, Trait.QUANTISER):
            if _only_stored(layer.inputs[0], made):
                continue  # or an input
        elif _is_quantised_later(name, readers) or _is_folded(readers.get(name, [])):
            continue
        found[name] = layer
    others = {node.result for node in found.values()}
    for name, layer in found.items():
        yield _result(graph, name, layer, made, readers, named, others)


def _computed_by(node: Node, made: Mapping[str, Node], named: set[str]) -> Node | None:
    """The node itself, or what a front end moves the result of to where the model's file has it;
    None where nothing is computed."""
    while is_a(node, Trait.VIEW) or is_a(node, Trait.MOVES_DATA):
        before = node.inputs[0]
        if before in named or before not in made:
            return None
        node = made[before]
    return None if is_a(node, Trait.DEQUANTISER) else node


def _only_stored(name: str, made: Mapping[str, Node]) -> bool:
    """Whether it is what a layer stored before, perhaps in another shape."""
    while name in made and is_a(made[name], Trait.VIEW):
        name = made[name].inputs[0]
    return name not in made or is_a(made[name], Trait.DEQUANTISER)


def _is_folded(readers: Sequence[Node]) -> bool:
    """Whether what reads a result is a normalisation, which becomes part of the layer's weights."""
    return (
        len(readers) == 1
        and not is_a(readers[0], Trait.ELEMENTWISE)
        and bool(record(readers[0]).affine)
    )


def _is_quantised_later(name: str, readers: Mapping[str, list[Node]]) -> bool:
    """Whether a float is on its way to what a quantised layer stores."""
    todo, seen = [name], {name}
    while todo:
        for node in readers.get(todo.pop(), ()):
            if is_a(node, Trait.QUANTISER):
                return True
            if is_a(node, Trait.DEQUANTISER):
                continue
            passes_on = is_a(node, Trait.ELEMENTWISE) or is_a(node, Trait.VIEW)
            if passes_on and node.result not in seen:
                seen.add(node.result)
                todo.append(node.result)
    return False


def _result(
    graph: Graph,
    name: str,
    layer: Node,
    made: Mapping[str, Node],
    readers: Mapping[str, list[Node]],
    named: set[str],
    others: Collection[str],
) -> Result:
    meant = name.removesuffix("_quantized")  # as onnxruntime's operator format has it
    if is_a(layer, Trait.QUANTISER):
        source = layer.inputs[0]
        meant = source if source in named else meant
        layer = made[source]
    *after_core, core = _core(layer, made, graph)
    behind = sum(record(n).limits is None for n in after_core)
    after = readers.get(name, [])
    alone = len(after) == 1 and record(after[0]).limits is not None and name not in graph.outputs
    kind = (record(core).quantised or core.op) + " +" * behind
    shape, cut = graph.types[name].shape, after[0].result if alone else ""
    fused = _fused([*after_core, core], made, others)
    return Result(name, meant, core.name, core.op, kind, shape, cut, fused)


def _core(layer: Node, made: Mapping[str, Node], graph: Graph) -> list[Node]:
    """From the node itself back to the sum of products that its activations and bias belong to;
    the node alone if there is none."""
    path = [layer]
    while contracts(path[-1]) is None and is_a(path[-1], Trait.ELEMENTWISE):
        read = [made[i] for i in path[-1].inputs if i in made]
        computed = [n for n in read if n.inputs and n.inputs[0] not in graph.consts]
        if len(computed) != 1 or is_a(computed[0], Trait.DEQUANTISER):
            break
        path += computed
    return path if contracts(path[-1]) is not None else [layer]


def _fused(
    path: Sequence[Node], made: Mapping[str, Node], others: Collection[str]
) -> dict[str, str]:
    """The operator of each node on the path and of those that only it needs of what is before it,
    down to the `others`' results; what moves or stores numbers is left out. A node that the
    importer made several of has the operator of the last."""
    found = {n.result: n for n in path}
    todo = list(path)
    while todo:
        for name in todo.pop().inputs:
            node = made.get(name)
            if node is None or name in others or name in found or is_a(node, Trait.DEQUANTISER):
                continue
            found[name] = node
            todo.append(node)
    moved = (Trait.VIEW, Trait.MOVES_DATA, Trait.QUANTISER)
    kept = [found[name] for name in made if name in found]
    return {n.name: n.op for n in kept if n in path or not any(is_a(n, t) for t in moved)}


Sample = Mapping[str, Array]


def run(
    found: Traced | Finished, place: Place, samples: Sequence[Sample], most: int = ALL_AT_ONCE
) -> list[dict[str, Array]]:
    """The layers' results for each sample, integers as the numbers that they stand for.

    In as many turns as there are `most` bytes of further outputs. Raises MlfError.
    """
    if isinstance(found, Finished):
        ran, _ = execute(found.bundle, found.interface, place, samples)
        return [{t.name: real(made[t.name], t) for t in found.interface.results}
                for made in ran.outputs]  # fmt: skip
    results: list[dict[str, Array]] = [{} for _ in samples]
    for names in _turns(found, most):
        bundle, interface = _compiled(
            replace(found.spec, target=place.target), found.model, tuple(names)
        )
        ran, _ = execute(bundle, interface, place, samples)
        tensors = {t.name: t for t in interface.results}
        for values, made in zip(results, ran.outputs, strict=True):
            values |= {name: real(made[name], tensors[name]) for name in names}
    return results


def _turns(found: Traced, most: int) -> Iterator[list[str]]:
    turn: list[str] = []
    size = 0
    for r in found.results:
        if turn and size + found.bytes[r.name] > most:
            yield turn
            turn, size = [], 0
        turn.append(r.name)
        size += found.bytes[r.name]
    if turn:
        yield turn


def _compiled(
    spec: ModuleSpec, model: ModelProto | TFLite, names: Sequence[str]
) -> tuple[Bundle, Interface]:
    """The model with further outputs: its archive and interface."""
    bundle = compile_modules([replace(spec, model=_wider(model, names))])
    return bundle, read_interface(bundle, spec.module_name, str(model_name(model)))


def _wider(model: ModelProto | TFLite, names: Sequence[str]) -> ModelProto | TFLite:
    """The model with these results among its outputs."""
    if isinstance(model, TFLite):
        return replace(model, further=tuple(names))
    wider = ModelProto()
    wider.CopyFrom(model)
    there = {o.name for o in model.graph.output}
    wider.graph.output.extend(
        helper.make_empty_tensor_value_info(name) for name in names if name not in there
    )
    return wider


def real(array: Array, tensor: Tensor) -> Array:
    """The numbers that a quantised tensor stands for, in float64; any other tensor as it is."""
    if tensor.scale is None:
        return array
    wide: npt.NDArray[np.float64] = array.astype(np.float64)
    return (wide - (tensor.zero_point or 0)) * tensor.scale


def samples_for(
    found: Traced | Finished, other: Traced | Finished, given: Sequence[Sample]
) -> list[Sample]:
    """Samples of `other` in the form that this model takes: floats become the integers that stand
    for them, and the other way round. Inputs without an equal name are taken in order."""
    pairs = list(zip(found.inputs, other.inputs, strict=False))
    names = {t.name for t in other.inputs}
    same = {t.name: t for t in other.inputs}
    made: list[Sample] = []
    for sample in given:
        made.append(
            {
                t.name: _converted(sample[s.name], t, s)
                for t, s in (
                    (mine, same[mine.name] if mine.name in names else theirs)
                    for mine, theirs in pairs
                )
            }
        )
    return made


def _converted(array: Array, to: Tensor, of: Tensor) -> Array:
    if np.dtype(to.dtype) == np.dtype(of.dtype) and to.scale == of.scale:
        return array.reshape(to.shape)
    values = real(array, of)
    if to.scale is not None:
        limits = np.iinfo(to.dtype)
        values = np.rint(values / to.scale) + (to.zero_point or 0)
        values = np.clip(values, limits.min, limits.max)
    return values.astype(to.dtype).reshape(to.shape)
