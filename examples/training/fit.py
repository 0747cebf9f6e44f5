"""The training loop the three example networks share, and their way into an ONNX file."""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import onnx
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

SEED = 20


def reproducible() -> None:
    """The same weights on every run: a fixed seed, one thread, no timing-dependent algorithm."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)


def fit(
    net: nn.Module,
    loss: Callable[[Tensor, Tensor], Tensor],
    inputs: NDArray[Any],
    wanted: NDArray[Any],
    *,
    epochs: int,
    augment: Callable[[Tensor], Tensor] = lambda batch: batch,
    peak_rate: float = 1e-2,
    batch: int = 32,
) -> None:
    """Trains `net` in place by AdamW under a one-cycle learning rate; leaves it in eval mode."""
    x, y = torch.from_numpy(inputs), torch.from_numpy(wanted)
    steps = len(x) // batch
    optimiser = torch.optim.AdamW(net.parameters(), weight_decay=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, peak_rate, epochs * steps)
    net.train()
    for _ in range(epochs):
        order = torch.randperm(len(x))
        for step in range(steps):
            chosen = order[step * batch : (step + 1) * batch]
            optimiser.zero_grad()
            loss(net(augment(x[chosen])), y[chosen]).backward()
            optimiser.step()
            schedule.step()
    net.eval()


def export(
    net: nn.Module,
    path: Path,
    *,
    input_name: str,
    output_name: str,
    shape: tuple[int, ...],
    opset: int,
    origin: str,
) -> None:
    """Writes `net` as float32 ONNX: one sample per run, `origin` as its doc_string.

    Batch normalisations stay nodes of their own, as many exporters leave them: folding them into
    the convolutions is the compiler's work.
    """
    buffer = io.BytesIO()
    with warnings.catch_warnings():
        # The TorchScript exporter is deprecated, yet the only one that needs no further package.
        warnings.simplefilter("ignore")
        torch.onnx.export(
            net,
            (torch.zeros(shape),),
            buffer,
            dynamo=False,
            opset_version=opset,
            input_names=[input_name],
            output_names=[output_name],
            training=torch.onnx.TrainingMode.PRESERVE,
            do_constant_folding=False,
        )
    model = onnx.load_from_string(buffer.getvalue())
    _tidy(model)
    model.graph.name = path.stem
    model.doc_string = model.graph.doc_string = origin
    onnx.checker.check_model(model, full_check=True)
    onnx.save(model, path)


def _tidy(model: onnx.ModelProto) -> None:
    """Plain names, and initialisers for what the exporter writes as Constant and Identity nodes.

    `/stem/Conv_output_0` becomes `stem_Conv`: a reader of the generated C meets these names.
    """
    graph = model.graph
    interface = {value.name for value in (*graph.input, *graph.output)}
    values = {tensor.name: tensor for tensor in graph.initializer}
    names: dict[str, str] = {}
    nodes = []
    for node in graph.node:
        if node.op_type == "Constant":
            values[node.output[0]] = node.attribute[0].t
        elif node.op_type == "Identity" and node.input[0] in values:  # equal tensors, written once
            values[node.output[0]] = values[node.input[0]]
        else:
            node.name = node.name.strip("/").replace("/", "_")
            node.doc_string = ""
            if node.output[0] not in interface:
                names[node.output[0]] = node.name
            nodes.append(node)
    del graph.initializer[:], graph.node[:], graph.value_info[:]
    written = set()  # two nodes may share a parameter
    for node in nodes:
        for i, name in enumerate(node.input):
            if name not in values:
                node.input[i] = names.get(name, name)
                continue
            # A module's own parameter keeps its name, a constant is called by its part in the node.
            own = name if "/" not in name else f"{node.name}.{_part(model, node, i)}"
            node.input[i] = own
            if own not in written:
                written.add(own)
                tensor = graph.initializer.add()
                tensor.CopyFrom(values[name])
                tensor.name = own
        node.output[0] = names.get(node.output[0], node.output[0])
        graph.node.add().CopyFrom(node)


def _part(model: onnx.ModelProto, node: onnx.NodeProto, i: int) -> str:
    """What the standard calls input `i`; the last one stands for any number in Concat and Max."""
    version = next(o.version for o in model.opset_import if o.domain == node.domain)
    named = onnx.defs.get_schema(node.op_type, version, node.domain).inputs
    last = len(named) - 1
    is_one = named[min(i, last)].option != onnx.defs.OpSchema.FormalParameterOption.Variadic
    return str(named[i].name) if is_one else f"{named[last].name}{i - last}"
