"""The `aot` executor: straight-line C. Formatting only; every decision is in the Program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlftool.codegen.executor import Executor
from mlftool.codegen.external import PARAMETER, Offloaded, offloaded
from mlftool.codegen.kernels import (
    Argument,
    Function,
    Kernels,
    expression,
    pool_name,
    write_kernels,
)
from mlftool.codegen.names import member_names, parameter
from mlftool.codegen.options import Options, check_linked, refused
from mlftool.codegen.origin import origin, tensors
from mlftool.codegen.packed import PackedStep, Shapes, check_types, code_values, pack, wrapped
from mlftool.codegen.packed import functions as packed_functions
from mlftool.codegen.sources import INCLUDE, SRC, OperatorFunction, Sources
from mlftool.codegen.states import texts
from mlftool.codegen.templates import render
from mlftool.codegen.weights import place
from mlftool.ir.graph import Graph
from mlftool.ops.scalar import c_string
from mlftool.options import CompilerOptions
from mlftool.plan.program import Program, Region
from mlftool.plan.states import slots


def emit(program: Program, options: Options, interface: Graph) -> Sources:
    """C for `program`. `interface` is the imported graph: its inputs and outputs, in call order."""
    emit_form = emit_packed if options.interface_api == "packed" else emit_c
    return emit_form(program, options, interface)


def emit_c(program: Program, options: Options, interface: Graph) -> Sources:
    """Entry point with structs of pointers; plain C calls."""
    module = options.module
    members = member_names((*interface.inputs, *interface.outputs))
    kernels = write_kernels(program, module)
    weights = place(kernels.constants, module, options.weights)
    given = offloaded(kernels.functions, options, first=2)
    values = values_of(program, options, interface, members, kernels, given)
    values |= {"weights": weights}
    return Sources(
        {**struct_files(module, "lib", values), **given.files},
        tuple(OperatorFunction(f.symbol) for f in kernels.functions),
        tuple(s.function.symbol for s in kernels.steps),
        members,
        kernels.constants_bytes,
        program.memory.size_bytes,
        data={**weights.files, **given.objects},
        headers=given.headers,
        state_bytes=values["state"]["bytes"],
    )


def struct_files(module: str, template: str, values: Mapping[str, Any]) -> dict[str, str]:
    """The C files of a module that is called through structs of pointers, by their names."""
    files = {f"{SRC}/{module}_lib{k}.c": render(f"{template}{k}.c.j2", **values) for k in (0, 1)}
    return files | {f"{INCLUDE}/tvmgen_{module}.h": render("header.h.j2", **values)}


def emit_packed(program: Program, options: Options, interface: Graph) -> Sources:
    """Packed entry point; the calls inside are packed ones too, or with unpacked_api plain C."""
    module = options.module
    check_types(program.graph)
    members = member_names((*interface.inputs, *interface.outputs))
    kernels = write_kernels(program, module)
    weights = place(kernels.constants, module, options.weights)
    own = kernels.functions if options.unpacked_api else wrapped(kernels.functions)
    given = offloaded(own, options, first=3, packed=True)
    values = values_of(program, options, interface, members, kernels, given)
    values |= {"weights": weights, "unpacked": options.unpacked_api, "activates": False}
    io = (*interface.inputs, *interface.outputs)
    values["checked"] = [parameter(members[n]) for n in io if interface.types[n].bytes]
    steps = () if options.unpacked_api else pack(kernels, link_params=True)
    if options.unpacked_api:
        code, functions = render("lib1.c.j2", **values), [f.symbol for f in kernels.functions]
    else:
        values |= _packed_values(program, kernels, steps, values["io"], dict(options.backends))
        values["allocates"] = options.system_lib
        code = render("packed_main.c.j2", **values)
        functions = [p.symbol for p in packed_functions(steps)]
    files = {
        f"{SRC}/{module}_lib0.c": render("packed_lib0.c.j2", **values),
        f"{SRC}/{module}_lib1.c": _c_metadata(module, interface),
        f"{SRC}/{module}_lib2.c": code,
        **given.files,
    }
    prefix = f"tvmgen_{module}"
    kept = [] if options.unpacked_api else functions
    symbols = [s.packed.symbol for s in steps] or [s.function.symbol for s in kernels.steps]
    return Sources(
        files,
        tuple(map(OperatorFunction, functions)),
        tuple(symbols),
        members,
        kernels.constants_bytes,
        program.memory.size_bytes,
        packed=(f"{prefix}_run", *kept, f"{prefix}_get_c_metadata"),
        data={**weights.files, **given.objects},
        headers=given.headers,
    )


def _packed_values(
    program: Program,
    kernels: Kernels,
    steps: Sequence[PackedStep],
    named: Mapping[str, str],
    hooks: Mapping[str, str],
) -> dict[str, Any]:
    """The packed calls of the main function."""
    shapes = Shapes()
    place = program.memory.place

    def tensor(argument: Argument) -> dict[str, Any]:
        storage = argument.storage
        data = named.get(storage) or f"workspace + {place[storage].offset_bytes}"
        if argument.operand.role == "in" and storage in named:
            data = f"(void *){data}"
        type_ = program.graph.types[argument.operand.value]
        return {"data": data, **shapes.describe(type_)}

    def scratch(step: PackedStep) -> str:
        argument = next((a for a in step.step.arguments if a.operand.role == "scratch"), None)
        return f"workspace + {place[argument.storage].offset_bytes}" if argument else ""

    calls = [
        {
            "symbol": s.packed.symbol,
            "comment": s.step.comment,
            "tensors": [tensor(a) for a in s.tensors],
            "scratch": scratch(s),
        }
        for s in steps
    ]
    return {
        **code_values(program, kernels, steps, hooks),
        "planned": True,
        "steps": calls,
        "shapes": shapes.arrays,
        "most": max((len(s.tensors) for s in steps), default=1),
    }


def _c_metadata(module: str, interface: Graph) -> str:
    shapes = Shapes()
    infos = {
        kind: [{"name": c_string(n), **shapes.describe(interface.types[n])} for n in names]
        for kind, names in (("inputs", interface.inputs), ("outputs", interface.outputs))
    }
    return render("c_metadata.c.j2", module=module, infos=infos, shapes=shapes.arrays)


def values_of(
    program: Program,
    options: Options,
    interface: Graph,
    members: Mapping[str, str],
    kernels: Kernels,
    given: Offloaded,
    straight: bool = True,
) -> dict[str, Any]:
    """The values for the templates, of `straight` C or of calls between which there are jumps."""
    module = options.module
    # An output pass may have renamed an input; positions stay.
    io = dict(zip(program.graph.inputs, (members[n] for n in interface.inputs), strict=True))
    io |= {n: members[n] for n in interface.outputs}
    memory = program.memory
    arguments = {} if program.workspace_io else {n: parameter(m) for n, m in io.items()}
    return {
        "module": module,
        "marks": options.marks,
        "origin": origin(options, interface),
        "inputs": tensors(interface, interface.inputs, members),
        "outputs": tensors(interface, interface.outputs, members),
        "io": arguments,
        "workspace_bytes": memory.size_bytes,
        "workspace_io": program.workspace_io,
        **(arenas := _arenas(program, module)),
        **_devices(module, given, arenas, arguments),
        "offsets": {
            member: _address(program, name) for name, member in io.items() if program.workspace_io
        },
        "state": texts(*slots(program, interface, straight), program.target.big_endian),
        "target": program.target.tvm,
        "functions": kernels.functions,
        "includes": kernels.includes,
        "steps": [
            {
                "symbol": s.function.symbol,
                "arguments": [expression(program, a, arguments) for a in s.arguments],
                "comment": s.comment,
                **_called(s.function, dict(options.backends)),
            }
            for s in kernels.steps
        ],
    }


def _called(function: Function, hooks: Mapping[str, str]) -> dict[str, Any]:
    """How a step's function is called: one of a backend gives a status, one of a device is given
    its context."""
    part = function.external
    device = part.device if part else ""
    return {
        "external": part is not None,
        "hooks": hooks[part.backend] if part and device else "",
        "context": PARAMETER + part.member if part else "",
    }


def _devices(
    module: str, offloads: Offloaded, arenas: Mapping[str, Any], io: Mapping[str, str]
) -> dict[str, Any]:
    """The devices, and what entry points take and pass on besides inputs and outputs."""
    devices = offloads.devices
    taken = f"struct tvmgen_{module}_devices *devices" if devices else ""
    given = [f"devices ? devices->{d['member']} : 0" for d in devices]
    names = [d["parameter"] for d in devices]
    return {
        "devices": devices,
        "fails": offloads.fails,
        "besides": [text for text in (arenas["given_pools"], taken) if text],
        "passed_besides": ", ".join([*(a["passed"] for a in arenas["arenas"]), *given]),
        "passed_on": ", ".join([*io.values(), *(a["parameter"] for a in arenas["arenas"]), *names]),
    }


def _arenas(program: Program, module: str) -> dict[str, Any]:
    """The memories that the module works in: the workspace or pools, TVM's way sorted by name."""
    memory = program.memory
    pools = [
        {
            "name": r.pool.name,
            "bytes": r.size_bytes,
            "section": r.pool.section,
            "parameter": pool_name(r.pool.name),
            "passed": _passed(r),
        }
        for r in sorted(memory.regions, key=lambda r: r.pool.name)
        if r.pool.name
    ]
    passed = "global_workspace" if memory.size_bytes else "0"
    workspace = {"bytes": memory.size_bytes, "parameter": "workspace", "passed": passed}
    given = any(not p["section"] for p in pools)
    return {
        "pools": pools,
        "arenas": pools or [workspace],
        "given_pools": f"struct tvmgen_{module}_workspace_pools *pools" if given else "",
    }


