"""Firmware for a simulated board: a module with the test runner, linked as an ELF."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from mlftool.errors import ENVIRONMENT, MlfError, Problem
from mlftool.mlf import Bundle
from mlftool.mlf.archive import read
from mlftool.mlf.interface import Interface
from mlftool.runtime import toolchain
from mlftool.runtime.boards import Board
from mlftool.runtime.cache import build_once, default_cache, key_of
from mlftool.runtime.descriptor import calls_crt
from mlftool.runtime.sources import (
    INCLUDES,
    crt_files,
    module_code,
    runner_files,
    tree_under,
)
from mlftool.targets import TARGETS

_SECTIONS = ("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections")


@dataclass(frozen=True)
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
    code = module_code(archive, record, "armv7l")
    if code.cxx:
        text = "a simulated board runs C only; got " + ", ".join(code.cxx)
        raise MlfError(Problem("MLF0610", text, path=interface.module, help="run it on the host"))
    files, sources = dict(code.files), code.c
    own, common = f"boards/{board.name}", "boards/common"
    files |= runner_files(interface, record, (*tree_under(own), *tree_under(common)))
    command = toolchain.find(toolchain.ARM_GCC)
    flags = (*TARGETS[board.target].cflags, *code.cflags, optimise, "-g", *_SECTIONS, *INCLUDES)
    folders = ("crt/runner", "crt/platform", f"crt/{own}", f"crt/{common}")
    flags += tuple(f"-I{folder}" for folder in folders)
    flags += ("-nostartfiles", "-Lcrt/boards", f"-Tcrt/{own}/link.ld")
    sources += ("runner_module.c", "crt/runner/runner.c")
    sources += tuple(f"crt/{n}" for n in tree_under(common) if n.endswith(".c"))
    if calls_crt(interface, record):
        crt, crt_sources = crt_files(record, "board")
        files |= crt
        sources += crt_sources
    key = key_of((toolchain.identity(command), *flags, *sources), files)

    def build(work: Path) -> None:
        linked = (*sources, *code.objects, "-o", "firmware.elf")
        arguments = (*flags, *linked, "-Wl,-Map,firmware.map", "-lm")
        what = f"module '{interface.module}' for {board.target}"
        toolchain.compile_c(command, arguments, work, what)

    return build_once(cache_dir or default_cache(), key, files, build) / "firmware.elf"


def footprint(elf: Path) -> Footprint:
    """Sizes of a firmware's sections, as `arm-none-eabi-size` lists them."""
    command = [*toolchain.find(toolchain.ARM_SIZE), "-A", "-d", str(elf)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        text = f"cannot be measured: {run.stderr.strip()}"
        raise MlfError(Problem("MLF0609", text, str(elf)), ENVIRONMENT)
    rows = (line.split() for line in run.stdout.splitlines())
    sizes = {row[0]: int(row[1]) for row in rows if len(row) == 3 and row[1].isdigit()}
    in_flash = (".vectors", ".text", ".ARM.exidx", ".data")
    return Footprint(
        flash=sum(sizes.get(name, 0) for name in in_flash),
        ram=sizes.get(".data", 0) + sizes.get(".bss", 0),
        stack_reserved=sizes.get(".stack", 0),
    )
