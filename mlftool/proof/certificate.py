"""What was proven of a module, as a file of its archive, and checked again from the archive alone.

The layouts are proven again; the calls in the C, the memory's size in the header and every file's
SHA-256 are compared with them. Nothing of the compiler is needed for that.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any

from mlftool.frozen import frozen, replace
from mlftool.mlf.records import ModuleRecord
from mlftool.mlf.strict import Checked, decoded, parse_json
from mlftool.proof import agree, layout, walk
from mlftool.proof.layout import Layout

SCHEMA_VERSION = 1
BROKEN = "MLF0510"
# Claim -> what it says where it is proven.
CLAIMS = {
    "memory": "tensors that are alive together share no byte, and outputs live to the end",
    "addresses": "every tensor is inside its memory, which has exactly the stated size",
    "lifetimes": "the lifetimes that reports show cover every use of a buffer",
    "operands": "every call has its node's tensors, with their types",
    "calls": "the code makes exactly these calls with these addresses",
    "sums": "no sum of products of integers exceeds an int32",
    "scales": "no constant scale is zero",
    "ranges": "the kernel of a call stays inside its operands, whatever tensors hold",
}
ASSUMED = (
    "a kernel writes over an input only at the distances that it declares",
    "helpers of mlf/*.h that are given no address touch no memory but their own",
    "assembly of mlf/*.h touches no other bytes than the C that stands for it elsewhere",
)
NOT_PROVEN = (
    "the stack of the compiled code: mlftool size bounds it by the call graph",
    "results: tests compare them with onnxruntime",
)


@frozen
class Proof:
    """What was proven: `claims` are keys of CLAIMS, with how many things each was checked of;
    `unproven` says where a claim could not be shown, and why."""

    layouts: tuple[Layout, ...]
    claims: Mapping[str, int]
    unproven: tuple[str, ...]
    sums: tuple[tuple[str, int], ...]  # node, bound of its accumulator
    entry: str  # what makes the calls of the first layout (proof/modules.py); "" if it is not read


def of_objects(proof: Proof) -> Proof:
    """What remains proven of an archive that has objects instead of the C."""
    claims = {name: count for name, count in proof.claims.items() if name != "calls"}
    unproven = (*proof.unproven, "that objects make the calls of the code: it is not here")
    return replace(proof, claims=claims, unproven=unproven, entry="")


def path(executor: str, module: str) -> str:
    """The certificate's name in an archive of version 7."""
    return f"executor-config/{executor}/{module}.certificate"


def encode(
    proof: Proof, module: str, figures: Mapping[str, int], files: Mapping[str, bytes]
) -> bytes:
    """The certificate of a module with these files, by their names in version 7."""
    from mlftool.proof import ranges  # only certificates need what reads C

    count, unread = ranges.shown(proof.layouts, proof.entry, files)
    claims = {**proof.claims, **({"ranges": count} if count else {})}
    data: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "module": module,
        "entry": proof.entry,
        "proven": {CLAIMS[name]: count for name, count in claims.items()},
        "assumed": ASSUMED,
        "not_proven": [*proof.unproven, *unread, *NOT_PROVEN],
        "figures": dict(figures),
        "largest_sums": dict(proof.sums),
        "layouts": [layout.to_json(one) for one in proof.layouts],
        "files": {name: _digest(data) for name, data in sorted(files.items())},
    }
    return json.dumps(data, indent=1).encode()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@frozen
class Certificate:
    """A certificate as it was read; nothing of it is believed."""

    entry: str
    proven: Mapping[str, int]
    not_proven: tuple[str, ...]
    figures: Mapping[str, int]
    layouts: tuple[Layout, ...]
    files: Mapping[str, str]


def decode(data: bytes, file: str, member: str) -> Certificate:
    """Raises MlfError with every problem."""

    def read(top: Checked) -> Certificate:
        top.at("schema_version").number(SCHEMA_VERSION, SCHEMA_VERSION)
        return Certificate(
            top.at("entry").text(),
            {name: count.number() for name, count in top.at("proven").items()},
            top.at("not_proven").list(Checked.text),
            {name: size.number() for name, size in top.at("figures").items()},
            top.at("layouts").list(layout.from_json),
            {name: digest.text() for name, digest in top.at("files").items()},
        )

    certificate, _ = decoded(data, read, BROKEN, file, member)
    return certificate


def faults(
    certificate: Certificate, module: ModuleRecord, shared: Mapping[str, bytes]
) -> Iterator[str]:
    """What does not hold of a module with this certificate, a line each."""
    own = path(module.executor, module.name)
    files = {**headers(shared), **module.files}
    del files[own]
    for name in sorted(files.keys() | certificate.files.keys()):
        if name not in files:
            yield f"{name}: is missing"
        elif certificate.files.get(name) != _digest(files[name]):
            yield f"{name}: is not the file that was proven"
    if not certificate.layouts:
        yield "has no layout"
    for one in certificate.layouts:
        yield from (f"{one.name}: {text}" for text in walk.faults(one))
    yield from _figures(certificate, module)
    if certificate.entry:
        other = tuple(agree.differences(certificate.layouts, module.files, certificate.entry))
        yield from other
        if other:
            return
    yield from _ranges(certificate, files)


def _ranges(certificate: Certificate, files: Mapping[str, bytes]) -> Iterator[str]:
    """Whether as many kernels stay inside their operands as the certificate says."""
    from mlftool.proof import ranges

    count, _ = ranges.shown(certificate.layouts, certificate.entry, files)
    claimed = certificate.proven.get(CLAIMS["ranges"], 0)
    if count != claimed:
        yield f"{count} calls are shown to stay inside their operands, not {claimed}"


def headers(shared: Mapping[str, bytes]) -> dict[str, bytes]:
    """Of the files that modules share, those that their C includes."""
    return {n: d for n, d in shared.items() if n.startswith("codegen/host/include/")}


def _figures(certificate: Certificate, module: ModuleRecord) -> Iterator[str]:
    """The workspace's size, wherever the archive states it."""
    stated = certificate.figures.get("workspace_bytes")
    told = [("metadata.json", main.workspace_bytes) for main in module.memory.main]
    if module.interface is not None:
        value = None
        with suppress(ValueError):  # no JSON
            data = parse_json(module.interface)
            value = data.get("workspace_bytes") if isinstance(data, dict) else None
        told.append(("the interface", value if isinstance(value, int) else -1))
    planned = not certificate.entry.endswith(agree.GRAPH)  # where the runtime has storages
    if certificate.entry and certificate.layouts and planned:
        memories = certificate.layouts[0].memories
        arenas = [size for name, size in memories.items() if not name.endswith(agree.OUTSIDE)]
        told.append(("the layout", sum(arenas)))
    for where, size in told:
        if size != stated:
            yield f"{where} has a workspace of {size} bytes, the certificate one of {stated}"
