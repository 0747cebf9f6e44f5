"""Whether the C of a module makes the calls that a Layout has."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlftool.proof.csource import Call, Function
from mlftool.proof.layout import CONSTANT, Access, Layout, Step


def differences(layouts: Sequence[Layout], found: Sequence[Function], entry: str) -> Iterator[str]:
    """What the C does otherwise, a line each. The first layout is that of function `entry`, the
    others are of subgraphs, whose functions are known by their calls alone."""
    main = next((f for f in found if f.name == entry), None)
    if main is None:
        yield f"has no function '{entry}' that consists of calls"
        return
    for layout in layouts[:1]:
        yield from _unlike(layout, main)
    for layout in layouts[1:]:
        if all(any(_unlike(layout, f)) for f in found if f is not main):
            yield f"{layout.name}: no function makes the calls of this subgraph"


def _unlike(layout: Layout, function: Function) -> Iterator[str]:
    strangers = set(layout.memories) - set(function.parameters)
    if sized := [name for name in strangers if layout.memories[name]]:
        yield f"{function.name} has no parameter {', '.join(sorted(sized))}"
    if len(layout.steps) != len(function.calls):
        yield f"{function.name} makes {len(function.calls)} calls, expected {len(layout.steps)}"
        return
    constants = set(function.parameters)
    for k, (step, call) in enumerate(zip(layout.steps, function.calls, strict=True)):
        if text := _call(step, call, constants):
            yield f"{function.name}, call {k}: {text}"


def _call(step: Step, call: Call, parameters: set[str]) -> str:
    if step.symbol and step.symbol != call.symbol:
        return f"calls {call.symbol}, expected {step.symbol}"
    if len(step.accesses) != len(call.arguments):
        return f"{call.symbol} has {len(call.arguments)} arguments, expected {len(step.accesses)}"
    for n, (access, given) in enumerate(zip(step.accesses, call.arguments, strict=True)):
        shown = given.base if given.offset is None else f"{given.base} + {given.offset}"
        if access.role == CONSTANT:
            if given.base in parameters or given.offset is not None:
                return f"argument {n} is {shown}, expected a constant"
        elif (given.base, given.offset or 0) != (access.place.memory, access.place.offset):
            return f"argument {n} is {shown}, expected {_shown(access)}"
    return ""


def _shown(access: Access) -> str:
    return f"{access.place.memory} + {access.place.offset}"
