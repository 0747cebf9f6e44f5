"""Of which calls the index ranges are shown: the kernel's C, with the operands of the call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache

import numpy as np

from mlftool.proof import csource, packed, units, vmcode
from mlftool.proof.agree import BYTECODE, makers
from mlftool.proof.csource import Function
from mlftool.proof.ctree import INTEGERS, Type
from mlftool.proof.indices import Memory, UnprovenError, prove
from mlftool.proof.layout import CONSTANT, Layout, Step
from mlftool.proof.units import Source

UNREAD = "index ranges inside kernels: their C is not read"
MOST_KNOWN = 4096  # numbers of an array whose values may say how far a loop goes
MOST_JUDGED = 2000  # answers that are kept
_JUDGED: dict[tuple[str, tuple[Memory, ...], bytes], str] = {}
_ARRAY = re.compile(r"\bstatic const (\w+) (\w+)\[(\d+)\] = \{([^}]*)\}")


def shown(
    layouts: Sequence[Layout], entry: str, files: Mapping[str, bytes]
) -> tuple[int, tuple[str, ...]]:
    """How many calls stay inside their operands whatever tensors hold, and for the others, a line
    each, why that is not shown. `files` are the module's and the headers of the archive."""
    program = "" if entry else next((n for n in files if n.endswith(BYTECODE)), "")
    if not (entry or program) or not layouts:
        return 0, (UNREAD,)
    texts = {n: d.decode("utf-8", "replace") for n, d in files.items() if n.endswith((".c", ".h"))}
    sources = [text for name, text in texts.items() if name.endswith(".c")]
    try:
        read = _read(tuple(texts.items()))
    except (ValueError, RecursionError):
        return 0, (UNREAD,)
    if program:  # with jumps
        try:
            calls = list(_of_bytecode(files[program], sources))
        except (ValueError, IndexError, KeyError):
            return 0, (UNREAD,)
        each = [_faults([call], read) for call in calls]
        lines = {s: line for found in each for s, line in found.items()}
        return sum(not found for found in each), tuple(lines.values())
    count, why = 0, dict[str, str]()
    plain = [f for text in sources for f in csource.functions(text)]
    main: list[Function | None] = [f for f in plain if f.name == entry]
    for k, layout in enumerate(layouts):
        of: Sequence[Function | None] = makers(layout, plain, entry) if k else main or [None]
        if not of:
            why[layout.name] = f"index ranges inside the kernels of subgraph {layout.name}"
            continue
        for ways in zip(*(_calls(layout, f, sources, passed=k > 0) for f in of), strict=True):
            faults = _faults(ways, read)
            count += not faults
            why |= faults
    return count, tuple(why.values())


Called = tuple[str, tuple[Memory, ...]]  # a kernel, and what it is given


def _faults(calls: Iterable[Called], read: Sequence[Sequence[Source]]) -> dict[str, str]:
    """Why kernels are not shown to stay inside their operands, a line for each of these."""
    judged = ((symbol, _reason(symbol, memories, read)) for symbol, memories in calls)
    return {s: f"that {s} stays inside its operands: {reason}" for s, reason in judged if reason}


def _of_bytecode(data: bytes, sources: Sequence[str]) -> Iterator[Called]:
    """The calls of a program with jumps, in the order of its words. Raises ValueError."""
    text = next((t for t in sources if "\nconst struct mlf_vm_module tvmgen_" in t), "")
    words = [int(w) for w in np.frombuffer(data, "<u4")]
    arrays = _all_arrays(sources)
    for step, names in vmcode.steps(words, text):
        yield step.symbol, tuple(_memories(step, names, arrays, passed=False))


@lru_cache(maxsize=2)
def _read(texts: tuple[tuple[str, str], ...]) -> Sequence[Sequence[Source]]:
    """Each C file in all configurations. An archive is checked as often as it is looked at."""
    files = dict(texts)
    return [tuple(units.sources(name, files)) for name in files if name.endswith(".c")]


