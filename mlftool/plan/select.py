"""Kernels bid for each node; the least by `_order` wins, unless a tuning record names another."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.ir.graph import Graph, Node, View
from mlftool.ops import OPS, Kernel, Trait, UnsupportedError, is_a
from mlftool.plan.prices import priced
from mlftool.plan.program import Call
from mlftool.targets import Target, debug_level
from mlftool.targets.kernels import KERNELS, Specialised

OTHERWISE = "change the layer to a form that is supported, or compute it in the application"
# Takes one of the kernels that can compute a node, the estimated best of which is the first.
Choose = Callable[[View, Sequence[Kernel]], Kernel]
VECTORS = {"mve", "vector"}  # what compilers use unasked


def select(
    graph: Graph, target: Target, file: str, choose: Choose | None = None
) -> tuple[Call, ...]:
    """One call per node that computes something. Raises MlfError naming nodes without kernels."""
    problems: list[Problem] = []
    calls = []
    for node in graph.nodes:
        if is_a(node, Trait.VIEW):
            continue
        if node.op not in OPS:
            text, where = f"operator '{node.op}' is not supported yet", f"node '{node.name}'"
            help = did_you_mean(node.op, OPS)
            problems.append(Problem("MLF0301", text, file, path=where, help=help))
            continue
        try:
            v = View(graph, node)
            if choose:
                calls.append(Call(node, choose(v, offers(v, target, measured=True))))
            else:
                kernel, *others = offers(v, target)
                calls.append(Call(node, kernel, rivals=tuple((k.name, k.cost) for k in others)))
        except UnsupportedError as error:
            problems.append(Problem("MLF0302", str(error), file, path=node.label, help=OTHERWISE))
    if problems:
        raise MlfError(problems)
    return tuple(calls)


def offers(v: View, target: Target, measured: bool = False) -> tuple[Kernel, ...]:
    """The kernels that can compute a node, the best by `_order` first. The portable one bids, or
    what replaces it, so coverage never depends on the target. With `measured`, those without an
    estimate follow, and all that give other bits than the first are left out: sums of another float
    mode."""
    fitting = [s for s in KERNELS.get(v.node.op, ()) if s.fits(target.features)]
    bids = [(s, _bid(s, v)) for s in fitting if not s.measured]
    found = [made for _, made in bids if made is not None]
    if not any(s.replaces_portable and made is not None for s, made in bids):
        portable = OPS[v.node.op].kernel(v)
        found += [_apart(portable, target)] if portable else []
    found = [priced(k, v, target) for k in found]
    made = sorted(found, key=partial(_order, target))
    if debug_level() >= 2:
        texts = ", ".join(f"{b.name} {b.cost:.0f}" for b in made)
        print(f"mlftool: bids for {v.node.label}: {texts}", file=sys.stderr)
    if not measured:
        return tuple(made)
    others = [_bid(s, v) for s in fitting if s.measured]
    made += sorted((b for b in others if b is not None), key=lambda b: b.name)
    return tuple(k for k in made if k.params.get("fused") == made[0].params.get("fused"))


def cost_of(graph: Graph, node: Node, target: Target) -> float:
    """Instructions of a node's best kernel; infinity if there is none."""
    try:
        return offers(View(graph, node), target)[0].cost
    except UnsupportedError:
        return float("inf")


def lean(v: View, kernels: Sequence[Kernel]) -> Kernel:
    """The best kernel of those that need least of the arena for themselves; a Choose."""
    return min(kernels, key=lambda k: (_scratch(k), kernels.index(k)))


def _apart(kernel: Kernel, target: Target) -> Kernel:
    """Without its overlap where the compiler makes vectors of its loops for that."""
    if not kernel.vectors or "size" in target.features or not VECTORS & target.features:
        return kernel
    return replace(kernel, overlap={})


def _scratch(kernel: Kernel) -> int:
    return sum(o.bytes for o in kernel.operands if o.role == "scratch" and not o.local)


def _order(target: Target, kernel: Kernel) -> tuple[int, float, str]:
    """Sorts by instructions; `optimize: size` puts compact kernels first, whose code many layers
    share. Ties break by name."""
    return -kernel.compact if "size" in target.features else 0, kernel.cost, kernel.name


def _bid(special: Specialised, v: View) -> Kernel | None:
    """A specialised kernel that does not take a form makes no bid for it."""
    try:
        return special.bid(v)
    except UnsupportedError:
        return None
