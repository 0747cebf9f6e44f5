"""Names in kernels: what fusion adds never meets what a template declares, everything declared is
used, and no comparison is decided by its types. Checked over the text of all templates, and by a C
compiler for every core that carries fused operators."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import program_of
from builders import Net, random_feeds
from oracle import onnxruntime_float, relative_error
from programs import run_programs
from shared import REPO

from mlftool.compile import ModuleSpec, compile_module
from mlftool.ops.scalar import FUSED, RESULT

FOLDERS = ("mlftool/ops", "mlftool/targets/kernels")
TEMPLATES = sorted(p for f in FOLDERS for p in (REPO / f).glob("*.j2"))
TEMPLATE_TEXT = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")
# "type name" and "type *name" before "=", ";", "[" or ","; a hole stands as 0.
DECLARED = re.compile(r"\b\w*[A-Za-z_0]\w* [*]?(?:const )?([A-Za-z_]\w*)(?= *(?:=[^=]|;|\[|,))")
TARGETS = ("host", "cortex-m0", "cortex-m3", "cortex-m4", "rv32imc")


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda p: p.name)
def test_templates_declare_no_name_of_fusion(path: Path) -> None:
    text = path.read_text()
    if "store" not in text and "statement" not in text:
        return  # nothing is fused here
    names = set(DECLARED.findall(TEMPLATE_TEXT.sub("0", text)))
    taken = {n for n in names if re.fullmatch(rf"({FUSED}|{RESULT})\d+", n)}
    assert not taken


def test_declarations_are_recognised() -> None:
    text = "const int32_t e{{ a.k }} = 0; {{ type }} acc = 1; const {{ types.x }} *at = x; float v;"
    found = set(DECLARED.findall(TEMPLATE_TEXT.sub("0", text)))
    assert found == {"e0", "acc", "at", "v"}


def _conv(net: Net, **attrs: Any) -> str:
    rng, group = np.random.default_rng(3), attrs.get("group", 1)
    x = net.input("x", np.float32, (1, 4, 6, 6))
    w = net.const(rng.normal(size=(4, 4 // group, 3, 3)), np.float32)
    return net.node("Conv", x, w, pads=[1] * 4, **attrs)


def _pool(net: Net, op: str, rank: int = 2, **attrs: Any) -> str:
    x = net.input("x", np.float32, (1, 4, *[6] * rank))
    return net.node(op, x, kernel_shape=[3] * rank, **attrs)


def _normal(net: Net, op: str, **attrs: Any) -> str:
    x = net.input("x", np.float32, (1, 4, 6, 6))
    parameters = [net.const(np.linspace(1, 2, 4), np.float32) for _ in range(2)]
    return net.node(op, x, *parameters, **attrs)


def _transposed(net: Net) -> str:
    x = net.input("x", np.float32, (1, 4, 6, 6))
    w = net.const(np.random.default_rng(3).normal(size=(4, 4, 3, 3)), np.float32)
    return net.node("ConvTranspose", x, w, pads=[1] * 4)


def _resized(net: Net, mode: str) -> str:
    x = net.input("x", np.float32, (1, 4, 3, 3))
    return net.node("Resize", x, "", net.const([1, 1, 2, 2], np.float32), mode=mode)


def _product(net: Net, op: str) -> str:
    x = net.input("x", np.float32, (6, 6))
    w = net.const(np.random.default_rng(3).normal(size=(6, 4)), np.float32)
    return net.node(op, x, w)


def _along(net: Net, op: str, **attrs: Any) -> str:
    return net.node(op, net.input("x", np.float32, (1, 4, 6, 6)), **attrs)


CORES: dict[str, Callable[[Net], str]] = {
    "conv": _conv,
    "depthwise": lambda n: _conv(n, group=4),
    "conv_transpose": _transposed,
    "matmul": lambda n: _product(n, "MatMul"),
    "gemm": lambda n: _product(n, "Gemm"),
    "resize_linear": lambda n: _resized(n, "linear"),
    "resize_cubic": lambda n: _resized(n, "cubic"),
    "resize_nearest": lambda n: _resized(n, "nearest"),
    "instance": lambda n: _normal(n, "InstanceNormalization"),
    "group": lambda n: _normal(n, "GroupNormalization", num_groups=2),
    "softmax": lambda n: _along(n, "Softmax"),
    "log_softmax": lambda n: _along(n, "LogSoftmax", axis=1),
    "reduce": lambda n: _along(n, "ReduceMean", keepdims=1),
    "lrn": lambda n: _along(n, "LRN", size=3),
    "transpose": lambda n: _along(n, "Transpose", perm=[0, 2, 3, 1]),
    **{
        f"{op}_{name}_{rank}d": lambda n, op=op, rank=rank, pads=pads: _pool(
            n, op, rank, pads=[pads] * 2 * rank
        )
        for op in ("MaxPool", "AveragePool", "LpPool")
        for rank in (1, 2, 3)
        for name, pads in (("padded", 1), ("plain", 0))
    },
    "average_counted": lambda n: _pool(n, "AveragePool", pads=[1] * 4, count_include_pad=1),
    "average_ceil": lambda n: _pool(n, "AveragePool", strides=[2, 2], ceil_mode=1),
    "global": lambda n: _along(n, "GlobalAveragePool"),
}


def fused(core: str) -> onnx.ModelProto:
    """A channel's factor, a whole tensor and a computed scalar after the core."""
    probe = Net()
    y = CORES[core](probe)
    shape = onnxruntime_float(probe.model(y), random_feeds(probe.model(y), 1, 1))[0][y].shape
    net = Net()
    y = CORES[core](net)
    channels = (1, shape[1], *[1] * (len(shape) - 2)) if len(shape) > 2 else (shape[-1],)
    y = net.node("Mul", y, net.const(np.arange(1, 1 + max(channels)).reshape(channels), np.float32))
    y = net.node("Add", y, net.input("other", np.float32, shape))
    return net.model(net.node("Mul", y, net.input("factor", np.float32, (1,))))


