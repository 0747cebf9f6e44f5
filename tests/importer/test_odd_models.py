"""Models that look wrong and are not: they compile, cleanly, and compute what ONNX says."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import bad_graphs
import numpy as np
import pytest
from bad_corpus import model, node, tensor, value
from onnx import ModelProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

from mlftool.advice import advice
from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.errors import MlfError

INT64 = TensorProto.INT64
LIMITS = np.array([-(2**63), 2**63 - 2, -(2**31), 0], np.int64)
FLAGS = "-std=c99 -Wall -Wextra -Wconversion -Wshadow -pedantic -Werror -ffp-contract=off -lm"


def output_is_a_weight() -> ModelProto:
    outputs = [value("w", (4,)), value("y")]
    return model(outputs=outputs, weights=[tensor("w", [1.0, -0.0, np.nan, np.inf])])


def everything_is_known() -> ModelProto:
    outputs = [value("y", (4,))]
    return model([node("Neg", "w")], [], outputs, [tensor("w", [1.0, -2.0, 3.0, 1e-45])])


def weight_is_also_an_input() -> ModelProto:
    inputs = [value("x"), value("w", (4,))]
    return model([node("Add", "x w")], inputs, weights=[tensor("w", [1.0, 2.0, 3.0, 4.0])])


def input_is_not_used() -> ModelProto:
    return model(inputs=[value("x"), value("z")])


def scalars() -> ModelProto:
    return model(inputs=[value("x", ())], outputs=[value("y", ())])


def sixty_dimensions() -> ModelProto:
    return model(inputs=[value("x", [1] * 60)], outputs=[value("y", [1] * 60)])


def one_value_twice() -> ModelProto:
    steps = [node("Identity", "x"), node("Identity", "x", "z")]
    return model(steps, outputs=[value("y"), value("z")])


def integers_at_their_limits() -> ModelProto:
    limits = helper.make_tensor("w", INT64, [4], LIMITS.tolist())
    return model(
        [node("Add", "x w")], [value("x", (4,), INT64)], [value("y", (4,), INT64)], [limits]
    )


def dead_node_that_is_wrong() -> ModelProto:
    return model([node("Relu", "x"), node("Reluu", "x", "dead")])


def output_is_a_weight_in_use() -> ModelProto:
    weights = [tensor("w", np.ones((1, 1, 1, 1))), tensor("b", [2.0])]
    steps = [node("Conv", "x w b", "c"), node("Relu", "c", "r"), node("Mul", "r b")]
    outputs = [value("y", (1, 1, 2, 2)), value("b", (1,)), value("w", (1, 1, 1, 1))]
    return model(steps, [value("x", (1, 1, 2, 2))], outputs, weights)


def dequantised_per_channel(axis: int, shape: tuple[int, ...]) -> ModelProto:
    """A constant that becomes float at compile time, one scale for each slice along `axis`."""
    count = shape[axis]
    numbers = np.arange(np.prod(shape), dtype=np.int8).reshape(shape)
    step = node("DequantizeLinear", "q s z", "w", axis=axis)
    weights = [
        helper.make_tensor("q", TensorProto.INT8, shape, numbers.reshape(-1).tolist()),
        helper.make_tensor("z", TensorProto.INT8, [count], list(range(count))),
        tensor("s", np.arange(1, count + 1) * 0.5),
    ]
    info = value("x", shape)
    steps = [step, node("Add", "x w")]
    return model(steps, [info], [value("y", shape)], weights, opsets=[("", 21)])


def dequantised_vector() -> ModelProto:
    return dequantised_per_channel(0, (3,))


def dequantised_rows() -> ModelProto:
    return dequantised_per_channel(0, (3, 2))


def dequantised_columns() -> ModelProto:
    return dequantised_per_channel(1, (3, 2, 1))


def dequantised_ones() -> ModelProto:
    return dequantised_per_channel(1, (3, 1))


def three_hundred_nodes_backwards() -> ModelProto:
    steps = [node("Softmax", f"v{i}", f"v{i + 1}") for i in range(300)]
    return model(steps[::-1], [value("v0")], [value("v300")])


ODD = [
    output_is_a_weight,
    everything_is_known,
    weight_is_also_an_input,
    input_is_not_used,
    scalars,
    sixty_dimensions,
    one_value_twice,
    integers_at_their_limits,
    three_hundred_nodes_backwards,
    output_is_a_weight_in_use,
    dequantised_vector,
    dequantised_rows,
    dequantised_columns,
    dequantised_ones,
]


@pytest.mark.parametrize("make", [*ODD, dead_node_that_is_wrong], ids=lambda f: f.__name__)
def test_odd_model(make: Callable[[], ModelProto], tmp_path: Path) -> None:
    made = make()
    names = [
        i.name for i in made.graph.input if i.name not in {w.name for w in made.graph.initializer}
    ]
    dtype = np.int64 if make is integers_at_their_limits else np.float32
    shape = [d.dim_value for d in made.graph.input[0].type.tensor_type.shape.dim] if names else []
    feed = np.arange(int(np.prod(shape)), dtype=dtype).reshape(shape)
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    got = run(ModuleSpec(tmp_path / "m.onnx", "m"), [feed] * len(names), tmp_path)
    if make is dead_node_that_is_wrong:
        del made.graph.node[1]
    if make is three_hundred_nodes_backwards:  # onnx wants them in order
        made.graph.node.reverse()
    want = ReferenceEvaluator(made).run(None, dict.fromkeys(names, feed))
    if make is three_hundred_nodes_backwards:
        np.testing.assert_allclose(np.frombuffer(got, np.float32), want[0].reshape(-1), rtol=1e-6)
        return
    assert got == b"".join(w.tobytes() for w in want)


def run(spec: ModuleSpec, feeds: list[np.ndarray], folder: Path) -> bytes:
    """All outputs, from the real C, under sanitizers."""
    bundle = compile_modules([spec])
    for name, data in bundle.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    sizes = [f.nbytes for f in feeds]
    interface = json.loads(bundle.files["executor-config/aot/m.json"])
    lines = ["#include <stdio.h>", '#include "tvmgen_m.h"', "int main(void) {"]
    lines += ["  struct tvmgen_m_inputs in; struct tvmgen_m_outputs out; int bad = 0;"]
    if not sizes:
        lines.append("  in.unused = 0;")
    for kind in ("input", "output"):
        for k, t in enumerate(interface[f"{kind}s"]):
            lines.append(f"  static double {kind}{k}[{-(-t['size_bytes'] // 8)}];")
            lines.append(f"  {kind[:-3]}.{t['c_name']} = {kind}{k};")
    lines += [f"  bad += fread(input{k}, {size}, 1, stdin) != 1;" for k, size in enumerate(sizes)]
    lines.append("  bad += tvmgen_m_run(&in, &out) != 0;")
    for k, t in enumerate(interface["outputs"]):
        lines.append(f"  bad += fwrite(output{k}, {t['size_bytes']}, 1, stdout) != 1;")
    (folder / "main.c").write_text("\n".join([*lines, "  return bad;", "}", ""]))
    sources = [str(p) for p in (folder / "codegen/host/src").glob("*.c")] + [str(folder / "main.c")]
    command = ["gcc", *sources, "-I", str(folder / "codegen/host/include"), "-o", str(folder / "p")]
    sanitizers = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]
    done = subprocess.run([*command, *FLAGS.split(), *sanitizers], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[:3000]
    data = b"".join(f.tobytes() for f in feeds)
    return subprocess.run([folder / "p"], input=data, capture_output=True, check=True).stdout


@pytest.mark.parametrize(
    ("made", "shapes"),
    [
        (model(outputs=[value("y", (7, 7))]), {"y": (1, 4)}),  # as PyTorch's exporter writes some
        (model(outputs=[value("y", (7, 7))]), {}),
        (model(outputs=[value("y", ("n", 5))]), {}),  # as skl2onnx writes PLSRegression
        (model(outputs=[value("y", (4,))]), {}),
        (model(inputs=[value("x", (-1, 4))]), {"x": (1, 4)}),  # as Paddle's writes all
    ],
    ids=["stated", "other_extents", "one_other_extent", "other_rank", "extent_of_minus_one"],
)
def test_what_exporters_declare_wrong(
    made: ModelProto, shapes: dict[str, tuple[int, ...]], tmp_path: Path
) -> None:
    (tmp_path / "m.onnx").write_bytes(made.SerializeToString())
    spec = ModuleSpec(tmp_path / "m.onnx", "m", input_shapes=shapes)
    feed = np.array([-1, 2, -3, 4], np.float32)
    assert run(spec, [feed], tmp_path) == np.maximum(feed, 0).tobytes()
    declared = [d.dim_value for d in made.graph.output[0].type.tensor_type.shape.dim]
    remarks = [p.code for p in advice(compile_module(spec))]
    assert remarks == ["MLF0315"] * (declared != [1, 4] and not shapes)


def test_a_loop_that_names_fewer_outputs_than_its_body_gives() -> None:
    """What the help says of the one that is missing."""
    infos = [value("i", (), INT64), value("c", (), TensorProto.BOOL), value("s")]
    copies = [node("Identity", "c", "d"), node("Identity", "s", "n"), node("Identity", "s", "z")]
    outputs = [value("d", (), TensorProto.BOOL), value("n"), value("z")]
    body = helper.make_graph(copies, "body", infos, outputs)
    loop = helper.make_node("Loop", ["", "t", "x"], ["y"], body=body)
    made = model([loop], [value("t", (), TensorProto.BOOL), value("x")])
    with pytest.raises(MlfError, match="not known before run time"):
        compile_modules([ModuleSpec(made, "m")])


def test_an_input_that_is_an_output(tmp_path: Path) -> None:
    """The output is a copy with a name of its own, which a warning says."""
    (tmp_path / "m.onnx").write_bytes(model(outputs=[value("x"), value("y")]).SerializeToString())
    spec = ModuleSpec(tmp_path / "m.onnx", "m")
    feed = np.array([-1, 2, -3, 4], np.float32)
    assert run(spec, [feed], tmp_path) == feed.tobytes() + np.maximum(feed, 0).tobytes()
    module = compile_module(spec)
    assert [str(p.code) for p in advice(module)] == ["MLF0316"]
    assert module.program.graph.outputs == ("x.out", "y")


def test_an_output_that_is_listed_twice(tmp_path: Path) -> None:
    """As Hummingbird writes for a classifier whose scores are its probabilities."""
    (tmp_path / "m.onnx").write_bytes(model(outputs=[value("y")] * 3).SerializeToString())
    spec = ModuleSpec(tmp_path / "m.onnx", "m")
    feed = np.array([-1, 2, -3, 4], np.float32)
    assert run(spec, [feed], tmp_path) == 3 * np.maximum(feed, 0).tobytes()
    module = compile_module(spec)
    assert [str(p.code) for p in advice(module)] == ["MLF0316"] * 2
    assert module.program.graph.outputs == ("y", "y.out", "y.out_")


@pytest.mark.parametrize(
    ("made", "remedy"),
    [
        ("optimised_for_one_processor", "ORT_ENABLE_EXTENDED"),
        ("operator_of_qonnx", "export_onnx_qcdq"),
    ],
)
def test_foreign_operators_have_a_remedy(made: str, remedy: str, tmp_path: Path) -> None:
    with pytest.raises(MlfError) as refused:
        compile_module(ModuleSpec(getattr(bad_graphs, made)(tmp_path), "m"))
    assert remedy in refused.value.problems[0].help
