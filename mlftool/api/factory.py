"""`build`: a compiled module, with the parts that scripts read from TVM's factories."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

from onnx import ModelProto

from mlftool.api.module import IRModule, as_module
from mlftool.api.pools import pool_texts
from mlftool.api.target import Target, the_target
from mlftool.api.written import bundle_of, path_of, write
from mlftool.compile import compile_module
from mlftool.config import DEBUG, Executor, PassContext, Runtime, settings
from mlftool.describe import bundle
from mlftool.errors import ArgumentError, Problem
from mlftool.frozen import frozen, replace
from mlftool.mlf import Bundle, write_atomically
from mlftool.module import Module, ModuleSpec
from mlftool.moved import OfTvm
from mlftool.runtime import notebook
from mlftool.runtime.executor import ExecutorModule, factory_of
from mlftool.runtime.load import LoadedArchive, LoadedModule
from mlftool.runtime.nd import NDArray, array
from mlftool.runtime.shared import build_library, checked_soname


@frozen
class SourceModule:
    """A C file of a library."""

    name: str
    text: str
    type_key: str = "c"

    def get_source(self, format: str = "") -> str:
        return self.text


class Library(OfTvm):
    """The code of a module: its C files, lib0 first, then lib1 and so on."""

    type_key = "metadata_module"

    def __init__(self, factory: Factory) -> None:
        self.factory = factory

    def __repr__(self) -> str:
        return f"Library({self.factory.libmod_name!r}, {len(self.imported_modules)} C files)"

    @property
    def imported_modules(self) -> list[SourceModule]:
        """The files with the kernels first, as TVM has it: a module's own is the last."""
        files = self.factory.compiled.sources.files
        c = [SourceModule(n.rpartition("/")[2], t) for n, t in files.items() if n.endswith(".c")]
        return sorted(c, key=lambda m: m.name, reverse=True)

    def export_library(self, file_name: str | os.PathLike[str], **options: Any) -> Path:
        return self.factory.export_library(file_name, **options)

    def get_source(self, format: str = "") -> str:
        return "\n".join(m.text for m in reversed(self.imported_modules))


class Factory(OfTvm):
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

    def __repr__(self) -> str:
        return f"Factory({self.libmod_name!r}, {self.target[0]!r}, {self.executor!r})"

    def _repr_html_(self) -> str:
        """For notebooks."""
        made = self.load()
        return notebook.html(repr(self), made.inputs, made.outputs)

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

    def __getitem__(self, name: str) -> Callable[..., ExecutorModule]:
        """`factory["default"](device)` is the module for GraphModule or AotModule."""
        return factory_of(self.load, name, self.libmod_name)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.graph_json, self.lib, self.params))

    def export_library(self, file_name: str | os.PathLike[str], **options: Any) -> Path:
        """The module as a shared library of this computer, which TVM's runtime loads too.

        TVM's `options` choose its compiler and linker; there are none here. Raises MlfError.
        """
        if given := [name for name, value in options.items() if value is not None]:
            text = f"export_library has no option '{min(given)}'"
            raise ArgumentError(Problem("MLF0400", text, help="$CC names the compiler"))
        path = path_of(file_name)
        record = self.archive.record
        made = build_library(record, self.load().interface, checked_soname(path.name))
        write_atomically(path, made.read_bytes())
        return path

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
    "cortex-m4" or a TVM target string. As in TVM the default executor is `graph`. Pools are for
    aot with interface `c`.
    """
    pools = pool_texts(workspace_memory_pools, constant_memory_pools)
    mod = as_module("build", mod)
    how = executor if isinstance(executor, Executor) else Executor(executor or "graph")
    if how.name == DEBUG:
        text = "the debug executor has no archive; use create_executor('debug', mod)"
        raise ArgumentError(Problem("MLF0405", text))
    on = runtime if isinstance(runtime, Runtime) else Runtime(runtime or "crt")
    where = the_target(target)
    bound = mod.bound(params)
    spec = spec_of(bound, where, how, on, mod_name)
    compiled = compile_module(replace(spec, pools=pools) if pools else spec)
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
