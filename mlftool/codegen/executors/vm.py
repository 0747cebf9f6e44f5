"""The `vm` executor: kernels in C, and bytecode that says when they are called.

Control flow is jumps in the bytecode; `crt/include/mlf/vm.h` interprets it, and so does
`mlftool/runtime/vm.py`. A module is called through the same C interface as aot's.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from mlftool.codegen.bytecode import Code, listing, write_code
from mlftool.codegen.executor import Executor
from mlftool.codegen.executors.aot import struct_files, values_of
from mlftool.codegen.external import Offloaded, offloaded
from mlftool.codegen.kernels import Function, Writer
from mlftool.codegen.names import member_names
from mlftool.codegen.options import Options, check_linked, refused
from mlftool.codegen.sources import OperatorFunction, Sources
from mlftool.codegen.weights import place
from mlftool.errors import MlfError, Problem
from mlftool.ir.graph import Graph
from mlftool.mlf.bytecode import MAX_ARGUMENTS, MAX_NUMBER
from mlftool.options import CompilerOptions
from mlftool.plan.program import Program

FILE = "executor-config/vm/{}.vm"
AOT = "use --executor aot, which has no such limit"


def emit(program: Program, options: Options, interface: Graph) -> Sources:
    """C and bytecode for `program`; `interface` has the inputs' and outputs' own names."""
    module = options.module
    writer = Writer(program, module)
    code = write_code(program, writer)
    _check(code, module)
    kernels = writer.kernels(())
    members = member_names((*interface.inputs, *interface.outputs))
    given = offloaded(kernels.functions, options, first=2, context=f"tvmgen_{module}_context_")
    values = values_of(program, options, interface, members, kernels, given, straight=False)
    weights = place(kernels.constants, module, options.weights)
    values |= {
        "weights": weights,
        "workspace_bytes": code.workspace_bytes,
        "calls": [(f, _context(f.kernel, given)) for f in code.functions.values()],
        "table": [constant for _, constant in code.constants.values()],
        "code": listing(code),
        "words": len(code.words),
    }
    return Sources(
        {**struct_files(module, "vm_lib", values), **given.files},
        tuple(OperatorFunction(f.symbol) for f in kernels.functions),
        tuple(code.symbols),
        members,
        kernels.constants_bytes,
        code.workspace_bytes,
        data={
            FILE.format(module): np.array(code.words, "<u4").tobytes(),
            **weights.files,
            **given.objects,
        },
        headers=given.headers,
        state_bytes=values["state"]["bytes"],
    )


def _context(kernel: Function, given: Offloaded) -> Mapping[str, str]:
    """The device of a backend's function, as templates name it; {} if there is none."""
    member = kernel.external.member if kernel.external else ""
    return next((d for d in given.devices if d["member"] == member), {})


def _check(code: Code, module: str) -> None:
    """Raises MlfError for programs that exceed the limits of the instructions."""
    problems = [
        f"{f.kernel.symbol} takes {len(f.arguments)} tensors; the vm executor {MAX_ARGUMENTS}"
        for f in code.functions.values()
        if len(f.arguments) > MAX_ARGUMENTS
    ]
    if code.workspace_bytes > MAX_NUMBER:
        problems.append(
            f"{code.workspace_bytes} bytes of workspace; the vm executor has {MAX_NUMBER}"
        )
    if problems:
        raise MlfError(Problem("MLF0304", f"module '{module}': {p}", help=AOT) for p in problems)


def _options(module: str, asked: CompilerOptions) -> Options:
    """Its modules are called through structs of pointers."""
    packed = asked.interface_api not in (None, "c") or asked.unpacked_api is False
    if packed or asked.system_lib:
        raise refused(
            "the vm executor is called through its C interface; got interface packed, "
            "unpacked-api 0 or a system library",
            "leave them out, or use --executor aot",
        )
    check_linked("vm", asked)
    return Options(module)


EXECUTOR = Executor(
    "bytecode",
    {"c": ("lib0", "lib1")},
    _options,
    emit,
    FILE.format,
    jumps=True,
)
