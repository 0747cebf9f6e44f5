"""The template `host`: firmware as a program of this computer, over its pipes."""

from __future__ import annotations

import sys
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


class HostHandler(cmake_project.CMakeHandler):
    platform_name = "host"

    def platform(self, options: Mapping[str, Any]) -> cmake_project.Platform:
        crt = cmake_project.crt_root()
        sources = cmake_project.server_sources()
        sources["host_line.c"] = crt / "rpc/host_line.c"
        sources["platform.c"] = crt / "platform/host/platform.c"
        # A line of a computer takes a whole frame at once.
        whole = {"TVM_CRT_RPC_WRITE_BUFFER_BYTES": 8192}
        return cmake_project.Platform(sources, definitions=whole)


if __name__ == "__main__":
    server.main(HostHandler(HERE))
