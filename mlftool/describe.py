"""An archive's description of its modules, and the archive itself."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from mlftool.codegen import registry
from mlftool.codegen.origin import quantisation
from mlftool.codegen.relay import relay_text
from mlftool.codegen.sources import INCLUDE, LIB, SRC
from mlftool.codegen.weights import without_file
from mlftool.errors import MlfError, Problem
from mlftool.mlf import Bundle, archive, params, runtime_tree
from mlftool.mlf.interface import Tensor
from mlftool.mlf.records import (
    CPU,
    OPERATOR,
    STANDALONE_CRT,
    Archive,
    Argument,
    Dependency,
    FunctionMemory,
    IoTensor,
    MainMemory,
    Memory,
    ModuleRecord,
    Storage,
    TargetString,
)
from mlftool.module import Module
from mlftool.objects import compile_objects
from mlftool.ops import Trait, is_a, patches
from mlftool.proof import certificate
from mlftool.version import VERSION


def bundle(modules: Sequence[Module], runtime: bool = False) -> Bundle:
    """The archive's files, in the version that the modules ask for.

    It carries the headers that its sources include, and the C runtime if a module calls it, or
    `runtime` asks for it: TVM's archives always have it.
    """
    versions = sorted({m.spec.mlf_version for m in modules})
    if len(versions) > 1:
        said = (f"{m.spec.mlf_version} of '{m.spec.module_name}'" for m in modules)
        text = f"one archive has one version; got {', '.join(said)}"
        raise MlfError(Problem("MLF0506", text, help="give its models one mlf_version"))
    runtime = runtime or any(m.calls_runtime for m in modules)
    sources = [dict(m.sources.files) for m in modules]
    shared = _add_system_library(modules, sources)
    shared |= _headers(modules)
    codes = list(map(_code, modules, sources))
    shared |= _carried([*codes, shared], runtime)
    records = tuple(
        _certified(m, _record(m, code, runtime), shared)
        for m, code in zip(modules, codes, strict=True)
    )
    return archive.write(Archive(versions[0], records, shared))


def _headers(modules: Sequence[Module]) -> dict[str, bytes]:
    """Those that backends brought along. Raises MlfError if two modules' are of one name."""
    found: dict[str, bytes] = {}
    for m in modules:
        for name, text in m.sources.headers.items():
            if found.setdefault(name, text.encode()) != text.encode():
                message = f"module '{m.spec.module_name}': header '{name}' has two contents"
                raise MlfError(Problem("MLF0411", message))
    return found


def _carried(codes: Sequence[Mapping[str, bytes]], runtime: bool) -> dict[str, bytes]:
    """The other files in an archive of this code."""
    texts = [data for code in codes for name, data in code.items() if name.endswith((".c", ".h"))]
    return runtime_tree.headers_of(texts) | (runtime_tree.runtime_files() if runtime else {})


def operator_bundle(m: Module) -> Bundle:
    """An archive of style operator: one function, tvmgen_<module>_run, that takes all tensors.

    The equivalent of TVM's `tvm.build`, for an operator or a small graph that is called alone.
    Raises MlfError unless the module was compiled for aot with interface packed.
    """
    if (m.spec.executor, m.options.interface_api) != ("aot", "packed"):
        text = f"an operator archive needs a packed function; got {m.spec.executor} with interface "
        hint = "compile with --executor aot --interface-api packed"
        raise MlfError(Problem("MLF0506", text + m.options.interface_api, help=hint))
    sources = dict(m.sources.files)
    _add_system_library([m], [sources])
    tensors = [_tensor(m, n) for n in (*m.imported.inputs, *m.imported.outputs)]
    arguments = tuple(Argument(t.name, t.dtype.name, t.shape, t.size_bytes) for t in tensors)
    code = _code(m, sources)
    shared = _carried([code], runtime=True)
    files = {name: data for name, data in code.items() if name.startswith((SRC, INCLUDE, LIB))}
    files[f"src/tir-{CPU}.txt"] = f"{m.imported}\n".encode()
    record = ModuleRecord(
        m.spec.module_name,
        (),
        (TargetString(m.program.target.tvm),),
        Memory(operators={f"tvmgen_{m.spec.module_name}_run": arguments}),
        files,
        OPERATOR,
    )
    return archive.write(Archive(m.spec.mlf_version, (record,), shared))


