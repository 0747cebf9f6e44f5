"""Firmware that a host drives, built of the runtime's own sources and an archive's."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.micro import ProcessTransport, QemuTransport
from mlftool.mlf.runtime_tree import crt_root
from mlftool.runtime.boards import Board
from mlftool.runtime.toolchain import compiler_of, find
from mlftool.targets import TARGETS

ROOT = Path(__file__).absolute().parents[2]
MODELS = ROOT / "examples/models"
INT8 = MODELS / "digits_int8.onnx"
FLOAT = MODELS / "digits_float32.onnx"
SANITIZE = ("-g", "-fsanitize=address")  # the undefined one takes minutes to compile models
SMALL = (("TVM_CRT_MAX_REGISTERED_MODULES", 3), ("TVM_CRT_MAX_PACKET_SIZE_BYTES", 512))


def launcher() -> list[str]:
    """What compiles a source of the runtime once for all shards, if there is such a program."""
    return [word for word in [os.environ.get("CMAKE_C_COMPILER_LAUNCHER")] if word]


@dataclass(frozen=True)
class Firmware:
    program: Path
    files: dict[str, bytes]  # of the archive
    board: Board | None = None

    def transport(self) -> ProcessTransport:
        if self.board is not None:
            return QemuTransport(self.board.simulator, self.program)
        return ProcessTransport([self.program])

    def text(self, name: str) -> str:
        return self.files[name].decode()


def config(folder: Path, changed: Sequence[tuple[str, int]]) -> None:
    """crt_config.h of the template, with some limits changed."""
    text = (crt_root() / "templates/crt_config.h.template").read_text()
    for name, value in changed:
        lines = [
            f"#define {name} {value}" if line.startswith(f"#define {name} ") else line
            for line in text.splitlines()
        ]
        text = "\n".join(lines) + "\n"
    (folder / "crt_config.h").write_text(text)


def build(
    folder: Path,
    specs: Sequence[ModuleSpec],
    board: Board | None = None,
    limits: Sequence[tuple[str, int]] = (),
    arena: int = 2 << 20,
    flags: Sequence[str] = (),
    linker: Sequence[str] = (),
) -> Firmware:
    """Compiles the modules and links them with the server, for this computer or a board."""
    files = dict(compile_modules(list(specs)).files) if specs else {}
    for name, data in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    config(folder, limits)
    crt = crt_root()
    sources = [*sorted((crt / "src").rglob("*.c")), crt / "rpc/rpc_main.c"]
    sources += [crt / "rpc/rpc_platform.c", *sorted(folder.glob("codegen/host/src/*.c"))]
    includes = [crt / "include", crt / "platform", crt / "rpc", folder]
    includes.append(folder / "codegen/host/include")
    program = folder / "firmware"
    link: list[str] = ["-Wl,-u,TVMSystemLibEntryPoint"] if specs else []
    if board is None:
        # A line of a computer takes a whole frame at once.
        command: list[str] = ["gcc", "-O1", "-DTVM_CRT_RPC_WRITE_BUFFER_BYTES=8192"]
        sources += [crt / "platform/host/platform.c", crt / "rpc/host_line.c"]
    else:
        target = TARGETS[board.target]
        command = [*find(compiler_of(target)), *target.cflags, "-Os"]
        parts = [crt / "boards" / part for part in board.parts]
        sources += [file for part in parts for file in sorted(part.glob("*.c"))]
        sources.append(crt / "rpc/board_line.c")
        includes += [*parts, crt / "boards" / board.name]
        link += ["-nostartfiles", f"-L{crt / 'boards'}", "-Wl,--gc-sections"]
        link += ["-T", str(crt / board.script), *board.linkopts, *linker]
        command += ["-ffunction-sections", "-fdata-sections"]
    command += ["-std=gnu99", "-ffp-contract=off", "-w", *flags]
    command += [f"-DTVM_WORKSPACE_SIZE_BYTES={arena}", *(f"-I{path}" for path in includes)]
    objects = [str(folder / f"{number}.o") for number in range(len(sources))]
    for source, out in zip(sources, objects, strict=True):
        subprocess.run(
            [*launcher(), *command, "-c", str(source), "-o", out], check=True, cwd=folder
        )
    subprocess.run([*command, *objects, *link, "-o", str(program), "-lm"], check=True, cwd=folder)
    return Firmware(program, files, board)
