"""The kinds of value a manifest may hold; each one checks, converts and describes itself.

A kind is written down once, in `keys.py`; the validator calls `read`, the JSON Schema `schema` and
the reference page `expected`, so the three cannot differ.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from mlftool.errors import Problem, did_you_mean
from mlftool.frozen import frozen
from mlftool.manifest.nodes import Hole, Node, Place, Scalar, Sequence, clip, describe
from mlftool.sizes import NUMBER, UNIT, UNITS

BAD: Any = object()  # what `read` returns when it has reported a problem


@dataclass
class Reading:
    """One reading of one manifest: where it is, what it declares, what was found wrong."""

    file: str
    folder: Path | None  # None: do not look for the files it names
    problems: list[Problem] = field(default_factory=list)
    places: dict[str, Place] = field(default_factory=dict)
    # section -> its names, or None when the section is too broken to tell
    declared: dict[str, tuple[str, ...] | None] = field(default_factory=dict)
    modules: dict[str, str] = field(default_factory=dict)  # module name -> the model that took it
    inherited: dict[str, Any] = field(default_factory=dict)  # the values of `defaults`

    def report(self, code: str, at: Place, message: str, help: str = "", path: str = "") -> None:
        self.problems.append(Problem(code, message, self.file, at.line, at.column, path, help))


class Kind(Protocol):
    @property
    def expected(self) -> str: ...
    def read(self, node: Node, path: str, reading: Reading) -> Any: ...
    def schema(self) -> dict[str, Any]: ...


def refuse(
    kind: Kind,
    node: Node,
    path: str,
    reading: Reading,
    what: str = "wrong type",
    code: str = "MLF0108",
    help: str = "",
) -> Any:
    """Reports that `node` is not what `kind` expects."""
    if not isinstance(node, Hole):
        message = f"{what}; got {describe(node)}, expected {kind.expected}"
        reading.report(code, node.at, message, help, path)
    return BAD


@frozen
class Text:
    """Text that matches `pattern` whole."""

    expected: str
    pattern: str
    code: str = "MLF0109"
    reserved: frozenset[str] = frozenset()  # words that match but may not be used

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if not isinstance(node, Scalar):
            return refuse(self, node, path, reading)
        if not isinstance(node.value, str):
            quote = f"quote it: '{clip(node.text)}'" if node.text else ""
            return refuse(self, node, path, reading, help=quote)
        return self.check(node, path, reading)

    def check(self, node: Scalar, path: str, reading: Reading) -> Any:
        """Keys come here directly: a key is text whatever it looks like."""
        if not re.fullmatch(self.pattern, node.text):
            what = f"not allowed; got '{clip(node.text)}', expected {self.expected}"
        elif node.text in self.reserved:
            what = f"a reserved word; got '{clip(node.text)}', expected {self.expected}"
        else:
            return node.text
        reading.report(self.code, node.at, what, path=path)
        return BAD

    def schema(self) -> dict[str, Any]:
        words = {"not": {"enum": sorted(self.reserved)}} if self.reserved else {}
        return {"type": "string", "pattern": f"^(?:{self.pattern})$", **words}


@frozen
class File:
    """The path of a file that must exist, relative to the manifest, kept inside its folder."""

    suffixes: tuple[str, ...] = ("",)

    @property
    def expected(self) -> str:
        file = f"{' or '.join(self.suffixes)} file".lstrip()
        return f"the path of a {file} at or below the manifest's folder"

    @property
    def pattern(self) -> str:
        # No '\' or ':' (Windows paths, drives, URLs), no control characters, no '.', '..' or empty
        # part, not even './': one file has one spelling, which Bazel takes as a label as it is.
        part = r"(?!\.{1,2}(?:/|$))[^/\\:\x00-\x1f\x7f]+"
        # A look-ahead, since not every editor's engine has a look-behind.
        end = "|".join(map(re.escape, self.suffixes))
        return rf"(?=[\s\S]*(?:{end})$){part}(?:/{part})*"

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            return refuse(self, node, path, reading)
        text = node.text
        if not re.fullmatch(self.pattern, text) or not _encodable(text):
            what, help_text = "path not allowed", self._remedy(text)
            return refuse(self, node, path, reading, what, "MLF0115", help_text)
        # os.path answers False where pathlib raises: a name too long, a folder closed to us.
        if reading.folder is not None and not os.path.isfile(reading.folder / text):
            if os.path.exists(reading.folder / text):
                return refuse(self, node, path, reading, "not a file", "MLF0116")
            near = self._near(text, reading.folder)
            return refuse(self, node, path, reading, "no such file", "MLF0116", near)
        return text

    def _remedy(self, text: str) -> str:
        if text.startswith("./"):
            return f"write '{clip(text[2:])}'"
        if ".." in text.split("/"):
            return "put the manifest into a folder above the files it names"
        if "\\" in text:
            return "use forward slashes"
        return ""

    def _near(self, text: str, folder: Path) -> str:
        try:
            parent = (folder / text).parent
            names = [
                p.name
                for p in parent.iterdir()
                if p.name.endswith(self.suffixes) and os.path.isfile(p)
            ]
        except OSError:
            return "paths are relative to the manifest's folder"
        return did_you_mean(clip(Path(text).name), names) if 0 < len(names) <= 50 else ""

    def schema(self) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{self.pattern}$"}


def _encodable(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


@frozen
class Constant:
    """One number and nothing else."""

    value: int
    code: str

    @property
    def expected(self) -> str:
        return str(self.value)

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if not isinstance(node, Scalar) or type(node.value) is not int:
            return refuse(self, node, path, reading)
        if node.value != self.value:
            return refuse(self, node, path, reading, "not supported", self.code)
        return node.value

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "const": self.value}


@frozen
class Integer:
    """A whole number between two bounds."""

    minimum: int
    maximum: int

    @property
    def expected(self) -> str:
        return f"a whole number from {self.minimum} to {self.maximum}"

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if not isinstance(node, Scalar) or type(node.value) is not int:
            return refuse(self, node, path, reading)
        if not self.minimum <= node.value <= self.maximum:
            return refuse(self, node, path, reading, "out of range", "MLF0109")
        return node.value

    def schema(self) -> dict[str, Any]:
        return {"type": "integer", "minimum": self.minimum, "maximum": self.maximum}


@frozen
class Number:
    """A finite number that is not negative."""

    expected: str = "a finite number of at least 0, such as 0 or 1e-5"

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if not isinstance(node, Scalar) or type(node.value) not in (int, float):
            return refuse(self, node, path, reading)
        try:
            value = float(node.value)  # type: ignore[arg-type]
        except OverflowError:
            value = math.inf
        if not 0 <= value < math.inf:
            return refuse(self, node, path, reading, "out of range", "MLF0109")
        return value

    def schema(self) -> dict[str, Any]:
        return {"type": "number", "minimum": 0}


@frozen
class Numbers:
    """A number or a list of numbers, as a tuple; whole ones stay whole."""

    expected: str = "a number, or a list with one for each element, such as 16000 or [0.5, 1]"

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        items = node.items if isinstance(node, Sequence) else (node,)
        numbers = [i.value for i in items if isinstance(i, Scalar) and _is_number(i.value)]
        if not items or len(numbers) != len(items):
            return refuse(self, node, path, reading)
        return tuple(numbers)

    def schema(self) -> dict[str, Any]:
        several = {"type": "array", "items": {"type": "number"}, "minItems": 1}
        return {"anyOf": [{"type": "number"}, several]}


def _is_number(value: object) -> bool:
    """Whether a scalar is a finite number that fits a tensor's element."""
    if type(value) is int:
        return abs(value) < 1 << 64
    return type(value) is float and math.isfinite(value)


