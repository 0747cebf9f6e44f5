"""What generated C says of its origin and its tensors, and that mixed-up models do not link."""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net
from onnx import TensorProto, helper
from shared import REPO

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import Bundle
from mlftool.version import VERSION

MODELS = REPO / "examples" / "models"
INT8, FLOAT = MODELS / "gesture_int8.onnx", MODELS / "gesture_float32.onnx"
EXECUTORS = ["aot", "vm", "graph"]
WARNINGS = ["-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-pedantic", "-Werror"]
COMPILERS = {
    "gcc": ["gcc"],
    "clang": ["clang"],
    "cortex-m4": ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "--specs=nosys.specs"],
    "aarch64": ["aarch64-linux-gnu-gcc"],
}


def archive(
    model: Path | onnx.ModelProto, folder: Path, name: str = "m", **options: object
) -> Bundle:
    made = compile_modules([ModuleSpec(model, name, **options)])
    for member, data in made.files.items():
        if member.startswith("codegen/"):
            file = folder / member.removeprefix("codegen/host/")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(data)
    return made


def small(
    nodes: list[onnx.NodeProto], extent: int | str, weights: list[TensorProto]
) -> onnx.ModelProto:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, [extent]) for n in "xy"]
    graph = helper.make_graph(nodes, "g", ends[:1], ends[1:], weights)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def header(folder: Path, name: str = "m") -> str:
    return (folder / f"include/tvmgen_{name}.h").read_text()


def test_comments_have_names_as_exporters_write_them(tmp_path: Path) -> None:
    """torch's have slashes; two in a row would look like a comment."""
    nodes = [
        helper.make_node(
            "Softmax", ["x"], ["/features/0/Softmax_output_0"], name="/features/0/Softmax"
        ),
        helper.make_node("Softmax", ["/features/0/Softmax_output_0"], ["y"], name="a//b///c*/d"),
    ]
    archive(small(nodes, 4, []), tmp_path)
    code = (tmp_path / "src/m_lib1.c").read_text()
    assert "// Softmax /features/0/Softmax\n" in code
    assert "//   also a/_b/_/c_/d\n" in code


@pytest.mark.parametrize("executor", EXECUTORS)
def test_version_and_hash_are_in_metadata_and_c(executor: str, tmp_path: Path) -> None:
    made = archive(INT8, tmp_path, executor=executor)
    sha256 = hashlib.sha256(INT8.read_bytes()).hexdigest()
    facts = json.loads(made.text(f"executor-config/{executor}/m.json"))
    assert (facts["mlftool_version"], facts["model_sha256"]) == (VERSION, sha256)
    line = f"// mlftool {VERSION}, model SHA-256 {sha256}\n"
    assert line in (tmp_path / "src/m_lib0.c").read_text()
    if executor != "graph":
        text = header(tmp_path)
        assert f'#define TVMGEN_M_MLFTOOL_VERSION "{VERSION}"' in text
        assert f'#define TVMGEN_M_MODEL_SHA256 "{sha256}"' in text


def test_the_hash_covers_external_data(tmp_path: Path) -> None:
    def model(weight: TensorProto) -> onnx.ModelProto:
        return small([helper.make_node("Add", ["x", "w"], ["y"])], 2, [weight])

    outside = TensorProto(name="w", data_type=TensorProto.FLOAT, dims=[2])
    outside.data_location = TensorProto.EXTERNAL
    outside.external_data.add(key="location", value="x.data")
    onnx.save(model(outside), tmp_path / "x.onnx")
    for data in (bytes(8), bytes(7) + b"\x40"):
        (tmp_path / "x.data").write_bytes(data)
        made = compile_modules([ModuleSpec(tmp_path / "x.onnx", "m")])
        inside = model(helper.make_tensor("w", TensorProto.FLOAT, [2], data, raw=True))
        facts = json.loads(made.text("executor-config/aot/m.json"))
        whole = inside.SerializeToString(deterministic=True)
        assert facts["model_sha256"] == hashlib.sha256(whole).hexdigest()


