"""The page to read first: which passes there are, and how a model becomes an archive.

.onnx --import--> Graph --PIPELINE--> Graph --lower--> Program --emit--> Bundle --> .tar
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlftool.codegen.aot import Sources, emit
from mlftool.codegen.names import check_module_name
from mlftool.codegen.relay import relay_text
from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.importer.onnx import import_onnx
from mlftool.ir.graph import Graph
from mlftool.ir.verify import verify
from mlftool.mlf import Bundle, epoch, metadata, params, runtime_tree
from mlftool.passes import batchnorm, canonicalise, fold, fuse, layout, outputs, qdq
from mlftool.plan.lower import lower
from mlftool.plan.program import Program
from mlftool.targets import TARGETS, Target, debug_level

Pass = Callable[[Graph], Graph]

PIPELINE: tuple[Pass, ...] = (
    canonicalise.canonicalise,
    batchnorm.fold_batchnorm,
    qdq.sink_and_hoist,
    qdq.to_integer,
    qdq.average_to_integer,
    fold.fold_constants,
    layout.channels_last,
    fuse.fuse_chains,
    fuse.tabulate,
    fuse.fuse_prologues,
    fuse.fuse_epilogues,
    outputs.store_outputs,
)


@dataclass(frozen=True)
class ModuleSpec:
    """One model to compile. `data_files` are external data the caller vouches for.

    With `workspace_io` inputs and outputs live in the workspace, where they may share memory with
    intermediate tensors, and the header has functions that say where (TVM's use_workspace_io).
    """

    model: Path
    module_name: str = "default"
    target: str | Target = "host"
    executor: str = "aot"
    interface_api: str = "c"
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    data_files: tuple[Path, ...] = ()
    workspace_io: bool = False


@dataclass(frozen=True)
class Module:
    """A compiled model: what it is, what was decided, what was written."""

    spec: ModuleSpec
    imported: Graph
    program: Program
    sources: Sources


def compile_modules(specs: Sequence[ModuleSpec]) -> Bundle:
    """One archive with a module per spec. Raises MlfError with every problem of every model."""
    modules: list[Module] = []
    problems: list[Problem] = []
    for spec in specs:
        try:
            modules.append(compile_module(spec))
        except MlfError as error:
            problems += error.problems
    if len({s.module_name for s in specs}) != len(specs):
        problems.append(
            Problem(
                "MLF0503",
                "Multiple modules should have unique names; got "
                + ", ".join(s.module_name for s in specs),
            )
        )
    if problems:
        raise MlfError(problems)
    return bundle(modules)


def compile_module(spec: ModuleSpec) -> Module:
    """Import, rewrite, plan and emit one model."""
    check_module_name(spec.module_name)
    target = _target(spec)
    clock = _Clock(spec.module_name)
    imported = import_onnx(spec.model, spec.module_name, spec.input_shapes, spec.data_files)
    graph = verify(imported, "import")
    clock.stage("import", graph)
    for rewrite in PIPELINE:
        graph = verify(rewrite(graph), rewrite.__name__)
        clock.stage(rewrite.__name__, graph)
    program = lower(graph, target, str(spec.model), spec.workspace_io)
    clock.stage(f"lower for {target.name}: {program.memory.size_bytes} bytes of workspace", graph)
    sources = emit(program, spec.module_name, imported)
    clock.stage("emit", graph)
    return Module(spec, imported, program, sources)


def _target(spec: ModuleSpec) -> Target:
    if isinstance(spec.target, Target):
        return spec.target
    if spec.target not in TARGETS:
        raise MlfError(
            Problem(
                "MLF0403",
                f"unknown target '{spec.target}'",
                help=did_you_mean(spec.target, TARGETS),
            )
        )
    return TARGETS[spec.target]


class _Clock:
    """Tells on stderr what each stage did and how long it took, when MLF_DEBUG asks for it."""

    def __init__(self, module: str) -> None:
        self.module, self.at = module, time.perf_counter()

    def stage(self, name: str, graph: Graph) -> None:
        now = time.perf_counter()
        if debug_level() >= 1:
            print(
                f"mlftool: {self.module}: {name}: {len(graph.nodes)} nodes, {now - self.at:.3f} s",
                file=sys.stderr,
            )
        if debug_level() >= 3:
            print(graph, file=sys.stderr)
        self.at = now


def bundle(modules: Sequence[Module]) -> Bundle:
    """The archive's files."""
    files: dict[str, bytes] = {}
    infos = []
    for m in modules:
        name = m.spec.module_name
        info = _info(m)
        infos.append(info)
        files[f"codegen/host/src/{name}_lib0.c"] = m.sources.lib0.encode()
        files[f"codegen/host/src/{name}_lib1.c"] = m.sources.lib1.encode()
        files[f"codegen/host/include/tvmgen_{name}.h"] = m.sources.header.encode()
        files[f"parameters/{name}.params"] = params.encode({})
        files[f"src/{name}.relay"] = relay_text(m.imported).encode()
        files[f"executor-config/aot/{name}.json"] = _interface(m, info)
    files |= runtime_tree.helper_headers() | runtime_tree.runtime_files()
    files["metadata.json"] = metadata.encode(infos, epoch())
    return Bundle(files)


def _info(m: Module) -> metadata.ModuleInfo:
    def tensor(name: str) -> metadata.TensorInfo:
        type_ = m.imported.types[name]
        scale, zero_point = _quantisation(m.imported, name)
        return metadata.TensorInfo(
            name,
            m.sources.members[name],
            str(type_.dtype),
            type_.shape,
            type_.bytes,
            scale,
            zero_point,
        )

    return metadata.ModuleInfo(
        m.spec.module_name,
        m.spec.executor,
        m.program.target.tvm,
        tuple(map(tensor, m.imported.inputs)),
        tuple(map(tensor, m.imported.outputs)),
        m.program.memory.size_bytes,
        m.sources.constants_bytes,
        tuple(f.symbol for f in m.sources.functions),
    )


def _quantisation(graph: Graph, name: str) -> tuple[float | None, int | None]:
    """Scale and zero point of a quantised input or output, seen through views."""
    node = next((n for n in graph.nodes if name in n.outputs), None)
    if name in graph.inputs:
        node = next((n for n in graph.nodes if name in n.inputs), None)
        if node is not None and node.op in ("Reshape", "Transpose"):
            return _quantisation(graph.replace(inputs=node.outputs), node.outputs[0])
    if node is None or node.op not in ("QuantizeLinear", "DequantizeLinear"):
        return None, None
    if (name in graph.inputs) != (node.op == "DequantizeLinear"):
        return None, None
    values = [graph.consts.get(i) for i in node.inputs[1:]]
    if any(v is None or v.size != 1 for v in values):
        return None, None
    zero = values[1].item() if len(values) > 1 and values[1] is not None else 0
    assert values[0] is not None
    return float(values[0].item()), int(zero)


def _interface(m: Module, info: metadata.ModuleInfo) -> bytes:
    """executor-config/aot/<module>.json: call order, shapes, quantisation, memory plan, kernels."""
    memory = m.program.memory
    calls = m.program.calls
    data: dict[str, Any] = {
        "schema_version": 1,
        "module": info.name,
        "target": m.program.target.name,
        "inputs": [t.to_json() for t in info.inputs],
        "outputs": [t.to_json() for t in info.outputs],
        "workspace_io": m.program.workspace_io,
        "workspace_bytes": info.workspace_bytes,
        "constants_bytes": info.constants_bytes,
        "macs": sum(c.kernel.macs for c in calls),
        "memory": {
            "pools": [
                {
                    "name": "global_workspace",
                    "size_bytes": memory.size_bytes,
                    "lower_bound_bytes": memory.lower_bound_bytes,
                    "proven_optimal": memory.proven_optimal,
                    "peak_node": calls[memory.peak_step].node.name if calls else "",
                }
            ],
            "buffers": [
                {
                    "name": b.name,
                    "pool": "global_workspace",
                    "offset_bytes": b.offset_bytes,
                    "size_bytes": b.size_bytes,
                    "first_step": b.first_step,
                    "last_step": b.last_step,
                }
                for b in memory.buffers
            ],
        },
        "nodes": [
            {
                "name": c.node.name,
                "op": c.node.op,
                "kernel": c.kernel.name,
                "function": symbol,
                "macs": c.kernel.macs,
            }
            for c, symbol in zip(calls, m.sources.symbols, strict=True)
        ],
    }
    return json.dumps(data, indent=1).encode()