def _add_system_library(
    modules: Sequence[Module], sources: Sequence[dict[str, str]]
) -> dict[str, bytes]:
    """One registry: a module's own file has it, or one of its own if several modules share it."""
    listed = [k for k, m in enumerate(modules) if m.options.system_lib]
    names = [name for k in listed for name in modules[k].sources.packed]
    if len(listed) > 1:
        return {registry.FILE: registry.registry_c(names).encode()}
    for k in listed:
        lib0 = f"codegen/host/src/{modules[k].spec.module_name}_lib0.c"
        sources[k][lib0] += "\n" + registry.registry_c(names)
    return {}


def _code(m: Module, sources: Mapping[str, str]) -> dict[str, bytes]:
    """A module's files; its C and weights as objects if its target is of kind llvm."""
    made: dict[str, bytes] = {}
    if m.program.target.kind == "llvm":
        what = f"module '{m.spec.module_name}'"
        made = compile_objects(m.program.target, sources, m.sources.data, m.spec.cc, what)
    kept = {n: text.encode() for n, text in sources.items() if not (made and n.endswith(".c"))}
    return kept | made | (without_file(m.sources.data) if made else dict(m.sources.data))


def _record(m: Module, code: Mapping[str, bytes], runtime: bool) -> ModuleRecord:
    """What the archive, with or without the C runtime, says of a module, and the module's files by
    their names in version 7."""
    name = m.spec.module_name
    inputs = tuple(_tensor(m, n) for n in m.imported.taken)
    outputs = tuple(_tensor(m, n) for n in m.imported.given)
    main = MainMemory(
        workspace_bytes=m.sources.workspace_bytes,
        constants_bytes=m.sources.constants_bytes,
        io_bytes=sum(t.size_bytes for t in (*inputs, *outputs)),
        inputs=tuple(IoTensor(t.name, t.dtype.name, t.size_bytes) for t in inputs),
        outputs=tuple(IoTensor(t.name, t.dtype.name, t.size_bytes) for t in outputs),
    )
    functions = tuple(
        FunctionMemory(f.symbol, ((CPU, f.workspace_bytes),))
        for f in sorted(m.sources.functions, key=lambda f: f.symbol)
    )
    sids = tuple(Storage(s.id, s.size_bytes, s.binding or None) for s in m.sources.storages)
    files = {
        **code,
        f"parameters/{name}.params": params.encode(m.sources.params),
        f"src/{name}.relay": relay_text(m.imported).encode(),
        f"executor-config/{m.spec.executor}/{name}.json": _interface(m, inputs, outputs),
    }
    return ModuleRecord(
        name,
        (m.spec.executor,),
        (TargetString(m.program.target.tvm),),
        Memory((main,), functions, sids or None),
        files,
        dependencies=(
            *((STANDALONE_CRT,) if runtime else ()),
            *(Dependency(x.name, x.url, "url", x.version) for x in m.libraries),
        ),
    )


def _certified(m: Module, record: ModuleRecord, shared: Mapping[str, bytes]) -> ModuleRecord:
    """The record with its certificate, if the module asks for one."""
    if not m.spec.verify:
        return record
    files = {**certificate.headers(shared), **record.files}
    figures = {"workspace_bytes": m.sources.workspace_bytes}
    figures["constants_bytes"] = m.sources.constants_bytes
    proof = m.proof if m.sources.files.keys() <= files.keys() else certificate.of_objects(m.proof)
    data = certificate.encode(proof, record.name, figures, files)
    own = certificate.path(m.spec.executor, record.name)
    return replace(record, files={**record.files, own: data})


