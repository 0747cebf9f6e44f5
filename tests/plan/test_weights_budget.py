"""Constants in a prefix code: the same bits from less flash, and the fewest that a budget needs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, build_jobs
from builders import Net, random_feeds
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mlftool.cli import main
from mlftool.compile import Module, ModuleSpec, compile_module, compile_modules
from mlftool.describe import bundle
from mlftool.errors import MlfError
from mlftool.mlf import Bundle
from mlftool.plan.budget import cost, ends_bytes
from mlftool.plan.flash import constants_bytes
from mlftool.plan.prefix_code import LONGEST, MOST_VALUES, Coded, code_lengths, coded
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.host import build_runner
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board, run_on_host

TARGETS = ("host", "cortex-m0", "cortex-m4", "cortex-m55", "rv32imc", "powerpc")
BIG = {"cortex-m0": "cortex-m3"}


def clustered(kind: type, values: int) -> onnx.ModelProto:
    """Convolutions and dense layers whose weights have few values, most of them near zero."""
    rng = np.random.default_rng(values)
    net = Net()

    def weights(shape: tuple[int, ...]) -> np.ndarray:
        few = rng.permutation(np.arange(-127, 128))[:values].astype(np.int8)
        odds = 1 / np.arange(1, values + 1) ** 2
        return rng.choice(few, shape, p=odds / odds.sum())

    def layer(op: str, x: str, shape: tuple[int, ...], **attrs: object) -> str:
        w = net.const(weights(shape))
        if kind is np.float32:
            floats = net.const(weights(shape) / np.float32(300), np.float32)
            return net.node("Relu", net.node(op, x, floats, **attrs))
        args = net.dq(x, 0.05, np.int8(3)), net.dq(w, 0.004, np.int8(0))
        return net.q(net.node(op, *args, **attrs), 0.05, np.int8(3))

    x = net.input("x", kind, (1, 16, 8, 8))
    x = layer("Conv", x, (32, 16, 3, 3), pads=[1] * 4)
    x = layer("Conv", x, (48, 32, 1, 1))
    x = layer("Conv", x, (48, 1, 5, 5), group=48, pads=[2] * 4)
    x = net.node("Reshape", x, net.const(np.array([1, -1])))
    x = layer("MatMul", x, (48 * 64, 10))
    return net.model(layer("MatMul", x, (10, 150)))


MODELS = {"int8": clustered(np.int8, 13), "float": clustered(np.float32, 40)}
FEEDS = {name: random_feeds(model, 2) for name, model in MODELS.items()}


def least(name: str, target: str, module_name: str = "m") -> Module:
    """The module that needs least flash."""
    with pytest.raises(MlfError, match="bytes of constants are the least found") as caught:
        compile_module(ModuleSpec(MODELS[name], target=target, weights_budget="1"))
    assert caught.value.problems[0].code == "MLF0119"
    budget = caught.value.problems[0].message.split()[0]
    spec = ModuleSpec(MODELS[name], module_name, target, weights_budget=budget)
    module = compile_module(spec)
    assert constants_bytes(module.program) == int(budget)
    return module


def results(made: Bundle, target: str, name: str) -> dict[str, bytes]:
    """What a program gives for the model's feeds, on a board or here."""
    interface = read_interface(made, "m")
    if target == "host":
        ran = run_on_host(build_runner(made, interface, optimise="-O1"), interface, FEEDS[name])
    else:
        # Cortex-M0's own board is too small.
        board = replace(BOARDS[BIG.get(target, target)], target=target)
        elf = link_firmware(made, interface, board, optimise="-O1")
        ran = run_on_board(elf, board, interface, FEEDS[name], time_limit=60)
    return {f"{k} {key}": v.tobytes() for k, o in enumerate(ran.outputs) for key, v in o.items()}


