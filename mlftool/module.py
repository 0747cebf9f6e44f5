"""One model on its way to an archive: what was asked, and what became of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from onnx import ModelProto

from mlftool.codegen.options import Options
from mlftool.codegen.sources import Sources
from mlftool.ir.graph import Graph
from mlftool.plan.program import Program
from mlftool.targets import Target


@dataclass(frozen=True)
class ModuleSpec:
    """One model to compile, a file or an ONNX model in memory.

    `data_files` are external data the caller vouches for. With `workspace_io` inputs and outputs
    live in the workspace, where they may share memory with intermediate tensors, and the header has
    functions that say where (TVM's use_workspace_io). None leaves a choice to the executor.
    """

    model: Path | ModelProto
    module_name: str = "default"
    target: str | Target = "host"
    executor: str = "aot"
    interface_api: str | None = None  # "c" or "packed"; of aot
    input_shapes: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    input_values: Mapping[str, tuple[int | float, ...]] = field(default_factory=dict)  # constants
    data_files: tuple[Path, ...] = ()
    only_declared: bool = False  # no external data but `data_files`: nothing from beside the model
    workspace_io: bool = False
    unpacked_api: bool | None = None
    link_params: bool | None = None
    runtime: str = "crt"
    system_lib: bool = False
    mlf_version: int = 7
    opt_level: int = 3
    float_mode: str = "exact"  # or "fused": products of sums are added with one rounding
    optimize: str = "speed"  # or "size": one function per shape class, nothing unrolled
    pools: tuple[str, ...] = ()  # NAME=BYTES[@SECTION], fastest first, instead of the workspace
    patches: str = "off"  # or "auto", or how many bands of rows the first layers are computed in
    tuning: Path | None = None  # a record of `mlftool tune`, which chooses kernels
    disabled_pass: tuple[str, ...] = ()
    weights: str = "auto"  # or "text", "binary": codegen/weights.py
    cc: str = ""  # the compiler of a target of kind llvm; "" is the usual one
    output_names: tuple[str, ...] = ()  # instead of the model's own


@dataclass(frozen=True)
class Module:
    """A compiled model: what it is, what was decided, what was written."""

    spec: ModuleSpec
    options: Options
    imported: Graph
    program: Program
    sources: Sources
