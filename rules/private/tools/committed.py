"""`committed MANIFEST OUT RULES FILES.json LABEL [--update]`: a BUILD file made of a manifest.

FILES.json has the labels of the files that the manifest names, by their paths. `bazel run LABEL --
--update` writes OUT in the workspace.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

from mlftool.errors import CHECK_FAILED, ENVIRONMENT, MlfError, exits
from mlftool.manifest.written import build_file, problem
from mlftool.mlf import write_atomically


def update(file: str, out: str, rules: str, label: str) -> int:
    """Writes OUT where the user has it."""
    root = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
    if not root:
        print(f"start it with: bazel run {label} -- --update", file=sys.stderr)
        return ENVIRONMENT
    text = build_file(Path(root) / file, Path(root) / out, rules)
    write_atomically(Path(root) / out, text.encode())
    print(f"{out} is written")
    return 0


@exits
def main(arguments: list[str]) -> int:
    """0 when OUT is current, or has been written."""
    file, out, rules, files, label, *more = arguments
    if more == ["--update"]:
        return update(file, out, rules, label)
    known = json.loads(Path(files).read_text())
    if Path(out).read_text() != build_file(Path(file), Path(out), rules, known, Path.cwd()):
        raise MlfError(problem(label, out), CHECK_FAILED)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
