"""Operator archives: one operator or small graph as a packed function of its own name.

TVM makes them from the result of `tvm.build`, and writes its TIR to src/tir-1.txt. mlftool has no
TIR; the file holds the same function in Relay.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlftool.api.module import IRModule
from mlftool.api.target import Target, the_target
from mlftool.codegen.names import RESERVED
from mlftool.codegen.registry import registry_c
from mlftool.codegen.relay import relay_text
from mlftool.codegen.templates import render
from mlftool.compile import compile_module
from mlftool.config import PassContext, Runtime
from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.mlf.records import OPERATOR, Argument, Memory, ModuleRecord, TargetString
from mlftool.module import Module, ModuleSpec


@frozen
class OperatorModule:
    """A compiled operator; export_model_library_format writes it."""

    name: str
    target: Target
    runtime: Runtime
    compiled: Module

    @property
    def record(self) -> ModuleRecord:
        """Its record in the archive, and its files."""
        src = f"codegen/host/src/{self.name}"
        made = self.compiled.sources.files
        entry = made[f"{src}_lib0.c"] + render("operator.c.j2", name=self.name)
        if self.runtime.flag("system-lib"):
            entry += "\n" + registry_c([self.name])
        files = {
            f"{src}_lib0.c": entry,
            f"{src}_lib1.c": made[f"{src}_lib2.c"],
            "src/tir-1.txt": relay_text(self.compiled.imported),
        }
        graph = self.compiled.imported
        arguments = tuple(
            Argument(n, str(graph.types[n].dtype), graph.types[n].shape, graph.types[n].bytes)
            for n in (*graph.inputs, *graph.outputs)
        )
        return ModuleRecord(
            self.name,
            (),
            (TargetString(str(self.target)),),
            Memory(operators={self.name: arguments}),
            {name: text.encode() for name, text in files.items()}
            | dict(self.compiled.sources.data),
            OPERATOR,
        )


def build_operator(
    mod: IRModule,
    target: Any = None,
    runtime: Runtime | None = None,
    params: Mapping[str, Any] | None = None,
    name: str = "default",
) -> OperatorModule:
    """`mod` as one packed function called `name`. Raises MlfError."""
    if name in RESERVED:
        raise MlfError(Problem("MLF0404", f"operator name '{name}' cannot be a C function's"))
    where, context = the_target(target), PassContext.current()
    bound = mod.bound(params)
    spec = ModuleSpec(
        bound.model,
        name,
        where.name,
        interface_api="packed",
        input_shapes=bound.shapes,
        unpacked_api=True,
        opt_level=context.opt_level,
        disabled_pass=context.disabled,
        output_names=bound.output_names,
    )
    return OperatorModule(name, where, runtime or Runtime("crt"), compile_module(spec))
