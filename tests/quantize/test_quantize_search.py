"""Mixed precision: budgets of flash and accuracy, each kept by what costs least."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import onnx
import pytest
from float_nets import mobile, residual, samples

from mlftool.compile import compile_modules
from mlftool.errors import MlfError
from mlftool.mlf.interface import Interface
from mlftool.module import ModuleSpec
from mlftool.quantize.device import Device, Prices
from mlftool.quantize.improve import plainest, ranges_of
from mlftool.quantize.metrics import Goal
from mlftool.quantize.network import network
from mlftool.quantize.plan import Plan, Precision
from mlftool.quantize.prepare import prepared
from mlftool.quantize.quantizer import Quantized, Request, quantized
from mlftool.quantize.samples import Samples, samples_of
from mlftool.quantize.search import LITTLE, search
from mlftool.quantize.studio import Studio
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.execute import Place, execute
from mlftool.runtime.host import load_host
from mlftool.runtime.interface import read_interface


def made(model: onnx.ModelProto, arrays: Mapping[str, np.ndarray], **asked: object) -> Quantized:
    return quantized(model, arrays, Request("net.onnx", "data.npz", **asked))  # type: ignore[arg-type]


def precisions(q: Quantized) -> list[Precision]:
    return [layer.precision for layer in q.layers]


def test_a_flash_budget_takes_weights_to_four_bits_where_that_costs_least() -> None:
    arrays = {"x": samples()}
    asked = {"metric": "sqnr", "optimize": "size"}
    whole = made(residual(), arrays, **asked)
    assert set(precisions(whole)) == {Precision.INT8}
    limit = whole.cost.flash - 200
    small = made(residual(), arrays, **asked, flash=limit)
    assert small.cost.flash <= limit
    assert 1 <= precisions(small).count(Precision.INT4) < len(small.layers)
    everything = next(p for p in small.found.curve if p.what == "all int4")
    assert everything.sqnr < small.found.chosen.sqnr < whole.found.chosen.sqnr
    for layer in small.layers:
        assert layer.precision is Precision.INT8 or layer.why.startswith("saves ")


def test_accuracy_takes_the_layers_that_gain_most_to_more_bits() -> None:
    arrays = {"x": samples()}
    whole = made(residual(), arrays, metric="sqnr")
    better = made(residual(), arrays, metric="sqnr", enough=whole.after + 1)
    assert better.after >= whole.after + 1
    wide = [p for p in precisions(better) if p in (Precision.INT16, Precision.FLOAT)]
    assert 1 <= len(wide) < len(better.layers)
    every = next(p for p in better.found.curve if p.what == "all float")
    assert whole.cost.instructions < better.cost.instructions < every.cost.instructions


@pytest.mark.parametrize(
    ("helps", "wish", "wide"),
    [
        (Precision.FLOAT, 1.0, 1),  # one layer is enough
        (Precision.FLOAT, None, 0),
        (Precision.INT4, 1.0, 0),  # no plan that is tried
        (Precision.INT16, 1.0, 0),  # it costs more than a little
    ],
)
def test_a_wish_costs_little(helps: Precision, wish: float | None, wide: int) -> None:
    """`helps` is what makes a plan as good as the float model; the goal is met without."""
    plain = prepared(residual(), "net")
    net = network(plain, "net")
    studio = Studio(net, samples_of({"x": samples()}, plain, "data"))
    plan = plainest(net, ranges_of(studio))
    prices = Prices(Device(net, "cortex-m4", "speed"), plan)

    def judge(plan: Plan) -> float:
        return 1.0 if helps in plan.precisions.values() else 0.998

    wished = None if wish is None else Goal("top1", wish)
    found = search(studio, plan, prices, judge, Goal("top1", 0.997), None, wished)
    assert found.fits
    kinds = list(found.plan.precisions.values())
    assert kinds.count(Precision.INT8) == len(kinds) - wide
    assert len(found.why) == wide
    cheapest = next(p for p in found.curve if p.what == "all int8").cost.instructions
    assert found.chosen.cost.instructions <= (1 + LITTLE) * cheapest


def test_a_wish_is_not_met_by_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    """A plan of fewer bits is further from the float model, and may be right more often on a few
    samples: here with four bits in any layer, and with floats in the last."""
    monkeypatch.setattr("mlftool.quantize.search.SLACK", 60.0)  # no plan is too far to be tried
    plain = prepared(residual(), "net")
    net = network(plain, "net")
    studio = Studio(net, samples_of({"x": samples()}, plain, "data"))
    plan = plainest(net, ranges_of(studio))
    prices = Prices(Device(net, "cortex-m4", "speed"), plan)
    last = net.layers[-1].name

    def judge(plan: Plan) -> float:
        kinds = set(plan.precisions.values())
        lucky = Precision.INT4 in kinds or plan.precisions[last] is Precision.FLOAT
        return 1.0 if lucky or kinds == {Precision.FLOAT} else 0.998

    found = search(studio, plan, prices, judge, Goal("top1", 0.997), None, Goal("top1", 1.0))
    base = next(p for p in found.curve if p.what == "all int8")
    assert found.chosen.accuracy == 1
    assert found.chosen.sqnr >= base.sqnr
    assert Precision.INT4 not in found.plan.precisions.values()


def test_all_that_can_be_had_is_said() -> None:
    with pytest.raises(
        MlfError, match=r"cannot be reached: sqnr at least 400.00 dB; .* can; "
    ) as e:
        made(mobile(), {"x": samples()}, metric="sqnr", enough=400.0)
    assert e.value.exit_code == 2
    assert len(e.value.problems) == 1
    with pytest.raises(MlfError, match=r"in 100 bytes of flash; the smallest is .* bytes"):
        made(mobile(), {"x": samples()}, flash=100)


def test_a_board_computes_what_the_computer_does() -> None:
    given = samples(count=3)
    q = made(mobile(spread=0.5), {"x": given})
    module = load_host(compile_modules([ModuleSpec(q.model, "net")]))
    bundle = compile_modules([ModuleSpec(q.model, "net", "cortex-m4")])
    interface: Interface = read_interface(bundle, "net")
    place = Place("cortex-m4", BOARDS["cortex-m4"])
    ran, _ = execute(bundle, interface, place, [{"x": x} for x in given])
    name = q.model.graph.output[0].name
    for x, made_there in zip(given, ran.outputs, strict=True):
        assert np.array_equal(made_there[name], module({"x": x})[name])


@pytest.mark.parametrize(
    ("count", "most", "wanted"),
    [(3, 64, (3, 3)), (4, 64, (3, 1)), (24, 64, (18, 6)), (99, 64, (64, 35))],
)
def test_samples_that_judge_do_not_calibrate(
    count: int, most: int, wanted: tuple[int, int]
) -> None:
    """Of sorted labels both have all."""
    x = np.arange(count, dtype=np.float32).reshape(-1, 1, 1)
    labels = np.sort(np.arange(count) % 2)
    seen, others = Samples({"x": x}, {"y": x}, labels).parted(most)
    assert (len(seen), len(others)) == wanted
    both = {*seen.inputs["x"].flat} & {*others.inputs["x"].flat}
    assert bool(both) == (count < 4)
    assert all(np.array_equal(s.inputs["x"], s.expected["y"]) for s in (seen, others))
    assert all(
        len(set(s.labels)) == 2 for s in (seen, others) if s.labels is not None and len(s) > 1
    )


@pytest.mark.parametrize("make", [mobile, residual, lambda: mobile(spread=1.0)])
def test_the_error_on_other_samples_is_bounded(make: Callable[[], onnx.ModelProto]) -> None:
    """Bars of what users hit: samples of another seed, judged in compiled C."""
    test = {"x": samples(seed=99, count=12)}, "test.npz"
    request = Request("net.onnx", "data.npz", metric="sqnr")
    q = quantized(make(), {"x": samples()}, request, test)
    assert set(precisions(q)) == {Precision.INT8}
    assert q.judged.unseen
    assert (q.judged.count, q.judged.calibration_count) == (12, 24)
    assert q.after > 36
    assert q.judged.error < 0.03
    assert q.judged.sqnr > q.judged.calibration_sqnr - 6
