"""`golden MADE COMMITTED PATH LABEL [--update]`: a file that is made against one that is committed.

PATH is the committed file's path in the workspace; `bazel run LABEL -- --update` writes it.
"""

from __future__ import annotations

import difflib
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mlftool.errors import CHECK_FAILED, ENVIRONMENT, exits
from mlftool.mlf import write_atomically
from mlftool.runtime.vectors import load_vectors

MAX_LINES = 60  # of a difference; more is not readable


def differences(made: Path, committed: Path) -> Iterator[str]:
    """Lines that say what differs; none if the bytes are equal. Raises MlfError."""
    new, old = made.read_bytes(), committed.read_bytes()
    if new == old:
        return
    if made.suffix == ".npz" and old:
        yield from list(_arrays(made, committed)) or ["the arrays are equal, the files are not"]
        return
    try:
        before, after = (data.decode().splitlines() for data in (old, new))
    except UnicodeDecodeError:
        yield f"{len(new):,} bytes are made, {len(old):,} are committed, and they differ"
        return
    yield from difflib.unified_diff(before, after, "committed", "made", lineterm="")


def _arrays(made: Path, committed: Path) -> Iterator[str]:
    new, old = load_vectors(made), load_vectors(committed)
    for name in sorted({*new, *old}):
        if name not in new or name not in old:
            yield f"{name}: only {'committed' if name in old else 'made'}"
        elif (new[name].shape, new[name].dtype) != (old[name].shape, old[name].dtype):
            kinds = [f"{a.dtype.name}{list(a.shape)}" for a in (new[name], old[name])]
            yield f"{name}: {kinds[0]} is made, {kinds[1]} is committed"
        elif count := int(np.count_nonzero(new[name] != old[name])):
            yield f"{name}: {count:,} of {new[name].size:,} elements differ"


@exits
def main(arguments: list[str]) -> int:
    """Prints what differs; fails if anything does, or writes the committed file."""
    made, committed, path, label, *more = arguments
    if more == ["--update"]:
        root = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
        if not root:
            print(f"start it with: bazel run {label} -- --update", file=sys.stderr)
            return ENVIRONMENT
        write_atomically(Path(root) / path, Path(made).read_bytes())
        print(f"{path} is written")
        return 0
    found = list(differences(Path(made), Path(committed)))
    print("\n".join(found[:MAX_LINES]))
    if len(found) > MAX_LINES:
        print(f"... and {len(found) - MAX_LINES} lines more")
    if found:
        print(f"to accept this: bazel run {label} -- --update")
    return CHECK_FAILED if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
