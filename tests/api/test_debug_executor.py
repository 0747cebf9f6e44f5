"""The debug executor: the same bits as the others, and every tensor on the way."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net, random_feeds
from families import FAMILIES
from oracle import reference
from shared import NETWORKS, Network

from mlftool import create_executor, from_onnx
from mlftool.api import DebugModule
from mlftool.cli import main
from mlftool.errors import MlfError
from mlftool.runtime.executor import Runnable

EXECUTORS = ("debug", "graph", "aot")


def bits(module: Runnable, feed: dict[str, np.ndarray]) -> list[bytes]:
    made = module.run(feed)
    return [made[t.name].tobytes() for t in module.outputs]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("family", FAMILIES)
def test_small_models_give_the_same_bits(family: str) -> None:
    model = FAMILIES[family][1]()
    mod, _ = from_onnx(model)
    modules = {kind: create_executor(kind, mod).module for kind in EXECUTORS}
    for feed in random_feeds(model, seed=5):
        results = {kind: bits(module, feed) for kind, module in modules.items()}
        assert results["debug"] == results["graph"] == results["aot"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_networks_give_the_same_bits(network: Network) -> None:
    mod, _ = from_onnx(network.path)
    feeds, _ = network.samples()
    debug, aot = (create_executor(kind, mod).module for kind in ("debug", "aot"))
    assert bits(debug, feeds[0]) == bits(aot, feeds[0])
    assert isinstance(debug, DebugModule)
    assert {o for n in debug.program.graph.nodes for o in n.outputs} <= debug.tensors.keys()


def chain() -> onnx.ModelProto:
    net = Net()
    x = net.input("x", np.float32, (2, 3))
    y = net.node("Exp", net.node("Add", x, net.const([1, 2, 3], np.float32)))
    return net.model(net.node("Reshape", y, net.const([3, 2], np.int64)), y)


def test_every_tensor_can_be_seen_and_dumped(tmp_path: Path) -> None:
    x = np.float32([[0, 1, 2], [-1, -2, 0.5]])
    module = DebugModule(from_onnx(chain())[0])
    steps = list(module.walk({"x": x}))
    assert [s.op for s in steps if s.kernel != "view"][:2] == ["Add", "Exp"]
    whole = onnx.ModelProto()
    whole.CopyFrom(chain())
    whole.graph.output.append(onnx.helper.make_empty_tensor_value_info("add_0"))
    (wanted,) = reference(whole, [{"x": x}])
    for name, value in wanted.items():
        np.testing.assert_allclose(module.tensors[name], value, rtol=1e-6)
    with np.load(module.dump(tmp_path / "new", "first")) as dumped:
        assert {"x", "add_0", "exp_1", "reshape_2"} <= set(dumped.files)
        assert dumped["add_0"].tobytes() == module.tensors["add_0"].tobytes()
    nodes = json.loads((tmp_path / "new" / "first.json").read_text())
    assert [n["op"] for n in nodes][:2] == ["Add", "Exp"]


def test_results_of_an_earlier_run_stay() -> None:
    module = DebugModule(from_onnx(chain())[0])
    first = module.run({"x": np.zeros((2, 3), np.float32)})
    before = {name: value.copy() for name, value in first.items()}
    module.run({"x": np.ones((2, 3), np.float32)})
    assert all(np.array_equal(first[name], before[name]) for name in first)


def test_wrong_inputs_are_named() -> None:
    run = create_executor("debug", from_onnx(chain())[0]).evaluate()
    for wrong in ((np.zeros((3, 2), np.float32),), (np.zeros((2, 3)),), (), (1, 2)):
        with pytest.raises(MlfError):
            run(*wrong)
    with pytest.raises(MlfError, match="did you mean 'x'"):
        run(xx=np.zeros((2, 3), np.float32))
    results = run(x=np.zeros((2, 3), np.float32))
    assert [r.numpy().shape for r in results] == [(3, 2), (2, 3)]


def test_the_command_line_dumps_every_sample(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    onnx.save(chain(), "m.onnx")
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3) / 4
    np.savez("v.npz", x=x)
    for executor in EXECUTORS:
        command = f"run m.onnx --inputs v.npz -o {executor}.npz --executor {executor}"
        assert main([*command.split(), *(["--dump", "d"] if executor == "debug" else [])]) == 0
    results = [np.load(f"{executor}.npz") for executor in EXECUTORS]
    assert all(r["exp_1"].tobytes() == results[0]["exp_1"].tobytes() for r in results)
    assert sorted(p.name for p in Path("d").iterdir()) == [
        *("sample0.json", "sample0.npz", "sample1.json", "sample1.npz")
    ]
    capsys.readouterr()
    for wrong in ("--dump d", "--executor debug --on cortex-m4"):
        assert main(["run", "m.onnx", "--inputs", "v.npz", *wrong.split()]) == 2
        assert "error[MLF0405]" in capsys.readouterr().err
