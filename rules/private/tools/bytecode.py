"""The bytecode of many modules as one file: `bytecode.py PACK ROOT PATH...`, or `@` and a file.

Interpreters in actions find no bytecode beside a source and may write none, so each would compile
all that it imports: two thirds of what `mlftool compile` takes. launch.py takes it from a pack.

A pack is a marshalled dict, path of a source below ROOT -> (offset, length), and after it their
.pyc files. Sources are not looked at again: Bazel makes a pack anew when one of them changes. The
same sources make the same bytes in any folder. A PATH is a source or a folder of them; `-PATH`
leaves one out.
"""

from __future__ import annotations

import importlib.util
import marshal
import sys
from collections.abc import Iterable
from pathlib import Path

# Before version 3 marshal did not note which objects other code of the process refers to as well.
_VERSION = 2
_UNCHECKED_HASH = (1).to_bytes(4, "little")


def compiled(name: str, source: bytes) -> bytes | None:
    """The .pyc file of a module; None if it is no Python of this version."""
    try:
        code = compile(source, name, "exec", dont_inherit=True, optimize=0)
    except (SyntaxError, ValueError):
        return None
    header = importlib.util.MAGIC_NUMBER + _UNCHECKED_HASH + importlib.util.source_hash(source)
    try:
        return header + marshal.dumps(code, _VERSION)
    except ValueError:  # a slice, of which Python 3.14 makes constants; version 5 has them
        return header + marshal.dumps(code)


def sources(path: Path) -> set[Path]:
    """A source itself, or those in a folder."""
    return {*path.rglob("*.py")} if path.is_dir() else {path}


def pack(root: Path, files: Iterable[Path]) -> bytes:
    """Of those of the sources that are Python of this version; launch.py reads it."""
    made: dict[str, bytes] = {}
    for file in sorted(files):
        name = file.relative_to(root).as_posix()
        if (data := compiled(name, file.read_bytes())) is not None:
            made[name] = data
    names, places, at = sorted(made), {}, 0
    for name in names:
        places[name] = (at, len(made[name]))
        at += len(made[name])
    return marshal.dumps(places, _VERSION) + b"".join(made[name] for name in names)


def main(arguments: list[str]) -> int:
    if arguments[0].startswith("@"):
        arguments = Path(arguments[0][1:]).read_text().splitlines()
    output, root, *paths = arguments
    files: set[Path] = set()
    for path in paths:
        files |= sources(Path(path)) if not path.startswith("-") else set()
    for path in paths:
        files -= sources(Path(path[1:])) if path.startswith("-") else set()
    Path(output).write_bytes(pack(Path(root), files))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
