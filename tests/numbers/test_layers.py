"""Quantised networks layer by layer: each is cut at its QuantizeLinear nodes, and every piece is
compared with onnxruntime computing the same piece in float, node by node.

Integers and floats may round a tie differently; nothing else may differ.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Build, Job, run_jobs
from onnx.utils import Extractor
from oracle import is_tie, onnxruntime_float
from shared import NETWORKS, Array, Network

RANDOM = 5
MOST_TIES = 1e-5  # of all elements of a network


def pieces(model: onnx.ModelProto) -> list[onnx.ModelProto]:
    """One model per QuantizeLinear that reads something computed, from the 8-bit tensors before."""
    extractor = Extractor(model)
    producer = {out: n for n in model.graph.node for out in n.output}
    constants = {t.name for t in model.graph.initializer}

    def sources(name: str) -> list[str]:
        node = producer.get(name)
        if node is None:
            return [] if name in constants else [name]
        if node.op_type == "QuantizeLinear":
            return [name]
        return [s for i in node.input if i for s in sources(i)]

    result = []
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and sources(node.input[0]):
            inputs = list(dict.fromkeys(sources(node.input[0])))
            result.append(extractor.extract_model(inputs, [node.output[0]]))
    return result


def all_quantised(model: onnx.ModelProto, feeds: list[dict[str, Array]]) -> list[dict[str, Array]]:
    """The model's inputs and the values of all its QuantizeLinear nodes."""
    open_ = onnx.ModelProto()
    open_.CopyFrom(model)
    known = {o.name for o in open_.graph.output}
    for node in model.graph.node:
        if node.op_type == "QuantizeLinear" and node.output[0] not in known:
            open_.graph.output.append(onnx.helper.make_empty_tensor_value_info(node.output[0]))
    results = onnxruntime_float(open_, feeds)
    return [feed | result for feed, result in zip(feeds, results, strict=True)]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("network", [n for n in NETWORKS if n.quantised], ids=str)
def test_layers_differ_from_float_in_ties_only(network: Network, tmp_path: Path) -> None:
    model = onnx.shape_inference.infer_shapes(onnx.load(network.path))
    feeds = network.samples()[0][:3] + network.random_feeds(RANDOM)
    values = all_quantised(model, feeds)
    parts = [p for p in pieces(model) if p.graph.node]
    jobs = [Job(p, [{i.name: v[i.name] for i in p.graph.input} for v in values]) for p in parts]
    run_jobs(jobs, tmp_path, Build("-O2"))
    elements = ties = 0
    for part, job in zip(parts, jobs, strict=True):
        assert not job.failure, job.failure
        (name,) = (o.name for o in part.graph.output)
        for feed, got, want in zip(job.feeds, job.results, values, strict=True):
            different = got[name] != want[name]
            elements += different.size
            ties += int(different.sum())
            if different.any():
                off = np.abs(got[name].astype(int) - want[name])
                assert off.max() == 1, f"{name}: {off.max()} quanta"
                assert is_tie(part, feed, different), f"{name}: not a tie"
    assert elements
    assert ties <= max(1.0, elements * MOST_TIES), f"{ties} ties in {elements} elements"