MACROS = """#include <stdio.h>
#include "tvmgen_m.h"
int main(void) {
  static const int shape[TVMGEN_M_PROBABILITY_RANK] = TVMGEN_M_PROBABILITY_SHAPE;
  printf("%s %d %d", TVMGEN_M_PROBABILITY_DTYPE, shape[0], shape[1]);
#ifdef TVMGEN_M_PROBABILITY_SCALE
  printf(" %.9g %d", (double)TVMGEN_M_PROBABILITY_SCALE, TVMGEN_M_PROBABILITY_ZERO_POINT);
#endif
  return (int)sizeof(TVMGEN_M_PROBABILITY_TYPE);
}
"""


@pytest.mark.parametrize(
    ("model", "size", "printed"),
    [(INT8, 1, "int8 1 5 0.00390625 -128"), (FLOAT, 4, "float32 1 5")],
)
def test_the_header_says_what_a_tensor_is(
    model: Path, size: int, printed: str, tmp_path: Path
) -> None:
    archive(model, tmp_path)
    (tmp_path / "main.c").write_text(MACROS)
    command = ["gcc", "-std=c99", *WARNINGS, "-Iinclude", "main.c"]
    subprocess.run([*command, "-o", "main"], cwd=tmp_path, check=True)
    done = subprocess.run([tmp_path / "main"], capture_output=True, text=True)
    assert (done.stdout, done.returncode) == (printed, size)


# The application that a swap of models leaves as it was.
TYPED = """#include "tvmgen_m.h"
static const TYPE in[384] = {0};
static float out[20];
int main(void);
int main(void) {
  struct tvmgen_m_inputs inputs = {TVMGEN_M_ACCELERATION_POINTER(in)};
  struct tvmgen_m_outputs outputs = {out};
  return (int)tvmgen_m_run(&inputs, &outputs);
}
"""


SAME_SIZE = {"int8_t": {"int8_t", "uint8_t"}, "float": {"float", "int32_t"}}


