"""Whether the code of a module makes the calls that a Layout has: C, bytecode or a graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from mlftool.proof import csource, graphs, packed, vmcode
from mlftool.proof.csource import Argument, Function
from mlftool.proof.layout import CONSTANT, READ, SCRATCH, WRITE, Access, Layout, Place, Step

OUTSIDE = "_buffer_var"  # ends the parameters of inputs and outputs
GRAPH, BYTECODE = ".graph", ".vm"  # how entries end that are no functions of C
ALIGNMENT_BYTES = 16


def differences(layouts: Sequence[Layout], files: Mapping[str, bytes], entry: str) -> Iterator[str]:
    """What the code does otherwise, a line each. `entry` is the C function that makes the calls of
    the first layout, or the file that says when they are made; the functions of other layouts, of
    subgraphs, are known by their calls alone."""
    texts = [d.decode("utf-8", "replace") for n, d in files.items() if n.endswith(".c")]
    found = [f for text in texts for f in csource.functions(text)]
    wrappers = {f.name: f for text in texts for f in packed.functions(text)}
    if not layouts:
        return
    if entry.endswith((GRAPH, BYTECODE)) and entry not in files:
        yield f"has no file '{entry}'"
        return
    if entry.endswith(GRAPH):
        yield from graphs.differences(layouts[0], files[entry], entry)
        yield from _wrapped(layouts[0], wrappers)
    elif entry.endswith(BYTECODE):
        yield from _bytecode(layouts[0], files[entry], texts, entry)
    else:
        main = next((f for f in found if f.name == entry), wrappers.get(entry))
        if main is None:
            yield f"has no function '{entry}' that consists of calls"
            return
        yield from _unlike(_as_packed(layouts[0]) if main.packed else layouts[0], main)
        if main.packed and any(call.symbol in wrappers for call in main.calls):
            yield from _wrapped(layouts[0], wrappers)
    for layout in layouts[1:]:
        if not makers(layout, found, entry):
            yield f"{layout.name}: no function makes the calls of this subgraph"


def makers(layout: Layout, found: Sequence[Function], entry: str) -> Sequence[Function]:
    """The functions, `entry` aside, that may be a subgraph's: that make its calls. Two branches
    whose kernels have the same operands are alike."""
    return [f for f in found if f.name != entry and not any(_unlike(layout, f))]


def _bytecode(layout: Layout, data: bytes, texts: Sequence[str], entry: str) -> Iterator[str]:
    outside = [name for name in layout.memories if name.endswith(OUTSIDE)]
    text = next((t for t in texts if "\nconst struct mlf_vm_module tvmgen_" in t), "")
    if len(data) % 4:
        yield f"{entry} has {len(data)} bytes, which are not words"
        return
    try:
        words = [int(w) for w in np.frombuffer(data, "<u4")]
        yield from _unlike(layout, vmcode.function(words, text, entry, outside))
    except (ValueError, IndexError, KeyError) as error:
        yield f"{entry}: {error}"


def _as_packed(layout: Layout) -> Layout:
    """With the arguments of packed calls: inputs, outputs, and the first address of scratch."""

    def passed(step: Step) -> Step:
        by_role = {r: [a for a in step.accesses if a.role == r] for r in (READ, WRITE, SCRATCH)}
        return replace(step, accesses=(*by_role[READ], *by_role[WRITE], *by_role[SCRATCH][:1]))

    return replace(layout, steps=tuple(map(passed, layout.steps)))


def _wrapped(layout: Layout, wrappers: Mapping[str, Function]) -> Iterator[str]:
    """Whether each packed function passes on to its kernel what its step has, in its order."""
    for k, step in enumerate(layout.steps):
        wrapper = wrappers.get(step.symbol)
        if wrapper is None or len(wrapper.calls) != 1:
            yield f"call {k}: {step.symbol} is not a packed function around one kernel"
            continue
        expected = _handed_on(step, wrapper.parameters)
        given = wrapper.calls[0].arguments
        if len(expected) != len(given):
            yield f"{step.symbol} passes {len(given)} arguments on, expected {len(expected)}"
            continue
        for n, (want, got) in enumerate(zip(expected, given, strict=True)):
            if want != got and not (want is None and got.base not in wrapper.parameters):
                yield f"{step.symbol}: argument {n} of its kernel is {got.base} + {got.offset}"


def _handed_on(step: Step, taken: Sequence[str]) -> list[Argument | None]:
    """What the kernel of a packed function is given; None for a constant that is linked."""
    reads = [a for a in step.accesses if a.role in (READ, CONSTANT)]
    writes = [a for a in step.accesses if a.role == WRITE]
    tensors = len(taken) - any(a.role == SCRATCH for a in step.accesses) * ("planned" in taken)
    if len(reads) + len(writes) != tensors:
        reads = [a for a in reads if a.role == READ]
    order = {id(a): name for a, name in zip((*reads, *writes), taken, strict=False)}
    found: list[Argument | None] = []
    scratch = 0
    for access in step.accesses:
        if access.role == SCRATCH:
            found.append(Argument("scratch", scratch or None))
            scratch += -(-access.place.size_bytes // ALIGNMENT_BYTES) * ALIGNMENT_BYTES
        else:
            name = order.get(id(access))
            found.append(Argument(name, None) if name else None)
    return found


def _unlike(layout: Layout, function: Function) -> Iterator[str]:
    strangers = set(layout.memories) - set(function.parameters)
    if sized := [name for name in strangers if layout.memories[name]]:
        yield f"{function.name} has no parameter {', '.join(sorted(sized))}"
    if len(layout.steps) != len(function.calls):
        yield f"{function.name} makes {len(function.calls)} calls, expected {len(layout.steps)}"
        return
    parameters = set(function.parameters)
    for k, (step, call) in enumerate(zip(layout.steps, function.calls, strict=True)):
        if text := _call(step, call, parameters):
            yield f"{function.name}, call {k}: {text}"


def _call(step: Step, call: csource.Call, parameters: set[str]) -> str:
    if step.symbol and step.symbol != call.symbol:
        return f"calls {call.symbol}, expected {step.symbol}"
    if len(step.accesses) != len(call.arguments):
        return f"{call.symbol} has {len(call.arguments)} arguments, expected {len(step.accesses)}"
    for n, (access, given) in enumerate(zip(step.accesses, call.arguments, strict=True)):
        shown = given.base if given.offset is None else f"{given.base} + {given.offset}"
        if access.role == CONSTANT:
            if given.base in parameters or given.offset is not None:
                return f"argument {n} is {shown}, expected a constant"
        elif not _is_at(given, access.place):
            return f"argument {n} is {shown}, expected {_shown(access)}"
    return ""


def _is_at(given: Argument, place: Place) -> bool:
    return (given.base, given.offset or 0) == (place.memory, place.offset)


def _shown(access: Access) -> str:
    return f"{access.place.memory} + {access.place.offset}"
