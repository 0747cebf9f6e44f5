"""The proof of a compiled module, from its Program and the C that was emitted for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from mlftool.frozen import frozen
from mlftool.plan.program import Program
from mlftool.proof import agree, sums, walk
from mlftool.proof.certificate import Proof
from mlftool.proof.layout import Layout
from mlftool.proof.programs import layouts, program_faults


@frozen
class Emitted:
    """What an emitter wrote: its files, the parameters of inputs and outputs in the graph's order,
    and the function of each call. `entry` is the C function that makes the calls one by one, or the
    file of the graph or the bytecode that does; "" where nothing does that proof/agree.py reads."""

    files: Mapping[str, bytes]
    inputs: Sequence[str]
    outputs: Sequence[str]
    symbols: Sequence[str]
    entry: str


def prove(program: Program, emitted: Emitted) -> Proof:
    """Raises AssertionError with what is wrong: a bug of the planner or of the emitter."""
    _hold(program_faults(program))  # without which there are no layouts
    symbols = emitted.symbols if emitted.entry else ()
    found = layouts(program, emitted.inputs, emitted.outputs, symbols)
    _hold(_faults(program, found, emitted))
    integer = tuple(sums.sums(program))
    steps = sum(len(one.steps) for one in found)
    claims = {"memory": steps, "addresses": sum(len(s.accesses) for o in found for s in o.steps)}
    claims |= {"lifetimes": len(program.memory.buffers), "operands": steps}
    claims |= {"calls": steps} if emitted.entry else {}
    claims |= {"sums": sum(s.proven for s in integer)}
    unproven = tuple(f"the sum of {s.label} stays in an int32" for s in integer if not s.proven)
    if zeros := tuple(sums.divisor_faults(program)):  # the model's own, which onnxruntime runs
        unproven += zeros
    else:
        claims["scales"] = len(program.calls)
    if not emitted.entry:
        unproven += ("that the code's calls have these addresses: it is not read here",)
    bounds = tuple((s.label, s.bound) for s in integer if s.bound is not None)
    return Proof(found, claims, unproven, bounds, emitted.entry)


def _hold(found: Iterator[str]) -> None:
    wrong = list(found)
    if wrong:
        more = f", and {len(wrong) - 5} more" if len(wrong) > 5 else ""
        raise AssertionError("; ".join(wrong[:5]) + more)


def _faults(program: Program, found: Sequence[Layout], emitted: Emitted) -> Iterator[str]:
    for one in found:
        yield from (f"{one.name}: {text}" for text in walk.faults(one))
    if emitted.entry:
        yield from agree.differences(found, emitted.files, emitted.entry)