@pytest.mark.parametrize("language", ["c99", "c11", "gnu17", "c++17"])
@pytest.mark.parametrize(("model", "fits"), [(INT8, "int8_t"), (FLOAT, "float")])
def test_a_swap_of_types_does_not_compile(
    model: Path, fits: str, language: str, tmp_path: Path
) -> None:
    archive(model, tmp_path)
    (tmp_path / "app.c").write_text(TYPED)
    for type_ in ("int8_t", "float", "double", "uint8_t", "int32_t"):
        compiler = ["g++", "-x", "c++"] if language == "c++17" else ["gcc"]
        flags = [f"-std={language}", *WARNINGS, "-Iinclude", f"-DTYPE={type_}", "-c", "app.c"]
        command = [*compiler, *flags, "-o", "app.o"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
        sizes_only = language == "c99" and {type_, fits} in (
            {"uint8_t", "int8_t"},
            {"int32_t", "float"},
        )
        assert (done.returncode == 0) == (type_ == fits or sizes_only), (type_, done.stderr)


USER = """#include "tvmgen_m.h"
int call_{n}(void *in, void *out);
int call_{n}(void *in, void *out) {{
  struct tvmgen_m_inputs inputs = {{in}};
  struct tvmgen_m_outputs outputs = {{out}};
  return (int)tvmgen_m_run(&inputs, &outputs);
}}
"""
MAIN = """int call_0(void *in, void *out);
{declared}
static float a[384], b[20];
int main(void);
int main(void) {{ return call_0(a, b){called}; }}
"""


def link(compiler: str, libraries: list[Path], tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """A program with a caller of each model's header, linked with each model's static library."""
    command = COMPILERS[compiler]
    if not shutil.which(command[0]):
        pytest.skip(f"{command[0]} is not installed")
    compile_only = [w for w in command if not w.startswith("--specs")]
    objects = []
    for k, folder in enumerate(libraries):
        (tmp_path / f"user{k}.c").write_text(USER.format(n=k))
        made = []
        for source in (*folder.glob("src/*.c"), tmp_path / f"user{k}.c"):
            out = tmp_path / f"{folder.name}_{source.stem}.o"
            flags = ["-std=c99", "-O1", *WARNINGS, f"-I{folder}/include", "-c", str(source)]
            subprocess.run([*compile_only, *flags, "-o", str(out)], check=True)
            (objects if source.stem.startswith("user") else made).append(str(out))
        subprocess.run(["ar", "rcs", str(tmp_path / f"{folder.name}.a"), *made], check=True)
    two = len(libraries) > 1
    text = MAIN.format(
        declared="int call_1(void *in, void *out);" if two else "",
        called=" + call_1(a, b)" if two else "",
    )
    (tmp_path / "main.c").write_text(text)
    archives = [str(tmp_path / f"{folder.name}.a") for folder in libraries]
    program = [*command, str(tmp_path / "main.c"), *objects, *archives, "-lm", "-Wl,--gc-sections"]
    return subprocess.run([*program, "-o", str(tmp_path / "p")], capture_output=True, text=True)


@pytest.mark.sampled(4)
@pytest.mark.parametrize("executor", ["aot", "vm"])
@pytest.mark.parametrize("compiler", COMPILERS)
def test_two_models_of_one_name_do_not_link(compiler: str, executor: str, tmp_path: Path) -> None:
    for folder, model in (("one", INT8), ("two", FLOAT)):
        archive(model, tmp_path / folder, executor=executor)
    alone = link(compiler, [tmp_path / "one"], tmp_path)
    assert alone.returncode == 0, alone.stderr
    both = link(compiler, [tmp_path / "one", tmp_path / "two"], tmp_path)
    assert both.returncode != 0
    assert "tvmgen_two_models_are_named_m__compile_one_with_another_module_name" in both.stderr


@pytest.mark.parametrize("compiler", COMPILERS)
def test_a_test_may_have_a_run_of_its_own(compiler: str, tmp_path: Path) -> None:
    archive(INT8, tmp_path / "one")
    shutil.rmtree(tmp_path / "one/src")
    text = (
        '#include "tvmgen_m.h"\n'
        "int32_t tvmgen_m_run(struct tvmgen_m_inputs *i, struct tvmgen_m_outputs *o) {\n"
        "  return i == 0 || o == 0;\n}\n"
    )
    (tmp_path / "one/src").mkdir()
    (tmp_path / "one/src/mock.c").write_text(text)
    done = link(compiler, [tmp_path / "one"], tmp_path)
    assert done.returncode == 0, done.stderr


def test_models_of_two_shapes_are_two_models(tmp_path: Path) -> None:
    model = small([helper.make_node("Neg", ["x"], ["y"])], "n", [])
    onnx.save(model, tmp_path / "x.onnx")
    symbols = set()
    for n in (2, 3):
        archive(tmp_path / "x.onnx", tmp_path, input_shapes={"x": (n,)})
        symbols.add(header(tmp_path).split(".globl ")[1].split('"')[0])
    assert len(symbols) == 2


@pytest.mark.parametrize(
    ("view", "attrs"),
    [("Transpose", {}), ("Flatten", {"axis": 2}), ("Identity", {}), ("Relu", {})],
    ids=lambda v: v if isinstance(v, str) else "",
)
def test_scales_are_seen_through_views(view: str, attrs: dict[str, int], tmp_path: Path) -> None:
    net = Net()
    x = net.input("x", np.int8, (2, 3))
    real = net.dq(net.node(view, x, **attrs), 0.25, np.int8(3))
    archive(net.model(net.node("Sqrt", real)), tmp_path)
    seen = "_X_SCALE 0.25f" in header(tmp_path) and "_X_ZERO_POINT 3" in header(tmp_path)
    assert seen == (view != "Relu")


@pytest.mark.parametrize("behind", ["", "MaxPool", "Transpose", "ArgMax"])
def test_scales_of_outputs(behind: str, tmp_path: Path) -> None:
    """Of what a quantised operator computes, and of what picks or moves that."""
    net = Net()
    x = net.input("x", np.int8, (1, 2, 4, 4))
    x_scale, w_scale, y_scale = (net.const(v, np.float32) for v in (0.5, 0.125, 0.75))
    zero, y_zero = net.const(np.int8(0)), net.const(np.int8(-5))
    w = net.const(np.ones((2, 2, 1, 1)), np.int8)
    y = net.node("QLinearConv", x, x_scale, zero, w, w_scale, zero, y_scale, y_zero)
    attrs = {"MaxPool": {"kernel_shape": [2, 2]}, "ArgMax": {"axis": 1}}.get(behind, {})
    y = net.node(behind, y, **attrs) if behind else y
    archive(net.model(y), tmp_path)
    name = y.upper()
    text = header(tmp_path)
    seen = f"_{name}_SCALE 0.75f" in text and f"_{name}_ZERO_POINT (-5)" in text
    assert seen == (behind != "ArgMax")  # which gives places
