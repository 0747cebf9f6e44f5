"""The tree a manifest is read into: text, lists and mappings that know their place in the file."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from mlftool.frozen import frozen


class Place(NamedTuple):
    """A line and a column, both counted from 1, columns in characters, as editors count."""

    line: int
    column: int


TOP = Place(1, 1)


@frozen
class Scalar:
    """A single value. `value` is what YAML 1.2's core schema makes of it; `text` is as written."""

    at: Place
    text: str
    value: bool | int | float | str | None
    plain: bool  # written without quotes


@frozen
class Sequence:
    """A list, in block or flow form."""

    at: Place
    items: tuple[Node, ...]


@frozen
class Mapping:
    """Keys with values, in the file's order; keys are text and unique."""

    at: Place
    entries: tuple[tuple[Scalar, Node], ...]


@frozen
class Hole:
    """Replaces a refused value, so that one mistake is reported once."""

    at: Place


Node: TypeAlias = "Scalar | Sequence | Mapping | Hole"

# YAML 1.2.2, section 10.3.2 (core schema), in the order it lists them; unlike YAML 1.1 there are no
# `yes`/`on`, no sexagesimal or binary numbers, no `_` in numbers and no dates. [0-9], since \d
# would take the digits of every script.
_RULES: tuple[tuple[str, Callable[[str], bool | int | float | None]], ...] = (
    (r"null|Null|NULL|~|", lambda text: None),
    (r"true|True|TRUE|false|False|FALSE", lambda text: text[0] in "tT"),
    (r"[-+]?[0-9]+", int),
    (r"0o[0-7]+", lambda text: int(text[2:], 8)),
    (r"0x[0-9a-fA-F]+", lambda text: int(text[2:], 16)),
    (r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?", float),
    (r"[-+]?\.(inf|Inf|INF)", lambda text: float(text.replace(".", ""))),
    (r"\.(nan|NaN|NAN)", lambda text: float("nan")),
)
_CORE = tuple((re.compile(pattern), make) for pattern, make in _RULES)


def plain_value(text: str) -> bool | int | float | str | None:
    """The value of an unquoted scalar under YAML 1.2's core schema."""
    for pattern, make in _CORE:
        if pattern.fullmatch(text):
            return make(text)
    return text


def describe(node: Node) -> str:
    """`node` as a `got ...` clause names it."""
    if isinstance(node, Sequence):
        return "a list" if node.items else "an empty list"
    if isinstance(node, Mapping):
        return "a mapping" if node.entries else "an empty mapping"
    if isinstance(node, Hole) or node.value is None:
        return "nothing"
    if isinstance(node.value, str):
        return f"text '{clip(node.text)}'"
    return clip(node.text)


def clip(text: str, length: int = 60) -> str:
    """`text`, cut where it would drown the message around it."""
    return text if len(text) <= length else text[: length - 3] + "..."


def join(path: str, key: str) -> str:
    """The key path of `key` inside `path`."""
    return f"{path}.{clip(key, 63)}" if path else clip(key, 63)


def plain(node: Node) -> Any:
    """`node` as the JSON value an editor sees."""
    if isinstance(node, Mapping):
        return {key.text: plain(child) for key, child in node.entries}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return node.value if isinstance(node, Scalar) else None
