"""`stream`: the graph whose runs take a few steps of time and give what the model gives then."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from onnx import ModelProto

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.frontends.load import load_model
from mlftool.frontends.models import Source, TFLite
from mlftool.frontends.streaming.graph import NoStreamError, Stream, Track, delayed
from mlftool.frontends.streaming.rules import Form, rule_of
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Graph, Node, TensorType

_FORM = "as axis=2 and step=1: the axis of time, and how many new elements a run takes"


def streamed(graph: Graph, words: Sequence[str], model: Source, file: str) -> Graph:
    """The streaming form of a model, if `words` ask for it: axis=A, of the inputs that have time,
    and step=N, the elements of a run. Raises MlfError with every node that has none, and why."""
    if not words:
        return graph
    wrong = [word for word in words if not re.fullmatch(r"axis=[^=]+|step=[1-9][0-9]{0,5}", word)]
    if wrong:
        text = f"got '{wrong[0]}', expected axis=A or step=N"
        raise MlfError(Problem("MLF0400", text, file, path="stream", help=_FORM))
    given = dict(word.split("=", 1) for word in words)
    if len(given) < len(words):
        text = f"got {', '.join(words)}; expected each of axis and step once"
        raise MlfError(Problem("MLF0400", text, file, path="stream", help=_FORM))
    step = int(given.get("step", 1))
    axes = _axes(graph, given.get("axis", ""), model, file)
    s = Stream(graph, consts=dict(graph.consts))
    s.types.update({n: graph.types[n] for n in (*graph.consts, *graph.inputs)})
    for name, axis in axes.items():
        length = graph.types[name].shape[axis]
        if length < 2:
            text = f"axis {axis} of '{name}' has one element; expected an axis of time"
            help = "export the model with a whole sequence, or choose another axis"
            raise MlfError(Problem("MLF0400", text, file, path="stream", help=help))
        if not 1 <= step < length:
            text = f"step {step} of the {length} elements of '{name}'; expected 1 to {length - 1}"
            help = "export the model with a longer sequence, or take a smaller step"
            raise MlfError(Problem("MLF0400", text, file, path="stream", help=help))
        s.types[name] = _shortened(graph.types[name], Track(axis, step))
        s.tracks[name] = Track(axis, step)
    problems = list(_rewritten(s, file))
    if problems:
        raise MlfError(problems)
    return _closed(s, file)


def _axes(graph: Graph, word: str, model: Source, file: str) -> dict[str, int]:
    """The axis of time of each input that has it: by its number, or by its name in the file."""
    inputs = [n for n in graph.taken if len(graph.types[n].shape)]
    if word.lstrip("-").isdigit():
        ranks = {n: len(graph.types[n].shape) for n in inputs}
        found = {n: int(word) % r for n, r in ranks.items() if -r <= int(word) < r}
        names: set[str] = set()
    else:
        named = {n: dims for n, dims in _named(model).items() if n in inputs}
        found = {n: dims.index(word) for n, dims in named.items() if word and word in dims}
        names = {d for dims in named.values() for d in dims if d}
    if found:
        return found
    text = f"no input has an axis '{word}'" if word else "axis is missing"
    help = did_you_mean(word, names) if names else "expected the number of an axis, as axis=2"
    raise MlfError(Problem("MLF0400", text, file, path="stream", help=help))


def _named(model: Source) -> Mapping[str, list[str]]:
    """The names of each input's axes in an ONNX file."""
    if isinstance(model, TFLite):
        return {}
    proto: ModelProto = load_model(model)
    return {i.name: [d.dim_param for d in i.type.tensor_type.shape.dim] for i in proto.graph.input}


def _shortened(type_: TensorType, track: Track) -> TensorType:
    """The type of the part of a tensor that a run has."""
    if track.axis is None:
        return type_
    shape = [track.count if k == track.axis else n for k, n in enumerate(type_.shape)]
    return TensorType(type_.dtype, tuple(shape))


def _rewritten(s: Stream, file: str) -> Iterator[Problem]:
    """Every node in its streaming form; nodes after one without a form are left out."""
    left_out: set[str] = set()
    for node in s.whole.nodes:
        if left_out & set(node.inputs):
            left_out.update(node.outputs)
            continue
        try:
            _rewrite(s, node)
        except NoStreamError as error:
            text = f"has no streaming form: {error}"
            yield Problem("MLF0302", text, file, path=node.label, help="leave out stream")
            left_out.update(node.outputs)


def _rewrite(s: Stream, node: Node) -> None:
    s.label = node.name or node.result
    form = Form(node, list(node.inputs), dict(node.attrs), list(node.outputs))
    tracks = [s.tracks[n] for n in node.inputs if n in s.tracks]
    track: Track | None = None
    if any(t.axis is not None for t in tracks):
        rule = rule_of(node)
        if rule is None or node.graphs:
            raise NoStreamError("its kind of operator has none along time")
        track = rule(s, form)
    elif tracks:
        if len({(t.offset / t.count) for t in tracks}) > 1:
            raise NoStreamError("its inputs are of different delays")
        track = tracks[0]
    for name in filter(None, form.outputs):
        own = form.others.get(name, track)
        if own is not None:
            s.tracks[name] = own
        if name in s.whole.types:
            s.types[name] = _shortened(s.whole.types[name], own) if own else s.whole.types[name]
    s.keep(replace(node, inputs=tuple(form.inputs), outputs=tuple(form.outputs), attrs=form.attrs))
    for state in form.ends:
        s.ends(state.input, state.output, state.start)


def _exchange(s: Stream, output: str, other: str) -> None:
    """Gives two tensors each other's name: an output has the name that the model says."""
    names = {output: other, other: output}
    for k, node in enumerate(s.nodes):
        inputs, outputs = (tuple(names.get(n, n) for n in ns) for ns in (node.inputs, node.outputs))
        s.nodes[k] = replace(node, inputs=inputs, outputs=outputs)
    s.types[output], s.types[other] = s.types[other], s.types[output]
    s.tracks[output], s.tracks[other] = s.tracks[other], s.tracks[output]


def _closed(s: Stream, file: str) -> Graph:
    whole = s.whole
    for name in whole.outputs:
        track = s.tracks.get(name)
        s.label = name
        if track is not None and track.axis is not None and track.offset > 0:
            _exchange(s, name, delayed(s, name, 0))
    if not s.kept:
        text = "no run needs anything of the run before: the model has no window along time"
        raise MlfError(Problem("MLF0400", text, file, path="stream", help="leave out stream"))
    graph = whole.replace(
        inputs=(*whole.inputs, *(k.input for k in s.kept)),
        outputs=(*whole.outputs, *(k.output for k in s.kept)),
        nodes=tuple(s.nodes),
        types=s.types,
        consts=s.consts,
        kept=(*whole.kept, *s.kept),
    )
    return Editor(graph).finish()
