"""The `aot` executor: straight-line C. Formatting only; every decision is in the Program."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlftool.codegen.kernels import Kernels, expression, places, write_kernels
from mlftool.codegen.names import comment, member_names, parameter
from mlftool.codegen.options import Options
from mlftool.codegen.sources import INCLUDE, SRC, OperatorFunction, Sources
from mlftool.codegen.templates import render
from mlftool.ir.graph import Graph
from mlftool.plan.program import Program


def emit(program: Program, options: Options, interface: Graph) -> Sources:
    """C for `program`. `interface` is the imported graph: its inputs and outputs, in call order."""
    module = options.module
    members = member_names((*interface.inputs, *interface.outputs))
    kernels = write_kernels(program, module)
    values = _values(program, module, interface, members, kernels)
    files = {
        f"{SRC}/{module}_lib0.c": render("lib0.c.j2", **values),
        f"{SRC}/{module}_lib1.c": render("lib1.c.j2", **values),
        f"{INCLUDE}/tvmgen_{module}.h": render("header.h.j2", **values),
    }
    return Sources(
        files,
        tuple(OperatorFunction(f.symbol) for f in kernels.functions),
        tuple(s.function.symbol for s in kernels.steps),
        members,
        kernels.constants_bytes,
        program.memory.size_bytes,
    )


def _values(
    program: Program, module: str, interface: Graph, members: Mapping[str, str], kernels: Kernels
) -> dict[str, Any]:
    """What the templates may read."""
    # An output pass may have renamed an input; positions stay.
    io = dict(zip(program.graph.inputs, (members[n] for n in interface.inputs), strict=True))
    io |= {n: members[n] for n in interface.outputs}
    memory = program.memory
    arguments = {} if program.workspace_io else {n: parameter(m) for n, m in io.items()}
    place = places(program, arguments)
    return {
        "module": module,
        "inputs": _tensors(interface, interface.inputs, members),
        "outputs": _tensors(interface, interface.outputs, members),
        "workspace_bytes": memory.size_bytes,
        "workspace_io": program.workspace_io,
        "offsets": {
            member: memory.place[program.storage(name)].offset_bytes
            for name, member in io.items()
            if program.workspace_io
        },
        "target": program.target.tvm,
        "functions": kernels.functions,
        "constants": kernels.constants,
        "includes": kernels.includes,
        "steps": [
            {
                "symbol": s.function.symbol,
                "arguments": [expression(a, place) for a in s.arguments],
                "comment": s.comment,
            }
            for s in kernels.steps
        ],
    }


def _tensors(
    graph: Graph, names: tuple[str, ...], members: Mapping[str, str]
) -> list[dict[str, Any]]:
    return [
        {
            "member": members[n],
            "parameter": parameter(members[n]),
            "macro": members[n].upper(),
            "bytes": graph.types[n].bytes,
            "comment": f"{comment(n)}: {graph.types[n]}",
        }
        for n in names
    ]
