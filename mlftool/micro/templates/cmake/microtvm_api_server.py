"""The template `cmake`: a board of yours, by a folder with what it needs, built by CMake."""

from __future__ import annotations

import contextlib
import os
import shlex
import subprocess
import sys
import termios
import tty
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE if (HERE / "model.tar").exists() else HERE.parents[1] / "project_api"))

if TYPE_CHECKING:
    from mlftool.micro.project_api import cmake_project, server
else:
    import cmake_project
    import server


class BoardHandler(cmake_project.CMakeHandler):
    platform_name = "cmake"
    options = (
        server.ProjectOption(
            "board_dir",
            required=["generate_project"],
            help="a folder with C of the functions of rpc_line.h and platform.h, perhaps "
            "platform.cmake and toolchain.cmake",
        ),
        server.ProjectOption(
            "flash_cmd", optional=["flash"], help="what writes build/main to the board"
        ),
        server.ProjectOption(
            "port", optional=["open_transport"], help="the serial port of the board"
        ),
        server.ProjectOption(
            "baudrate", optional=["open_transport"], type="int", default=115200, help="its speed"
        ),
        server.ProjectOption(
            "run_cmd",
            optional=["open_transport"],
            help="instead of a port: a command whose standard input and output are the line; "
            "the program's path follows it",
        ),
    )

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self._port = -1

    def platform(self, options: Mapping[str, Any]) -> cmake_project.Platform:
        board = Path(options["board_dir"])
        if not board.is_dir():
            raise server.InputError(f"board_dir: {board} is not a folder")
        sources = cmake_project.server_sources()
        files = sorted(path for path in board.rglob("*") if path.is_file())
        sources |= {path.relative_to(board).as_posix(): path for path in files}
        return cmake_project.Platform(sources)

    def flash(self, options: dict[str, Any]) -> None:
        super().flash(options)
        if command := options.get("flash_cmd"):
            done = subprocess.run(shlex.split(command), cwd=self.folder, stdout=sys.stderr)
            if done.returncode != 0:
                raise server.ProjectError(f"flash_cmd ended with status {done.returncode}")

    def run_command(self, options: Mapping[str, Any]) -> list[str]:
        return [*shlex.split(options.get("run_cmd", "")), str(self.folder / "build/main")]

    def open_transport(self, options: dict[str, Any]) -> server.TransportTimeouts:
        if "port" not in options:
            return super().open_transport(options)
        self._require_project("open_transport")
        self.close_transport()
        speed = getattr(termios, f"B{options['baudrate']}", None)
        if speed is None:
            raise server.ProjectError(f"baudrate: {options['baudrate']} is not a usual one")
        try:
            self._port = os.open(options["port"], os.O_RDWR | os.O_NOCTTY | os.O_NONBLOCK)
            tty.setraw(self._port)
            mode = termios.tcgetattr(self._port)
            mode[4] = mode[5] = speed
            termios.tcsetattr(self._port, termios.TCSANOW, mode)
        except (OSError, termios.error) as error:
            self.close_transport()
            raise server.ProjectError(f"port {options['port']}: {error}") from None
        return self.timeouts

    def close_transport(self) -> None:
        super().close_transport()
        port, self._port = self._port, -1
        if port >= 0:
            with contextlib.suppress(OSError):
                os.close(port)

    def _descriptors(self) -> tuple[int, int]:
        return (self._port, self._port) if self._port >= 0 else super()._descriptors()


if __name__ == "__main__":
    server.main(BoardHandler(HERE))
