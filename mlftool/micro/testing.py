"""TVM's `tvm.micro.testing`: what its tutorials take from it."""

from __future__ import annotations

import os
from pathlib import Path

from mlftool.api import Target
from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.moved import missing
from mlftool.runtime.load import load
from mlftool.target import BOARDS

PLATFORMS = ("crt", "zephyr", "arduino")


def get_target(platform: str, board: str | None = None) -> Target:
    """The target of `crt` is this computer; of others, `board` is one of TVM's templates' or one of
    our target names."""
    if platform not in PLATFORMS:
        help = did_you_mean(platform, PLATFORMS)
        raise MlfError(Problem("MLF0403", f"no such platform; got '{platform}'", help=help))
    if platform == "crt":
        return Target("host")
    return Target(BOARDS.get(board or "", board or "host"))


def mlf_extract_workspace_size_bytes(mlf_tar_path: str | os.PathLike[str]) -> int:
    """The workspace of all modules of an archive together."""
    record = load(Path(mlf_tar_path)).record
    return sum(m.memory.main[0].workspace_bytes for m in record.modules if m.memory.main)


__all__ = ["PLATFORMS", "get_target", "mlf_extract_workspace_size_bytes"]
__getattr__ = missing(__name__, __all__)
