"""Many networks: grown, tried in batches, and what was found made small."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from apart import each_apart
from grow import Network
from machine import BATCH, FIRST, Finding, forced_ways, try_all, ways_of
from menu import MENUS
from menu import grown as grown_of
from other_menu import made
from schema_menu import drawn
from shapes import shaped
from shrink import shrunk


def _neighbour(seed: int, index: int) -> Network:
    """Of models that the tests of other rooms have, which those of this room do without."""
    from neighbours import neighbour

    return neighbour(seed, index)


# The generators besides the first.
OWN_MORE = {"other": made, "shapes": shaped, "schemas": drawn}
MORE = {**OWN_MORE, "neighbours": _neighbour}
OWN = (*MENUS, *OWN_MORE)  # need nothing of another room
KINDS = (*MENUS, *MORE)


def network(seed: int, index: int, kind: str = "all") -> Network:
    """Network `index` of a seed, the same whenever it is asked for."""
    return MORE[kind](seed, index) if kind in MORE else grown_of(seed, index, kind)


@dataclass
class Tally:
    """What became of the networks so far."""

    networks: int = 0
    compiles: int = 0
    nodes: int = 0
    lost: int = 0  # onnxruntime ended their process
    findings: list[Finding] = field(default_factory=list)
    kernels: Counter[tuple[str, str]] = field(default_factory=Counter)  # names and templates

    def __str__(self) -> str:
        return (
            f"{self.networks} networks of {self.nodes} nodes, compiled {self.compiles} times: "
            f"{len(self.findings)} findings" + f", {self.lost} lost" * bool(self.lost)
        )


def campaign(
    seed: int,
    first: int,
    count: int,
    board_every: int,
    tell: Callable[[Tally, int], None] = lambda tally, done: None,
    kind: str = "all",
    forced: bool = False,
) -> Tally:
    """Networks `first` to `first + count` of a seed, of one of KINDS; one in `board_every` runs
    on a board, too (0: none). `forced`: all run on one, with every kernel that takes their nodes.
    `tell` hears of each batch, with the number of the network after it.

    A network is lost if onnxruntime ends the process that grows it: its C++ says "terminate
    called", which nothing of ours can."""
    tally = Tally()

    def on_board(k: int) -> bool:
        return bool(board_every) and k % board_every == 0

    for start in range(first, first + count, BATCH):
        indices = range(start, min(start + BATCH, first + count))
        grown = each_apart([partial(network, seed, k, kind) for k in indices])
        trials = [
            (one, forced_ways(one, k) if forced else ways_of(one, k, on_board(k)))
            for k, one in zip(indices, grown, strict=True)
            if one and one.operators
        ]
        tally.lost += grown.count(None)
        with tempfile.TemporaryDirectory(prefix="mlftool-random-") as folder:
            tally.findings += try_all(trials, Path(folder), tally.kernels)
        tally.networks += len(trials)
        tally.compiles += sum(len(ways) for _, ways in trials)
        tally.nodes += sum(len(one.operators) for one, _ in trials)
        tell(tally, indices.stop)
    return tally


def smallest(finding: Finding) -> Finding:
    """The same kind of fault in a smaller network."""
    ways = (FIRST, finding.way) if finding.way is not FIRST else (FIRST,)
    latest = finding

    def fails(network: Network) -> bool:
        nonlocal latest
        try:
            with tempfile.TemporaryDirectory(prefix="mlftool-random-") as folder:
                found = try_all([(network, ways)], Path(folder))
        except Exception:  # onnxruntime does not take this part of the network
            return False
        same = [f for f in found if f.kind == finding.kind]
        latest = same[0] if same else latest
        return bool(same)

    shrunk(finding.network, fails)
    return latest
