"""The template `qemu`: firmware of a simulated board, over its first UART."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
IS_PROJECT = (HERE / "model.tar").exists()
sys.path.insert(0, str(HERE if IS_PROJECT else HERE.parents[1] / "project_api"))

if TYPE_CHECKING:
    from mlftool.micro.project_api import cmake_project, server
else:
    import cmake_project
    import server

HERE_IN_SRC = "${CMAKE_CURRENT_SOURCE_DIR}/src"


def boards() -> list[str] | None:
    """Those with a UART; a template is in an installation of mlftool, a project is not."""
    if IS_PROJECT:
        return None
    files = cmake_project.crt_root().glob("boards/*/board_uart.h")
    return sorted(path.parent.name for path in files)


class QemuHandler(cmake_project.CMakeHandler):
    platform_name = "qemu"
    timeouts = server.TransportTimeouts(5.0, 60.0, 600.0)
    options = (
        server.ProjectOption(
            "board",
            required=["generate_project"],
            choices=boards(),
            help="a simulated board, of docs/boards.md",
        ),
        server.ProjectOption(
            "processor",
            optional=["generate_project"],
            help="the target that is compiled for, of a board that has several",
        ),
    )

    def platform(self, options: Mapping[str, Any]) -> cmake_project.Platform:
        sys.path.insert(0, str(HERE.parents[3]))  # where mlftool is
        from mlftool.micro.transport import QEMU_OPTIONS
        from mlftool.runtime import toolchain
        from mlftool.runtime.boards import find
        from mlftool.targets import TARGETS

        board = find(options["board"], options.get("processor", ""))
        assert board is not None
        target = TARGETS[board.target]
        compiler, *given = toolchain.find(toolchain.compiler_of(target))
        simulator = toolchain.find(toolchain.simulator_of(board.simulator))
        crt = cmake_project.crt_root()
        sources = cmake_project.server_sources()
        sources["board_line.c"] = crt / "rpc/board_line.c"
        for part in (board.name, *board.parts):
            paths = sorted((crt / "boards" / part).iterdir())
            files = [p for p in paths if p.suffix in (".c", ".h", ".ld")]
            sources |= {f"boards/{part}/{path.name}": path for path in files}
        sections = ("-ffunction-sections", "-fdata-sections", "-Wl,--gc-sections")
        script = f"-T{HERE_IN_SRC}/boards/{board.name}/{board.linker_script}"
        return cmake_project.Platform(
            sources,
            flags=(*target.cflags, "-Os", *sections[:2]),
            link=(
                *("-nostartfiles", sections[2], f"-L{HERE_IN_SRC}/boards"),
                *(script, *board.linkopts),
            ),
            workspace_bytes=64 << 10,
            compiler=compiler,
            compiler_flags=given,
            command=(*simulator, *board.simulator[1:], *QEMU_OPTIONS),
        )


if __name__ == "__main__":
    server.main(QemuHandler(HERE))
