"""`mlftool inspect FILE.tar`: modules, tensors, memory and kernels of an archive."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlftool.cli.terminal import put, said
from mlftool.errors import one_line

if TYPE_CHECKING:
    from mlftool.mlf.records import Archive, ModuleRecord
    from mlftool.runtime.load import LoadedArchive

HELP = "show what an archive contains"
GROUP = "see"
COPIED = ("runtime/", "templates/")  # what every archive has alike


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", metavar="FILE.tar", type=Path)
    parser.add_argument("--json", action="store_true", help="print everything as JSON")


def run(args: argparse.Namespace) -> int:
    from mlftool.runtime.load import load

    archive = load(args.archive)
    data = describe(archive)
    # Names in an archive are untrusted text.
    lines = (part for text in render(archive.record, data) for part in text.split("\n"))
    text = "\n".join(map(one_line, lines))
    if args.json:
        put(json.dumps(data, indent=2, sort_keys=True))
    else:
        said(text)
    return 0


def describe(archive: LoadedArchive) -> dict[str, Any]:
    """Everything known about an archive, as JSON; `interfaces` are our own descriptions."""
    records = archive.record.modules
    return {
        "schema_version": 1,
        "file": archive.file,
        "mlf_version": archive.version,
        "metadata": archive.metadata,
        "modules": [m.name for m in records],
        "interfaces": {
            m.name: _interface(m, archive.file) for m in records if m.interface is not None
        },
        "graphs": {m.name: graph for m in records if (graph := _graph(m)) is not None},
        "params": {m.name: _params(m) for m in records if m.params is not None},
        "files": {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in sorted(archive.files.items())
        },
    }


def _interface(m: ModuleRecord, file: str) -> dict[str, Any]:
    """Our description, checked to be complete enough for the report: the file is untrusted."""
    from mlftool.insight.description import described
    from mlftool.mlf.interface import decode, member_of
    from mlftool.mlf.strict import parse_json

    decode(m.name, m.interface or b"", file, member_of(m))
    described(m, file)
    data: dict[str, Any] = parse_json(m.interface or b"")
    return data


def _graph(m: ModuleRecord) -> dict[str, Any] | None:
    """The graph executor's JSON in short; `crt_config` are limits beyond the C runtime's own."""
    from mlftool.mlf import graph as graph_json

    if m.graph is None:
        return None
    graph, data = graph_json.decode(m.graph)
    return {
        "nodes": len(graph.nodes),
        "arguments": [graph.nodes[i].name for i in graph.arguments],
        "functions": list(graph.functions),
        "outputs": [
            {"dtype": graph.entries[e].dtype, "shape": list(graph.entries[e].shape)}
            for e in graph.heads
        ],
        "crt_config": list(graph_json.beyond_defaults(graph)),
        "cannot_run": list(graph_json.refusals(graph, data)),
    }


def _params(m: ModuleRecord) -> dict[str, Any]:
    from mlftool.mlf import params

    return {
        name: {"dtype": array.dtype.name, "shape": list(array.shape), "bytes": array.nbytes}
        for name, array in params.decode(m.params or b"").items()
    }


def render(archive: Archive, data: Mapping[str, Any]) -> Iterator[str]:
    """The same for people, most important first."""
    yield f"{data['file']}: Model Library Format version {archive.version}"
    for m in archive.modules:
        targets = ", ".join(t.text for t in m.targets)
        yield ""
        if m.executor:
            yield f"module {m.name}: {m.executor} executor for {targets}"
        else:
            yield f"operator {m.name} for {targets}"
        if m.name in data["interfaces"]:
            yield from _described(data["interfaces"][m.name])
        else:
            yield from _undescribed(m)
        yield from _graph_lines(data["graphs"].get(m.name))
        yield from _param_lines(data["params"].get(m.name, {}))
    yield ""
    yield f"{len(data['files'])} files, {sum(f['bytes'] for f in data['files'].values()):,} bytes"
    for name, file in data["files"].items():
        if not name.startswith(COPIED):
            yield f"  {file['bytes']:>10,}  {name}"
    copied = [file["bytes"] for name, file in data["files"].items() if name.startswith(COPIED)]
    if copied:
        yield f"  {sum(copied):>10,}  {len(copied)} files of the C runtime: {', '.join(COPIED)}"


def _undescribed(m: ModuleRecord) -> Iterator[str]:
    """What TVM's own metadata say, for archives without an interface file."""
    for main in m.memory.main:
        for kind, tensors in (("input", main.inputs), ("output", main.outputs)):
            for t in tensors or ():
                yield f"  {kind:<6} {t.name}: {t.dtype}, {t.size_bytes:,} bytes"
        yield (
            f"  memory on device {main.device}: workspace {main.workspace_bytes:,} bytes, "
            f"constants {main.constants_bytes:,}, inputs and outputs {main.io_bytes:,}"
        )
    for function, arguments in m.memory.operators.items():
        yield f"  function {function}"
        for a in arguments:
            shape = "x".join(map(str, a.shape)) or "scalar"
            yield f"    {a.name}: {a.dtype} {shape}, {a.size_bytes:,} bytes"
    for f in m.memory.functions:
        workspace = ", ".join(f"{size:,}" for _, size in f.workspace) or "0"
        yield f"  kernel {f.name}: workspace {workspace} bytes"


