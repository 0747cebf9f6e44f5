"""`mlftool inspect FILE.tar`: modules, tensors, memory and kernels of an archive."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mlftool.errors import MlfError, Problem, one_line


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("archive", metavar="FILE.tar", type=Path)
    parser.add_argument("--json", action="store_true", help="everything, for scripts")


def run(args: argparse.Namespace) -> int:
    data = describe(args.archive)
    text = "\n".join(map(one_line, render(data)))  # names in an archive are untrusted text
    print(json.dumps(data, indent=2, sort_keys=True) if args.json else text)
    return 0


def describe(path: Path) -> dict[str, Any]:
    """Everything known about an archive. Raises MlfError when its metadata are malformed."""
    from mlftool.mlf import read_tar

    bundle = read_tar(path)
    try:
        metadata = json.loads(bundle.files["metadata.json"])
        version = metadata["version"]
        modules = metadata["modules"] if version >= 7 else {metadata["model_name"]: metadata}
        names = sorted(modules)
        interfaces = {
            n: json.loads(bundle.files[f"executor-config/aot/{n}.json"])
            for n in names
            if f"executor-config/aot/{n}.json" in bundle.files
        }
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise MlfError(
            Problem(
                "MLF0505",
                f"metadata do not follow the format: {error}",
                str(path),
                path="metadata.json",
            )
        ) from None
    return {
        "schema_version": 1,
        "file": str(path),
        "mlf_version": version,
        "metadata": metadata,
        "modules": names,
        "interfaces": interfaces,
        "files": {
            name: {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest()}
            for name, content in sorted(bundle.files.items())
        },
    }


def render(data: dict[str, Any]) -> Iterator[str]:
    """The same for people: what matters first."""
    yield f"{data['file']}: Model Library Format version {data['mlf_version']}"
    modules = data["metadata"].get("modules", {n: data["metadata"] for n in data["modules"]})
    for name in data["modules"]:
        module = modules[name]
        target = module.get("target", "")
        yield ""
        yield (
            f"module {name}: {', '.join(module.get('executors', module.get('runtimes', [])))} "
            f"executor for {', '.join(target) if isinstance(target, list) else target}"
        )
        interface = data["interfaces"].get(name)
        if interface is None:
            yield from _memory(module)
            continue
        for kind in ("inputs", "outputs"):
            for tensor in interface[kind]:
                yield "  " + _tensor(kind[:-1], tensor)
        yield from _plan(interface)
        yield from _kernels(interface)
    yield ""
    yield f"{len(data['files'])} files, {sum(f['bytes'] for f in data['files'].values())} bytes"
    for name, file in data["files"].items():
        if not name.startswith(("runtime/", "templates/")):
            yield f"  {file['bytes']:>10}  {name}"


def _memory(module: dict[str, Any]) -> Iterator[str]:
    """What TVM's own metadata say, for archives without an interface file."""
    functions = module.get("memory", {})
    main = functions.get("functions", {}).get("main", []) if isinstance(functions, dict) else []
    for entry in main:
        yield "  memory: " + ", ".join(
            f"{k} {v}" for k, v in sorted(entry.items()) if isinstance(v, int)
        )


def _tensor(kind: str, tensor: dict[str, Any]) -> str:
    shape = "x".join(map(str, tensor["shape"])) or "scalar"
    quantised = ""
    if "scale" in tensor:
        quantised = f", scale {tensor['scale']:.6g}, zero point {tensor['zero_point']}"
    return (
        f"{kind:<6} {tensor['c_name']}: {tensor['dtype']} {shape}, "
        f"{tensor['size_bytes']} bytes{quantised}"
    )


def _plan(interface: dict[str, Any]) -> Iterator[str]:
    pool = interface["memory"]["pools"][0]
    proof = (
        "which is optimal for this order"
        if pool["proven_optimal"]
        else (f"lower bound {pool['lower_bound_bytes']}")
    )
    yield (
        f"  workspace {pool['size_bytes']} bytes, {proof}; peak at '{pool['peak_node']}'; "
        f"constants {interface['constants_bytes']} bytes; {interface['macs']} MACs"
    )


def _kernels(interface: dict[str, Any]) -> Iterator[str]:
    yield f"  {'node':<28} {'operator':<24} {'kernel':<22} {'MACs':>10}"
    for node in interface["nodes"]:
        yield (
            f"  {node['name'][:28]:<28} {node['op'][:24]:<24} {node['kernel']:<22} "
            f"{node['macs']:>10}"
        )