def begun(core: str) -> onnx.ModelProto:
    """Conversions, of which each needs a header, before the core."""
    model = fused(core)
    nodes = model.graph.node
    for node in nodes:
        node.input[:] = ["begun" if name == "x" else name for name in node.input]
    steps = (("Cast", {"to": 3}), ("Cast", {"to": 1}), ("Erf", {}))
    names = ("x", "whole", "back", "begun")
    made = [
        onnx.helper.make_node(op, [a], [b], **attrs)
        for (op, attrs), a, b in zip(steps, names[:-1], names[1:], strict=True)
    ]
    nodes.extend(made + [nodes.pop(0) for _ in range(len(nodes))])
    return model


@pytest.mark.parametrize("target", ["host", "cortex-m4"])
def test_every_core_includes_what_its_prologue_needs(target: str, tmp_path: Path) -> None:
    check({core: begun(core) for core in CORES}, target, tmp_path)


def test_an_integer_image_is_made_of_floats(tmp_path: Path) -> None:
    """The core computes integers, and its prologue alone needs the header."""
    models = {}
    for kind, dtype in ((2, np.uint8), (3, np.int8), (6, np.int32)):
        for mode in ("nearest", "linear"):
            net = Net()
            x = net.node("Cast", net.input("x", np.float32, (1, 2, 3, 3)), to=kind)
            scales = net.const([1, 1, 2, 2], np.float32)
            attrs = {"coordinate_transformation_mode": "asymmetric"}
            y = net.node("Resize", x, "", scales, mode=mode, **attrs)
            models[f"{mode}_{np.dtype(dtype).name}"] = net.model(y)
    check(models, "host", tmp_path)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", TARGETS)
def test_every_core_carries_tensors(target: str, tmp_path: Path) -> None:
    check({core: fused(core) for core in CORES}, target, tmp_path)


def decided() -> dict[str, onnx.ModelProto]:
    """Comparisons with the ends of a type's range, operands that change nothing."""
    models = {}
    for dtype in (np.uint8, np.int8, np.uint16, np.int16, np.int32, np.uint32, np.int64, np.uint64):
        info = np.iinfo(dtype)
        for value in dict.fromkeys((info.min, info.max, 0, 7)):
            net = Net()
            x, outs = net.input("x", dtype, (2, 5)), []
            end = net.const(np.full((), value, dtype))
            for op in ("Less", "LessOrEqual", "Greater", "GreaterOrEqual", "Equal"):
                outs += [net.node(op, x, end), net.node(op, end, x)]
            if dtype not in (np.int16, np.uint16):
                for op in ("Min", "Max"):
                    outs += [net.node(op, x, end), net.node(op, end, x)]
                outs += [net.node("Clip", x, end), net.node("Clip", x, "", end)]
                outs += [net.node("Clip", net.node("Clip", x, end), "", end)]
            models[f"{value}_{np.dtype(dtype).name}"] = net.model(*outs)
    for negative in (0, 1):
        for positive in (0, 1):
            net = Net()
            x = net.input("x", np.float32, (2, 5))
            attrs = {"detect_negative": negative, "detect_positive": positive}
            y = net.node("Not", net.node("IsInf", net.node("Neg", x), **attrs))
            models[f"isinf_{negative}{positive}"] = net.model(y, net.node("IsInf", x, **attrs))
    return models


