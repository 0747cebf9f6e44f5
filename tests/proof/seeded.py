"""python -m tests.proof.seeded --count 200: faults are put into plans and C; are they found?

Random networks are compiled in all ways of tests/random. Each fault goes into the planner's result,
from which C is emitted again, or into the emitted C; then the checker must refuse the module.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import TypeVar

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / p) for p in ("", "tests/proof", "tests/random", "tests/support")]

from code_faults import CODE_FAULTS, joined, split  # noqa: E402
from machine import FIRST, WAYS  # noqa: E402
from menu import grown  # noqa: E402
from plan_faults import PLAN_FAULTS  # noqa: E402

from mlftool.codegen.executors import EXECUTORS  # noqa: E402
from mlftool.codegen.names import parameter  # noqa: E402
from mlftool.compile import Module, ModuleSpec, compile_module  # noqa: E402
from mlftool.errors import MlfError  # noqa: E402
from mlftool.plan.program import Program  # noqa: E402
from mlftool.proof.modules import Emitted, prove  # noqa: E402

T = TypeVar("T")
ENTRY = "tvmgen_m___tvm_main__"


@dataclass(frozen=True)
class Trial:
    """A fault in a module, and what the checker said of it; "" if it did not find it."""

    kind: str
    network: str
    way: str
    said: str


def emitted(module: Module, files: dict[str, str], symbols: tuple[str, ...]) -> Emitted:
    members, given = module.sources.members, module.imported
    return Emitted(
        {name: text.encode() for name, text in files.items()},
        [parameter(members[n]) for n in given.inputs],
        [parameter(members[n]) for n in given.outputs],
        symbols,
        ENTRY,
    )


def judged(module: Module, program: Program, files: dict[str, str] | None) -> str:
    """What the checker says of a program and its C, which is emitted from it if not given."""
    try:
        if files is None:
            made = EXECUTORS["aot"].emit(program, module.options, module.imported)
            whole = emitted(module, dict(made.files), made.symbols)
        else:
            whole = emitted(module, files, module.sources.symbols)
    except (KeyError, ValueError) as error:
        return f"the emitter: {type(error).__name__} {error}"
    try:
        prove(program, whole)
    except AssertionError as error:
        return str(error)
    return ""


def trials(seed: int, count: int) -> Iterator[Trial]:
    """`count` faults of all kinds in turn, each in a module in which it can be."""
    rng = random.Random(seed)
    kinds = [*PLAN_FAULTS, *CODE_FAULTS]
    new, pool = _modules(seed), []
    made = 0
    while made < count:
        kind = kinds[made % len(kinds)]
        for name, way, module in chain(rng.sample(pool, len(pool)), _kept(new, pool)):
            if (trial := _trial(rng, kind, name, way, module)) is not None:
                yield trial
                made += 1
                break


def _kept(new: Iterator[T], pool: list[T]) -> Iterator[T]:
    for item in new:
        pool.append(item)
        yield item


def _trial(rng: random.Random, kind: object, name: str, way: str, module: Module) -> Trial | None:
    if kind in PLAN_FAULTS:
        wrong = kind(rng, module.program)  # type: ignore[operator]
        if wrong is None:
            return None
        said = judged(module, wrong, None)
    else:
        file = next(n for n in module.sources.files if n.endswith("lib1.c"))
        head, body, tail = split(module.sources.files[file], ENTRY)
        changed = kind(rng, body)  # type: ignore[operator]
        if changed is None:
            return None
        files = {**module.sources.files, file: joined(head, changed, tail)}
        said = judged(module, module.program, files)
    room = "plan" if kind in PLAN_FAULTS else "C"
    return Trial(f"{room}: {kind.__name__}", name, way, said)  # type: ignore[attr-defined]


# Faults of the other executors: executor_faults.py.
MINE = (FIRST, *(way for way in WAYS if "executor" not in way.options))


def _modules(seed: int) -> Iterator[tuple[str, str, Module]]:
    """Networks in one way after the other, without end."""
    k = 0
    while True:
        network = grown(seed, k, "all")
        way = MINE[k % len(MINE)]
        k += 1
        if network.operators:
            try:
                module = compile_module(ModuleSpec(network.model, "m", **way.options))
            except MlfError:
                continue
            yield network.name, way.name, module


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.seeded", description=__doc__)
    parser.add_argument("--count", type=int, default=200, help="faults (200)")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    made: Counter[str] = Counter()
    missed = []
    for trial in trials(args.seed, args.count):
        made[trial.kind] += 1
        if not trial.said:
            missed.append(trial)
            print(f"NOT FOUND {trial.kind}: {trial.network}, {trial.way}", flush=True)
    for kind, number in sorted(made.items()):
        print(f"{number:4} {kind}")
    print(f"{made.total()} faults, {made.total() - len(missed)} found, {len(missed)} not")
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
