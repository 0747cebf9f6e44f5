"""Shared libraries: mlftool, TVM's loader and plain C programs call the same file."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from shared import OWN, REPO
from tvm_archives import (
    X,
    Y,
    graph_archive,
    linked_archive,
    network_archive,
    packed_archive,
    struct_archive,
)
from tvm_loader import TvmError, TvmLibrary

import mlftool
from mlftool.cli import main
from mlftool.errors import MlfError
from mlftool.mlf import Bundle, write_tar
from mlftool.runtime.shared_load import LoadedLibrary

Array = np.ndarray
WAYS = {
    "c": (),
    "packed": ("--interface-api", "packed"),
    "graph": ("--executor", "graph"),
    "linked_graph": ("--executor", "graph", "--executor-graph-link-params", "1"),
    "vm": ("--executor", "vm"),
    "workspace_io": ("--workspace-io",),
}
DIGITS = OWN / "digits_int8.onnx"


def compiled(model: Path, folder: Path, *options: str) -> Path:
    path = folder / f"{model.stem}.so"
    assert main(["compile", str(model), "-f", "so", "-o", str(path), *options]) == 0
    return path


def library_of(bundle: Bundle, folder: Path) -> Path:
    write_tar(bundle, folder / "a.tar")
    assert main(["library", str(folder / "a.tar"), "-o", str(folder / "a.so")]) == 0
    (folder / "a.tar").unlink()
    return folder / "a.so"


def two_and_two(folder: Path) -> tuple[Path, onnx.ModelProto]:
    """Two inputs of two types, two outputs, and 5 MB of weights; names that C cannot have."""
    rng = np.random.default_rng(7)
    weights = numpy_helper.from_array(rng.standard_normal((1000, 1250)).astype(np.float32), "w")
    nodes = [
        helper.make_node("Cast", ["a:0"], ["a_f"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["a_f", "b/x"], ["sum"]),
        helper.make_node("MatMul", ["sum", "w"], ["y/0"]),
        helper.make_node("Neg", ["a:0"], ["minus"]),
    ]
    shape = [3, 1000]
    inputs = [
        helper.make_tensor_value_info("a:0", TensorProto.INT32, shape),
        helper.make_tensor_value_info("b/x", TensorProto.FLOAT, shape),
    ]
    outputs = [
        helper.make_tensor_value_info("y/0", TensorProto.FLOAT, [3, 1250]),
        helper.make_tensor_value_info("minus", TensorProto.INT32, shape),
    ]
    graph = helper.make_graph(nodes, "g", inputs, outputs, [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path = folder / "two.onnx"
    onnx.save(model, path)
    return path, model


def exported(library: Path) -> set[str]:
    done = subprocess.run(["nm", "-D", library], capture_output=True, text=True, check=True)
    lines = [line.split() for line in done.stdout.splitlines()]
    return {line[2] for line in lines if len(line) == 3 and line[2].endswith("@@MLF_1")}


@pytest.mark.parametrize("way", WAYS)
def test_every_executor_gives_mlftool_and_tvm_the_same_bits(way: str, tmp_path: Path) -> None:
    path = compiled(DIGITS, tmp_path, *WAYS[way])
    with np.load(OWN / "digits_int8_few.npz") as file:
        images, expected = file["image"], file["probability"]
    ours = mlftool.load(path).module()
    theirs = TvmLibrary(path)["default"]
    for image, wanted in zip(images, expected, strict=True):
        np.testing.assert_array_equal(ours.run({"image": image})["probability"], wanted)
        np.testing.assert_array_equal(theirs.run({"image": image})[0], wanted)


@pytest.mark.parametrize("way", ["c", "graph"])
def test_several_inputs_and_outputs_and_megabytes_of_weights(way: str, tmp_path: Path) -> None:
    file, model = two_and_two(tmp_path)
    path = compiled(file, tmp_path, *WAYS[way])
    file.unlink()
    rng = np.random.default_rng(8)
    given = {
        "a:0": rng.integers(-9, 9, (3, 1000)).astype(np.int32),
        "b/x": rng.standard_normal((3, 1000)).astype(np.float32),
    }
    wanted = ReferenceEvaluator(model).run(None, given)
    ours = mlftool.load(path).module().run(given)
    theirs = TvmLibrary(path)["default"].run(given)
    for k, name in enumerate(("y/0", "minus")):
        np.testing.assert_allclose(ours[name], wanted[k], 1e-4, 1e-3)
        np.testing.assert_array_equal(theirs[k], ours[name])


@pytest.mark.parametrize(
    "bundle",
    [
        *(graph_archive(version) for version in (1, 5, 7)),
        packed_archive(),
        packed_archive(5, with_metadata=False),
        struct_archive(),
        struct_archive(external_pools=True),
        network_archive(2),
    ],
    ids=["graph1", "graph5", "graph7", "packed", "packed5", "struct", "pools", "network"],
)
def test_archives_of_tvm(bundle: Bundle, tmp_path: Path) -> None:
    path = library_of(bundle, tmp_path)
    ours = mlftool.load(path).module("default")
    np.testing.assert_array_equal(next(iter(ours.run({"x": X}).values())), Y)
    np.testing.assert_array_equal(TvmLibrary(path)["default"].run({"x": X})[0], Y)


def test_linked_parameters_are_the_code_s(tmp_path: Path) -> None:
    path = library_of(linked_archive(), tmp_path)
    np.testing.assert_array_equal(next(iter(mlftool.load(path).module().run(X).values())), Y)


def test_only_the_list_is_exported(tmp_path: Path) -> None:
    common = {"tvmgen_m_library", "tvmgen_m_interface", "__tvm_dev_mblob", "__tvm_module_ctx"}
    aot = {"__TVMAPISetLastError", "get_c_metadata", "tvmgen_m_library___tvm_main__"}
    path = compiled(DIGITS, tmp_path, "--module-name", "m")
    assert exported(path) == {f"{n}@@MLF_1" for n in common | aot | {"tvmgen_m_run"}}
    path = compiled(DIGITS, tmp_path, "--module-name", "m", "--executor", "graph")
    names = {n.removesuffix("@@MLF_1") for n in exported(path)}
    assert common < names
    assert all(n.startswith("tvmgen_m_") for n in names - common)
    # And it wants nothing of the process but C's own libraries.
    done = subprocess.run(["nm", "-D", "-u", path], capture_output=True, text=True, check=True)
    assert {line.split()[-1].split("@")[0] for line in done.stdout.splitlines()} <= {
        *("_ITM_deregisterTMCloneTable", "_ITM_registerTMCloneTable", "__cxa_finalize"),
        *("__gmon_start__", "_setjmp", "abort", "fprintf", "free", "longjmp", "memcmp", "memcpy"),
        *("memset", "posix_memalign", "pthread_mutex_lock", "pthread_mutex_unlock", "stderr"),
        *("strlen", "vfprintf", "vsnprintf", "clock_gettime", "strcmp", "strncmp", "memmove"),
        *("snprintf", "__stack_chk_fail", "__longjmp_chk", "strtol", "strchr", "memchr", "fputc"),
    }


def test_its_name_is_the_file_s_or_the_given_one(tmp_path: Path) -> None:
    def soname(path: Path) -> str:
        done = subprocess.run(["readelf", "-d", path], capture_output=True, text=True, check=True)
        return next(s for s in done.stdout.splitlines() if "SONAME" in s).split("[")[1][:-1]

    assert soname(compiled(DIGITS, tmp_path)) == "digits_int8.so"
    assert main(["compile", str(DIGITS), "-o", str(tmp_path / "d.tar")]) == 0
    words = ["library", str(tmp_path / "d.tar"), "-o", str(tmp_path / "x.so")]
    assert main([*words, "--soname", "libdigits.so.2"]) == 0
    assert soname(tmp_path / "x.so") == "libdigits.so.2"
    first = (tmp_path / "x.so").read_bytes()
    assert main([*words, "--soname", "libdigits.so.2"]) == 0
    assert (tmp_path / "x.so").read_bytes() == first


def test_two_libraries_in_a_c_program(tmp_path: Path) -> None:
    """Graphs, which both have a C runtime, and one name for both modules."""
    for folder, model in (("a", "digits_int8"), ("b", "gesture_int8")):
        (tmp_path / folder).mkdir()
        options = ("--module-name", "same", "--executor", "graph")
        compiled(OWN / f"{model}.onnx", tmp_path / folder, *options)
    program = tmp_path / "client"
    source = REPO / "tests" / "runtime" / "library_client.c"
    command = ["cc", "-std=c99", "-D_GNU_SOURCE", "-Wall", "-Werror", f"-I{REPO}/crt/include"]
    subprocess.run([*command, source, "-o", program, "-ldl"], check=True)
    files = (tmp_path / "a" / "digits_int8.so", tmp_path / "b" / "gesture_int8.so")
    words = [program, files[0], "same", files[1], "same"]
    done = subprocess.run(words, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    image = np.ones((1, 1, 8, 8), np.int8)
    with np.load(OWN / "digits_int8_few.npz") as vectors:
        image = np.ones_like(vectors["image"][0])
    wanted = mlftool.load(files[0]).module().run({"image": image})["probability"]
    assert done.stdout == wanted.tobytes()


def test_the_c_interface_of_a_linked_program(tmp_path: Path) -> None:
    """As any shared library: a program is linked with it, and includes its header."""
    assert main(["compile", str(DIGITS), "-o", str(tmp_path / "d.tar")]) == 0
    library, headers = tmp_path / "libdigits.so", tmp_path / "include"
    words = ["-o", str(library), "--headers", str(headers)]
    assert main(["library", str(tmp_path / "d.tar"), *words]) == 0
    (tmp_path / "main.c").write_text(
        '#include "tvmgen_digits_int8.h"\n#include "mlf/library.h"\n'
        "static int8_t in[TVMGEN_DIGITS_INT8_IMAGE_SIZE];\n"
        "static int8_t out[TVMGEN_DIGITS_INT8_PROBABILITY_SIZE];\n"
        "int main(void) {\n"
        "  struct tvmgen_digits_int8_inputs i = {in};\n"
        "  struct tvmgen_digits_int8_outputs o = {out};\n"
        "  return tvmgen_digits_int8_run(&i, &o) || out[0] == 0;\n}\n"
    )
    flags = [f"-I{headers}", f"-L{tmp_path}", "-ldigits", f"-Wl,-rpath,{tmp_path}"]
    subprocess.run(["cc", "-std=c99", "main.c", "-o", "main", *flags], cwd=tmp_path, check=True)
    assert subprocess.run([tmp_path / "main"], check=False).returncode == 0


def test_what_tvm_passes_wrongly_is_said(tmp_path: Path) -> None:
    library = TvmLibrary(compiled(DIGITS, tmp_path))
    aot = library["default"]
    image, out = (array for _, array in (*aot.inputs, *aot.outputs))
    turned = np.zeros((*image.shape[:2], *image.shape[:1:-1]), image.dtype).swapaxes(2, 3)
    for given, said in (
        ((image,), "missing"),
        ((image.astype(np.int16), out), "argument 0 has another type"),
        ((image[0], out), "argument 0 has another rank"),
        ((image, out[:, :5]), "argument 1 has another shape"),
        ((turned, out), "argument 0 is not row-major"),
    ):
        with pytest.raises(TvmError, match=said):
            library.call(aot.main, *((array, 7) for array in given))
    with pytest.raises(TvmError, match="argument 1 is no tensor"):
        library.call(aot.main, (image, 7), (out, 0))


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        ("library absent.tar -o x.so", "MLF0501", "absent.tar"),
        ("library notes.so -o x.so", "MLF0502", "notes.so"),
        ("library d.tar", "MLF0400", "nothing to write"),
        ("library d.tar -o x.tar", "MLF0400", "cannot name a library"),
        ("library d.tar -o x.so --soname a,-b", "MLF0400", "cannot name a library"),
        ("library d.tar -o x.so --module other", "MLF0606", "got 'other'"),
        ("library m4.tar -o x.so", "MLF0613", "compiled for cortex-m4"),
        ("library two.tar -o x.so", "MLF0606", "the archive holds 2 modules"),
        ("library d.tar -o no/such/x.so", "MLF0402", "no/such/x.so"),
        ("compile d.onnx -f so -o x.so --target cortex-m4", "MLF0613", "for this computer"),
        ("compile d.onnx -f tar -o x.so", "MLF0400", "invalid choice"),
        ("run notes.so --inputs d.npz", "MLF0511", "is not a valid ELF file"),
        ("run libc.so --inputs d.npz", "MLF0511", "did not make"),
        ("run absent.so --inputs d.npz", "MLF0501", "absent.so"),
        ("run arm.so --inputs d.npz", "MLF0612", "is compiled for aarch64"),
        ("run d.so --inputs d.npz --driven", "MLF0405", "--driven is not for a library"),
        ("run d.so --inputs d.npz --module other", "MLF0606", "got 'other'"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    words: str, code: str, said: str, bad: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(bad)
    before = sorted(bad.iterdir())
    assert main(words.split()) == 2
    err = capsys.readouterr().err
    assert f"error[{code}]" in err
    assert said in err
    assert len([line for line in err.splitlines() if not line.startswith("help: ")]) == 1
    assert sorted(bad.iterdir()) == before


@pytest.fixture(scope="module")
def bad(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    shutil.copy(DIGITS, folder / "d.onnx")
    shutil.copy(OWN / "digits_int8_few.npz", folder / "d.npz")
    (folder / "notes.so").write_text("to do\n" * 100)
    model = str(folder / "d.onnx")
    for name, options in (("d", []), ("m4", ["--target", "cortex-m4"])):
        assert main(["compile", model, "-o", str(folder / f"{name}.tar"), *options]) == 0
    made = [mlftool.build(model, executor="aot", mod_name=name) for name in ("a", "b")]
    mlftool.export_model_library_format(made, folder / "two.tar")
    library = compiled(folder / "d.onnx", folder)
    plain = ["cc", "-shared", "-fPIC", "-x", "c", "/dev/null", "-o", folder / "libc.so"]
    subprocess.run(plain, check=True)
    data = bytearray(library.read_bytes())
    data[18:20] = (183).to_bytes(2, "little")  # EM_AARCH64
    (folder / "arm.so").write_bytes(data)
    return folder


def test_a_damaged_library_is_refused(tmp_path: Path) -> None:
    """In one line, or not at all: what was hit may be nothing that is read before it runs."""
    data = compiled(DIGITS, tmp_path).read_bytes()
    rng = np.random.default_rng(5)
    refused = [damaged(data, rng, k, tmp_path / "damaged.so") for k in range(150)]
    assert 50 < refused.count(1) == len(refused) - refused.count(0)


def damaged(data: bytes, rng: np.random.Generator, k: int, path: Path) -> int:
    """The number of problems of a file that is cut or has some bytes changed."""
    changed = bytearray(data[: int(rng.integers(1, len(data)))] if k % 3 == 0 else data)
    for _ in range(int(rng.integers(1, 40))):
        changed[int(rng.integers(0, len(changed)))] = int(rng.integers(0, 256))
    path.write_bytes(changed)
    try:
        LoadedLibrary(path)
    except MlfError as error:
        return len(error.problems)
    return 0


def test_inputs_are_checked(tmp_path: Path) -> None:
    module = mlftool.load(compiled(DIGITS, tmp_path)).module()
    assert repr(module) == "LibraryModule('digits_int8', executor='aot')"
    with pytest.raises(MlfError, match="MLF0601"):
        module.run({"imgae": np.zeros((1, 1, 8, 8), np.int8)})
    with pytest.raises(MlfError, match="MLF0602"):
        module.run({"image": np.zeros((1, 1, 8, 8), np.float32)})


def test_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its blocks, one after the other."""
    text = (REPO / "docs" / "library.md").read_text()
    blocks = re.findall(r"```(sh|python|c)\n(.*?)```", text, re.DOTALL)
    assert [kind for kind, _ in blocks] == ["sh", "python", "c"]
    monkeypatch.chdir(tmp_path)
    for file in ("digits_int8.onnx", "digits_int8.npz"):
        shutil.copy(OWN / file, tmp_path)
    for line in blocks[0][1].splitlines():
        assert main(line.split()[1:]) == 0
    capsys.readouterr()
    with np.load("digits_int8.npz") as vectors:
        exec(blocks[1][1], {"image": vectors["image"][0]})
        assert capsys.readouterr().out.strip() == str(vectors["probability"][0])
    (tmp_path / "main.c").write_text(blocks[2][1])
    command = ["cc", "-std=c99", "-Wall", "-Werror", "-Iinclude", "main.c", "-o", "main", "-ldl"]
    subprocess.run(command, check=True)
    done = subprocess.run(["./main"], capture_output=True, text=True, check=True)
    assert done.stdout == "image: int8, 64 bytes\n"


