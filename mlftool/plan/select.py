"""Kernels bid for each node; the cheapest wins, ties break by name."""

from __future__ import annotations

import sys

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.ir.graph import Graph, View
from mlftool.ops import OPS, Kernel, Trait, UnsupportedError, has
from mlftool.plan.program import Call
from mlftool.targets import Target, debug_level
from mlftool.targets.kernels import KERNELS, Specialised


def select(graph: Graph, target: Target, file: str) -> tuple[Call, ...]:
    """One call per node that computes something. Raises MlfError naming all that nobody can."""
    problems: list[Problem] = []
    calls = []
    for node in graph.nodes:
        if has(node.op, Trait.VIEW):
            continue
        try:
            calls.append(Call(node, _auction(View(graph, node), target)))
        except UnsupportedError as error:
            problems.append(Problem("MLF0302", str(error), file, path=node.label))
        except KeyError:
            problems.append(
                Problem(
                    "MLF0301",
                    f"operator '{node.op}' is not supported yet",
                    file,
                    path=f"node '{node.name}'",
                    help=did_you_mean(node.op, OPS),
                )
            )
    if problems:
        raise MlfError(problems)
    return tuple(calls)


def _auction(v: View, target: Target) -> Kernel:
    """The winning kernel; the portable one always bids, so coverage never depends on the target."""
    bids = [OPS[v.node.op].kernel(v)]
    bids += [_bid(s, v) for s in KERNELS.get(v.node.op, ()) if s.fits(target.features)]
    made = sorted((b for b in bids if b is not None), key=lambda b: (b.cost, b.name))
    if debug_level() >= 2:
        offers = ", ".join(f"{b.name} {b.cost:.0f}" for b in made)
        print(f"mlftool: bids for {v.node.label}: {offers}", file=sys.stderr)
    return made[0]


def _bid(special: Specialised, v: View) -> Kernel | None:
    """A specialised kernel that does not take a form makes no bid for it."""
    try:
        return special.bid(v)
    except UnsupportedError:
        return None
