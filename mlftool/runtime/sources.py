"""The C files of one module of an archive, ready to compile beside the test runner."""

from __future__ import annotations

import re

from mlftool.errors import MlfError, Problem
from mlftool.mlf import Bundle
from mlftool.mlf.interface import Interface
from mlftool.mlf.runtime_tree import crt_root
from mlftool.runtime.descriptor import runner_c

INCLUDES = ("-Icodegen/host/include", "-Iruntime/include")

_INCLUDE = re.compile(r"(codegen/host|runtime)/include/[A-Za-z0-9_./-]+\.h")


def module_files(bundle: Bundle, module: str) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The sources and headers of `module`, and the names of its sources in order."""
    pattern = re.compile(rf"codegen/host/src/{re.escape(module)}_lib\d+\.c")
    sources = tuple(sorted(n for n in bundle.files if pattern.fullmatch(n)))
    if not sources:
        text = f"no C sources; expected codegen/host/src/{module}_lib0.c"
        raise MlfError(Problem("MLF0607", text, path=module))
    headers = (n for n in bundle.files if _INCLUDE.fullmatch(n) and ".." not in n)
    return {n: bundle.files[n] for n in (*sources, *headers)}, sources


def runner_files(interface: Interface, platform: tuple[str, ...]) -> dict[str, bytes]:
    """The test runner for a module: its descriptor, and `platform` files of crt/."""
    common = ("runner/runner.c", "runner/runner.h", "platform/platform.h")
    files = {f"crt/{name}": (crt_root() / name).read_bytes() for name in (*common, *platform)}
    files["runner_module.c"] = runner_c(interface).encode()
    return files


def tree_under(folder: str) -> tuple[str, ...]:
    """Every file below a folder of crt/, by its name in crt/."""
    root = crt_root()
    return tuple(sorted(str(p.relative_to(root)) for p in (root / folder).iterdir() if p.is_file()))
