"""Firmware that a host drives: modules with the RPC server, for this computer or a board's UART."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.errors import MlfError, Problem
from mlftool.files import default_cache
from mlftool.mlf.interface import Interface
from mlftool.mlf.records import Archive, ModuleRecord
from mlftool.mlf.runtime_tree import crt_root
from mlftool.runtime import toolchain
from mlftool.runtime.build import frame_objects
from mlftool.runtime.cache import build_once, key_of
from mlftool.runtime.host import machine_flags
from mlftool.runtime.packed import pool_bytes
from mlftool.runtime.sources import (
    INCLUDES,
    Code,
    board_files,
    crt_headers,
    host_files,
    module_code,
)
from mlftool.targets import TARGETS

if TYPE_CHECKING:
    from mlftool.runtime.boards import Board

_ARENA = "crt/rpc/rpc_platform.c"  # the memory of a session, as large as the module asks
UART = "board_uart.h"  # of a board's folder: its first UART
_SYSTEM_LIB = b"TVMSystemLibEntryPoint"
_FOLDERS = ("-Icrt/rpc", "-Icrt/platform")
_SECTIONS = ("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections", "-nostartfiles")
# A line of a computer takes a whole frame at once.
_HOST_BUFFER = "-DTVM_CRT_RPC_WRITE_BUFFER_BYTES=8192"


def driven_program(archive: Archive, interface: Interface, board: Board | None) -> Path:
    """The program of a module that `mlftool.micro` drives: for this computer where `board` is None.

    Raises MlfError for a module that its system library does not name, or a board without a UART.
    """
    record = archive.module(interface.module)
    _check(record, board)
    target = TARGETS[board.target] if board else None
    code = module_code(archive, record, target.machine if target else "")
    if code.cxx:
        text = "driven firmware is C; got " + ", ".join(code.cxx)
        raise MlfError(Problem("MLF0610", text, path=record.name))
    files = {**code.files, **_server_files(board)}
    files |= {**crt_headers(record), **(board_files(board) if board else host_files())}
    command = toolchain.find(toolchain.compiler_of(target) if target else toolchain.CC)
    flags = (*_flags(interface, code, board, files), *_link(board))
    cache = default_cache()
    shared = {name: data for name, data in files.items() if name != _ARENA}
    objects = frame_objects(command, flags, shared, cache)
    files |= objects
    flags += (f"-DTVM_WORKSPACE_SIZE_BYTES={memory_bytes(interface, record)}",)
    key = key_of((toolchain.identity(command), *flags, *code.c), files)

    def build(work: Path) -> None:
        linked = (*code.c, _ARENA, *objects, *code.objects, "-o", "firmware")
        linked += ("-Wl,-Map,firmware.map", "-lm")
        toolchain.compile_c(command, (*flags, *linked), work, f"driven module '{record.name}'")

    return build_once(cache, key, files, build, ["firmware"]) / "firmware"


def _check(record: ModuleRecord, board: Board | None) -> None:
    if not any(_SYSTEM_LIB in data for data in record.sources.values()):
        text = "a host finds a module's functions in its system library; this module has none"
        hint = "compile it with --interface-api packed --runtime-crt-system-lib 1"
        raise MlfError(Problem("MLF0610", text, path=record.name, help=hint))
    if board and not board.hosted and f"crt/boards/{board.name}/{UART}" not in board_files(board):
        text = f"{board.title} has no UART that a host could use"
        hint = f"its folder has no {UART}; docs/rpc.md says what that defines"
        raise MlfError(Problem("MLF0610", text, help=hint))


def _server_files(board: Board | None) -> dict[str, bytes]:
    root = crt_root()
    line = "board_line.c" if board and not board.hosted else "host_line.c"
    names = ["platform/platform.h", "rpc/rpc_line.h", "rpc/rpc_main.c", "rpc/rpc_platform.c"]
    paths = [root / name for name in (*names, f"rpc/{line}")]
    paths += sorted((root / "src").rglob("*.c"))
    return {f"crt/{p.relative_to(root).as_posix()}": p.read_bytes() for p in paths}


def _flags(
    interface: Interface, code: Code, board: Board | None, files: dict[str, bytes]
) -> tuple[str, ...]:
    machine = TARGETS[board.target].cflags if board else machine_flags(interface.target)
    folders = sorted({n.rpartition("/")[0] for n in files if n.startswith("crt/boards/")})
    return (
        *(*machine, *code.cflags, interface.flag, "-g1", "-ffp-contract=off"),
        *(*INCLUDES, *_FOLDERS, *(f"-I{folder}" for folder in folders)),
    )


def _link(board: Board | None) -> tuple[str, ...]:
    named = ("-Wl,-u,TVMSystemLibEntryPoint",)
    if board is None:
        return (*named, _HOST_BUFFER)
    if board.hosted:
        return (*named, _HOST_BUFFER, *board.linkopts)
    script = ("-Lcrt/boards", f"-Tcrt/{board.script}")
    return (*named, *_SECTIONS, *board.linkopts, *script)


def memory_bytes(interface: Interface, record: ModuleRecord) -> int:
    """What a session with one executor allocates, in whole KiB: tensors, tables, and a graph and
    parameters that come through memory."""
    tensors = sum(t.size_bytes for t in (*interface.inputs, *interface.outputs))
    most = pool_bytes(record) + 2 * tensors + 16 * 1024
    if record.graph is not None:
        most += len(record.graph) + len(record.params or b"")
    return -(-most * 17 // 16 // 1024) * 1024  # pages of 64 bytes take 4 more