def _passed(region: Region) -> str:
    """A pool as the entry point passes it on."""
    if not region.pool.section:
        return f"(uint8_t *)pools->{region.pool.name}"
    return pool_name(region.pool.name) if region.size_bytes else "0"


def _address(program: Program, name: str) -> str:
    """The address of a tensor, in the file with the entry point."""
    memory = program.memory
    buffer = memory.place[program.storage(name)]
    pools = {r.pool.name: _passed(r) for r in memory.regions if r.pool.name}
    return f"{pools.get(buffer.pool, 'global_workspace')} + {buffer.offset_bytes}"


def _options(module: str, asked: CompilerOptions) -> Options:
    interface = asked.interface_api or "c"
    unpacked = interface == "c" if asked.unpacked_api is None else asked.unpacked_api
    if interface not in EXECUTOR.sources:
        raise refused(f"interface '{interface}'; expected {' or '.join(EXECUTOR.sources)}")
    if interface == "c" and not unpacked:
        raise refused(
            'Either need interface_api == "packed" (got: c) or unpacked-api == true (got: 0) '
            "when targeting c runtime",
            "leave unpacked-api out: it is 1 with interface c",
        )
    check_linked("aot", asked)
    return Options(module, interface, unpacked, True, asked.system_lib)


EXECUTOR = Executor(
    "straight-line C",
    {"c": ("lib0", "lib1"), "packed": ("lib0", "lib1", "lib2")},
    _options,
    emit,
)
