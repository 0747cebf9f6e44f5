"""Constants in fewer bytes: the same bits from less flash, and the fewest that a budget needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from batch import Job, build_jobs
from builders import Net, random_feeds
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from mlftool import targets
from mlftool.cli import main
from mlftool.compile import Module, ModuleSpec, compile_module, compile_modules
from mlftool.describe import bundle
from mlftool.errors import MlfError
from mlftool.mlf import Bundle
from mlftool.ops.base import Operand
from mlftool.ops.halves import halves
from mlftool.ops.scales import scaled
from mlftool.plan import flash
from mlftool.plan.budget import cost
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


def integers_and_scales() -> onnx.ModelProto:
    """Layers of floats whose weights are integers in the model: for each output channel or block of
    it a scale, and no two layers alike."""
    rng = np.random.default_rng(0)
    net = Net()

    def weights(shape: tuple[int, ...], axis: int) -> str:
        numbers = net.const(rng.integers(-127, 128, shape).astype(np.int8))
        count = shape[axis]
        zeros = np.zeros(count, np.int8)
        return net.dq(numbers, rng.uniform(0.001, 0.01, count), zeros, axis)

    x = net.input("x", np.float32, (1, 12, 6, 6))
    x = net.node("Conv", x, weights((20, 12, 3, 3), 0), pads=[1] * 4)
    x = net.node("Conv", x, weights((20, 1, 5, 5), 0), group=20, pads=[2] * 4)
    x = net.node("Reshape", x, net.const(np.array([36, 1, 20])))
    recurrent = [net.const(rng.integers(-99, 100, (1, 96, n)).astype(np.int8)) for n in (20, 24)]
    recurrent = [net.dq(w, 0.003, np.int8(0)) for w in recurrent]
    _, x, _ = net.parts("LSTM", 3, x, *recurrent, hidden_size=24)
    x = net.node(
        "MatMul", net.node("Reshape", x, net.const(np.array([1, 24]))), weights((24, 64), 1)
    )
    blocks = net.const(rng.integers(0, 256, (40, 2, 16)).astype(np.uint8))
    scales = net.const(rng.uniform(0.001, 0.01, 80), np.float32)
    attrs = {"K": 64, "N": 40, "bits": 4, "block_size": 32}
    x = net.node("MatMulNBits", x, blocks, scales, domain="com.microsoft", **attrs)
    return net.model(x)


def cast_from_halves() -> onnx.ModelProto:
    """Layers of floats whose weights are float16 in the model, some of them subnormal, and the last
    one's bfloat16."""
    rng = np.random.default_rng(3)
    net = Net()

    def weights(shape: tuple[int, ...], kind: type = np.float16) -> str:
        values = rng.normal(size=shape) * rng.choice([0.2, 1e-6], shape, p=[0.99, 0.01])
        values[rng.random(shape) < 0.05] = -0.0
        return net.node("Cast", net.const(values.astype(kind)), to=onnx.TensorProto.FLOAT)

    x = net.input("x", np.float32, (1, 12, 6, 6))
    x = net.node("Conv", x, weights((20, 12, 3, 3)), pads=[1] * 4)
    x = net.node("Conv", x, weights((20, 1, 5, 5)), group=20, pads=[2] * 4)
    x = net.node("Reshape", x, net.const(np.array([36, 1, 20])))
    recurrent = [weights((1, 96, n)) for n in (20, 24)]
    _, x, _ = net.parts("LSTM", 3, x, *recurrent, hidden_size=24)
    x = net.node("Reshape", x, net.const(np.array([1, 24])))
    x = net.node("MatMul", x, weights((24, 66)))
    return net.model(net.node("MatMul", x, weights((66, 18), ml_dtypes.bfloat16)))


MODELS = {
    "int8": clustered(np.int8, 13),
    "float": clustered(np.float32, 40),
    "scaled": integers_and_scales(),
    "halves": cast_from_halves(),
}
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


def results(made: Bundle, target: str, feeds: Sequence[dict[str, np.ndarray]]) -> dict[str, bytes]:
    """What a program gives for inputs, on a board or here."""
    interface = read_interface(made, "m")
    if target == "host":
        ran = run_on_host(build_runner(made, interface, optimise="-O1"), interface, feeds)
    else:
        # Cortex-M0's own board is too small.
        board = replace(BOARDS[BIG.get(target, target)], target=target)
        elf = link_firmware(made, interface, board, optimise="-O1")
        ran = run_on_board(elf, board, interface, feeds, time_limit=60)
    return {f"{k} {key}": v.tobytes() for k, o in enumerate(ran.outputs) for key, v in o.items()}


