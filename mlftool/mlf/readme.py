"""README.md of an archive: how to build and run exactly what it holds, from its own records."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlftool.errors import MlfError, one_line
from mlftool.mlf.interface import Interface, Tensor, decode
from mlftool.mlf.records import OPERATOR, Archive, ModuleRecord

_FLAGS = "-std=c99 OPTIMISE -ffp-contract=off -I codegen/host/include"


def readme(archive: Archive) -> str:
    """The page. All names in it are data: they cannot leave their place in the text."""
    return "\n".join(_page(archive)) + "\n"


def _page(archive: Archive) -> Iterator[str]:
    names = ", ".join(_code(m.name) for m in archive.modules)
    yield f"# {names}"
    yield ""
    yield f"An archive in Model Library Format, version {archive.version}. `metadata.json` has the"
    yield "same facts for programs, `sha256sum -c checksums.sha256` checks the files, and"
    yield "`mlftool inspect` and `mlftool run` read the packed archive. Run the commands below in"
    yield "the folder with the unpacked files."
    for m in archive.modules:
        yield ""
        yield f"## {_code(m.name)}"
        yield ""
        targets = ", ".join(_code(t.text) for t in m.targets)
        kind = "An operator" if m.style == OPERATOR else f"A model for the {m.executor} executor"
        yield f"{kind}, compiled for {targets}."
        interface = _interface(m)
        yield from _arguments(m) if m.style == OPERATOR else _tensors(m, interface)
        yield from _memory(m, interface)
        yield from _build(archive, m, interface)
        yield from _run(m, interface)


def _code(text: str) -> str:
    """Untrusted text as an inline code span that nothing in it can end."""
    plain = one_line(text).replace("`", "'").replace("|", "/").replace("<", "(").replace(">", ")")
    return f"`{plain[:200]}`"


def _interface(m: ModuleRecord) -> Interface | None:
    try:
        return decode(m.name, m.interface) if m.interface else None
    except MlfError:
        return None  # foreign, or of a later schema: the metadata still stand


def _tensors(m: ModuleRecord, interface: Interface | None) -> Iterator[str]:
    main = m.memory.main[0] if m.memory.main else None
    yield ""
    if interface is not None:
        yield "| | name | in C | type | shape | bytes | quantisation |"
        yield "|---|---|---|---|---|---|---|"
        for kind, tensors in (("input", interface.inputs), ("output", interface.outputs)):
            for t in tensors:
                yield _tensor_row(kind, t)
    elif main is not None and main.inputs is not None:
        yield "In alphabetical order; the order of calls is not in the metadata."
        yield ""
        yield "| | name | type | bytes |"
        yield "|---|---|---|---|"
        for kind, entries in (("input", main.inputs), ("output", main.outputs or ())):
            for e in entries:
                yield f"| {kind} | {_code(e.name)} | {_code(e.dtype)} | {e.size_bytes} |"


def _tensor_row(kind: str, t: Tensor) -> str:
    shape = " x ".join(map(str, t.shape)) or "scalar"
    zero = t.zero_point or 0
    less = f"+ {-zero}" if zero < 0 else f"- {zero}"
    value = "" if t.scale is None else f"{t.scale:.9g} * (q {less})"
    cells = (kind, _code(t.name), _code(t.c_name), t.dtype.name, shape, t.size_bytes, value)
    return "| " + " | ".join(map(str, cells)) + " |"


def _arguments(m: ModuleRecord) -> Iterator[str]:
    for function, arguments in m.memory.operators.items():
        yield ""
        yield f"Function {_code(function)}, its arguments in order:"
        yield ""
        yield "| name | type | shape | bytes |"
        yield "|---|---|---|---|"
        for a in arguments:
            shape = " x ".join(map(str, a.shape)) or "scalar"
            yield f"| {_code(a.name)} | {_code(a.dtype)} | {shape} | {a.size_bytes} |"


def _memory(m: ModuleRecord, interface: Interface | None) -> Iterator[str]:
    kept = interface.state_bytes if interface else 0
    state = f", {kept} of states" if kept else ""
    for entry in m.memory.main:
        yield ""
        sizes = f"{entry.workspace_bytes} bytes of workspace, {entry.constants_bytes} of constants"
        yield f"Memory: {sizes},"
        yield f"{entry.io_bytes} of inputs and outputs{state}."


def _build(archive: Archive, m: ModuleRecord, interface: Interface | None) -> Iterator[str]:
    from mlftool.mlf.layout import Layout

    layout = Layout(archive.version, m.style)
    names = [layout.name(n, m.name) for n in m.sources]
    carried = any(n.startswith("runtime/") for n in archive.shared)
    calls_runtime = interface is None or interface.interface_api != "c"
    objects = [n for n in names if n.endswith(".o")]
    sources = [n for n in names if not n.endswith(".o")]
    if sources:
        folder = "runtime" if carried else "CRT"
        flags = f"{_FLAGS} -I {folder}/include" if calls_runtime else _FLAGS
        yield ""
        yield "Build with your device's compiler; unoptimised code is several times slower:"
        yield ""
        yield "```sh"
        optimise = interface.flag if interface else "-O2"
        yield f"cc {flags.replace('OPTIMISE', optimise)} -c {' '.join(sources)}"
        yield "```"
        yield ""
        yield "On a desktop computer, link the objects with `-lm`, which has the square roots."
        if calls_runtime and not carried:
            yield ""
            yield "`CRT` is TVM's or mlftool's C runtime, which this version does not contain."
    if objects:
        yield ""
        yield f"Link {', '.join(map(_code, objects))}, compiled for the target above."
    if calls_runtime:
        yield ""
        yield "It calls functions of the C runtime (`runtime/` in archives that contain it):"
        yield "`TVMBackendAllocWorkspace` and `TVMBackendFreeWorkspace`, which use your"
        yield "`TVMPlatformMemoryAllocate` and `TVMPlatformMemoryFree`."


def _run(m: ModuleRecord, interface: Interface | None) -> Iterator[str]:
    if interface is None or m.style == OPERATOR:
        return
    yield ""
    yield "Run:"
    yield ""
    yield "```c"
    if interface.interface_api == "c":
        yield from _run_struct(m, interface)
    elif m.executor == "graph":
        if not interface.system_lib:
            yield "/* functions: a TVMModule of the kernels (--runtime-crt-system-lib 1) */"
        functions = "TVMSystemLibEntryPoint()" if interface.system_lib else "&functions"
        yield "TVMInitializeRuntime();"
        yield f"TVMModCreateFromCModule({functions}, &module);"
        yield f"/* json and params: executor-config/graph/{m.name}.graph, parameters/ */"
        yield "TVMGraphExecutor_Create(json, module, &device, &executor);"
        yield "TVMGraphExecutor_LoadParams(executor, params, params_size);"
        yield f"/* TVMGraphExecutor_SetInput for {_names(interface.inputs)} */"
        yield "TVMGraphExecutor_Run(executor);"
        yield f"/* TVMGraphExecutor_GetOutput for {_names(interface.outputs)}, by index */"
    else:
        tensors = _names((*interface.inputs, *interface.outputs))
        yield f"/* each values[i].v_handle points to a DLTensor, in the order {tensors} */"
        yield f"int32_t status = tvmgen_{m.name}_run(values, type_codes, {_count(interface)},"
        yield "                                  &result, &result_code, NULL);"
    yield "```"


def _run_struct(m: ModuleRecord, interface: Interface) -> Iterator[str]:
    name = m.name
    yield f'#include "tvmgen_{name}.h"'
    yield ""
    if interface.pools:
        members = ", ".join(f".{pool} = {pool}" for pool in interface.pools)
        yield f"struct tvmgen_{name}_workspace_pools pools = {{{members}}};"
    if interface.devices:
        members = ", ".join(f".{device} = NULL" for device in interface.devices)
        yield f"struct tvmgen_{name}_devices devices = {{{members}}}; /* or your contexts */"
    pools = ["&pools"] * bool(interface.pools)
    besides = [*pools, *["&devices"] * bool(interface.devices)]
    if interface.workspace_io:
        where = ", ".join(pools)
        yield f"struct tvmgen_{name}_inputs inputs = tvmgen_{name}_map_inputs({where});"
        yield "/* fill the buffers to which its members point, then: */"
        yield f"int32_t status = tvmgen_{name}_run({', '.join(besides)}); /* 0: done */"
        yield f"struct tvmgen_{name}_outputs outputs = tvmgen_{name}_map_outputs({where});"
        return
    for kind, tensors in (("inputs", interface.inputs), ("outputs", interface.outputs)):
        members = ", ".join(f".{t.c_name} = {_pointer(m, t)}" for t in tensors)
        yield f"struct tvmgen_{name}_{kind} {kind} = {{{members}}};"
    arguments = ", ".join(["&inputs", "&outputs", *besides])
    yield f"int32_t status = tvmgen_{name}_run({arguments}); /* 0: done */"


def _pointer(m: ModuleRecord, t: Tensor) -> str:
    """How C passes a tensor: by the macro of our headers, so that a model with other types does
    not compile in its place."""
    macro = f"TVMGEN_{m.name}_{t.c_name}_POINTER".upper()
    header = m.files.get(f"codegen/host/include/tvmgen_{m.name}.h", b"")
    return f"{macro}({t.c_name})" if f"#define {macro}(".encode() in header else t.c_name


def _names(tensors: Sequence[Tensor]) -> str:
    return ", ".join(t.c_name for t in tensors)


def _count(interface: Interface) -> int:
    return len(interface.inputs) + len(interface.outputs)
