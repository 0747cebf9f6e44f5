"""Reads untrusted JSON: reports duplicate keys, wrong types and wrong sizes.

`Checked` walks parsed JSON and notes every problem with its place instead of stopping at the first.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from mlftool.errors import MlfError, Problem
from mlftool.files import read_plain

T = TypeVar("T")
Notes = dict[tuple[str, str], None]
AGAIN = "make the archive again, with mlftool or TVM"  # where one is damaged
MAX_SIZE = 2**63 - 1  # of anything that is counted in bytes
MOST_NOTES = 1000  # after which reading stops
MOST_TEXT = 4096  # characters of a text that is not a tensor's name


def parse_json(data: bytes) -> Any:
    """Strict JSON: UTF-8, no duplicate keys, no NaN. Raises ValueError that says what is wrong."""
    try:
        return json.loads(data.decode("utf-8"), object_pairs_hook=_unique, parse_constant=_refuse)
    except UnicodeDecodeError:
        raise ValueError("is not UTF-8") from None
    except json.JSONDecodeError as error:
        text = f"is not JSON: {error.msg} in line {error.lineno}, column {error.colno}"
        raise ValueError(text) from None
    except RecursionError:
        raise ValueError("is nested too deeply") from None


def decoded(
    data: bytes, read: Callable[[Checked], T], code: str, file: str, member: str, help: str = AGAIN
) -> tuple[T, Any]:
    """What `read` makes of an archive's member in JSON, and the JSON. Raises MlfError with every
    problem, under `code`, the last with the `help`."""
    try:
        top = Checked(parse_json(data))
    except ValueError as error:
        raise MlfError(Problem(code, str(error), file, path=member, help=help)) from None
    found = None
    with suppress(_EnoughError):
        found = read(top)
    if found is None or top.notes:
        raise MlfError(
            Problem(code, text, file, path=f"{member}: {place}" if place else member, help=help)
            for (place, text), help in zip(top.notes, _once(help, len(top.notes)), strict=True)
        )
    return found, top.value


def _once(help: str, count: int) -> list[str]:
    """The help of the last of `count` problems, and none for the others."""
    return [""] * (count - 1) + [help] * (count > 0)


def given(
    data: bytes, read: Callable[[Checked], T], code: str, file: str, what: str, help: str
) -> T:
    """What `read` makes of a file in JSON that a user names. Raises MlfError with every problem:
    that it is not `what`, and where."""
    try:
        top = Checked(parse_json(data))
        with suppress(_EnoughError):
            found = read(top)
            if not top.notes:
                return found
        notes = [f"{place}: {text}" if place else text for place, text in top.notes]
    except ValueError as error:
        notes = [str(error)]
    except RecursionError:  # of `read`, which takes more of the stack than the JSON's parser
        notes = ["is nested too deeply"]
    said = zip(notes, _once(help, len(notes)), strict=True)
    raise MlfError(Problem(code, f"is not {what}: {note}", file, help=help) for note, help in said)


def printed(path: Path, read: Callable[[Checked], T], what: str, help: str) -> T:
    """`given` of a file that mlftool printed before. Raises MlfError, also if it cannot be read."""
    try:
        data = read_plain(path)
    except OSError as error:
        raise MlfError(Problem("MLF0501", f"cannot be read: {error.strerror}", str(path))) from None
    return given(data, read, "MLF0502", str(path), what, help)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        counts = Counter(name for name, _ in pairs)
        twice = counts.most_common(1)[0][0]
        raise ValueError(f"has the key '{twice[:100]}' twice in one object")
    return found


def _refuse(name: str) -> Any:
    raise ValueError(f"holds {name}, which is not JSON")


class _EnoughError(Exception):
    """There are so many problems that the rest of the document is not read."""


class Checked:
    """A value and its place; what it is asked for and does not have becomes a note.

    Each method answers with a harmless value after a note, so that reading goes on to the next
    problem. All places of one document share `notes`: (place, text), in order and each once.
    """

    def __init__(self, value: Any, place: str = "", notes: Notes | None = None):
        self.value, self.place = value, place
        self.notes: Notes = {} if notes is None else notes

    def note(self, text: str) -> None:
        self._add(self.place, text)

    def _add(self, place: str, text: str) -> None:
        self.notes[place, text] = None
        if len(self.notes) >= MOST_NOTES:
            raise _EnoughError

    def _want(self, ok: bool, what: str) -> bool:
        if not ok:
            self.note(f"got {_short(self.value)}, expected {what}")
        return ok

    def __contains__(self, key: str) -> bool:
        return isinstance(self.value, dict) and key in self.value

    def at(self, key: str) -> Checked:
        """The value of a key, which must be there; notes of one that is not are dropped."""
        place = f"{self.place}.{key}" if self.place else key
        if not isinstance(self.value, dict):
            self._want(False, "an object")
            return Checked(_Missing, place)
        if key not in self.value:
            self._add(place, "is missing")
            return Checked(_Missing, place)
        return Checked(self.value[key], place, self.notes)

    def maybe(self, key: str) -> Checked | None:
        return self.at(key) if key in self else None

    def items(self) -> Iterator[tuple[str, Checked]]:
        """The entries of an object."""
        if self._want(isinstance(self.value, Mapping), "an object"):
            for key in self.value:
                yield key, self.at(key)

    def each(self) -> Iterator[Checked]:
        """The entries of a list."""
        if self._want(isinstance(self.value, list), "a list"):
            for i, value in enumerate(self.value):
                yield Checked(value, f"{self.place}[{i}]", self.notes)

    def list(self, read: Callable[[Checked], Any]) -> tuple[Any, ...]:
        return tuple(read(entry) for entry in self.each())

    def text(self, most: int = MOST_TEXT) -> str:
        if not self._want(isinstance(self.value, str), "text"):
            return ""
        if len(self.value) > most:
            self.note(f"is text of {len(self.value)} characters, expected at most {most}")
            return ""
        try:
            self.value.encode()
        except UnicodeEncodeError:  # half of a surrogate pair, which JSON can spell
            self.note("is text that is not Unicode")
            return ""
        return str(self.value)

    def number(self, least: int = 0, most: int = MAX_SIZE) -> int:
        ok = type(self.value) is int and least <= self.value <= most
        wanted = f"an integer from {least} to {most}" if least < most else str(least)
        return int(self.value) if self._want(ok, wanted) else least

    def real(self) -> float:
        ok = type(self.value) in (int, float) and math.isfinite(self.value)
        return float(self.value) if self._want(ok, "a finite number") else 0.0

    def flag(self) -> bool:
        return self._want(type(self.value) is bool, "true or false") and bool(self.value)


class _Missing:
    """Stands for the value of a key that is not there."""


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    text = json.dumps(value) if value is not _Missing else "nothing"
    return text if len(text) <= 60 else text[:57] + "..."