TVM_SCRIPT = """
import sys
import numpy as np
import tvm
from tvm.contrib import graph_executor
from tvm.runtime.executor import AotModule

path, vectors, kind = sys.argv[1:]
library = tvm.runtime.load_module(path)
made = library["default"](tvm.cpu(0))
module = graph_executor.GraphModule(made) if kind == "graph" else AotModule(made)
data = np.load(vectors)
for image, wanted in zip(data["image"], data["probability"]):
    module.set_input("image", tvm.nd.array(image))
    module.run()
    np.testing.assert_array_equal(module.get_output(0).numpy(), wanted)
print("equal")
"""


@pytest.mark.skipif(
    "MLFTOOL_TVM_PYTHON" not in os.environ,
    reason="an outside check: MLFTOOL_TVM_PYTHON is a Python that imports tvm 0.9 to 0.18",
)
@pytest.mark.parametrize("way", ["c", "packed", "graph", "vm"])
def test_tvms_own_runtime(way: str, tmp_path: Path) -> None:
    path = compiled(DIGITS, tmp_path, *WAYS[way])
    python, few = os.environ["MLFTOOL_TVM_PYTHON"], OWN / "digits_int8_few.npz"
    command = [python, "-c", TVM_SCRIPT, path, few, way]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "equal", done.stderr


def test_a_library_needs_no_compiler(tmp_path: Path) -> None:
    path = compiled(DIGITS, tmp_path)
    image = np.zeros((1, 1, 8, 8), np.int8)
    with np.load(OWN / "digits_int8_few.npz") as vectors:
        image = np.zeros_like(vectors["image"][0])
    script = f"import mlftool, numpy as np\nm = mlftool.load({str(path)!r}).module()\n"
    script += f"print(m.run(np.zeros({image.shape}, np.int8))['probability'].shape)\n"
    environment = {**os.environ, "CC": "absent", "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert done.stdout.strip() == "(1, 10)", done.stderr
