"""The C files of one module of an archive, ready to compile with the test runner."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.mlf import graph as graph_json
from mlftool.mlf.interface import Interface
from mlftool.mlf.records import Archive, ModuleRecord
from mlftool.mlf.runtime_tree import crt_root, headers_of
from mlftool.runtime.descriptor import runner_c
from mlftool.runtime.objects import check_objects
from mlftool.runtime.packed import MODEL_HEADER, parameters
from mlftool.runtime.signature import network_of
from mlftool.targets import CFLAGS

INCLUDES = ("-Icodegen/host/include", "-Icrt/include", "-Icrt/config")
# TVM's C is GNU C (empty arrays) and not without warnings, some of which newer compilers insist on.
FOREIGN_CFLAGS = (
    *("-std=gnu11", "-ffp-contract=off", "-w", "-Wno-implicit-function-declaration"),
    *("-Wno-incompatible-pointer-types", "-Wno-int-conversion"),
    "-Wno-declaration-missing-parameter-type",
)

if TYPE_CHECKING:
    from mlftool.runtime.boards import Board

_HEADER = re.compile(r"codegen/host/include/[A-Za-z0-9_./-]+\.(?:h|weights)")
# More than any known archive needs: memory is no concern on this computer.
_CONFIG = {
    "TVM_CRT_LOG_LEVEL": 0,
    "TVM_CRT_DEBUG": 0,
    "TVM_CRT_MAX_NDIM": 8,
    "TVM_CRT_MAX_ARGS": 64,
    "TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES": 4096,
    "TVM_CRT_MAX_REGISTERED_MODULES": 8,
    "TVM_CRT_MAX_PACKET_SIZE_BYTES": 2048,
    "TVM_CRT_MAX_STRLEN_DLTYPE": 16,
    "TVM_CRT_MAX_STRLEN_FUNCTION_NAME": 256,
    "TVM_CRT_MAX_STRLEN_PARAM_NAME": 256,
}
_MODEL = b"""/* The entry of AOT code that TVM made before July 2021. */
#include <tvm/runtime/c_backend_api.h>
typedef struct {
  uint32_t num_input_tensors;
  uint32_t num_output_tensors;
  TVMBackendPackedCFunc run_func;
} tvm_model_t;
"""
_OWN_HELPERS = b'#include "mlf/library.h"\n#include "mlf/weights.h"\n'
CRT_LIBRARIES = ("common", "graph_executor", "memory")


@frozen
class Code:
    """What is compiled for a module: files by name, and which of them are what."""

    files: Mapping[str, bytes]
    c: tuple[str, ...]
    cxx: tuple[str, ...]
    objects: tuple[str, ...]
    cflags: tuple[str, ...]


def module_code(archive: Archive, record: ModuleRecord, machine: str = "") -> Code:
    """The sources, objects and headers of a module, and the headers of our C runtime.

    Raises MlfError for objects of another machine; "" is this computer's.
    """
    sources = record.sources
    if not sources:
        text = f"no C sources; expected codegen/host/src/{record.name}_lib0.c"
        raise MlfError(Problem("MLF0607", text, path=record.name))
    check_objects(sources, machine)
    every = {**record.files, **archive.shared}
    old = {f"crt/include/{n}": data for n, data in old_headers(sources).items()}
    headers = {n: every[n] for n in every if _HEADER.fullmatch(n) and ".." not in n}
    return Code(
        {**sources, **headers, **crt_headers(record), **old},
        tuple(n for n in sources if n.endswith(".c")),
        tuple(n for n in sources if n.endswith((".cc", ".cpp"))),
        tuple(n for n in sources if n.endswith(".o")),
        CFLAGS if record.interface is not None else FOREIGN_CFLAGS,
    )


def old_headers(sources: Mapping[str, bytes]) -> dict[str, bytes]:
    """Headers of TVM's C runtime that these sources include and ours has not, by their names."""
    return {MODEL_HEADER: _MODEL} if network_of(sources.values()) else {}


def runner_files(interface: Interface, record: ModuleRecord, on_board: bool) -> dict[str, bytes]:
    """The test runner for a module, with its descriptor and without a platform."""
    common = ("runner/runner.c", "runner/runner.h", "runner/guard.h", "platform/platform.h")
    files = _crt(*common)
    files["runner_module.c"] = runner_c(interface, record, on_board).encode()
    files |= {f"codegen/host/include/{n}": data for n, data in parameters(record)[1].items()}
    return files


def crt_headers(record: ModuleRecord) -> dict[str, bytes]:
    """Our C runtime's headers, with limits wide enough for a module.

    An archive's own copy of the runtime is never used: it may be another release's. Helpers of
    kernels come with the archive's sources; here are those that the runner includes.
    """
    folder = crt_root() / "include"
    paths = sorted(p for p in folder.rglob("*.h") if p.parent != folder / "mlf")
    files = {f"crt/include/{p.relative_to(folder).as_posix()}": p.read_bytes() for p in paths}
    files |= {f"crt/include/mlf/{Path(n).name}": d for n, d in headers_of([_OWN_HELPERS]).items()}
    limits = dict(_CONFIG)
    if record.graph is not None:
        graph, _ = graph_json.decode(record.graph)
        for macro, least in graph_json.needs(graph).items():
            limits[macro] = max(limits[macro], least)
    config = "".join(f"#define {macro} {value}\n" for macro, value in limits.items())
    return {**files, "crt/config/crt_config.h": config.encode()}


def crt_files(
    record: ModuleRecord, platform: str = "host"
) -> tuple[dict[str, bytes], tuple[str, ...]]:
    """The C runtime for this computer or a "board", made for a module: files and sources."""
    root = crt_root()
    paths = [p for n in CRT_LIBRARIES for p in sorted((root / "src/runtime/crt" / n).glob("*.c"))]
    paths += [root / f"platform/{platform}/tvm_platform.c", root / "runner/guard.c"]
    sources = {f"crt/{p.relative_to(root).as_posix()}": p.read_bytes() for p in paths}
    files = {**sources, **crt_headers(record)}
    files["crt/runner/guard.h"] = (root / "runner/guard.h").read_bytes()
    return files, tuple(sources)


def board_files(board: Board) -> dict[str, bytes]:
    """The platform of a board: its own folder, and what it shares with others."""
    if board.hosted:
        return host_files()
    files: dict[str, bytes] = {}
    own = board.folder or crt_root() / "boards" / board.name
    for name, folder in (
        (board.name, own),
        *((part, crt_root() / "boards" / part) for part in board.parts),
    ):
        paths = sorted(p for p in folder.iterdir() if p.suffix in (".c", ".h", ".ld"))
        files |= {f"crt/boards/{name}/{p.name}": p.read_bytes() for p in paths}
    return files


def host_files() -> dict[str, bytes]:
    """The platform of a computer with a C library and files."""
    return _crt("platform/host/platform.c")


def _crt(*names: str) -> dict[str, bytes]:
    return {f"crt/{name}": (crt_root() / name).read_bytes() for name in names}