def instructions(module: Module, target: str, feeds: Sequence[dict[str, np.ndarray]]) -> int:
    """Of a run on the simulated board."""
    made = bundle([module])
    interface = read_interface(made, "m")
    board = replace(BOARDS[BIG.get(target, target)], target=target)
    elf = link_firmware(made, interface, board, optimise="-O2")
    ran = run_on_board(elf, board, interface, feeds[:1], time_limit=60)
    return int(ran.figures["instructions"])


@pytest.fixture(scope="module", params=MODELS)
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def usual(name: str) -> dict[str, bytes]:
    """The results of the model with constants as they are."""
    return results(compile_modules([ModuleSpec(MODELS[name], "m")]), "host", FEEDS[name])


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", TARGETS)
def test_the_bits_in_less_flash(name: str, target: str, usual: dict[str, bytes]) -> None:
    plain = compile_module(ModuleSpec(MODELS[name], "m", target))
    module = least(name, target)
    assert constants_bytes(module.program) < 0.7 * constants_bytes(plain.program)
    assert results(bundle([module]), target, FEEDS[name]) == usual


@pytest.mark.sampled(8)
@pytest.mark.parametrize("target", TARGETS)
def test_size_reads_halves_where_they_stand(target: str) -> None:
    """Convolutions and dense layers convert each weight that they load; a host has enough flash."""
    module = compile_module(ModuleSpec(MODELS["halves"], "m", target, optimize="size"))
    reads = [call.kernel.params.get("stored", "") for call in module.program.calls]
    assert (reads.count("finite_f16"), reads.count("bf16")) == (
        (0, 0) if target == "host" else (2, 1)
    )
    plain = compile_module(ModuleSpec(MODELS["halves"], "m"))
    expected = results(bundle([plain]), "host", FEEDS["halves"])
    assert results(bundle([module]), target, FEEDS["halves"]) == expected


