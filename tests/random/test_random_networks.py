"""Random networks: right, the same bits in every way, and clean under sanitizers.

More than a thousand of three generators, and layers of another one, of a seed that is a new one for
each state of the compiler and printed; MLFTOOL_RANDOM_SEED sets it. `python -m tests.random.run`
runs more, and makes findings small.
"""

from __future__ import annotations

import os

import numpy as np
import pytest
from apart import apart, each_apart
from campaign import campaign
from grow import Network, make_model, session_of, value_info
from kernels import missing, named, templates
from machine import BATCH, FORCED_WAYS, TOGETHER
from menu import grown
from onnx import helper
from other_menu import made
from schema_menu import drawn
from seeds import seed_of_sources
from shapes import shaped
from shrink import shrunk

SEED = seed_of_sources()
# Batches of each generator, which take as many seconds of a processor each. Shards part them.
BATCHES = {"all": 8, "other": 5, "images": 3, "shapes": 1}
PARTS = [(kind, part) for kind, parts in BATCHES.items() for part in range(parts)]
# A refusal is no wrong number, but each costs a user a model: one network in so many.
NETWORKS_PER_REFUSAL = 20


def test_there_are_a_thousand_networks() -> None:
    assert BATCH * sum(BATCHES[kind] for kind in ("all", "other", "images")) > 1000


@pytest.mark.parametrize(("kind", "part"), PARTS)
def test_random_networks(kind: str, part: int) -> None:
    """What the second generator makes, others are refused, too; the one of layers knows nothing
    that a network may be refused for."""
    tally = campaign(SEED, part * BATCH, BATCH, 8, kind=kind)
    refused = [f for f in tally.findings if f.kind == "refused" and "MLF0900" not in f.text]
    print(f"seed {SEED}: {tally}")
    wrong = [str(f) for f in tally.findings if f not in refused]
    assert not wrong, f"MLFTOOL_RANDOM_SEED={SEED}\n" + "\n".join(wrong)
    assert tally.networks + tally.lost == BATCH
    if kind == "all":
        names = {f.network.name: str(f) for f in refused}
        limit = 1 + tally.networks // NETWORKS_PER_REFUSAL
        assert len(names) <= limit, f"MLFTOOL_RANDOM_SEED={SEED}\n" + "\n".join(names.values())


def test_every_kernel_of_some_layers() -> None:
    """Those that the compiler would not choose, too, on one of the processors."""
    tally = campaign(SEED, TOGETHER * (SEED % len(FORCED_WAYS)), 6, 0, kind="shapes", forced=True)
    print(f"seed {SEED}: {tally}")
    wrong = [str(f) for f in tally.findings if f.kind != "refused" or "MLF0900" in f.text]
    assert not wrong, f"MLFTOOL_RANDOM_SEED={SEED}\n" + "\n".join(wrong)


def test_operators_of_schemas() -> None:
    """Of the sixth generator a few networks, always the same: what it draws is often a matter of
    opinion, of infinities or of sums that overflow, which somebody has to look at."""
    tally = campaign(4, 0, 8, 0, kind="schemas")
    wrong = [str(f) for f in tally.findings]
    assert tally.networks == 8
    assert not wrong, wrong


def test_the_sources_say_which_kernels_there_are() -> None:
    """What a campaign of layers did not choose is read from them."""
    assert {"dsp.rows", "narrow.planes", "portable.resize", "tiles.s8"} <= named()
    assert {"dsp_rows.c.j2", "resize.c.j2"} <= templates()
    left = missing([("portable.resize", "resize.c.j2"), ("integers.tiles.s8", "tiles.c.j2")])
    assert {*left} == {*named(), *templates()} - {
        *("portable.resize", "resize.c.j2", "tiles.s8", "tiles.c.j2")
    }


def test_work_apart_may_end_its_process() -> None:
    assert apart(lambda: [np.float32(2)]) == [np.float32(2)]
    assert apart(os.abort) is None
    with pytest.raises(RuntimeError, match="ZeroDivisionError"):
        apart(lambda: 1 // 0)
    works = [lambda: 1, os.abort, lambda: 2, lambda: 3, os.abort]
    assert each_apart(works) == [1, None, 2, 3, None]


def test_a_network_that_is_lost_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its process ends, the campaign goes on."""
    monkeypatch.setattr("campaign.network", lambda *_: os.abort())
    assert campaign(1, 0, 2, 0).lost == 2


def test_a_network_grows_the_same_again() -> None:
    assert grown(3, 5).model == grown(3, 5).model
    assert grown(3, 5).model != grown(3, 6).model
    assert made(3, 5).model == made(3, 5).model
    assert shaped(3, 5).model == shaped(3, 5).model
    assert drawn(3, 5).model == drawn(3, 5).model


def test_shrinking_leaves_what_fails() -> None:
    """A network that "fails" while it has a Tanh ends as little more than that."""
    names = [f"v{k}" for k in range(6)]
    ops = ("Abs", "Neg", "Tanh", "Relu", "Sigmoid")
    nodes = [helper.make_node(op, [names[k]], [names[k + 1]]) for k, op in enumerate(ops)]
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    ends = [value_info(n, x) for n in ("v2", "v4", "v5")]
    model = make_model(helper.make_graph(nodes, "net", [value_info("v0", x)], ends))
    session_of(model)
    network = Network("net", model, ({"v0": x}, {"v0": -x}))
    small = shrunk(network, lambda n: "Tanh" in n.operators)
    assert small.operators == ("Tanh",)
    assert len(small.feeds) == 1
