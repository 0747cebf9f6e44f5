"""Which passes there are and in what order: each says so itself, where it is defined."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.frozen import frozen
from mlftool.ir.graph import Graph

Rewrite = Callable[[Graph], Graph]
ALWAYS = -1


@frozen
class Pass:
    """A rewrite of the graph, and its place: after and before the passes of these names.

    It runs from opt_level `level` on; `tvm` is TVM's name of what does the same there.
    """

    run: Rewrite
    after: str = ""
    before: str = ""
    level: int = ALWAYS
    tvm: tuple[str, ...] = ()
    inside: bool = True  # subgraphs of control flow are rewritten, too

    @property
    def name(self) -> str:
        return self.run.__name__


PASSES: dict[str, Pass] = {}


def rewrite(
    *, after: str = "", before: str = "", level: int = ALWAYS, tvm: str = ""
) -> Callable[[Rewrite], Rewrite]:
    """Register a pass; `tvm` has its names there in one text."""

    def register(run: Rewrite) -> Rewrite:
        PASSES[run.__name__] = Pass(run, after, before, level, tuple(tvm.split()))
        return run

    return register


def ordered(passes: Iterable[Pass]) -> tuple[Pass, ...]:
    """The one order that follows from what passes say. Raises ValueError if there is none, or if
    there are several."""
    left = {p.name: p for p in passes}
    waits = {name: {p.after} - {""} for name, p in left.items()}
    for name, p in left.items():
        if p.before:
            waits[p.before].add(name)
    made: list[Pass] = []
    while left:
        ready = [name for name in left if not waits[name] & left.keys()]
        if len(ready) != 1:
            raise ValueError(f"passes do not say their order: {', '.join(ready or left)}")
        made.append(left.pop(ready[0]))
    return tuple(made)


def wanted(pipeline: Sequence[Pass], opt_level: int, disabled: Sequence[str]) -> tuple[Pass, ...]:
    """The passes of `opt_level`, 0 to 3, without the `disabled` ones, by our names or TVM's; those
    without a level run always. Raises MlfError for a name that is neither's."""
    names, theirs = {p.name for p in pipeline}, by_tvm(pipeline)
    for name in disabled:
        if name not in names and name not in theirs:
            text = f"no pass with this name; got '{name}'"
            help = did_you_mean(name, [*sorted(names), *theirs])
            raise MlfError(Problem("MLF0400", text, help=help))
    off = {name for d in disabled for name in theirs.get(d, (d,))}
    return tuple(
        p for p in pipeline if p.level == ALWAYS or (p.level <= opt_level and p.name not in off)
    )


def by_tvm(pipeline: Iterable[Pass]) -> Mapping[str, tuple[str, ...]]:
    """TVM's names for passes that do the same as ours."""
    found: dict[str, tuple[str, ...]] = {}
    for p in pipeline:
        for name in p.tvm:
            found[name] = (*found.get(name, ()), p.name)
    return found
