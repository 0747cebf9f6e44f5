"""Making a network that shows a fault small: fewer outputs, fewer nodes, one sample.

What a node makes may become an input that holds the same numbers, so that all before it goes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from grow import Array, Network, inner_names, make_model, value_info, values_of
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
    (found,) = values_of(network.model, network.feeds[:1])
    return {o: found[o] for node in network.model.graph.node for o in node.output if o}


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