@frozen
class Flag:
    """true or false."""

    expected: str = "true or false"

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if not isinstance(node, Scalar) or type(node.value) is not bool:
            return refuse(self, node, path, reading)
        return node.value

    def schema(self) -> dict[str, Any]:
        return {"type": "boolean"}


@frozen
class Size:
    """A number of bytes, bare or with a unit."""

    expected: str = "a size such as 65536, 64KiB or 64kB"
    maximum: int = 1 << 40

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if not isinstance(node, Scalar) or isinstance(node.value, bool | float | None):
            return refuse(self, node, path, reading)
        if isinstance(node.value, int):
            size = node.value
        else:
            found = re.fullmatch(_SIZE, node.value)
            if not found:
                help_text = "units: " + ", ".join(f"{u} = {n}" for u, n in UNITS.items())
                return refuse(self, node, path, reading, "not a size", "MLF0109", help_text)
            size = int(found[1]) * UNITS[found[2]]
        if not 1 <= size <= self.maximum:
            return refuse(self, node, path, reading, "out of range", "MLF0109")
        return size

    def schema(self) -> dict[str, Any]:
        number = {"type": "integer", "minimum": 1, "maximum": self.maximum}
        return {"anyOf": [number, {"type": "string", "pattern": f"^(?:{_SIZE})$"}]}


_SIZE = rf"({NUMBER}) ?({UNIT})"


@frozen
class OneOf:
    """A name out of a fixed set, or one that the manifest declares in `section`."""

    noun: str
    names: Callable[[], tuple[str, ...]]
    code: str
    section: str = ""

    @property
    def expected(self) -> str:
        return f"the name of {self.noun}"

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            return refuse(self, node, path, reading)
        declared = reading.declared.get(self.section, ())
        known = self.names() + (declared or ())
        if node.text in known or declared is None:
            return node.text
        help_text = did_you_mean(clip(node.text), known) if known else ""
        message = f"unknown name; got '{clip(node.text)}', expected {self.expected}"
        reading.report(self.code, node.at, message, help_text, path)
        return BAD

    def schema(self) -> dict[str, Any]:
        fixed = {"type": "string", "enum": list(self.names())}
        if not self.section:
            return fixed
        declared = {"type": "string", "pattern": f"^(?:{NAME})$"}
        return {"anyOf": [fixed, declared]} if self.names() else declared


NAME = r"[a-z][a-z0-9_-]{0,62}"
