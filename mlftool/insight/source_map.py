"""Which lines of an archive's C are of which node of the model, and back.

A line is of a step if it is in the function that the step calls, in what that function needs alone,
in a place that calls it, or in a constant that such a place passes. What several steps share is of
each of them. A comment belongs to what it is above.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Any

from mlftool import table as tables
from mlftool.errors import MlfError, Problem, one_line
from mlftool.frozen import frozen
from mlftool.insight.description import described
from mlftool.insight.subject import Subject
from mlftool.mlf import Bundle
from mlftool.table import Table

SOURCES = "codegen/host/src/"
_FUNCTION = re.compile(r"[^(]*?(\w+)\(.*\) \{$")
_CONSTANT = re.compile(r".*?(\w+)(?:\[\w*\])* = ")
_NAME = re.compile(r"[A-Za-z_]\w*")
_ENDS = ("  return", "}")  # what follows the last call of a function is of no node


@dataclass(frozen=True, order=True)
class Span:
    """Lines of a file of codegen/host/src, counted from 1; `last` is one of them."""

    file: str
    first: int
    last: int

    def has(self, file: str, line: int) -> bool:
        return self.file == file and self.first <= line <= self.last


@frozen
class Part:
    """A function or a constant with the comment above it. `lines` begin with its head as one line,
    which ends at line `begin`."""

    name: str
    span: Span
    begin: int
    lines: tuple[str, ...]

    @cached_property
    def names(self) -> frozenset[str]:
        return _names(self.lines)


@frozen
class Step:
    """`nodes` are those of the model that the step computes; of an archive alone it is the one
    that it names. `calls` is empty where the runtime calls the function by its name."""

    step: int
    nodes: tuple[str, ...]
    op: str
    kernel: str
    function: str
    definitions: tuple[Span, ...]
    calls: tuple[Span, ...]
    constants: tuple[Span, ...]

    @property
    def spans(self) -> tuple[Span, ...]:
        return (*self.definitions, *self.calls, *self.constants)


@frozen
class SourceMap:
    """`lines` counts those of all C files of the module, `mapped` those of steps. `without` names
    the nodes of the model that no step computes: constants, and what became a number of another
    step; None for an archive alone, which does not know them."""

    name: str
    files: tuple[str, ...]
    steps: tuple[Step, ...]
    lines: int
    mapped: int
    without: tuple[str, ...] | None


def source_map(subject: Subject) -> SourceMap:
    """Raises MlfError for an archive that does not name its nodes, or has objects in place of C."""
    said = described(subject.record, subject.file)
    if said is None:
        text = "does not say which function a node has; archives that mlftool made do"
        raise MlfError(Problem("MLF0607", text, subject.file))
    texts = _texts(subject.bundle, subject.interface.module)
    parts = {p.name: p for file, text in texts.items() for p in _parts(file, text)}
    functions = [n.function for n in said.nodes]
    if missing := next((name for name in functions if name not in parts), None):
        hint = "look at the archive without --cc: objects have no lines"
        raise MlfError(Problem("MLF0607", f"has no C of '{missing}'", subject.file, help=hint))
    calls = _calls(parts, functions)
    fused = _fused(subject)
    steps = []
    for k, node in enumerate(said.nodes):
        names = _needed(parts, node.function, {*functions})
        passed = frozenset[str]().union(*(p.names for p in calls[k])) & _constants(parts)
        steps.append(
            Step(
                *(k, fused[k] if fused else (node.name,), node.op, node.kernel, node.function),
                tuple(sorted(parts[n].span for n in names)),
                tuple(p.span for p in calls[k]),
                tuple(sorted(parts[n].span for n in passed - names)),
            )
        )
    mapped = {(s.file, n) for step in steps for s in step.spans for n in range(s.first, s.last + 1)}
    lines = sum(len(text.splitlines()) for text in texts.values())
    without = _without(subject, steps)
    return SourceMap(subject.name, tuple(texts), tuple(steps), lines, len(mapped), without)


def _texts(bundle: Bundle, module: str) -> Mapping[str, str]:
    """The C files of a module by their names in codegen/host/src."""
    own = re.compile(re.escape(f"{SOURCES}{module}_lib") + r"\d+\.c")
    return {
        n.removeprefix(SOURCES): bundle.files[n].decode("utf-8", "replace")
        for n in sorted(bundle.files)
        if own.fullmatch(n)
    }


def _parts(file: str, text: str) -> Iterator[Part]:
    """What begins at the left margin and ends at a brace there, or on its line."""
    lines, at, comment = text.splitlines(), 0, 0
    while at < len(lines):
        if lines[at].startswith("//"):
            at += 1
            continue
        head = _head(lines, at)
        line = "".join(lines[at : head + 1])
        named = None if line[:1] in ("", " ") else _FUNCTION.match(line) or _CONSTANT.match(line)
        end = head
        if named and line.endswith("{"):
            end = next((k for k in range(head, len(lines)) if lines[k].startswith("}")), head)
        if named:
            span = Span(file, comment + 1, end + 1)
            yield Part(named[1], span, head + 1, (line, *lines[head + 1 : end + 1]))
        at = comment = end + 1


def _head(lines: Sequence[str], at: int) -> int:
    """The last line of what begins at line `at`: long parameter lists have lines of their own."""
    if not lines[at].endswith("("):
        return at
    return next((k for k in range(at, len(lines)) if lines[k].endswith((") {", ");"))), at)


def _is_function(part: Part) -> bool:
    return part.lines[0].endswith(") {")


def _constants(parts: Mapping[str, Part]) -> frozenset[str]:
    return frozenset(name for name, part in parts.items() if not _is_function(part))


def _names(lines: Sequence[str]) -> frozenset[str]:
    return frozenset(n for line in lines for n in _NAME.findall(line.partition("//")[0]))


def _needed(parts: Mapping[str, Part], function: str, others: set[str]) -> set[str]:
    """The definitions that a function needs, itself included, without functions of other steps."""
    found, ahead = set[str](), [function]
    while ahead:
        name = ahead.pop()
        if name in parts and name not in found and (name == function or name not in others):
            found.add(name)
            ahead += parts[name].names
    return found


def _calls(parts: Mapping[str, Part], functions: Sequence[str]) -> list[tuple[Part, ...]]:
    """The places that call the function of each step. Where as many places call a function as it
    has steps, they are in the order of the steps, and each step has one."""
    places: dict[str, list[Part]] = {name: [] for name in functions}
    for part in filter(_is_function, parts.values()):
        for place in _paragraphs(part):
            for name in place.names & places.keys() - {part.name}:
                places[name].append(place)
    shares, turn = Counter(functions), Counter[str]()
    found = []
    for name in functions:
        own = places[name]
        if len(own) == shares[name]:
            own = own[turn[name] :][:1]
        turn[name] += 1
        found.append(tuple(own))
    return found


def _paragraphs(part: Part) -> Iterator[Part]:
    """A body in pieces that begin with a comment or after an empty line."""
    start, code = 1, False
    for k, line in enumerate((*part.lines[1:], "}"), 1):
        is_comment = line.startswith("  // ")
        if not line or line.startswith(_ENDS) or (is_comment and code):
            if code:
                span = Span(part.span.file, part.begin + start, part.begin + k - 1)
                yield Part(part.name, span, span.first, part.lines[start:k])
            start, code = k if is_comment else k + 1, False
        else:
            code = code or not is_comment


def _fused(subject: Subject) -> list[tuple[str, ...]]:
    """The names of the nodes of each step; nothing of an archive alone."""
    if subject.compiled is None:
        return []
    calls = subject.compiled.program.calls
    return [tuple(dict.fromkeys(n.name for n in c.node.body or (c.node,))) for c in calls]


def _without(subject: Subject, steps: Sequence[Step]) -> tuple[str, ...] | None:
    if subject.compiled is None:
        return None
    seen = {name for step in steps for name in step.nodes}
    names = dict.fromkeys(n.name for n in subject.compiled.imported.nodes)
    return tuple(name for name in names if name and name not in seen)


def of_line(found: SourceMap, place: str, what: str) -> tuple[Step, ...]:
    """The steps that line `FILE:LINE` is of, none for one of the interface. Raises MlfError, whose
    message calls the place `what`, for a file that the module does not have."""
    file, _, line = place.rpartition(":")
    if file not in found.files or not line.isdecimal() or line == "0":
        text = f"{what}: got '{place}', expected {', '.join(found.files)} with a line, as in x.c:7"
        raise MlfError(Problem("MLF0400", text))
    return tuple(s for s in found.steps if any(span.has(file, int(line)) for span in s.spans))


def table(found: SourceMap, steps: Sequence[Step] | None = None) -> Table:
    """A row for each step, or for some of them."""
    heads = ("step", "node", "operator", "kernel", "function", "lines", "calls", "constants")
    rows = []
    for s in found.steps if steps is None else steps:
        lines, calls, constants = map(_shown, (s.definitions, s.calls, s.constants))
        node = " + ".join(s.nodes)
        rows.append((s.step, node, s.op, s.kernel, s.function, lines, calls, constants))
    return Table(heads, tuple(rows))


def _shown(spans: Sequence[Span]) -> str:
    """Such as "kws_lib1.c:12-26,156-221"."""
    made = []
    for file, own in groupby(spans, key=lambda s: s.file):
        ranges = [str(s.first) if s.first == s.last else f"{s.first}-{s.last}" for s in own]
        made.append(f"{file}:{','.join(ranges)}")
    return " ".join(made)


def text(found: SourceMap, steps: Sequence[Step] | None = None) -> str:
    """The table with what it leaves out, or what a line is of."""
    if steps is not None:
        return tables.text(table(found, steps)) if steps else "of no node: part of the interface"
    share = f"{found.mapped:,} of {found.lines:,} lines of C are of nodes, the others the interface"
    made = [f"{found.name}: {share}", "", tables.text(table(found))]
    if found.without:
        made += ["", f"without lines of their own: {', '.join(map(one_line, found.without))}"]
    return "\n".join(made)


def to_json(found: SourceMap, steps: Sequence[Step] | None = None) -> dict[str, Any]:
    def spans(given: Sequence[Span]) -> list[dict[str, Any]]:
        return [{"file": s.file, "first": s.first, "last": s.last} for s in given]

    return {
        "name": found.name,
        "files": list(found.files),
        "lines": found.lines,
        "mapped_lines": found.mapped,
        "without_lines": None if found.without is None else list(found.without),
        "steps": [
            {
                "step": s.step,
                "nodes": list(s.nodes),
                "operator": s.op,
                "kernel": s.kernel,
                "function": s.function,
                "definitions": spans(s.definitions),
                "calls": spans(s.calls),
                "constants": spans(s.constants),
            }
            for s in (found.steps if steps is None else steps)
        ],
    }
