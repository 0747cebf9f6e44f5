"""What the RPC server takes on a board: bytes of code and memory of the compiled objects."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile
from tables import grid

from mlftool.mlf.runtime_tree import crt_root
from mlftool.runtime.toolchain import compiler_of, find
from mlftool.targets import TARGETS

BAR = 12 * 1024  # bytes of code on Cortex-M4
PACKETS = (512, 2048)
SERVER = ("microtvm_rpc_common", "microtvm_rpc_server")
# What else such firmware has: registry, modules, time evaluator, executors of both kinds, pages.
REST = (
    *("aot_executor", "aot_executor_module", "common", "graph_executor", "graph_executor_module"),
    "memory",
)


@dataclass(frozen=True)
class Bytes:
    code: int  # with constants
    memory: int  # with and without values


def sizes(core: str, parts: Sequence[str], packet: int) -> Bytes:
    """Those of the parts' objects, compiled with -Os and a packet of so many bytes."""
    root, target = crt_root(), TARGETS[core]
    text = (root / "templates/crt_config.h.template").read_text()
    name = "TVM_CRT_MAX_PACKET_SIZE_BYTES"
    with tempfile.TemporaryDirectory() as folder:
        config = re.sub(rf"(?m)^#define {name} \d+$", f"#define {name} {packet}", text)
        (Path(folder) / "crt_config.h").write_text(config)
        files = [f for part in parts for f in sorted((root / "src/runtime/crt" / part).glob("*.c"))]
        compiler = find(compiler_of(target))
        flags = ["-std=c99", "-Os", "-ffunction-sections", f"-I{root / 'include'}", f"-I{folder}"]
        command = [*compiler, *target.cflags, *flags, "-c", *map(str, files)]
        subprocess.run(command, cwd=folder, check=True)
        found = [_bytes(path) for path in sorted(Path(folder).glob("*.o"))]
    return Bytes(sum(b.code for b in found), sum(b.memory for b in found))


def _bytes(path: Path) -> Bytes:
    """Of an object's sections, as the command `size` counts them."""
    code = memory = 0
    with path.open("rb") as stream:
        for section in ELFFile(stream).iter_sections():
            flags = section["sh_flags"]
            if flags & SH_FLAGS.SHF_ALLOC and flags & SH_FLAGS.SHF_WRITE:
                memory += section["sh_size"]
            elif flags & SH_FLAGS.SHF_ALLOC:
                code += section["sh_size"]
    return Bytes(code, memory)


def server_table(cores: Sequence[str]) -> str:
    """A row for each core. How long a packet may be changes the server's memory, and no code."""
    heads = ["the RPC server on", "code B", "bar B", *(f"RAM B, packet {p}" for p in PACKETS)]
    heads += ["the rest: code B", "RAM B"]
    rows = []
    for core in (c for c in cores if not TARGETS[c].is_host):
        server = [sizes(core, SERVER, packet) for packet in PACKETS]
        rest = sizes(core, REST, PACKETS[0])
        cells = [server[0].code, BAR if core == "cortex-m4" else "-", *(s.memory for s in server)]
        rows.append([core, *map(str, (*cells, rest.code, rest.memory))])
    return grid(heads, rows)
