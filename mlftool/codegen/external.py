"""The C files of backends, a file for each, and the devices that an entry point opens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlftool.codegen.kernels import Function
from mlftool.codegen.options import Options
from mlftool.codegen.sources import INCLUDE, LIB, SRC
from mlftool.codegen.templates import render
from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.ir.external import Part, c_name

PARAMETER = "device_context_"  # of functions that are given a device's context


@frozen
class Offloaded:
    """What the backends of a module add to its archive, by names, and to its code: `devices` as
    templates name them, `hooks`, how the names of each device's functions begin, and whether any
    call may fail."""

    files: Mapping[str, str]
    headers: Mapping[str, str]
    objects: Mapping[str, bytes]
    devices: Sequence[Mapping[str, str]]
    fails: bool


def offloaded(
    functions: Sequence[Function],
    options: Options,
    first: int,
    context: str = PARAMETER,
    packed: bool = False,
) -> Offloaded:
    """What these functions, in the order of their first calls, need of backends; file `first` is
    the first backend's. Names of contexts begin with `context`. A module of `packed` functions has
    no header of its own, so one for the contexts of its devices is added."""
    parts = [f.external for f in functions if f.external]
    devices = devices_of(parts, dict(options.backends), context)
    headers = _headers(parts)
    if packed and devices:
        text = render("devices.h.j2", module=options.module, devices=devices)
        headers[f"{INCLUDE}/tvmgen_{options.module}_devices.h"] = text
    return Offloaded(
        _files(functions, [name for name, _ in options.backends], options.module, first),
        headers,
        _objects(parts, options.module),
        devices,
        bool(parts),
    )


def _files(
    given: Sequence[Function], backends: Sequence[str], module: str, first: int
) -> dict[str, str]:
    """C files by their names in the archive.

    A backend has its file even if it computes nothing, so that build systems know all names.
    """
    texts: dict[str, str] = {}
    for k, backend in enumerate(backends):
        functions = [f for f in given if f.external and f.external.backend == backend]
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


def _objects(parts: Sequence[Part], module: str) -> dict[str, bytes]:
    """The compiled code that came with parts, each once, by their names in the archive."""
    made = dict.fromkeys(data for p in parts for data in p.code.objects)
    return {f"{LIB}/{module}_lib{k}.o": data for k, data in enumerate(made)}


def _headers(parts: Sequence[Part]) -> dict[str, str]:
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


def devices_of(
    parts: Sequence[Part], hooks: Mapping[str, str], context: str
) -> list[dict[str, str]]:
    """The devices of these parts, sorted by name, as templates name them; `hooks` says by backend
    how the names of its device's functions begin."""
    members = {p.member: hooks[p.backend] for p in parts if p.device}
    return [
        {
            "member": m,
            "parameter": PARAMETER + m,
            "context": context + m,
            "hooks": begins,
        }
        for m, begins in sorted(members.items())
    ]
