"""Declared holes: a number that differs between layers or trainings is no part of a form."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from builders import Net
from hypothesis import given
from hypothesis import strategies as st

from mlftool.codegen.tuned import digest_of
from mlftool.compile import ModuleSpec, compile_module
from mlftool.ir.graph import View
from mlftool.ir.holes import Hole, Number, called, filled, form, operand, pieces, with_operands
from mlftool.ops.base import Kernel
from mlftool.plan import select
from mlftool.targets import TARGETS, Target

WHOLE = st.integers(-(2**31) + 1, 2**31 - 1)
Digests = list[str]


@given(WHOLE, WHOLE.filter(bool))
def test_what_is_computed_from_a_number_is_one(a: int, b: int) -> None:
    x = Number(a)
    for got, want in [
        *((x + b, a + b), (b + x, b + a), (x - b, a - b), (b - x, b - a), (-x, -a)),
        *((x * b, a * b), (b * x, b * a), (x // b, a // b), (x % b, a % b)),
    ]:
        assert (type(got), got) == (Number, want)
        assert filled(f"at[{got}]") == f"at[{want}]"
        assert form(f"at[{got}]") == form(f"at[{x}]")
    assert "k%d" % x == f"k{a}"  # noqa: UP031 (what a template writes for a name)


def test_arrays_and_floats_answer_for_themselves() -> None:
    x = Number(3)
    np.testing.assert_array_equal(x * np.arange(3), [0, 3, 6])
    np.testing.assert_array_equal(5 - x + np.arange(2), [2, 3])
    assert type(x * 0.5) is float
    assert np.array([x]).dtype == np.int64


def test_text_is_taken_apart_where_it_was_put_together() -> None:
    text = f"a[{Number(-5)}] + {called('f')}(7)"
    assert pieces(text) == ["a[", Hole("i", "-5"), "] + ", Hole("s", "f"), "(7)"]
    assert filled(text) == "a[-5] + f(7)"
    assert filled(text, lambda hole: hole.kind) == "a[i] + s(7)"


def test_operands_are_counted_and_numbers_stay_open() -> None:
    text = f"max({operand(1)}, {operand(1)} + {Number(4)})"
    made, counts = with_operands(text, ["x", f"y[{Number(2)}]"])
    assert counts == (0, 2)
    assert filled(made) == "max(y[2], y[2] + 4)"
    assert [p for p in pieces(made) if isinstance(p, Hole)] == [Hole("i", n) for n in "224"]


def trained(seed: int) -> onnx.ModelProto:
    """One network with the weights, zero points and scales of one training: convolutions of three
    kinds, a residual sum, a product, products of computed matrices and a dense layer.

    Scales are powers of two, so that each has an exact multiplier: having none is another form.
    """
    rng, net = np.random.default_rng(seed), Net()

    def scale(about: int) -> np.float32:
        return np.float32(2.0 ** (about - int(rng.integers(2))))

    def quantised(y: str, about: int) -> str:
        s, zero = scale(about), np.int8(rng.integers(1, 90))
        return net.dq(net.q(y, s, zero), s, zero)

    def weights(*shape: int) -> str:
        values = rng.integers(-100, 100, size=shape).astype(np.int8)
        return net.dq(net.const(values), scale(-7), np.int8(0))

    x = quantised(net.input("x", np.float32, (1, 16, 8, 8)), -4)
    first = quantised(net.node("Conv", x, weights(16, 16, 3, 3), pads=[1] * 4), -2)
    y = net.node("Conv", first, weights(16, 1, 3, 3), pads=[1] * 4, group=16)
    y = quantised(net.node("Conv", quantised(y, -2), weights(16, 16, 1, 1)), -2)
    y = quantised(net.node("Add", y, first), -2)
    y = quantised(net.node("Mul", y, first), 2)
    y = net.node("Reshape", y, net.const([16, 64], np.int64))
    y = quantised(net.node("MatMul", y, net.node("Transpose", y, perm=[1, 0])), 3)
    return net.model(quantised(net.node("MatMul", y, weights(16, 10)), 2))


def digests(monkeypatch: pytest.MonkeyPatch, seed: int, target: str) -> Digests:
    """Of the kernels of each layer that has more than one to choose from."""
    usual, found = select.offers, Digests()

    def offers(v: View, target: Target, measured: bool = False) -> tuple[Kernel, ...]:
        every = usual(v, target, True)
        if every[0].macs and len(every) > 1:
            found.append(digest_of(every))
        return usual(v, target, measured)

    with monkeypatch.context() as patch:
        patch.setattr(select, "offers", offers)
        compile_module(ModuleSpec(trained(seed), "m", target))
    return found


@pytest.mark.sampled(6)
@pytest.mark.parametrize("target", TARGETS)
def test_training_changes_no_digest(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    found = [digests(monkeypatch, seed, target) for seed in (1, 2)]
    assert found[0] == found[1]
    assert len(set(found[0])) >= 3  # layers of different kinds
