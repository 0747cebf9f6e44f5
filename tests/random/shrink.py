"""Making a network that shows a fault small: fewer outputs, fewer nodes, one sample.

What a node makes may become an input that holds the same numbers, so that all before it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np
import onnx
from grow import Array, Network, inner_names, make_model, session_of, value_info
from onnx import helper, numpy_helper


def shrunk(network: Network, fails: Callable[[Network], bool]) -> Network:
    """The smallest network found of those that still fail."""
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(network):
            if fails(candidate):
                network, smaller = candidate, True
                break
    return network


def _candidates(network: Network) -> Iterator[Network]:
    """Networks with less in them, those that lack most first."""
    graph = network.model.graph
    outputs = [o.name for o in graph.output]
    feed = network.feeds[0]
    try:
        made = _values(network)
    except Exception:  # onnxruntime does not give all that is within
        return
    if len(network.feeds) > 1:
        for one in network.feeds:
            yield replace(network, feeds=(one,))
    if len(outputs) > 1:
        for name in outputs:
            yield _cut(network, {}, [name], feed)
        for name in outputs:
            yield _cut(network, {}, [o for o in outputs if o != name], feed)
    for node in reversed(graph.node):
        known = {o: made[o] for o in node.output if o}
        if any(o in outputs for o in known):
            continue
        yield _cut(network, known, outputs, feed)
    for node in graph.node:  # the end may go, too
        if any(o in outputs for o in node.output) and len(graph.node) > 1:
            read = [i for i in (*node.input, *inner_names(node)) if i in made]
            rest = [o for o in outputs if o not in node.output]
            if read:
                yield _cut(network, {}, list(dict.fromkeys((*rest, *read))), feed)


def _values(network: Network) -> dict[str, Array]:
    """Everything that the nodes make of the first sample."""
    model = onnx.ModelProto()
    model.CopyFrom(network.model)
    names = [o for node in model.graph.node for o in node.output if o]
    del model.graph.output[:]
    model.graph.output.extend(helper.make_empty_tensor_value_info(n) for n in names)
    found = session_of(model).run(None, network.feeds[0])
    return dict(zip(names, (np.asarray(f) for f in found), strict=True))


def _cut(
    network: Network, known: dict[str, Array], outputs: list[str], feed: dict[str, Array]
) -> Network:
    """The part that makes `outputs`, given the values of `known`."""
    graph = network.model.graph
    wanted, nodes = set(outputs), []
    for node in reversed(graph.node):
        if wanted & {o for o in node.output if o not in known}:
            nodes.append(node)
            wanted |= {i for i in (*node.input, *inner_names(node)) if i}
    nodes.reverse()
    given = {n: a for n, a in {**feed, **known}.items() if n in wanted}
    made = {**_values(network), **feed}
    small = helper.make_graph(
        nodes,
        graph.name,
        [value_info(n, a) for n, a in given.items()],
        [value_info(n, made[n]) for n in outputs],
        [t for t in graph.initializer if t.name in wanted],
    )
    return replace(network, model=make_model(small, like=network.model), feeds=(given,))


def constants(network: Network) -> dict[str, Array]:
    return {t.name: numpy_helper.to_array(t) for t in network.model.graph.initializer}
