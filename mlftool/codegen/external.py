"""The C files of backends, a file for each, and the devices that an entry point opens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlftool.codegen.kernels import Function, Kernels
from mlftool.codegen.sources import INCLUDE, LIB, SRC
from mlftool.codegen.templates import render
from mlftool.errors import MlfError, Problem
from mlftool.ir.external import Part, c_name


def external_functions(kernels: Kernels, backend: str) -> list[Function]:
    """Those that a backend wrote, in the order of their first calls."""
    return [f for f in kernels.functions if f.external and f.external.backend == backend]


def backend_files(
    kernels: Kernels, backends: Sequence[str], module: str, first: int
) -> dict[str, str]:
    """C files by their names in the archive; file `first` is the first backend's.

    A backend has its file even if it computes nothing, so that build systems know all names.
    """
    texts: dict[str, str] = {}
    for k, backend in enumerate(backends):
        functions = external_functions(kernels, backend)
        codes = [f.external.code for f in functions if f.external]
        texts[f"{SRC}/{module}_lib{first + k}.c"] = render(
            "external.c.j2",
            module=module,
            backend=backend,
            word=c_name(backend),
            includes=list(dict.fromkeys(i for c in codes for i in c.includes)),
            declarations=list(dict.fromkeys(c.declarations for c in codes if c.declarations)),
            functions=[_function(f) for f in functions],
        )
    return texts


def objects_of(parts: Sequence[Part], module: str) -> dict[str, bytes]:
    """The compiled code that came with parts, each once, by their names in the archive."""
    made = dict.fromkeys(data for p in parts for data in p.code.objects)
    return {f"{LIB}/{module}_lib{k}.o": data for k, data in enumerate(made)}


def headers_of(parts: Sequence[Part]) -> dict[str, str]:
    """The headers of parts by their names in the archive. Raises MlfError if two of one name have
    different contents."""
    found: dict[str, str] = {}
    for p in parts:
        for name, text in p.code.headers.items():
            if found.setdefault(f"{INCLUDE}/{name}", text) != text:
                message = f"backend '{p.backend}': header '{name}' has two contents"
                raise MlfError(Problem("MLF0411", message))
    return found


def _function(f: Function) -> dict[str, Any]:
    part = f.external
    assert part is not None
    names = [f"in{k}" for k in range(len(part.graph.inputs))]
    names += [*part.code.constants, *(f"out{k}" for k in range(len(part.graph.outputs)))]
    names += ["workspace"] * bool(part.code.workspace_bytes) + ["context"] * bool(part.device)
    body = part.code.body.strip("\n")
    return {"note": f.note, "prototype": f.prototype, "names": names, "body": body}


def devices_of(parts: Sequence[Part], hooks: Mapping[str, str]) -> list[dict[str, str]]:
    """The devices of these parts, sorted by name, as templates name them; `hooks` says how the
    names of a device's functions begin."""
    members = {p.member: hooks[p.device] for p in parts if p.device}
    return [
        {"member": m, "parameter": f"device_context_{m}", "hooks": begins}
        for m, begins in sorted(members.items())
    ]