def _tensor(m: Module, name: str) -> Tensor:
    type_ = m.imported.types[name]
    quantised = quantisation(m.imported, name)
    extents = next(
        (n.outputs[0] for n in m.imported.nodes if is_a(n, Trait.SHAPE) and n.attrs["of"] == name),
        "",
    )
    extents = extents if extents in m.imported.outputs else ""
    member = m.sources.members[name]
    return Tensor(name, member, type_.dtype.numpy, type_.shape, type_.bytes, *quantised, extents)


def _pools(m: Module) -> list[dict[str, Any]]:
    """The memories that the plan uses, and how full they are."""
    calls = m.program.calls
    return [
        {
            "name": r.pool.name or "global_workspace",
            "size_bytes": r.size_bytes,
            "lower_bound_bytes": r.lower_bound_bytes,
            "proven_optimal": bool(r.proof),
            "proof": r.proof,
            "peak_node": calls[r.peak_step].node.name if calls else "",
            **({"section": r.pool.section} if r.pool.section else {}),
        }
        for r in m.program.memory.regions
    ]


def _offloaded(m: Module) -> dict[str, Any]:
    """What other libraries and devices compute; nothing where none was asked to."""
    parts = [c.kernel.external for c in m.program.calls if c.kernel.external]
    devices = sorted({p.member for p in parts if p.device})
    return {"backends": m.report.to_json(), "devices": devices} if m.report else {}


def bands_of(facts: Mapping[str, Any]) -> tuple[str, ...]:
    """The runs of layers that a module computes in bands of rows; `facts` are of `_interface`."""
    return tuple(n["name"] for n in facts["nodes"] if n["op"] == patches.NAME)


def _interface(m: Module, inputs: Sequence[Tensor], outputs: Sequence[Tensor]) -> bytes:
    """executor-config/<executor>/<module>.json: call order, shapes, memory plan, kernels."""
    memory = m.program.memory
    calls = m.program.calls
    data: dict[str, Any] = {
        "schema_version": 1,
        "module": m.spec.module_name,
        "executor": m.spec.executor,
        "interface_api": m.options.interface_api,
        "unpacked_api": m.options.unpacked_api,
        "system_lib": m.options.system_lib,
        "target": m.program.target.name,
        "optimize": m.spec.optimize,
        "mlftool_version": VERSION,
        "model_sha256": m.options.model_sha256,
        "inputs": [t.to_json() for t in inputs],
        "outputs": [t.to_json() for t in outputs],
        "workspace_io": m.program.workspace_io,
        "pools": sorted(r.pool.name for r in memory.regions if r.pool.name and not r.pool.section),
        **_offloaded(m),
        **({"state_bytes": m.sources.state_bytes} if m.imported.kept else {}),
        "workspace_bytes": m.sources.workspace_bytes,
        "constants_bytes": m.sources.constants_bytes,
        "macs": sum(c.kernel.macs for c in calls),
        "memory": {
            "pools": _pools(m),
            "buffers": [
                {
                    "name": b.name,
                    "pool": b.pool or "global_workspace",
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
    return _lines(data).encode()


def _lines(value: Any, indent: str = "") -> str:
    """JSON with a line for each record, such as a node or a buffer."""
    if not _has_records(value):
        return json.dumps(value)
    inner = f"\n{indent} "
    if isinstance(value, dict):
        parts = [f"{json.dumps(k)}: {_lines(v, indent + ' ')}" for k, v in value.items()]
        return f"{{{inner}{f',{inner}'.join(parts)}\n{indent}}}"
    parts = [_lines(v, indent + " ") for v in value]
    return f"[{inner}{f',{inner}'.join(parts)}\n{indent}]"


def _has_records(value: Any) -> bool:
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return any(isinstance(v, dict) or _has_records(v) for v in items)
