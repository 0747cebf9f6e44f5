"""The boards that programs run on: one folder each, described by its board.json.

crt/boards has ours; `find` takes the folder of any other. Bazel reads the same files, through
rules/private/tools/probe.py, which has the standard library only.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlftool.errors import MlfError, Problem, did_you_mean, nearest
from mlftool.files import read_plain
from mlftool.frozen import frozen
from mlftool.mlf.runtime_tree import crt_root
from mlftool.targets import TARGETS

FILE = "board.json"
LINKER_SCRIPT = "link.ld"


@frozen
class Board:
    """A board with one of the targets it runs. Its link script and counter are in its folder.

    Without a link script it is a computer with an operating system, whose C library serves files.
    """

    name: str
    target: str  # of mlftool.targets: the compiler and its machine flags
    title: str
    simulator: tuple[str, ...]  # the command that a program's name and arguments follow
    parts: tuple[str, ...] = ()  # folders of crt/boards that it shares with others
    linkopts: tuple[str, ...] = ()
    linker_script: str = ""
    folder: Path | None = None
    targets: tuple[str, ...] = ()  # all that it runs
    second: tuple[str, ...] = ()  # those of them that another board of ours runs by default

    @property
    def machine(self) -> str:
        """QEMU's -machine, for tables."""
        words = self.simulator
        return words[words.index("-machine") + 1] if "-machine" in words else words[0]

    @property
    def hosted(self) -> bool:
        return self.linker_script == ""

    @property
    def script(self) -> str:
        """The linker script of a board of ours, by its name in crt/."""
        return "" if self.hosted else f"boards/{self.name}/{self.linker_script}"


# key -> whether it must be there, and whether it is a list
_KEYS = {
    "title": (True, False),
    "targets": (True, True),
    "simulator": (True, True),
    "parts": (False, True),
    "linkopts": (False, True),
    "linker_script": (False, False),
    "second": (False, True),
}


def read_board(folder: Path) -> tuple[Board, ...]:
    """The board of a folder, once for each of its targets. Raises MlfError."""
    path = folder / FILE
    try:
        data = json.loads(read_plain(path).decode("utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise MlfError(Problem("MLF0614", f"cannot be read: {error}", str(path))) from None
    if problems := [Problem("MLF0614", text, str(path)) for text in _wrong(data)]:
        raise MlfError(problems)
    lists = ("simulator", "parts", "linkopts", "targets", "second")
    rest = {key: tuple(data.get(key, ())) for key in lists}
    name, title = folder.resolve().name, data["title"]
    # A board.json written by Bazel names a linker script elsewhere: Bazel links, and we only run.
    script = data.get("linker_script", LINKER_SCRIPT if (folder / LINKER_SCRIPT).is_file() else "")
    return tuple(
        Board(name, target, title, **rest, linker_script=script, folder=folder)
        for target in data["targets"]
    )


def _wrong(data: Any) -> list[str]:
    """What is wrong with the content of a board.json, as sentences."""
    if not isinstance(data, dict):
        return [f"expected an object with the keys {', '.join(_KEYS)}"]
    found = [f"unknown key '{key}'{_hint(key)}" for key in data if key not in _KEYS]
    for key, (needed, is_list) in _KEYS.items():
        value = data.get(key)
        if key not in data:
            found += [f"the key '{key}' is missing"] if needed else []
        elif not is_list and not (isinstance(value, str) and value):
            found.append(f"{key}: got {json.dumps(value)}, expected text")
        elif is_list and not (isinstance(value, list) and all(isinstance(v, str) for v in value)):
            found.append(f"{key}: got {json.dumps(value)}, expected a list of texts")
        elif is_list and needed and not value:
            found.append(f"{key}: the list is empty")
    if not found:
        unknown = [t for t in data["targets"] if t not in TARGETS or TARGETS[t].is_host]
        found += [f"targets: unknown target '{t}'; {did_you_mean(t, TARGETS)}" for t in unknown]
        parts = [p for p in data.get("parts", ()) if not (crt_root() / "boards" / p).is_dir()]
        found += [f"parts: crt/boards has no folder '{p}'" for p in parts]
    return found


def _hint(key: str) -> str:
    help = did_you_mean(key, _KEYS)
    return f"; {help}" if help else ""


def _ours() -> tuple[Board, ...]:
    files = sorted((crt_root() / "boards").glob(f"*/{FILE}"))
    return tuple(board for file in files for board in read_board(file.parent))


def defaults(boards: Iterable[Board]) -> dict[str, Board]:
    """The board that runs each target, in the order of the targets. MlfError where two do."""
    found: dict[str, Board] = {}
    for board in boards:
        other = found.get(board.target)
        if board.target in board.second:
            continue
        if other:
            text = f"{board.target} is run by {other.name}, too"
            help = f'add "second": ["{board.target}"] to the board that is not to be its default'
            raise MlfError(Problem("MLF0614", text, str(board.folder), help=help))
        found[board.target] = board
    return {t: found[t] for t in TARGETS if t in found}


_ALL = _ours()
NAMED: Mapping[str, Board] = {board.name: board for board in reversed(_ALL)}
BOARDS: Mapping[str, Board] = defaults(_ALL)


def _folder(wanted: str) -> Path | None:
    path = Path(wanted)
    folder = path.parent if path.name == FILE else path
    return folder if os.path.isfile(folder / FILE) else None  # also of a name that is too long


def choice(wanted: str | None, known: Sequence[str]) -> str:
    """A help line for a board that there is not: the one that is meant, else all of them."""
    near = nearest(wanted, known) if wanted else ""
    return f"did you mean '{near}'?" if near else f"choose with --on one of: {', '.join(known)}"


def find(wanted: str, target: str = "") -> Board | None:
    """The board that a target, a name of ours or a folder's board.json means.

    With a folder or name, the one for `target` if it has that. Raises MlfError for a bad folder.
    """
    if wanted in BOARDS:
        return BOARDS[wanted]
    if wanted in NAMED:
        found = [board for board in _ALL if board.name == wanted]
    elif (folder := _folder(wanted)) is not None:
        found = list(read_board(folder))
    else:
        return None
    return next((board for board in found if board.target == target), found[0])
