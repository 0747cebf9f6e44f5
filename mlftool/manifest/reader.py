"""Reads a manifest's bytes into nodes, refusing everything YAML readers disagree about.

PyYAML only splits the text into events here. Its loaders would then accept what a manifest must not
have: YAML 1.1 scalars (editors speak 1.2), silent duplicate keys, aliases that expand without bound
and recursion as deep as the file says.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import yaml

from mlftool.manifest.nodes import (
    TOP,
    Hole,
    Mapping,
    Node,
    Place,
    Scalar,
    Sequence,
    clip,
    describe,
    join,
    plain_value,
)

MAX_BYTES = 256 * 1024
MAX_DEPTH = 16  # a correct manifest needs 5
MAX_NODES = 30_000  # some 1,500 models with everything spelled out
MAX_TEXT = 1024  # characters of one scalar; YAML's own limit for keys

# What YAML forbids, and the three characters that end a line in YAML 1.1 but not in 1.2.
_FORBIDDEN = re.compile(
    "[^\t\n\r\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]"
)
_NEWLINE = re.compile(r"\r\n|\r|\n")

# PyYAML's words for a syntax error -> what we say after "not valid YAML", and the usual remedy;
# {0} is what the pattern's group found, {line} where the construct began. First match wins.
_QUOTE = "quote text that begins with a special character"
_KEYS = "docs/manifest.md has what each key takes"
_SPLIT = "split it into several manifests"
_BEGINS = "it begins in line {line}"
_SPACES = "indent with spaces, entries of one mapping or list alike"
_PLAIN = "write '\\\\' for a backslash, or leave the quotes out"
_SYNTAX: tuple[tuple[str, str, str], ...] = (
    (r"found character '\\t'", "got a tab, expected spaces", "write spaces in place of the tab"),
    (r"found character '(.)' that cannot", "got '{0}', expected a value", _QUOTE),
    ("found unknown escape character '(.)'", "got '\\{0}', expected an escape", _PLAIN),
    (
        r"escape sequence of (\d+)",
        "got a short escape, expected {0} hexadecimal digits",
        _PLAIN,
    ),
    (
        "mapping values are not allowed",
        "got a second ':' in one entry, expected one key and one value",
        "check the indentation, and quote text that holds ': '",
    ),
    (
        "could not find expected ':'",
        "got a key without a value, expected 'key: value'",
        "write a colon and a space after the key",
    ),
    (
        "expected <block end>",
        "got an entry with a wrong indentation, expected that of its neighbours",
        _SPACES,
    ),
    ("expected ',' or '(.)'", "got an unfinished list or mapping, expected ',' or '{0}'", _BEGINS),
    ("unexpected end of stream", "got the end of the file, expected a closing quote", _BEGINS),
    (
        "expected '<document start>'",
        "got what is no mapping, expected a manifest",
        "begin with 'version: 1'",
    ),
    (
        "found '<stream end>'",
        "got the end of the file, expected a value and closing brackets",
        _BEGINS,
    ),
    ("but found '(.)'", "got '{0}', expected a value", _QUOTE),
    (
        "incompatible YAML document",
        "got another major version, expected YAML 1.2",
        "leave out the line with %YAML",
    ),
)

Report = Callable[..., None]  # (code, place, message, help="", path="")


def read_nodes(data: bytes, report: Report) -> Node | None:
    """The manifest's one document, or None when it cannot be read at all.

    Every problem goes to `report`; where reading can go on, a Hole takes the place of what was
    refused.
    """
    text = _decode(data, report)
    if text is None:
        return None
    loader = yaml.SafeLoader(text)
    builder = _Builder(report)
    try:
        while loader.check_event():
            builder.feed(loader.get_event())  # type: ignore[no-untyped-call]
    except _StopReadingError:
        return None
    except yaml.MarkedYAMLError as error:
        _report_syntax(error, report)
        return None
    except (ValueError, OverflowError):  # PyYAML passes "\UFFFFFFFF" to chr() as it is
        place = _place(loader.get_mark())
        message = "not valid YAML; got an escape beyond U+10FFFF, expected a character"
        report("MLF0102", place, message, _PLAIN)
        return None
    return builder.root or Scalar(TOP, "", None, plain=True)


def _decode(data: bytes, report: Report) -> str | None:
    if len(data) > MAX_BYTES:
        message = f"the manifest is too large; got more, expected at most {MAX_BYTES} bytes"
        report("MLF0103", TOP, message, _SPLIT)
        return None
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        before = data[: error.start].decode("utf-8", "replace")
        message = f"the file is not UTF-8; got byte 0x{data[error.start]:02x}, expected UTF-8 text"
        report("MLF0101", _end_of(before), message, "save the file as UTF-8")
        return None
    bad = _FORBIDDEN.search(text)
    if bad:
        message = f"a character YAML forbids; got U+{ord(bad[0]):04X}, expected printable text"
        report("MLF0101", _end_of(text[: bad.start()]), message, "write it as an escape in quotes")
        return None
    return text


def _end_of(text: str) -> Place:
    lines = _NEWLINE.split(text)
    return Place(len(lines), len(lines[-1]) + 1)


def _place(mark: Any) -> Place:
    return Place(mark.line + 1, mark.column + 1) if mark else TOP


def _report_syntax(error: yaml.MarkedYAMLError, report: Report) -> None:
    words = str(error.problem)
    message, remedy = f"got {words}, expected YAML 1.2", "YAML 1.2 is described at yaml.org"
    for pattern, ours, help_text in _SYNTAX:
        found = re.search(pattern, words)
        if found:
            message = ours.replace("{0}", "".join(found.groups()))
            remedy = help_text.replace("{line}", str(_place(error.context_mark).line))
            break
    at = _place(error.problem_mark or error.context_mark)
    report("MLF0102", at, f"not valid YAML; {message}", remedy)


class _StopReadingError(Exception):
    """A limit was passed: reading on would only cost time."""


@dataclass
class _Open:
    """A list or mapping whose end has not been seen; a mapping's nodes alternate key and value."""

    at: Place
    is_mapping: bool
    is_refused: bool
    nodes: list[Node] = field(default_factory=list)


