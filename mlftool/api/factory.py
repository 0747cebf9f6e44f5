"""`build`: a compiled module, with the parts that scripts read from TVM's factories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from onnx import ModelProto

from mlftool.api.module import IRModule, as_module
from mlftool.api.target import Target, the_target
from mlftool.api.written import bundle_of, path_of, write
from mlftool.compile import compile_module
from mlftool.config import DEBUG, Executor, PassContext, Runtime, settings
from mlftool.describe import bundle
from mlftool.errors import MlfError, Problem
from mlftool.mlf import Bundle
from mlftool.module import Module, ModuleSpec
from mlftool.runtime.executor import ExecutorModule
from mlftool.runtime.load import LoadedArchive, LoadedModule
from mlftool.runtime.nd import NDArray, array


@dataclass(frozen=True)
class SourceModule:
    """A C file of a library."""

    name: str
    text: str
    type_key: str = "c"

    def get_source(self, format: str = "") -> str:
        return self.text


class Library:
    """The code of a module: its C files, lib0 first, then lib1 and so on."""

    type_key = "metadata_module"

    def __init__(self, factory: Factory) -> None:
        self.factory = factory

    @property
    def imported_modules(self) -> list[SourceModule]:
        """The files with the kernels first, as TVM has it: a module's own is the last."""
        files = self.factory.compiled.sources.files
        c = [SourceModule(n.rpartition("/")[2], t) for n, t in files.items() if n.endswith(".c")]
        return sorted(c, key=lambda m: m.name, reverse=True)

    def get_source(self, format: str = "") -> str:
        return "\n".join(m.text for m in reversed(self.imported_modules))


class Factory:
    """A compiled module: TVM's ExecutorFactoryModule. Iterating gives (graph, lib, params)."""

    def __init__(
        self, mod: IRModule, target: Target, executor: Executor, runtime: Runtime, compiled: Module
    ) -> None:
        self.ir_mod, self.executor, self.runtime, self.compiled = mod, executor, runtime, compiled
        self.target = [target]
        self.libmod_name = self.lib_name = compiled.spec.module_name
        self.lib = Library(self)
        self.module = self.lib
        self.params: dict[str, NDArray] = {n: array(v) for n, v in compiled.sources.params.items()}

    @property
    def graph_json(self) -> str | None:
        """The graph executor's JSON; None for the others."""
        name = f"executor-config/graph/{self.libmod_name}.graph"
        return self.compiled.sources.files.get(name)

    graph_json_str = graph_json

    def get_graph_json(self) -> str | None:
        return self.graph_json

    def get_executor_config(self) -> str | None:
        return self.graph_json

    def get_params(self) -> dict[str, NDArray]:
        return self.params

    def get_lib(self) -> Library:
        return self.lib

    @property
    def executor_codegen_metadata(self) -> dict[str, Any]:
        """Inputs, outputs and sizes, as the archive's metadata have them."""
        record = self.archive.record.module(self.libmod_name)
        main = record.memory.main[0]
        return {
            "inputs": [t.name for t in main.inputs or ()],
            "outputs": [t.name for t in main.outputs or ()],
            "workspace_size_bytes": main.workspace_bytes,
            "constants_size_bytes": main.constants_bytes,
            "io_size_bytes": main.io_bytes,
        }

    @property
    def function_metadata(self) -> dict[str, int]:
        """The workspace of each kernel."""
        return {f.symbol: f.workspace_bytes for f in self.compiled.sources.functions}

    @cached_property
    def bundle(self) -> Bundle:
        """The module as an archive of its own."""
        return bundle([self.compiled])

    @cached_property
    def archive(self) -> LoadedArchive:
        return LoadedArchive(self.bundle)

    def load(self) -> LoadedModule:
        """The module, ready to run on this computer."""
        return self.archive.module(self.libmod_name)

    def __getitem__(self, name: str) -> Callable[[Any], ExecutorModule]:
        """`factory["default"](device)` is the module for GraphModule or AotModule."""
        if name not in ("default", self.libmod_name):
            raise KeyError(name)

        def create(device: Any = None) -> ExecutorModule:
            return ExecutorModule(self.load())

        return create

    def __iter__(self) -> Iterator[Any]:
        return iter((self.graph_json, self.lib, self.params))

    def export_model_library_format(self, path: str | Path) -> Path:
        file = path_of(path)
        return write(bundle_of([self.compiled]), file)


def build(
    mod: IRModule | ModelProto | str | os.PathLike[str] | bytes,
    target: Any = None,
    target_host: Any = None,
    executor: Executor | str | None = None,
    runtime: Runtime | str | None = None,
    workspace_memory_pools: Any = None,
    constant_memory_pools: Any = None,
    params: Mapping[str, Any] | None = None,
    mod_name: str = "default",
) -> Factory:
    """Compile a model under the current PassContext. Raises MlfError.

    `mod` is the result of `from_onnx`, or anything `from_onnx` takes; `target` a name such as
    "cortex-m4" or a TVM target string. As in TVM the default executor is `graph`. Scripts cannot
    set memory pools.
    """
    if workspace_memory_pools is not None or constant_memory_pools is not None:
        text = "scripts cannot set memory pools; use mlftool compile --pool, or a manifest"
        raise MlfError(Problem("MLF0405", text))
    mod = as_module("build", mod)
    how = executor if isinstance(executor, Executor) else Executor(executor or "graph")
    if how.name == DEBUG:
        text = "the debug executor has no archive; use create_executor('debug', mod)"
        raise MlfError(Problem("MLF0405", text))
    on = runtime if isinstance(runtime, Runtime) else Runtime(runtime or "crt")
    where = the_target(target)
    bound = mod.bound(params)
    compiled = compile_module(spec_of(bound, where, how, on, mod_name))
    return Factory(bound, where, how, on, compiled)


def spec_of(
    mod: IRModule, target: Target, executor: Executor, runtime: Runtime, name: str
) -> ModuleSpec:
    """The compiler's options, with TVM's defaults, under the current PassContext."""
    given = settings(executor, runtime, PassContext.current())
    if executor.name == "aot":
        given["interface_api"] = given["interface_api"] or "packed"
    return ModuleSpec(
        model=mod.model,
        module_name=name,
        target=target.device,
        input_shapes=mod.shapes,
        output_names=mod.output_names,
        backends=tuple(dict.fromkeys((*target.backends, *mod.backends))),
        **given,
    )