def _reason(symbol: str, memories: tuple[Memory, ...], read: Sequence[Sequence[Source]]) -> str:
    """Why a kernel is not shown to stay inside these memories; "" if it is, in all
    configurations. Layers and models share kernels, so answers are kept by what they depend on."""
    ways = next((ways for ways in read if symbol in ways[0].unit.functions), ())
    if not ways:
        return "its C is not here"
    try:
        key = symbol, memories, units.digest(ways, symbol)
    except (ValueError, RecursionError):
        return _judged(symbol, memories, ways)
    if key not in _JUDGED:
        if len(_JUDGED) >= MOST_JUDGED:
            _JUDGED.clear()
        _JUDGED[key] = _judged(symbol, memories, ways)
    return _JUDGED[key]


def _judged(symbol: str, memories: tuple[Memory, ...], ways: Sequence[Source]) -> str:
    seen: set[tuple[tuple[str, ...], ...]] = set()
    for source in units.complete(ways, symbol):
        try:
            closure = source.closure(symbol)
            kernel = source.find(symbol)
            if closure in seen:
                continue
            seen.add(closure)
            if kernel is None:
                return "its C has what the checker does not read"
            prove(kernel, memories, source.find)
        except UnprovenError as error:
            return str(error)
        except (ValueError, RecursionError) as error:
            return f"{type(error).__name__} {error}"
    return "" if seen else "no processor has all that it calls"


def _calls(
    layout: Layout, made: Function | None, sources: Sequence[str], passed: bool
) -> Iterator[tuple[str, tuple[Memory, ...]]]:
    """The kernel of each call, in the function that makes them, and what it is given. What is
    `passed` to a subgraph may be one tensor twice."""
    wrappers = {f.name: f for text in sources for f in packed.functions(text)}
    arrays = _all_arrays(sources)
    for k, step in enumerate(layout.steps):
        names = [a.base for a in made.calls[k].arguments] if made else []
        symbol = step.symbol or (made.calls[k].symbol if made else "")
        if symbol in wrappers and len(wrappers[symbol].calls) == 1:
            symbol = wrappers[symbol].calls[0].symbol
        yield symbol, tuple(_memories(step, names, arrays, passed))


def _memories(
    step: Step, names: Sequence[str], arrays: Mapping[str, Memory], passed: bool
) -> Iterator[Memory]:
    """Of a constant, as long as the C has it."""
    for n, access in enumerate(step.accesses):
        array = arrays.get(names[n]) if n < len(names) else None
        known = array if access.role == CONSTANT else None
        if known or access.role == CONSTANT:
            yield known or Memory(access.place.size_bytes)
            continue
        others = [
            (k, a.place) for k, a in enumerate(step.accesses) if a.role != CONSTANT and k != n
        ]
        shared = passed or any(p.meets(access.place) and p != access.place for _, p in others)
        same = next((k for k, p in others if k < n and p == access.place and not shared), None)
        yield Memory(access.place.size_bytes, shared=shared, same=same)


def _all_arrays(sources: Sequence[str]) -> Mapping[str, Memory]:
    return {name: memory for text in sources for name, memory in _arrays(text).items()}


@lru_cache(maxsize=8)
def _arrays(text: str) -> Mapping[str, Memory]:
    """The constants of a file, and what those of few integers hold."""
    found = {}
    for type_, name, extent, values in _ARRAY.findall(text):
        if type_ not in INTEGERS:
            continue
        holds: tuple[int, ...] = ()
        words = re.sub(r"//[^\n]*", "", values).replace(",", " ").split()
        if int(extent) == len(words) <= MOST_KNOWN and all(
            re.fullmatch(r"-?\d+", w) for w in words
        ):
            holds = tuple(map(int, words))
        found[name] = Memory(int(extent) * INTEGERS[type_][0], holds, Type(type_), values)
    return found
