"""Attention with a cache and rotary embeddings, as onnxruntime-genai's models have them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
import pytest
from cases import Case, Results
from onnx import helper
from test_microsoft import MS, Bench

import mlftool.backend
from mlftool.errors import MlfError


def grouped(
    name: str,
    time: int = 2,
    past: int = 3,
    *,
    batch: int = 1,
    packed: bool = False,
    lengths: int = 1,
    places: bool = False,
    bias: bool = False,
    room: int = 0,
    **attrs: Any,
) -> Case:
    """Two heads of keys for four of queries. `lengths`: how many lengths of a cache there are."""
    net, (heads, groups, head) = Bench(), (4, 2, 16)
    widths = [(heads + 2 * groups) * head] if packed else [heads * head, *[groups * head] * 2]
    given = [net.input(f"x{k}", np.float32, (batch, time, w)) for k, w in enumerate(widths)]
    given += ["", ""] if packed else []
    shape = batch, groups, room or past, head
    given += [net.input(n, np.float32, shape) if shape[2] else "" for n in ("keys", "values")]
    last = net.const([past + time - 1] * batch, np.int32)
    if lengths > 1:
        fewer = net.node("Mod", net.input("n", np.int32, (batch,)), net.const(lengths, np.int32))
        last = net.node("Sub", last, fewer)
    given += [last]
    given += [net.const(past + time, np.int32)]
    random = np.random.default_rng(4)
    rotary = [net.const(random.normal(size=(24, head // 2)), np.float32) for _ in "cs"]
    given += rotary if attrs.get("do_rotary") else ["", ""]
    at = np.arange(5, 5 + time)[None].repeat(batch, 0)
    given += [net.const(at, np.int64) if places else ""]
    given += [net.input("bias", np.float32, (1, heads, time, past + time))] if bias else []
    attrs |= {"num_heads": heads, "kv_num_heads": groups, "domain": MS}
    made = net.parts("GroupQueryAttention", 3, *given, **attrs)
    # What onnxruntime has beyond the last key is whatever memory held.
    return Case(name, net.model(*made[: 1 if room or lengths > 1 else 3]))


def turned(name: str, shape: tuple[int, ...], places: list[Any], half: int, **attrs: Any) -> Case:
    net, random = Bench(), np.random.default_rng(5)
    tables = [net.const(random.normal(size=(16, half)), np.float32) for _ in "cs"]
    x = net.input("x", np.float32, shape)
    return Case(name, net.model(net.ms("RotaryEmbedding", x, net.const(places), *tables, **attrs)))


def cases() -> Iterator[Case]:
    yield grouped("prompt", 4, 0, do_rotary=1)
    yield grouped("prompts", 3, 0, batch=2)
    yield grouped("next", 1, 5, do_rotary=1, rotary_interleaved=1)
    yield grouped("packed", packed=True, do_rotary=1)
    yield grouped("ragged", 1, 5, batch=2, lengths=4, do_rotary=1)
    yield grouped("roomy", 1, 5, room=9, lengths=3)
    yield grouped("places", places=True, do_rotary=1)
    yield grouped("window", 3, 6, local_window_size=4)
    yield grouped("prompt_window", 6, 0, local_window_size=2)
    yield grouped("bias", bias=True, softcap=2.0, scale=0.1)
    each = [[0, 1, 9], [4, 2, 3]]
    yield turned("turned", (2, 3, 16), each, 4)
    yield turned("turned_heads", (2, 2, 3, 8), each, 4, interleaved=1)
    yield turned("turned_from", (2, 3, 16), [6], 4)
    yield turned("turned_first", (1, 1, 16), [6], 4)
    yield turned("turned_part", (2, 3, 16), each, 2, rotary_embedding_dim=4, num_heads=2)


CASES = tuple(cases())


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(CASES, tmp_path_factory.mktemp("cached"), selected)


@pytest.mark.parametrize("case", CASES, ids=lambda c: c.name)
def test_matches_onnxruntime(case: Case, results: Results) -> None:
    results.check(case)


def with_input(place: int, name: str) -> onnx.ModelProto:
    model = grouped("prompt", 4, 0).model
    (node,) = (n for n in model.graph.node if n.domain == MS)
    node.input.extend([""] * (place + 1 - len(node.input)))
    node.input[place] = name
    model.graph.input.append(helper.make_tensor_value_info(name, 1 + 5 * (place == 6), [4][:0]))
    return model


@pytest.mark.parametrize(("place", "said"), [(6, "total_sequence_length"), (11, "sinks")])
def test_what_is_refused(place: int, said: str) -> None:
    with pytest.raises(MlfError, match=said):
        mlftool.backend.prepare(with_input(place, "late"))
