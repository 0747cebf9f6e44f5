"""Tuning: what is chosen is counted to be better, and a record that says nothing about today's
kernels is refused."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net, random_feeds

from mlftool.cli import main
from mlftool.codegen.tuned import Tuned, read_record, record_text
from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.errors import MlfError
from mlftool.ir.graph import View
from mlftool.ops.base import Kernel
from mlftool.plan import select
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board
from mlftool.targets import Target
from mlftool.tune import tune
from mlftool.tune.search import sample_of

needs_board = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)


def network(channels: int = 16) -> onnx.ModelProto:
    """A dilated convolution and a dense layer."""
    rng = np.random.default_rng(3)
    net = Net()
    x, zero, scale = net.input("x", np.int8, (1, channels, 32)), np.int8(0), np.float32(0.02)

    def weights(*shape: int) -> str:
        values = net.const(rng.integers(-127, 128, size=shape).astype(np.int8))
        return net.dq(values, scale, zero)

    attrs = {"dilations": [2], "pads": [4, 0]}
    y = net.node("Conv", net.dq(x, scale, zero), weights(24, channels, 3), **attrs)
    x = net.q(net.node("Relu", y), np.float32(0.2), zero)
    flat = net.node("Flatten", net.dq(x, np.float32(0.2), zero))
    return net.model(net.q(net.node("MatMul", flat, weights(24 * 32, 10)), np.float32(9), zero))


@contextmanager
def misjudged() -> Iterator[None]:
    """Estimates that are all wrong: the dearest kernel is taken for the cheapest."""
    usual = select.offers

    def offers(v: View, target: Target, measured: bool = False) -> tuple[Kernel, ...]:
        made = usual(v, target, True)
        return (made[-1], *made[:-1]) if made[0].macs else made

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(select, "offers", offers)
        yield


@pytest.fixture(scope="module")
def tuned() -> Tuned:
    with misjudged():
        return tune(ModuleSpec(network(), "m", "cortex-m3"))


@pytest.fixture(scope="module")
def record(tuned: Tuned, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("record") / "m.tuning.json"
    path.write_text(record_text({"cortex-m3": tuned}))
    return path


@needs_board
def test_wrong_estimates_are_put_right(record: Path, tuned: Tuned, tmp_path: Path) -> None:
    """The whole program, counted without the marks that the search puts into it."""
    assert tuned.after < 0.9 * tuned.before
    for layer in tuned.layers:
        fewest = min(layer.instructions.values())
        assert layer.instructions[layer.kernel] == fewest, layer.layer
    feeds = random_feeds(network(), 1)
    results = []
    for tuning in (None, record):
        with misjudged():
            bundle = compile_modules([ModuleSpec(network(), "m", "cortex-m3", tuning=tuning)])
        interface = read_interface(bundle, "m")
        elf = link_firmware(bundle, interface, BOARDS["cortex-m3"], tmp_path)
        results.append(run_on_board(elf, BOARDS["cortex-m3"], interface, feeds, 1))
    wrong, best = results
    for got, want in zip(best.outputs, wrong.outputs, strict=True):
        assert [v.tobytes() for v in got.values()] == [v.tobytes() for v in want.values()]
    gain = wrong.figures["instructions"] - best.figures["instructions"]
    assert gain == pytest.approx(tuned.before - tuned.after, rel=0.02)


@needs_board
def test_right_estimates_stay(tuned: Tuned) -> None:
    """Nothing becomes worse by a record, whatever the estimates are worth."""
    again = tune(ModuleSpec(network(), "m", "cortex-m3"))
    assert again.after <= again.before
    assert again.before < tuned.before
    assert again.after == pytest.approx(tuned.after, rel=0.02)
    bundle = compile_modules([ModuleSpec(network(), "m", "cortex-m3")])
    interface = read_interface(bundle, "m")
    elf = link_firmware(bundle, interface, BOARDS["cortex-m3"], optimise="-O2")
    sample = sample_of(interface, None)
    ran = run_on_board(elf, BOARDS["cortex-m3"], interface, [sample]).figures
    assert again.before == ran["instructions"]  # what bench says, without marks


@needs_board
def test_the_search_gives_the_same_record_again(tuned: Tuned) -> None:
    with misjudged():
        assert tune(ModuleSpec(network(), "m", "cortex-m3")) == tuned


@needs_board
def test_a_record_is_read_as_it_was_written(record: Path, tuned: Tuned) -> None:
    assert read_record(record) == {"cortex-m3": tuned}
    assert record.read_text() == record_text(read_record(record))


@needs_board
def test_training_again_keeps_the_record(record: Path) -> None:
    """Weights are no part of what is compared; shapes are."""
    trained = onnx.ModelProto()
    trained.CopyFrom(network())
    weights = next(t for t in trained.graph.initializer if t.dims == [24, 16, 3])
    weights.raw_data = bytes(b ^ 3 for b in weights.raw_data)
    compile_module(ModuleSpec(trained, "m", "cortex-m3", tuning=record))
    with pytest.raises(MlfError, match=r"MLF0409.*is not a layer of the record(?s:.*)mlftool tune"):
        compile_module(ModuleSpec(network(17), "m", "cortex-m3", tuning=record))


def edited(path: Path, tuned: Tuned, **values: Any) -> Path:
    """The record with fields of its layers, or of the target, changed."""
    own = {k: v for k, v in values.items() if k in ("float_mode",)}
    rest = {k: v for k, v in values.items() if k not in own}
    layers = tuple(replace(layer, **rest) for layer in tuned.layers)
    path.write_text(record_text({"cortex-m3": replace(tuned, layers=layers, **own)}))
    return path


@needs_board
@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"digest": "0" * 16}, "has other kernels than those that were measured"),
        ({"kernel": "dsp.pairs"}, "no such kernel; got 'dsp.pairs'"),
        ({"float_mode": "fused"}, "was measured with float mode fused; got exact"),
    ],
)
def test_a_stale_record_is_refused(
    values: dict[str, str], said: str, tuned: Tuned, tmp_path: Path
) -> None:
    path = edited(tmp_path / "r.json", tuned, **values)
    with pytest.raises(MlfError, match=f"MLF0409.*{said}(?s:.*)measure again: mlftool tune"):
        compile_module(ModuleSpec(network(), "m", "cortex-m3", tuning=path))


@needs_board
def test_other_targets_are_compiled_as_without(record: Path) -> None:
    spec = ModuleSpec(network(), "m", "cortex-m4")
    assert compile_modules([replace(spec, tuning=record)]).files == compile_modules([spec]).files


@pytest.mark.parametrize("asked", [{"optimize": "size"}, {"patches": "auto"}])
def test_options_that_would_undo_it(asked: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(record_text({}))
    ((name, value),) = asked.items()
    with pytest.raises(MlfError, match=f"MLF0405.*tuning with {name} '{value}'; expected "):
        compile_module(ModuleSpec(network(), "m", "cortex-m3", tuning=path, **asked))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"version": 2, "targets": {}}', '{"version": 1, "targets": {"host": {}}}',
     '{"version": 1, "targets": []}', "[" * 100_000,
     '{"version": 1, "targets": {"cortex-m3": {"compiler": 1, "flags": "", "float_mode": "",'
     ' "before": 1, "after": 1, "layers": []}}}'],
)  # fmt: skip
def test_what_is_no_record(text: str, tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    path.write_text(text)
    with pytest.raises(MlfError, match=r"MLF0408.*is not a tuning record"):
        compile_module(ModuleSpec(network(), "m", "cortex-m3", tuning=path))
    with pytest.raises(MlfError, match=r"MLF0408.*cannot be read"):
        read_record(tmp_path / "none.json")


def test_what_is_wrong_with_a_record_has_its_place(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    entry = {"compiler": 1, "flags": "", "float_mode": "", "before": -1, "after": 1}
    layers = [{"layer": "", "digest": "", "kernel": [], "instructions": {"a": 1e9}}]
    path.write_text(json.dumps({"version": 1, "targets": {"host": {**entry, "layers": layers}}}))
    with pytest.raises(MlfError) as error:
        read_record(path)
    places = ("compiler", "before", "layers[0].kernel", "layers[0].instructions.a")
    assert len(error.value.problems) == len(places)
    for problem, place in zip(error.value.problems, places, strict=True):
        assert f"is not a tuning record: targets.host.{place}: got " in str(problem)


@needs_board
def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model, path = tmp_path / "m.onnx", tmp_path / "m.tuning.json"
    onnx.save(network(), model)
    command = ["tune", str(model), "--target", "cortex-m3", "-o", str(path)]
    assert main(command) == 0
    assert "kernels compared for 2 kinds of layers" in capsys.readouterr().out
    assert main([*command, "--check"]) == 0
    assert main(["tune", str(model), "--target", "cortex-m4", "-o", str(path)]) == 0
    assert list(read_record(path)) == ["cortex-m3", "cortex-m4"]

    data = json.loads(path.read_text())
    for layer in data["targets"]["cortex-m3"]["layers"]:
        layer["kernel"] = max(layer["instructions"], key=layer["instructions"].get)
    other = tmp_path / "other.json"
    other.write_text(json.dumps(data))
    out = tmp_path / "m.tar"
    compile_it = ["compile", str(model), "--target", "cortex-m3", "-o", str(out)]
    assert main([*compile_it, "--tuning", str(path)]) == 0
    best = out.read_bytes()
    assert main([*compile_it, "--tuning", str(other)]) == 0
    assert out.read_bytes() != best

    data["targets"]["cortex-m3"]["compiler"] = "gcc 5"
    path.write_text(json.dumps(data))
    capsys.readouterr()
    assert main([*command, "--check"]) == 1
    assert "is not 'gcc 5'" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["host", "cortex-m99", "aarch64"])
def test_where_nothing_is_counted(target: str) -> None:
    with pytest.raises(MlfError, match=r"MLF0610.*instructions are counted on simulated boards"):
        tune(ModuleSpec(network(), "m", target))