class _Builder:
    """Turns events into nodes with a stack of its own, so depth costs no recursion."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._stack: list[_Open] = []
        self._count = 0
        self._documents = 0
        self.root: Node | None = None

    def feed(self, event: yaml.Event) -> None:
        at = _place(event.start_mark)
        if isinstance(event, yaml.DocumentStartEvent):
            self._start_document(event, at)
        elif isinstance(event, yaml.AliasEvent):
            self._refuse(at, f"alias '*{event.anchor}'", "the value written out")
            self._add(Hole(at))
        elif isinstance(event, yaml.ScalarEvent):
            self._scalar(event, at)
        elif isinstance(event, yaml.SequenceStartEvent | yaml.MappingStartEvent):
            self._check_node(event, at)
            if len(self._stack) == MAX_DEPTH:
                text = f"nested too deeply; got more than {MAX_DEPTH} levels, expected 5"
                self._stop(at, text, _KEYS)
            is_mapping = isinstance(event, yaml.MappingStartEvent)
            self._stack.append(_Open(at, is_mapping, is_refused=event.tag is not None))
        elif isinstance(event, yaml.SequenceEndEvent | yaml.MappingEndEvent):
            self._end(self._stack.pop())

    def _start_document(self, event: yaml.DocumentStartEvent, at: Place) -> None:
        self._documents += 1
        if self._documents > 1:
            self._refuse(at, "a second document", "one document in the file")
            raise _StopReadingError
        if event.tags or event.version not in (None, (1, 2)):
            self._refuse(at, "a directive", "no directive, or '%YAML 1.2'")

    def _scalar(self, event: yaml.ScalarEvent, at: Place) -> None:
        self._check_node(event, at)
        if len(event.value) > MAX_TEXT:
            length = len(event.value)
            text = f"text is too long; got {length} characters, expected at most {MAX_TEXT}"
            self._stop(at, text, _KEYS)
        if event.tag is not None:
            self._add(Hole(at))
            return
        value = plain_value(event.value) if event.implicit[0] else event.value
        self._add(Scalar(at, event.value, value, plain=event.implicit[0]))

    def _check_node(self, event: yaml.NodeEvent, at: Place) -> None:
        self._count += 1
        if self._count > MAX_NODES:
            text = f"too many values; got more than {MAX_NODES}, expected fewer"
            self._stop(at, text, _SPLIT)
        if event.anchor is not None:
            self._refuse(at, f"anchor '&{clip(event.anchor)}'", "the value alone")
        tag = getattr(event, "tag", None)
        if tag is not None:
            self._refuse(at, f"tag '{clip(tag)}'", "the value alone")

    def _end(self, done: _Open) -> None:
        entries = self._entries(done) if done.is_mapping else {}
        if done.is_refused:
            self._add(Hole(done.at))
        elif done.is_mapping:
            self._add(Mapping(done.at, tuple(entries.values())))
        else:
            self._add(Sequence(done.at, tuple(done.nodes)))

    def _entries(self, done: _Open) -> dict[str, tuple[Scalar, Node]]:
        entries: dict[str, tuple[Scalar, Node]] = {}
        for key, value in zip(done.nodes[::2], done.nodes[1::2], strict=True):
            if not isinstance(key, Scalar) or (key.text == "<<" and key.plain):
                if not isinstance(key, Hole):
                    merge = isinstance(key, Scalar)
                    got = "a merge key" if merge else f"{describe(key)} as a key"
                    self._refuse(key.at, got, "keys written out" if merge else "text as a key")
                done.is_refused = True
            elif key.text in entries:
                line = entries[key.text][0].at.line
                message = f"given twice; got a second value, expected only the one in line {line}"
                self._report("MLF0105", key.at, message, path=self._path(key.text))
            else:
                entries[key.text] = (key, value)
        return entries

    def _add(self, node: Node) -> None:
        if self._stack:
            self._stack[-1].nodes.append(node)
        else:
            self.root = node

    def _refuse(self, at: Place, got: str, expected: str) -> None:
        message = f"manifests do not use this part of YAML; got {got}, expected {expected}"
        self._report("MLF0104", at, message, path=self._path())

    def _stop(self, at: Place, message: str, help: str) -> None:
        self._report("MLF0103", at, message, help, self._path())
        raise _StopReadingError

    def _path(self, last: str = "") -> str:
        """The key path of what is being read, as far as its keys are known."""
        path = ""
        for parent in self._stack:
            if not parent.is_mapping:
                path += f"[{len(parent.nodes)}]"
            elif len(parent.nodes) % 2:
                key = parent.nodes[-1]
                path = join(path, key.text if isinstance(key, Scalar) else "?")
        return join(path, last) if last else path
