"""The C runtime's files, which archives carry under runtime/ and templates/."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from mlftool.errors import INTERNAL, MlfError, Problem

_HEADERS = "codegen/host/include/mlf/"
# Sources include "mlf/kernel.h", helpers in its folder "kernel.h", and <math.h> is C's.
_INCLUDE = re.compile(
    rb'^[ \t]*#[ \t]*include[ \t]*(?:"(?:mlf/)?|<mlf/)([a-z0-9_]+\.h)[">]', re.MULTILINE
)

PARTS = ("include", "src", "CMakeLists.txt", "Makefile")


def crt_root() -> Path:
    """Where crt/ is: next to the package in a checkout, inside it when installed."""
    package = Path(__file__).absolute().parent.parent
    for root in (package.parent / "crt", package / "_crt"):
        if (root / "include" / "mlf" / "kernel.h").is_file():
            return root
    raise MlfError(
        Problem(
            "MLF0900",
            "the C runtime's files are missing from this installation",
            help="install mlftool again",
        ),
        INTERNAL,
    )


def runtime_files() -> dict[str, bytes]:
    """runtime/... and templates/... as an archive holds them, without the headers of kernels, which
    the runtime does not include."""
    root = crt_root()
    files: dict[str, bytes] = {}
    for part in PARTS:
        at = root / part
        for path in [at] if at.is_file() else sorted(at.rglob("*")) if at.is_dir() else []:
            if path.parent == root / "include" / "mlf":
                continue
            if path.is_file() and (path.suffix in (".h", ".c", ".txt") or path.name == "Makefile"):
                files[f"runtime/{path.relative_to(root).as_posix()}"] = path.read_bytes()
    for path in sorted((root / "templates").glob("*.template")):
        files[f"templates/{path.name}"] = path.read_bytes()
    return files


def helper_headers() -> dict[str, bytes]:
    """codegen/host/include/mlf/*.h: all that any generated source includes."""
    folder = crt_root() / "include" / "mlf"
    return {f"{_HEADERS}{p.name}": p.read_bytes() for p in sorted(folder.glob("*.h"))}


def headers_of(sources: Iterable[bytes]) -> dict[str, bytes]:
    """Those of `helper_headers` that these sources include, and what they include themselves."""
    folder = crt_root() / "include" / "mlf"
    found: dict[str, bytes] = {}
    texts, seen = list(sources), set[bytes]()
    while texts:
        for name in set(_INCLUDE.findall(texts.pop())) - seen:
            seen.add(name)
            if (path := folder / name.decode()).is_file():
                found[f"{_HEADERS}{path.name}"] = path.read_bytes()
                texts.append(found[f"{_HEADERS}{path.name}"])
    return dict(sorted(found.items()))
