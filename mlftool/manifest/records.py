"""The kinds of value that hold other values: lists, mappings and records."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Collection
from dataclasses import MISSING, Field, fields
from typing import Any

from mlftool.errors import did_you_mean, nearest
from mlftool.frozen import field, frozen
from mlftool.manifest.kinds import BAD, Flag, Integer, Kind, OneOf, Reading, Text, refuse
from mlftool.manifest.nodes import (
    Mapping,
    Node,
    Place,
    Scalar,
    Sequence,
    clip,
    describe,
    join,
    plain,
)
from mlftool.manifest.reader import read_nodes
from mlftool.options import Choice, Option, Several, Switch, Whole, Word


@frozen
class ListOf:
    """A list, as a tuple; `unique` refuses an entry that is there already."""

    item: Kind
    expected: str
    minimum: int = 0
    maximum: int = 1000
    unique: bool = False

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if not isinstance(node, Sequence):
            return refuse(self, node, path, reading)
        count = len(node.items)
        if not self.minimum <= count <= self.maximum:
            bound = f"least {self.minimum}" if count < self.minimum else f"most {self.maximum}"
            message = f"wrong length; got {count} entries, expected at {bound}"
            reading.report("MLF0109", node.at, message, path=path)
            return BAD
        values: list[Any] = []
        for i, item in enumerate(node.items):
            value = self.item.read(item, f"{path}[{i}]", reading)
            if self.unique and value is not BAD and value in values:
                message = f"listed twice; got {describe(item)} again, expected it once"
                reading.report("MLF0118", item.at, message, path=f"{path}[{i}]")
            reading.places[f"{path}[{i}]"] = item.at
            values.append(value)
        return BAD if BAD in values else tuple(values)

    def schema(self) -> dict[str, Any]:
        bounds = {"minItems": self.minimum, "maxItems": self.maximum}
        unique = {"uniqueItems": True} if self.unique else {}
        return {"type": "array", "items": self.item.schema(), **bounds, **unique}


@frozen
class OneOrMany:
    """One value, or a list of different ones; always read as a tuple."""

    many: ListOf

    @property
    def expected(self) -> str:
        return f"{self.many.item.expected}, or a list of such names"

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if isinstance(node, Sequence):
            return self.many.read(node, path, reading)
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            return refuse(self, node, path, reading)
        value = self.many.item.read(node, path, reading)
        return BAD if value is BAD else (value,)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.many.item.schema(), self.many.schema()]}


NAME = Text("the name of a tensor, without '='", "[^=]+")


@frozen
class NameOrNumber:
    """Always read as a text."""

    expected: str = "a name or a whole number"

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        value = node.value if isinstance(node, Scalar) else None
        if isinstance(value, int) and not isinstance(value, bool):
            return str(value)
        return NAME.read(node, path, reading)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [NAME.schema(), {"type": "integer"}]}


@frozen
class PairsOf:
    """Words KEY=VALUE: a list of them, one of them, or a mapping; always read as a tuple."""

    many: ListOf
    value: Text | NameOrNumber = NAME

    @property
    def expected(self) -> str:
        return self.many.expected

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if isinstance(node, Mapping):
            found = MapOf(NAME, self.value, self.expected, 1).read(node, path, reading)
            words = () if found is BAD else tuple(f"{k}={v}" for k, v in found.items())
            item = self.many.item
            pattern = item.pattern if isinstance(item, Text) else ".*"
            if all(re.fullmatch(pattern, word) for word in words):
                return words or BAD
            return refuse(self, node, path, reading)
        return OneOrMany(self.many).read(node, path, reading)

    def schema(self) -> dict[str, Any]:
        pairs = MapOf(NAME, self.value, self.expected, 1).schema()
        return {"anyOf": [pairs, *OneOrMany(self.many).schema()["anyOf"]]}


@frozen
class Shape:
    """The extents of a tensor; their product must be one a 32-bit device can index."""

    extents: ListOf
    maximum: int

    @property
    def expected(self) -> str:
        return self.extents.expected

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        shape = self.extents.read(node, path, reading)
        if shape is BAD or math.prod(shape) <= self.maximum:
            return shape
        message = f"too large; got {math.prod(shape)} elements, expected at most {self.maximum}"
        reading.report("MLF0109", node.at, message, path=path)
        return BAD

    def schema(self) -> dict[str, Any]:
        return self.extents.schema()


def _place(key: Scalar, value: Node) -> Place:
    """Of a mapping its key is the place to look at, of anything else the value itself."""
    return key.at if isinstance(value, Mapping) else value.at


@frozen
class MapOf:
    """A mapping from names the user chooses to values of one kind; a bad entry is left out."""

    key: Text
    value: Kind
    expected: str
    minimum: int = 0

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if not isinstance(node, Mapping):
            return refuse(self, node, path, reading)
        if len(node.entries) < self.minimum:
            return refuse(self, node, path, reading, "empty", "MLF0109")
        values: dict[str, Any] = {}
        for key, child in node.entries:
            place = join(path, key.text)
            reading.places[place] = _place(key, child)
            name = self.key.check(key, place, reading)
            value = self.value.read(child, place, reading)
            if name is not BAD and value is not BAD:
                values[name] = value
        return values

    def schema(self) -> dict[str, Any]:
        names = {"pattern": self.key.schema()["pattern"]}
        least = {"minProperties": self.minimum} if self.minimum else {}
        values = self.value.schema()
        return {"type": "object", "propertyNames": names, "additionalProperties": values, **least}


@frozen
class Key:
    """What the table says about one key."""

    kind: Kind
    doc: str
    example: str
    required: bool
    default: int | float | None  # for the schema; None: `default_text` tells
    default_text: str


def key(
    kind: Kind,
    doc: str,
    *,
    example: str = "",
    default: Any = MISSING,
    default_text: str = "",
    yaml: str = "",
    compiled: bool = True,
) -> Any:
    """A dataclass field that is also a manifest key (called `yaml` there, if that is given).

    What is not `compiled` decides no archive, so it is not in the record's repr, from which
    `mlftool build` knows what to make again.
    """
    shown = default if isinstance(default, int | float) else None
    about = Key(kind, doc, example, default is MISSING, shown, default_text)
    metadata = {"key": about, "yaml": yaml}
    if isinstance(default, dict):  # empty, and dataclasses want a fresh one each time
        return field(default_factory=dict, metadata=metadata, repr=compiled)
    return field(default=default, metadata=metadata, repr=compiled)


def keys_of(record: type) -> dict[str, tuple[str, Key]]:
    """The keys of a record class: name in YAML -> (name in Python, what the table says)."""
    found: list[Field[Any]] = [f for f in fields(record) if f.metadata]
    return {f.metadata.get("yaml") or f.name: (f.name, _about(f)) for f in found}


def _about(field: Field[Any]) -> Key:
    """A field of `key`, or an option of the compiler as a key."""
    if "key" in field.metadata:
        own: Key = field.metadata["key"]
        return own
    asked: Option = field.metadata["option"]
    default = asked.default if isinstance(asked.default, int | float) else None
    kind = kind_of(asked.kind)
    return Key(kind, asked.doc, asked.example, False, default, asked.default_text)


def kind_of(kind: Choice | Switch | Whole | Word | Several) -> Kind:
    """How a manifest has the value of an option of the compiler."""
    match kind:
        case Choice(noun, values):
            return OneOf(noun, lambda: values, "MLF0109")
        case Switch():
            return Flag()
        case Whole(first, last):
            return Integer(first, last)
        case Word(expected, pattern):
            return Text(expected, pattern)
        case Several(item, expected, pairs, numbers):
            many = ListOf(kind_of(item), expected, 1, unique=True)
            return PairsOf(many, NameOrNumber() if numbers else NAME) if pairs else many


def _hints(about: Key) -> dict[str, Any]:
    """What an editor may offer to fill in."""
    default = {} if about.default is None else {"default": about.default}
    node = read_nodes(about.example.encode(), lambda *_: None) if about.example else None
    return {**default, **({"examples": [plain(node)]} if node else {})}


Finish = Callable[[dict[str, Any], str, Reading], None]


@frozen
class Record:
    """A mapping with known keys, read into the dataclass `cls`.

    `finish` sees the values that are right so far: it fills in defaults that depend on other
    places and reports what only the whole record can show.
    """

    cls: type
    noun: str
    finish: Finish | None = None
    any_of: tuple[str, ...] = ()  # at least one of these keys must be there

    @property
    def expected(self) -> str:
        table = keys_of(self.cls)
        required = [name for name, (_, about) in table.items() if about.required]
        return f"{self.noun}: a mapping with {' and '.join(required) or ' or '.join(table)}"

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if not isinstance(node, Mapping):
            return refuse(self, node, path, reading)
        before = len(reading.problems)
        values = self.read_keys(node, path, reading)
        if self.finish is not None:
            self.finish(values, path, reading)
        needed = (name for name, about in keys_of(self.cls).values() if about.required)
        sound = len(reading.problems) == before and all(name in values for name in needed)
        return self.cls(**values) if sound else BAD

    def read_keys(self, node: Mapping, path: str, reading: Reading) -> dict[str, Any]:
        """The values that are there and right, by their Python names; the rest is reported."""
        table = keys_of(self.cls)
        given = {k.text: (k, child) for k, child in node.entries}
        meant = {n: self._meant(n, given, reading) for n in given if n not in table}
        for name, other in meant.items():
            message = f"unknown key; got '{clip(name)}', expected a key of {self.noun}"
            help_text = did_you_mean(other or clip(name), table)
            reading.report("MLF0106", given[name][0].at, message, help_text, join(path, name))
        # A misspelt key is there: it is one mistake, not two.
        self._check_missing(node, given.keys() | meant.values(), path, reading)
        values = {}
        for name, (attribute, about) in table.items():
            if name not in given:
                continue
            at_key, child = given[name]
            place = join(path, name)
            reading.places[place] = _place(at_key, child)
            value = about.kind.read(child, place, reading)
            if value is not BAD:
                values[attribute] = value
        return values

    def _meant(self, name: str, given: dict[str, tuple[Scalar, Node]], reading: Reading) -> str:
        """The key that an unknown one stands for: a required one that would take its scalar, since
        other tools have other names for it, else the one that is spelt most alike."""
        _, value = given[name]
        table = keys_of(self.cls)
        for other, (_, about) in table.items():
            if about.required and other not in given and isinstance(value, Scalar):
                trial = Reading(reading.file, None, declared=reading.declared)
                if about.kind.read(value, other, trial) is not BAD and not trial.problems:
                    return other
        return nearest(name, table)

    def _check_missing(
        self, node: Mapping, given: Collection[str], path: str, reading: Reading
    ) -> None:
        at = reading.places.get(path, node.at)
        for name, (_, about) in keys_of(self.cls).items():
            if about.required and name not in given:
                message = f"key is missing; got nothing, expected {about.kind.expected}"
                help_text = f"for example '{name}: {about.example}'" if about.example else ""
                reading.report("MLF0107", at, message, help_text, join(path, name))
        if self.any_of and not any(name in given for name in self.any_of):
            message = f"empty; got none of its keys, expected {' or '.join(self.any_of)}"
            reading.report("MLF0107", at, message, path=path)

    def schema(self) -> dict[str, Any]:
        table = keys_of(self.cls)
        properties = {}
        for name, (_, about) in table.items():
            properties[name] = {"description": about.doc, **_hints(about), **about.kind.schema()}
        required = [name for name, (_, about) in table.items() if about.required]
        result: dict[str, Any] = {"type": "object", "additionalProperties": False}
        result["properties"] = properties
        if required:
            result["required"] = required
        if self.any_of:
            result["minProperties"] = 1
        return result
