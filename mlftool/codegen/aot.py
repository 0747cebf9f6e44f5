"""The `aot` executor: a Program as C sources. Formatting only; every decision is in the Program."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mlftool.codegen.literals import initialiser
from mlftool.codegen.names import comment, member_names, parameter
from mlftool.ir import dtype
from mlftool.ir.graph import Array, Graph, TensorType
from mlftool.ops.base import Operand
from mlftool.plan.memory import STACK_LIMIT_BYTES
from mlftool.plan.program import Call, Program

_PACKAGE = Path(__file__).parent.parent
_TEMPLATES = Environment(
    loader=FileSystemLoader(
        [_PACKAGE / "ops", _PACKAGE / "targets" / "kernels", _PACKAGE / "codegen"]
    ),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    auto_reload=False,
)


@dataclass(frozen=True)
class Function:
    """One C function; calls whose kernels render to the same text share it."""

    symbol: str
    text: str
    macs: int


@dataclass(frozen=True)
class Sources:
    """What the aot executor emits for one module, and what reports want to know of it."""

    lib0: str
    lib1: str
    header: str
    functions: tuple[Function, ...]
    symbols: tuple[str, ...]  # per call
    members: Mapping[str, str]  # tensor -> C member name
    constants_bytes: int


def emit(program: Program, module: str, interface: Graph) -> Sources:
    """C for `program`. `interface` is the imported graph: its inputs and outputs, in call order."""
    members = member_names((*interface.inputs, *interface.outputs))
    writer = _Writer(program, module, members, interface)
    steps = [writer.step(k, call) for k, call in enumerate(program.calls)]
    common = {
        "module": module,
        "inputs": _tensors(interface, interface.inputs, members),
        "outputs": _tensors(interface, interface.outputs, members),
        "workspace_bytes": program.memory.size_bytes,
        "workspace_io": program.workspace_io,
        "offsets": writer.offsets(),
        "target": program.target.tvm,
    }
    render = {
        name: _TEMPLATES.get_template(name + ".j2").render(
            **common,
            functions=writer.functions.values(),
            constants=writer.constants.values(),
            includes=sorted(writer.includes),
            steps=steps,
        )
        for name in ("lib0.c", "lib1.c", "header.h")
    }
    return Sources(
        render["lib0.c"],
        render["lib1.c"],
        render["header.h"],
        tuple(writer.functions.values()),
        tuple(s["symbol"] for s in steps),
        members,
        sum(c["bytes"] for c in writer.constants.values()),
    )


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


class _Writer:
    """Collects functions and constants while the steps are written."""

    def __init__(
        self, program: Program, module: str, members: Mapping[str, str], interface: Graph
    ) -> None:
        self.program, self.module = program, module
        self.functions: dict[str, Function] = {}
        self.constants: dict[tuple[str, bytes], dict[str, Any]] = {}
        self.includes: set[str] = {"mlf/kernel.h"}
        graph = program.graph
        # An output pass may have renamed an input; positions stay.
        self.members = dict(zip(graph.inputs, (members[n] for n in interface.inputs), strict=True))
        self.members |= {n: members[n] for n in interface.outputs}

    def step(self, k: int, call: Call) -> dict[str, Any]:
        kernel = call.kernel
        self.includes |= set(kernel.includes)
        function = self._function(call)
        arguments = [self._argument(k, call, o) for o in kernel.operands if not _is_local(o)]
        return {"symbol": function.symbol, "arguments": arguments, "comment": self._describe(call)}

    def offsets(self) -> dict[str, int]:
        """Where inputs and outputs lie in the workspace, by member name, if they do."""
        place, storage = self.program.memory.place, self.program.storage
        return {
            member: place[storage(name)].offset_bytes
            for name, member in self.members.items()
            if self.program.workspace_io
        }

    def _function(self, call: Call) -> Function:
        kernel = call.kernel
        locals_ = [o for o in kernel.operands if _is_local(o)]
        body = _TEMPLATES.get_template(kernel.template).render(
            **kernel.params, types={o.name: o.ctype for o in kernel.operands}
        )
        overlap = bool(kernel.inplace)
        signature = ", ".join(_parameter(o, overlap) for o in kernel.operands if not _is_local(o))
        head = "".join(
            f"  {o.ctype} {o.name}[{o.bytes // dtype_bytes(o.ctype)}];\n" for o in locals_
        )
        key = f"({signature}) {{\n{head}{body}}}"
        if key not in self.functions:
            symbol = self._symbol(call)
            self.functions[key] = Function(symbol, f"MLF_KERNEL void {symbol}{key}\n", kernel.macs)
        return self.functions[key]

    def _symbol(self, call: Call) -> str:
        """tvmgen_<module>_<operators>, numbered where that is taken; model names play no part."""
        nodes = call.node.body or (call.node,)
        names = [re.sub(r"[^a-z0-9]+", "_", n.op.rsplit(".", 1)[-1].lower()) for n in nodes]
        base = f"tvmgen_{self.module}_" + ("fused_" if len(names) > 1 else "") + "_".join(names)
        base = base[: 80 + len(self.module)]
        taken = {f.symbol for f in self.functions.values()}
        symbol, k = base, 1
        while symbol in taken:
            symbol, k = f"{base}_{k}", k + 1
        return symbol

    def _argument(self, k: int, call: Call, operand: Operand) -> str:
        const = "const " if operand.role in ("in", "const") else ""
        if operand.role == "const":
            assert operand.array is not None
            return self._constant(k, operand.name, operand.array, operand.ctype)
        name = f"scratch of step {k}"
        if operand.role != "scratch":
            name = self.program.storage(operand.value)
        if name in self.members and not self.program.workspace_io:
            return f"({const}{operand.ctype} *){parameter(self.members[name])}"
        offset = self.program.memory.place[name].offset_bytes
        return f"({const}{operand.ctype} *)(void *)(workspace + {offset})"

    def _constant(self, k: int, role: str, array: Array, ctype: str) -> str:
        """The name of a constant array; equal contents are stored once."""
        key = (ctype, array.tobytes())
        if key not in self.constants:
            words = {"w": "weights", "b": "bias", "b_inner": "bias_inner"}
            self.constants[key] = {
                "name": f"step{k}_{words.get(role, role)}",
                "ctype": ctype,
                "elements": array.size,
                "bytes": array.nbytes,
                "text": initialiser(array),
                "shape": "x".join(map(str, array.shape)),
            }
        return str(self.constants[key]["name"])

    def _describe(self, call: Call) -> str:
        graph = self.program.graph
        node = call.node

        def show(name: str) -> str:
            type_: TensorType = graph.types[name]
            return "x".join(map(str, type_.shape)) or "scalar"

        ins = ", ".join(show(i) for i in node.inputs if i and i not in graph.consts)
        ops = " + ".join(n.op.rsplit(".", 1)[-1] for n in node.body) or node.op.rsplit(".", 1)[-1]
        out = graph.types[node.outputs[0]]
        return (
            f"{comment(node.name, 40)}: {comment(ops, 90)}, {ins} -> {show(node.outputs[0])} "
            f"{out.dtype} ({call.kernel.name})"
        )


def _is_local(operand: Operand) -> bool:
    return operand.role == "scratch" and operand.bytes <= STACK_LIMIT_BYTES


def _parameter(operand: Operand, overlap: bool) -> str:
    const = "const " if operand.role in ("in", "const") else ""
    restrict = "" if overlap and operand.role in ("in", "out") else "MLF_RESTRICT "
    return f"{const}{operand.ctype} *{restrict}{operand.name}"


def dtype_bytes(ctype: str) -> int:
    return next(d.bytes for d in dtype.DTYPES if d.c == ctype)
