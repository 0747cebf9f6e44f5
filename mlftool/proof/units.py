"""A module's functions and those of its headers, in each configuration of the preprocessor."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath

from mlftool.proof.cparser import AssemblyError, Parser, types_of
from mlftool.proof.cpp import Macro, Unit, names
from mlftool.proof.ctree import Definition, Type, Types

_GCC = {"__GNUC__": "12", "__OPTIMIZE__": "1", "__ELF__": "1"}
_AVX2 = {**_GCC, "__SSE2__": "1", "__AVX2__": "1"}
# What compilers define. Assembly is not read: the C that stands for it elsewhere is its contract.
CONFIGURATIONS: Mapping[str, Mapping[str, str]] = {
    "gcc": _GCC,
    "another compiler": {},
    "SSE2": {**_GCC, "__SSE2__": "1"},
    "AVX2": _AVX2,
    "AVX-512": {**_AVX2, "__AVX512F__": "1", "__AVX512VNNI__": "1"},
    "Helium": {**_GCC, "__ARM_FEATURE_MVE": "1"},
}
# What headers say to the checker alone.
_CHECKED = {
    "MLF_NEEDS": Macro(("condition",), ("mlf_needs", "(", "condition", ")")),
    "MLF_TOUCHES": Macro(("at", "bytes"), ("mlf_touches", "(", "at", ",", "bytes", ")")),
}


@dataclass
class Source:
    """The functions of a unit; those with assembly are the plain ones."""

    unit: Unit
    types: Types
    plain: Source | None = None
    _words: dict[str, list[str] | None] = field(default_factory=dict)
    _parsed: dict[str, Definition | None] = field(default_factory=dict)

    def find(self, name: str) -> Definition | None:
        """The function, or None if it is not read. Raises ValueError for what is too long."""
        if name not in self._parsed:
            words = self.words(name)
            if words:
                self._parsed[name] = self._read(name, words)
            else:  # what plain functions call
                self._parsed[name] = self.plain.find(name) if self.plain else None
        return self._parsed[name]

    def words(self, name: str) -> list[str] | None:
        if name not in self._words:
            self._words[name] = self.unit.definition(name)
        return self._words[name]

    def _read(self, name: str, words: Sequence[str]) -> Definition | None:
        plain = self.plain
        if plain and not _places(plain.types, self.types).isdisjoint(words):
            return plain.find(name)
        try:
            return Parser(words, self.types).definition()
        except AssemblyError:
            return plain.find(name) if plain else None
        except (ValueError, KeyError, IndexError):
            return None

    def closure(self, name: str) -> tuple[tuple[str, ...], ...]:
        """The words of a function and of all that it may call."""
        found: dict[str, tuple[str, ...]] = {}
        todo = [name]
        while todo:
            one = todo.pop()
            words = self.words(one)
            if words is not None and one not in found:
                found[one] = tuple(words)
                todo += [w for w in set(names(words)) if w in self.unit.functions]
        return tuple(found[n] for n in sorted(found))


def complete(ways: Sequence[Source], name: str) -> Iterator[Source]:
    """The configurations that have all that a function calls and that another one has. C for AVX2
    is no program without it, so there is nothing to prove."""
    anywhere = frozenset(n for way in ways for n in way.unit.functions)
    for way in ways:
        called = {w for words in way.closure(name) for w in names(words)}
        if anywhere & called <= way.unit.functions.keys():
            yield way


def digest(ways: Sequence[Source], name: str) -> bytes:
    """SHA-256 of all that is read of a function in these configurations: its words, those of all
    functions that it may call in any of them, and the types. Raises ValueError as find() does."""
    found: dict[str, list[list[str] | None]] = {}
    todo = [name]
    while todo:
        one = todo.pop()
        if one not in found:
            found[one] = [way.words(one) for way in ways]
            called = {w for words in found[one] for w in names(words or ())}
            todo += [w for w in called if any(w in way.unit.functions for way in ways)]
    types = [way.unit.typedefs for way in ways]
    return hashlib.sha256(repr((sorted(found.items()), types)).encode()).digest()


def _places(plain: Types, own: Types) -> frozenset[str]:
    """Types that have addresses, or parts of them, as C and not as vectors."""
    return frozenset(
        name for name, type_ in plain.items() if _is_place(type_) and own.get(name) != type_
    )


def _is_place(type_: Type) -> bool:
    return bool(type_.stars) or any(
        member.type.stars or (member.type.is_integer and member.extent is None)
        for member in type_.members
    )


def sources(name: str, files: Mapping[str, str]) -> Iterator[Source]:
    """A file of a module in each configuration. Raises ValueError for what C does not have."""
    texts = {PurePosixPath(path).name: text for path, text in files.items()}
    plain: Source | None = None
    for defined in CONFIGURATIONS.values():
        unit = Unit({**_CHECKED, **{n: Macro(None, (v,)) for n, v in defined.items()}})
        unit.read(PurePosixPath(name).name, texts)
        made = Source(unit, types_of(unit.typedefs), plain)
        plain = plain or made
        yield made