@pytest.fixture(scope="module", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def usual(name: str) -> dict[str, bytes]:
    """The results of the model with constants as they are."""
    return results(compile_modules([ModuleSpec(MODELS[name], "m")]), "host", name)


@pytest.mark.parametrize("target", TARGETS)
def test_the_bits_in_less_flash(name: str, target: str, usual: dict[str, bytes]) -> None:
    plain = compile_module(ModuleSpec(MODELS[name], "m", target))
    module = least(name, target)
    assert constants_bytes(module.program) < 0.7 * constants_bytes(plain.program)
    assert results(bundle([module]), target, name) == usual


@pytest.mark.parametrize(
    "options",
    [
        *({"executor": "graph"}, {"executor": "graph", "link_params": True}, {"executor": "vm"}),
        *({"optimize": "size"}, {"workspace_io": True}, {"interface_api": "packed"}),
        *({"patches": "3"}, {"weights": "binary"}, {"pools": ("fast=4KiB", "slow=256KiB")}),
    ],
    ids=str,
)
def test_every_form_of_a_module(
    options: dict[str, Any], usual: dict[str, bytes], name: str
) -> None:
    whole = ModuleSpec(MODELS[name], "m", "host", **options)
    most = int(0.8 * constants_bytes(compile_module(whole).program))
    module = compile_module(replace(whole, weights_budget=str(most)))
    assert constants_bytes(module.program) <= most
    assert results(bundle([module]), "host", name) == usual


def test_under_sanitizers(tmp_path: Path) -> None:
    jobs = [
        Job(MODELS[n], FEEDS[n], "cortex-m4", n, module=least(n, "cortex-m4", n)) for n in MODELS
    ]
    build_jobs(jobs, tmp_path)
    assert [job.failure for job in jobs] == ["", ""]


def test_less_flash_costs_more(name: str) -> None:
    """Each budget is kept, a larger one never costs more, and RAM has a limit of its own."""
    plain = compile_module(ModuleSpec(MODELS[name], target="cortex-m4"))
    small = least(name, "cortex-m4")
    most, fewest = constants_bytes(plain.program), constants_bytes(small.program)
    costs = []
    for budget in range(most, fewest - 1, (fewest - most) // 5):
        spec = ModuleSpec(MODELS[name], target="cortex-m4", weights_budget=str(budget))
        module = compile_module(spec)
        assert constants_bytes(module.program) <= budget
        costs.append(cost(module.program))
    assert costs[0] == cost(plain.program)
    assert costs == sorted(costs)
    ram = plain.program.memory.size_bytes + ends_bytes(plain.program)
    spec = ModuleSpec(MODELS[name], target="cortex-m4", weights_budget=str(most - 256))
    both = compile_module(replace(spec, ram_budget=str(ram + 20000)))
    assert both.program.memory.size_bytes + ends_bytes(both.program) <= ram + 20000
    with pytest.raises(MlfError, match="bytes of workspace of"):
        compile_module(replace(spec, ram_budget=str(ram), weights_budget=str(fewest)))


def test_every_way_in_gives_the_same_archive(tmp_path: Path) -> None:
    """The command, a manifest, and what the Bazel rules hand to the compiler."""
    model, out = tmp_path / "m.onnx", tmp_path / "m.tar"
    onnx.save(MODELS["int8"], model)
    (tmp_path / "models.yaml").write_text(
        "version: 1\nmodels:\n  m: {model: m.onnx, targets: rv32imc, weights_budget: 24KiB}\n"
    )
    command = ["compile", str(model), "--module-name", "m", "--target", "rv32imc"]
    assert main([*command, "--weights-budget", "24KiB", "-o", str(out)]) == 0
    assert main(["build", str(tmp_path / "models.yaml"), "-o", str(tmp_path / "out")]) == 0
    assert (tmp_path / "out" / "m" / "rv32imc-aot.tar").read_bytes() == out.read_bytes()


def decoded(code: Coded) -> np.ndarray:
    """As the header does it; every word is read."""
    shortest, longest, *words = map(int, code.words)
    lengths = longest - shortest + 1
    last, index, stream = words[:lengths], words[lengths : 2 * lengths], words[2 * lengths :]
    window, held, found = 0, 0, []
    for _ in range(code.count):
        if held < 16:
            window |= stream.pop(0) << (16 - held)
            held += 16
        word = window >> 16
        longer = next(k for k, most in enumerate(last) if word <= most)
        length = shortest + longer
        window, held = window << length & 0xFFFFFFFF, held - length
        found.append((index[longer] + (word >> (16 - length))) % (1 << 16))
    assert stream == []
    return code.values[found]


@given(
    arrays.arrays(
        st.sampled_from([np.int8, np.uint8, np.int16, np.int32, np.float32, np.float64]),
        st.integers(1, 400),
        elements=st.integers(0, 90),
    )
)
def test_what_is_coded_is_decoded(array: np.ndarray) -> None:
    code = coded(array)
    assert code is not None
    assert decoded(code).tobytes() == array.tobytes()
    assert code.words[1] <= LONGEST


@given(st.lists(st.integers(1, 1 << 40), min_size=2, max_size=64))
def test_codes_are_complete_and_short(counts: list[int]) -> None:
    """No bits are wasted, and a value takes at most one bit more than its information."""
    lengths = code_lengths(counts)
    assert sum(2.0**-n for n in lengths) == 1
    if lengths.max() < LONGEST:
        odds = np.array(counts) / sum(counts)
        assert (odds * lengths).sum() <= -(odds * np.log2(odds)).sum() + 1


def test_what_has_no_code() -> None:
    assert coded(np.zeros(0, np.int8)) is None
    assert coded(np.arange(MOST_VALUES + 1, dtype=np.int32)) is None
    nans = np.array([0x7FC00000, 0x7FC00001] * 3, np.uint32).view(np.float32)
    code = coded(nans)
    assert code is not None
    assert decoded(code).tobytes() == nans.tobytes()