def _graph_lines(graph: Mapping[str, Any] | None) -> Iterator[str]:
    if graph is None:
        return
    given, functions = len(graph["arguments"]), len(graph["functions"])
    calls = graph["nodes"] - given
    yield (
        f"  graph: {calls} call{'s' * (calls != 1)} of {functions} "
        f"function{'s' * (functions != 1)}, {given} inputs and parameters"
    )
    if graph["crt_config"]:
        yield f"  crt_config.h needs at least {', '.join(graph['crt_config'])}"
    for reason in graph["cannot_run"]:
        yield f"  cannot run: {reason}"


def _param_lines(params: Mapping[str, Any]) -> Iterator[str]:
    for name, p in params.items():
        shape = "x".join(map(str, p["shape"])) or "scalar"
        yield f"  parameter {name}: {p['dtype']} {shape}, {p['bytes']:,} bytes"


def _described(interface: Mapping[str, Any]) -> Iterator[str]:
    for kind in ("inputs", "outputs"):
        for tensor in interface[kind]:
            yield "  " + _tensor(kind[:-1], tensor)
    yield from _plan(interface)
    yield from _kernels(interface)


def _tensor(kind: str, tensor: Mapping[str, Any]) -> str:
    shape = "x".join(map(str, tensor["shape"])) or "scalar"
    quantised = ""
    if "scale" in tensor:
        quantised = f", scale {tensor['scale']:.6g}, zero point {tensor['zero_point']}"
    return (
        f"{kind:<6} {tensor['c_name']}: {_type(tensor['dtype'])} {shape}, "
        f"{tensor['size_bytes']:,} bytes{quantised}"
    )


def _type(dtype: str) -> str:
    """A type for people: numpy calls a string of 64 bytes `bytes512`."""
    bits = dtype.removeprefix("bytes")
    return f"string[{int(bits) // 8}]" if bits != dtype and bits.isdigit() else dtype


def _plan(interface: Mapping[str, Any]) -> Iterator[str]:
    pools = [
        f"{'workspace' if pool['name'] == 'global_workspace' else 'pool ' + pool['name']} "
        f"{pool['size_bytes']:,} bytes, {_proof(pool)}; peak at '{pool['peak_node']}'"
        for pool in interface["memory"]["pools"]
    ]
    rest = f"constants {interface['constants_bytes']:,} bytes; {interface['macs']:,} MACs"
    if kept := interface.get("state_bytes"):
        rest = f"state {kept:,} bytes; {rest}"
    lines = [*pools[:-1], "; ".join([*pools[-1:], rest])]
    yield from (f"  {line}" for line in lines)


def _proof(pool: Mapping[str, Any]) -> str:
    """How good a plan is known to be."""
    bound = f"lower bound {pool['lower_bound_bytes']:,}"
    if pool.get("proof") == "search":
        return f"{bound}, and a search proved that no smaller plan exists for this order"
    return "which is optimal for this order" if pool["proven_optimal"] else bound


def _kernels(interface: Mapping[str, Any]) -> Iterator[str]:
    from mlftool import table

    nodes = interface["nodes"]
    rows = tuple((f"  {n['name']}", n["op"], n["kernel"], int(n["macs"])) for n in nodes)
    yield table.text(table.Table(("  node", "operator", "kernel", "MACs"), rows))