def superfluous() -> dict[str, onnx.ModelProto]:
    """An operand that is asked for and then not read: the first one, one of many results with names
    that begin alike (t1 and t10), what a prologue loads, a whole tensor beside it."""
    long = Net()
    x = long.input("x", np.uint8, (3, 5))
    y = long.node("Add", long.node("Add", x, x), x)
    y = long.node("Less", y, long.const(0, np.uint8))
    for k in range(12):
        y = long.node("Xor", y, long.input(f"b{k}", np.bool_, (3, 5)))
    first = Net()
    x = first.input("x", np.uint8, (3, 5))
    ends = (
        first.node("Less", x, first.const(0, np.uint8)),
        first.node(
            "IsInf", first.input("f", np.float32, (3, 5)), detect_negative=0, detect_positive=0
        ),
    )
    loaded = Net()
    x = loaded.input("x", np.int8, (1, 4, 6, 6))
    x = loaded.node("Cast", loaded.node("Mod", x, loaded.const(-1, np.int8)), to=1)
    total = loaded.node("ReduceSum", x, loaded.const([3], np.int64))
    extremes = Net()
    x = extremes.input("x", np.uint8, (3, 5))
    low = [extremes.const(0, np.uint8), extremes.input("z", np.uint8, (3, 5))]
    y_least = extremes.node("Min", x, *low, extremes.const(255, np.uint8))
    return {
        "long": long.model(y),
        "first": first.model(*ends),
        "loaded": loaded.model(total),
        "neutral": neutral(),
        "extremes": extremes.model(y_least, extremes.node("Max", *low, x)),
    }


def neutral() -> onnx.ModelProto:
    """Operands that leave when the number beside them is known, of all integers."""
    net = Net()
    ends = []
    for kind in (np.uint8, np.int8, np.uint16, np.int16, np.uint32, np.int32, np.uint64, np.int64):
        x, z = (net.input(f"{n}_{kind.__name__}", kind, (3, 5)) for n in "xz")
        one, zero = net.const(1, kind), net.const(0, kind)
        ends += [net.node("Not", net.node("Less", z, z)), net.node("Mod", x, one)]
        ends += [net.node("Mod", net.node("Add", x, z), one, fmod=1)]
        if np.dtype(kind).itemsize > 2:  # which onnxruntime has
            ends += [net.node("Max", net.node("Mod", net.node("Mul", z, z), one), z)]
            ends += [net.node("Mul", x, zero), net.node("Add", net.node("Mul", zero, x), z)]
        if np.dtype(kind).kind == "u" and kind != np.uint16:
            ends += [net.node("BitShift", zero, x, direction="LEFT")]
    return net.model(*ends)


@pytest.mark.parametrize("target", ["host", "cortex-m4"])
@pytest.mark.parametrize("level", [0, 3])
def test_superfluous_operands_are_used_for_nothing(target: str, level: int, tmp_path: Path) -> None:
    check(superfluous(), target, tmp_path, level)


@pytest.mark.parametrize("level", [0, 3])
def test_no_comparison_is_decided_by_its_types(level: int, tmp_path: Path) -> None:
    check(decided(), "host", tmp_path, level)


def check(models: dict[str, onnx.ModelProto], target: str, work: Path, level: int = 3) -> None:
    feeds = {name: _feeds(model) for name, model in models.items()}
    modules = [
        compile_module(ModuleSpec(model, f"m{k}", target, opt_level=level))
        for k, model in enumerate(models.values())
    ]
    pairs = zip(models, modules, strict=True)
    programs = [replace(program_of(m, feeds[name]), optimised=True) for name, m in pairs]
    ran = run_programs(programs, work)
    for name, program, done in zip(models, programs, ran, strict=True):
        assert not done.failure, f"{name}: {done.failure}"
        expected = onnxruntime_float(models[name], feeds[name])
        for got, want in zip(program.results(done.output), expected, strict=True):
            for out, value in want.items():
                if value.dtype.kind == "f":
                    assert relative_error(got[out], value) <= 1e-5, f"{name}: {out}"
                else:
                    np.testing.assert_array_equal(got[out], value, f"{name}: {out}")


def _feeds(model: onnx.ModelProto) -> list[dict[str, Any]]:
    """Random samples, the second with the ends of each type's range."""
    first, second = random_feeds(model, 5)
    for array in second.values():
        kind = array.dtype
        ends = (
            (np.iinfo(kind).min, np.iinfo(kind).max, 0) if kind.kind in "iu" else (np.inf, -np.inf)
        )
        if kind.kind in "iu" or len(second) == 1:
            array.reshape(-1)[: len(ends)] = ends
    return [first, second]