@pytest.mark.parametrize("target", ["host", "cortex-m3", "cortex-m4", "cortex-m55", "rv32imc"])
def test_every_half_is_the_float_that_it_was(target: str) -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    every = every[np.isfinite(every)].astype(np.float32)
    net = Net()
    x = net.input("x", np.float32, every.shape)
    model = net.model(net.node("Mul", x, net.const(every)))
    module = compile_module(ModuleSpec(model, "m", target, weights_budget=str(every.nbytes // 2)))
    (packed,) = module.program.calls[0].kernel.packed.values()
    assert packed.form == "finite_f16"
    got = results(bundle([module]), target, [{"x": np.ones_like(every)}])
    assert [*got.values()] == [every.tobytes()]


def test_what_is_no_half() -> None:
    for value in (0.1, 1e-8, 65540.0, 1e38, np.inf, np.nan, 1 + 2.0**-11):
        assert halves(np.array([1, value], np.float32)) is None, value
    assert halves(np.ones(2)) is None
    wide = halves(np.array([1.5, -0.0, 2.0**126], np.float32))
    assert wide is not None
    assert wide.type == "bf16"


@pytest.mark.parametrize("target", ["host", "cortex-m3", "cortex-m4", "rv32imc"])
def test_floats_of_any_values_are_unpacked_byte_by_byte(target: str) -> None:
    """Bytes of floats have a code where floats have none; the layer still reads floats."""
    rng = np.random.default_rng(1)
    net = Net()
    x = net.input("x", np.float32, (1, 12, 5, 5))
    for shape in ((24, 12, 3, 3), (24, 24, 1, 1)):
        x = net.node("Conv", x, net.const(rng.normal(size=shape) / 16, np.float32))
    x = net.node("Reshape", x, net.const(np.array([1, -1])))
    x = net.node("MatMul", x, net.const(rng.normal(size=(216, 16)), np.float32))
    model = net.model(x)
    feeds = random_feeds(model, 1)

    def outputs(module: Module, target: str) -> bytes:
        return b"".join(results(bundle([module]), target, feeds).values())

    plain = compile_module(ModuleSpec(model, "m", target))
    budget = str(int(0.95 * constants_bytes(plain.program)))
    module = compile_module(ModuleSpec(model, "m", target, weights_budget=budget))
    forms = {how.form for call in module.program.calls for how in call.kernel.packed.values()}
    assert forms == {"octets"}
    assert outputs(module, target) == outputs(compile_module(ModuleSpec(model, "m")), "host")


@pytest.mark.sampled(8)
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
    assert results(bundle([module]), "host", FEEDS[name]) == usual


def test_under_sanitizers(tmp_path: Path) -> None:
    jobs = [
        Job(MODELS[n], FEEDS[n], "cortex-m4", n, module=least(n, "cortex-m4", n)) for n in MODELS
    ]
    build_jobs(jobs, tmp_path)
    assert [job.failure for job in jobs] == [""] * len(MODELS)


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
    ram = plain.ram_bytes
    spec = ModuleSpec(MODELS[name], target="cortex-m4", weights_budget=str(most - 256))
    both = compile_module(replace(spec, ram_budget=str(ram + 20000)))
    assert both.ram_bytes <= ram + 20000
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


@pytest.mark.parametrize("order", [np.transpose, lambda a: np.broadcast_to(a[:1], a.shape)])
def test_arrays_in_any_order_of_memory_have_forms(order: Callable[[Any], Any]) -> None:
    values = order(np.arange(1200).reshape(40, 30).astype(np.float32) % 5)
    operand = Operand("w", "float", "const", array=values)
    forms = flash._Stored(operand, (0,), True, targets.TARGETS["cortex-m4"]).forms
    assert forms
    assert all(form.bytes < values.nbytes for form in forms)


def test_what_has_no_code() -> None:
    assert coded(np.zeros(0, np.int8)) is None
    assert coded(np.arange(MOST_VALUES + 1, dtype=np.int32)) is None
    nans = np.array([0x7FC00000, 0x7FC00001] * 3, np.uint32).view(np.float32)
    code = coded(nans)
    assert code is not None
    assert decoded(code).tobytes() == nans.tobytes()


@given(
    st.sampled_from([(6, 9, 1), (1, 40, 3), (4, 8, 8), (2, 3, 16), (1, 64, 1), (3, 32, 2)]),
    st.integers(0, 1 << 32),
    st.integers(1, 128),
)
def test_integers_and_scales_are_found(
    shape: tuple[int, int, int], seed: int, largest: int
) -> None:
    """The products are the array's elements, whatever its scales, and none takes more of them."""
    rng = np.random.default_rng(seed)
    numbers = rng.integers(-largest, min(largest, 127) + 1, shape).astype(np.float32)
    scales = np.exp(rng.uniform(-20, 3, (shape[0], 1, shape[2]))).astype(np.float32)
    weights = numbers * scales
    found = scaled(weights)
    if shape[1] < 8:  # a scale for three elements
        assert found is None or found.scales.size < shape[0] * shape[2]
        return
    assert found is not None
    assert found.scales.size <= shape[0] * shape[2]
    made = found.numbers.astype(np.float32) * found.scales[:, None]
    assert made.reshape(-1).tobytes() == weights.tobytes()


def test_blocks_of_an_axis_have_scales_of_their_own() -> None:
    rng = np.random.default_rng(0)
    weights = rng.integers(-7, 8, (5, 4, 32)) * rng.uniform(0.1, 1, (5, 4, 1)).astype(np.float32)
    found = scaled(weights.reshape(5, 128).astype(np.float32))
    assert found is not None
    assert found.scales.size == 20


@pytest.mark.parametrize(
    "weights",
    [
        np.random.default_rng(0).normal(size=(8, 64)).astype(np.float32),
        np.array([[1, 2, 3, 0, 5, 6, 7, np.nan]], np.float32),
        np.array([[1, 2, 3, -0.0, 5, 6, 7, 8]], np.float32),
        np.full((2, 8), -0.0, np.float32),
        np.array([[1, 2, 3, 4, 5, 6, 7, 129]], np.float32),
        np.arange(64, dtype=np.float64).reshape(8, 8),
    ],
    ids=["any", "NaN", "negative zero", "negative zeros", "no byte", "double"],
)
def test_what_has_no_scale(weights: np.ndarray) -> None:
    assert scaled(weights) is None


@pytest.mark.parametrize("target", ["cortex-m4", "cortex-m0"])
@pytest.mark.parametrize(
    ("name", "form", "part"), [("scaled", "scaled", 0.5), ("halves", "finite_f16", 0.55)]
)
def test_each_value_takes_what_is_estimated(name: str, form: str, part: float, target: str) -> None:
    """Within a third, for integers and scales and for halves."""
    plain = compile_module(ModuleSpec(MODELS[name], "m", target))
    most = int(part * constants_bytes(plain.program))
    packed = compile_module(ModuleSpec(MODELS[name], "m", target, weights_budget=str(most)))
    forms = {how.form for call in packed.program.calls for how in call.kernel.packed.values()}
    assert form in forms
    counted = [instructions(module, target, FEEDS[name]) for module in (plain, packed)]
    expected = cost(packed.program) - cost(plain.program)
    assert 0.67 < (counted[1] - counted[0]) / expected < 1.5
