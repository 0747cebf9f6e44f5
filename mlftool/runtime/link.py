"""Firmware for a simulated board: a module with the test runner, linked as an ELF."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.errors import ENVIRONMENT, MlfError, Problem
from mlftool.files import default_cache, read_plain
from mlftool.frozen import frozen
from mlftool.mlf import Bundle
from mlftool.mlf.archive import read
from mlftool.mlf.interface import Interface
from mlftool.runtime import elf as elf_file
from mlftool.runtime import toolchain
from mlftool.runtime.build import frame_objects
from mlftool.runtime.cache import build_once, key_of
from mlftool.runtime.descriptor import calls_crt
from mlftool.runtime.sources import INCLUDES, board_files, crt_files, module_code, runner_files
from mlftool.targets import TARGETS

if TYPE_CHECKING:
    from mlftool.runtime.boards import Board

_FOLDERS = ("-Icrt/runner", "-Icrt/platform")
_SECTIONS = ("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections")


@frozen
class Footprint:
    """What a firmware takes of a board's memories, in bytes: all of it, so with the startup code
    and the test runner, about 4 KiB of flash.

    `ram` is data and bss, with the stack's reservation left out: what the stack really needs is
    measured by running.
    """

    flash: int
    ram: int
    stack_reserved: int


def link_firmware(
    bundle: Bundle,
    interface: Interface,
    board: Board,
    cache_dir: Path | None = None,
    optimise: str = "-O2",
) -> Path:
    """The ELF of a module's test runner for `board`. Raises MlfError."""
    archive = read(bundle)
    record = archive.module(interface.module)
    target = TARGETS[board.target]
    code = module_code(archive, record, target.machine)
    if code.cxx:
        text = "a simulated board runs C only; got " + ", ".join(code.cxx)
        raise MlfError(Problem("MLF0610", text, path=interface.module, help="run it on the host"))
    platform = board_files(board)
    files = {**code.files, **runner_files(interface, record, not board.hosted), **platform}
    command = toolchain.find(toolchain.compiler_of(target))
    flags = (*target.cflags, *code.cflags, optimise, "-g1", *_SECTIONS, *INCLUDES, *_FOLDERS)
    folders = sorted({name.rpartition("/")[0] for name in platform})
    flags += (*(f"-I{folder}" for folder in folders), *board.linkopts)
    if not board.hosted:
        flags += ("-nostartfiles", "-Lcrt/boards", f"-Tcrt/{board.script}")
    sources = (*code.c, "runner_module.c")
    if calls_crt(interface, record):
        files |= crt_files(record, "host" if board.hosted else "board")[0]
    cache = cache_dir or default_cache()
    objects = frame_objects(command, flags, files, cache)
    files |= objects
    key = key_of((toolchain.identity(command), *flags, *sources), files)

    def build(work: Path) -> None:
        linked = (*sources, *objects, *code.objects, "-o", "firmware.elf")
        arguments = (*flags, *linked, "-Wl,-Map,firmware.map", "-lm")
        what = f"module '{interface.module}' for {board.target}"
        toolchain.compile_c(command, arguments, work, what)

    return build_once(cache, key, files, build, ["firmware.elf"]) / "firmware.elf"


def footprint(elf: Path) -> Footprint:
    """The sizes of a firmware image. Raises MlfError if the file is not an ELF file."""
    try:
        found = elf_file.memories(read_plain(elf))
    except (OSError, ValueError) as error:
        text = f"cannot be measured: {error}"
        raise MlfError(Problem("MLF0609", text, str(elf)), ENVIRONMENT) from None
    return Footprint(found.flash, found.ram, stack_reserved=found.reserved)
