"""The plan that fits: bands of rows where a program needs less memory, no more of them than asked.

Costs are the kernels' estimates of instructions. A budget takes the cheapest program that fits it;
bands of more rows make fewer calls, so they are tried first.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from mlftool.errors import MlfError, Problem
from mlftool.frozen import field, frozen
from mlftool.ir.graph import Graph
from mlftool.ops import Trait, is_a
from mlftool.plan.patches import AUTO, OFF, Choice, choices, cut
from mlftool.plan.program import Program
from mlftool.plan.states import slots
from mlftool.sizes import bytes_of

WORTH = 0.9  # `auto` cuts a run only if the arena shrinks to this
LOWERED = 4  # choices of each round that are planned whole
ROUNDS = 3  # runs of layers that are cut one after the other

NONE = "none"

# Plans a graph; the second argument says whether kernels are to need no arena for themselves.
Lower = Callable[[Graph, bool], Program]


@frozen
class Plans:
    """What a search plans: what it asks for again is not planned again."""

    lowered: Lower
    _found: dict[int, tuple[Program, list[Choice]]] = field(default_factory=dict)
    _made: dict[tuple[int, bool], tuple[Choice, Program]] = field(default_factory=dict)

    def choices(self, program: Program) -> list[Choice]:
        if id(program) not in self._found:
            self._found[id(program)] = program, choices(program)
        return self._found[id(program)][1]

    def made(self, choice: Choice, spare: bool = False) -> Program:
        key = id(choice), spare
        if key not in self._made:
            self._made[key] = choice, self.lowered(cut(choice), spare)
        return self._made[key][1]


def budget_bytes(text: str) -> int | None:
    """What a budget allows; None if it is `none`. Raises MlfError for anything that is no size."""
    if text == NONE:
        return None
    if (found := bytes_of(text)) is not None:
        return found
    raise MlfError(Problem("MLF0400", f"budget '{text}', expected none or bytes such as 24KiB"))


def outside_bytes(program: Program, interface: Graph, jumps: bool) -> int:
    """Of RAM besides the arena: inputs and outputs that are not in it, and states. `interface` is
    the graph as imported; with `jumps` between the executor's calls their order tells less."""
    names = () if program.workspace_io else (*interface.taken, *interface.given)
    ends = sum(interface.types[n].bytes for n in names)
    return ends + slots(program, interface, not jumps)[1]


# Of a program: its `outside_bytes`.
Outside = Callable[[Program], int]


def in_budget(
    program: Program, most: int, outside: Outside, lowered: Lower, file: str, hint: str
) -> Program:
    """The cheapest program found that takes at most so much RAM. Raises MlfError if none does."""
    made = fitted(program, most - outside(program), Plans(lowered))
    arena = made.memory.size_bytes
    need = arena + outside(made)
    if need <= most:
        return made
    loops = (Trait.LOOP, Trait.SCAN)
    runs = sum(c.kernel.turns != {} and not any(is_a(c.node, t) for t in loops) for c in made.calls)
    how = f"with {runs} {'run' if runs == 1 else 'runs'} of layers in bands" if runs else "whole"
    ends = "inputs, outputs and states" if made.graph.kept else "inputs and outputs"
    text = f"{need} bytes of RAM are the least found, {how} ({need - arena} of {ends}); "
    raise MlfError(Problem("MLF0119", f"{text}expected at most {most}", file, help=hint))


def cost(program: Program) -> float:
    """The instructions that the kernels estimate."""
    return sum(c.kernel.cost for c in program.calls)


def in_patches(program: Program, asked: str, lowered: Lower) -> Program:
    """The program with its best run of layers in so many bands; unchanged if nothing is gained."""
    if asked == OFF:
        return program
    limit = program.memory.size_bytes * (WORTH if asked == AUTO else 1)
    found = _least(choices(program, None if asked == AUTO else int(asked)))
    best = min((lowered(cut(c), False) for c in found), key=_smallest, default=program)
    return best if best.memory.size_bytes < limit else program


def fitted(program: Program, arena_bytes: int, plans: Plans) -> Program:
    """The cheapest program found whose arena fits; if none does, the smallest one found."""
    for _ in range(ROUNDS):
        if program.memory.size_bytes <= arena_bytes:
            return program
        found = plans.choices(program)
        likely = [c for c in found if c.arena_bytes <= arena_bytes]
        tried = list(_planned(_few(likely), arena_bytes, plans))
        fitting = [p for p in tried if p.memory.size_bytes <= arena_bytes]
        if fitting:
            return min(fitting, key=lambda p: (cost(p), p.memory.size_bytes))
        tried += _planned(_least(found), arena_bytes, plans)
        smallest = min(tried, key=_smallest, default=program)
        if smallest.memory.size_bytes >= program.memory.size_bytes:
            break
        program = smallest
    spare = [plans.lowered(program.graph, True)] if any(c.parts for c in program.calls) else []
    return min((program, *spare), key=_smallest)


def frontier(program: Program, lowered: Lower, goals: int) -> list[Program]:
    """The plans between the smallest one found and `program`: each takes more arena than the one
    before it and fewer instructions, and is what `fitted` finds for its own arena. So many goals
    between the two are tried, at equal distances."""
    plans = Plans(lowered)
    most, least = program.memory.size_bytes, fitted(program, 0, plans).memory.size_bytes
    tried = [least + (most - least) * k // (goals + 1) for k in range(goals + 1)]
    settled = (_settled(program, goal, plans) for goal in tried)
    found = {p.memory.size_bytes: p for p in (program, *settled) if p is not None}
    made: list[Program] = []
    for _, plan in sorted(found.items()):
        if not made or cost(plan) < cost(made[-1]):
            made.append(plan)
    return made


def _settled(program: Program, arena_bytes: int, plans: Plans) -> Program | None:
    """The plan found for this goal, if its own size as the goal finds it again or a smaller one."""
    made = fitted(program, arena_bytes, plans)
    own = fitted(program, made.memory.size_bytes, plans)
    while own.memory.size_bytes < made.memory.size_bytes:
        made, own = own, fitted(program, own.memory.size_bytes, plans)
    return own if own.memory.size_bytes == made.memory.size_bytes else None


def _planned(found: Iterable[Choice], arena_bytes: int, plans: Plans) -> Iterator[Program]:
    """The programs; of one that would fit without what kernels need for themselves in a band, the
    one with kernels that need less, too."""
    for choice in found:
        made = plans.made(choice)
        yield made
        areas = [o for c in made.calls if c.parts for o in c.kernel.operands if o.planned]
        own = max((o.bytes for o in areas), default=0)
        if made.memory.size_bytes - own <= arena_bytes < made.memory.size_bytes:
            yield plans.made(choice, spare=True)


def _smallest(program: Program) -> tuple[int, float]:
    return program.memory.size_bytes, cost(program)


def _few(found: Sequence[Choice]) -> list[Choice]:
    """Those of the fewest calls that compute no row twice."""
    return sorted(found, key=lambda c: (c.again, c.calls, c.arena_bytes))[:LOWERED]


def _least(found: Sequence[Choice]) -> list[Choice]:
    """Those of the least arena, of each kind: what bands need that compute rows again is known
    when they are planned."""
    order = sorted(found, key=lambda c: (c.arena_bytes, c.calls))
    return [c for again in (False, True) for c in [x for x in order if x.again == again][:LOWERED]]
