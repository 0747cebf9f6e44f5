"""What is typed first into a notebook: completion, plain paths, wrong arguments, TVM's names."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import pydoc
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree

import numpy as np
import onnx
import pytest
from builders import Net
from shared import REPO

import mlftool
from mlftool.cli import main
from mlftool.config import PassContext
from mlftool.errors import MlfError

MODELS = REPO / "examples" / "models"
MODEL = MODELS / "gesture_int8.onnx"
SHIMS = ["relay", "relay.backend", "relay.frontend", "contrib", "contrib.graph_executor"]
SHIMS += ["micro", "micro.testing", "nd", "target", "transform"]


@pytest.fixture(scope="module")
def vectors() -> dict[str, np.ndarray]:
    with np.load(MODEL.with_suffix(".npz")) as file:
        return {"x": file["acceleration"][0], "y": file["probability"][0]}


def test_the_public_names_are_listed_before_they_are_imported() -> None:
    code = "import sys, mlftool; print(*dir(mlftool)); print('onnx' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True)
    names, heavy = done.stdout.splitlines()
    assert set(mlftool.__all__) == {n for n in names.split() if n == "__version__" or n[0] != "_"}
    assert heavy == "False"


def test_a_notebook_shows_what_was_built() -> None:
    factory = mlftool.build(str(MODEL), "cortex-m4", executor="aot", mod_name="wave")
    assert repr(factory).startswith("Factory('wave', Target('")
    assert "-mcpu=cortex-m4" in repr(factory)
    assert repr(factory).endswith("Executor('aot', {}))")


def test_a_notebook_shows_every_object(tmp_path: Path) -> None:
    """By what it is, not by its address; names of a model are its author's."""
    file = tmp_path / "named.onnx"
    net = Net()
    out = net.node("Relu", net.input("<b>a & b", np.float32, (1, 4)))
    onnx.save(net.model(out), file)
    mod, params = mlftool.from_onnx(file)
    factory = mlftool.build(mod, "host", executor="aot", mod_name="named")
    archive = mlftool.load(factory.export_model_library_format(tmp_path / "named.tar"))
    debugger = mlftool.create_executor("debug", mod)
    shown = [mod, factory, archive, archive.module(), debugger.module]
    for thing in [*shown, factory.lib, params, debugger, debugger.evaluate(), PassContext()]:
        assert " at 0x" not in repr(thing)
    for thing in shown:
        page = ElementTree.fromstring(thing._repr_html_())
        cells = [c.text for c in page.iter("td")]
        assert cells[:4] == ["input", "<b>a & b", "float32", "1x4"]
        assert cells[5:9] == ["output", out, "float32", "1x4"]
    assert repr(mod) == f"IRModule(<b>a & b: float32 1x4 -> {out}: float32 1x4)"
    broken = mod.with_attr("output_tensor_names", ["y", "z"])
    assert repr(broken).startswith("IRModule(not imported: ")
    assert broken._repr_html_() is None


@pytest.mark.parametrize(
    ("names", "said"),
    [
        (["y", "z"], "2 output names; expected 1"),
        (["acceleration"], "output name 'acceleration' is an input's"),
        ([""], "an output name is empty or given twice"),
        ("y", "output_tensor_names is 'y'; expected a list of names"),
        ([1], "output_tensor_names is \\[1\\]; expected a list of names"),
        (None, "output_tensor_names is None; expected a list of names"),
    ],
)
@pytest.mark.parametrize("use", [lambda m: m["main"], mlftool.build], ids=["look", "build"])
def test_names_of_outputs_that_do_not_fit(
    names: Any, said: str, use: Callable[[Any], object]
) -> None:
    """Wherever they are first needed."""
    with pytest.raises(MlfError, match=said):
        use(mlftool.from_onnx(MODEL)[0].with_attr("output_tensor_names", names))


@pytest.mark.parametrize("name", [n for n in mlftool.__all__ if n != "__version__"])
def test_every_public_name_has_a_docstring_and_types(name: str) -> None:
    thing = getattr(mlftool, name)
    assert inspect.getdoc(thing)
    if inspect.isfunction(thing):
        hints = inspect.signature(thing)
        assert hints.return_annotation is not inspect.Signature.empty
        for parameter in hints.parameters.values():
            assert parameter.annotation is not inspect.Parameter.empty, parameter
            if hints.parameters and name not in ("cpu",):
                assert "Raises MlfError" in str(inspect.getdoc(thing)), name


def test_type_checkers_see_the_types() -> None:
    assert (REPO / "mlftool/py.typed").is_file()


@pytest.mark.parametrize("form", ["str", "path", "bytes", "proto", "module", "pair"])
def test_build_takes_a_model_in_every_form(form: str) -> None:
    forms = {
        "str": lambda: str(MODEL),
        "path": lambda: MODEL,
        "bytes": MODEL.read_bytes,
        "proto": lambda: onnx.load(MODEL),
        "module": lambda: mlftool.from_onnx(MODEL)[0],
        "pair": lambda: mlftool.from_onnx(MODEL),
    }
    factory = mlftool.build(forms[form](), "cortex-m4", executor="aot")
    assert factory.executor_codegen_metadata["inputs"] == ["acceleration"]


@pytest.mark.parametrize("form", ["onnx", "tar", "proto", "module", "factory"])
def test_load_takes_models_and_archives(
    form: str, vectors: dict[str, np.ndarray], tmp_path: Path
) -> None:
    given: object = str(MODEL)
    if form == "tar":
        given = tmp_path / "g.tar"
        assert main(["compile", str(MODEL), "-o", str(given)]) == 0
    elif form != "onnx":
        given = {"proto": onnx.load(MODEL), "module": mlftool.from_onnx(MODEL)[0]}.get(form)
        given = mlftool.build(MODEL) if form == "factory" else given
    module = mlftool.load(given, tmp_path / "cache").module()  # type: ignore[arg-type]
    if form in ("onnx", "tar"):
        assert module.name == "gesture_int8"
    if form == "onnx":
        np.save(tmp_path / "x.npy", vectors["x"])
        np.savez(tmp_path / "x.npz", acceleration=vectors["x"], labels=np.arange(3))
        forms = [{"acceleration": vectors["x"]}, vectors["x"], str(tmp_path / "x.npy")]
        forms += [tmp_path / "x.npz", {"acceleration": tmp_path / "x.npy"}]
        for inputs in forms:
            np.testing.assert_array_equal(module.run(inputs)["probability"], vectors["y"])


@pytest.mark.parametrize("form", ["npy", "npz"])
def test_run_takes_single_arrays(
    form: str,
    vectors: dict[str, np.ndarray],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy(MODEL, "g.onnx")
    np.save("x.npy", vectors["x"])
    np.save("y.npy", vectors["y"])
    np.savez("x.npz", acceleration=vectors["x"])
    assert main(["run", "g.onnx", "--inputs", f"x.{form}", "--expect", "y.npy"]) == 0
    assert "equal to the reference" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("call", "said"),
    [
        ("build(42)", "build() cannot take int; expected the result of from_onnx, the path"),
        ("build(None)", "build() cannot take NoneType; expected the result of from_onnx"),
        ("from_onnx(42)", "from_onnx() cannot take int; expected the path of an ONNX model"),
        ("load(42)", "load() cannot take int; expected a path of an archive or a model"),
        ("load(None)", "load() cannot take NoneType; expected a path of an archive"),
        ("create_executor('aot', 42)", "create_executor() cannot take int; expected the result"),
        ("build(MODEL, target=42)", "expected the name of a target"),
        ("build(MODEL, executor=42)", "no such executor; got '42'"),
        ("build(MODEL, runtime=42)", "no such runtime; got '42'"),
        ("build(MODEL, mod_name=42)", "module name '42'; expected lower-case letters"),
        ("build(MODEL, params=42)", "params is int; expected a mapping from names to arrays"),
        ("from_onnx(MODEL, shape=42)", "shape is int; expected a mapping from names of inputs"),
        ("from_onnx(b'no model')", "its bytes do not parse\nhelp: is the download complete"),
        ("build('gone.onnx')", "gone.onnx: error[MLF0201]"),
        ("load('gone.tar')", "gone.tar: error[MLF0501]"),
        ("load(MODEL).module(42)", "no module with this name; got '42'"),
        ("load(MODEL).module().run(None)", "run() got NoneType, expected a mapping from input"),
        ("load(MODEL).module().run({'accel': 0})", "no input with this name; got 'accel'"),
        ("load(MODEL).module().run(0)", "wrong type; got int64, expected int8"),
        ("export_model_library_format(42, 'x.tar')", "cannot export 42"),
        ("export_model_library_format(build(MODEL), 42)", "file_name is int; expected a path"),
    ],
)
def test_wrong_arguments(call: str, said: str, tmp_path: Path) -> None:
    with pytest.raises(MlfError) as caught:
        eval(f"mlftool.{call}", {"mlftool": mlftool, "MODEL": MODEL, **vars(mlftool.api)})
    assert said in str(caught.value)
    assert str(caught.value).splitlines()[0].count("error[MLF") == 1


@pytest.mark.parametrize("name", ["tir", "te", "autotvm", "rpc", "relax", "meta_schedule"])
def test_tvm_s_names_name_the_migration_page(name: str) -> None:
    forms: dict[str, type[Exception]] = {
        f"mlftool.{name}": AttributeError,
        f"from mlftool import {name}": ImportError,
        f"import mlftool.{name}": ImportError,
        f"import mlftool.{name} as x": ImportError,
    }
    for code, kind in forms.items():
        with pytest.raises(kind, match=r"docs/migration\.md") as caught:
            exec(code, {"mlftool": mlftool})
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shim", SHIMS)
def test_so_do_those_of_its_modules(shim: str) -> None:
    module = importlib.import_module(f"mlftool.{shim}")
    said = rf"'quantize' is not in mlftool\.{shim}; docs/migration"
    with pytest.raises(AttributeError, match=said):
        _ = module.quantize
    with pytest.raises(ImportError, match=said):
        exec(f"from mlftool.{shim} import quantize")
    assert not hasattr(module, "__wrapped__")


@pytest.mark.parametrize("module", ["", *(f".{shim}" for shim in SHIMS)])
def test_python_can_look_at_a_module_with_missing_names(module: str) -> None:
    """hasattr, getattr with a default, inspect, pydoc, copies, a star: all ask for names."""
    found = importlib.import_module(f"mlftool{module}")
    for name in ("tir", "te", "no_such_thing", "_ipython_display_", "__wrapped__"):
        assert not hasattr(found, name)
        assert getattr(found, name, 42) == 42
    assert all(hasattr(found, name) for name in dir(found))
    assert dict(inspect.getmembers(found)).keys() >= set(found.__all__)
    assert inspect.unwrap(cast(Callable[..., object], found)) is found
    assert found.__name__ in pydoc.render_doc(found)
    exec(f"from mlftool{module} import *")
    assert importlib.util.find_spec("mlftool.no_such_thing") is None


def test_the_other_imports_of_a_missing_name_are_python_s() -> None:
    with pytest.raises(ImportError, match="cannot import name 'no_such_thing' from 'mlftool'"):
        exec("from mlftool import no_such_thing")
    with pytest.raises(ModuleNotFoundError, match="No module named 'mlftool\\.no_such"):
        exec("import mlftool.no_such_thing")


def test_a_misspelt_name_of_ours_has_the_right_one() -> None:
    with pytest.raises(AttributeError, match="did you mean 'build'"):
        _ = mlftool.biuld
    assert not hasattr(mlftool, "no_such_thing")


@pytest.mark.parametrize("kind", ["aot", "graph", "vm", "debug", "library"])
def test_one_call_takes_one_sample(
    kind: str, vectors: dict[str, np.ndarray], tmp_path: Path
) -> None:
    """The file that `mlftool run --inputs` reads has many."""
    several = np.stack([vectors["x"]] * 3)
    np.savez(tmp_path / "x.npz", acceleration=several)
    executor = "aot" if kind == "library" else kind
    module: Any
    if kind == "debug":
        module = mlftool.api.DebugModule(mlftool.from_onnx(MODEL)[0])
    else:
        archive, library = tmp_path / "g.tar", tmp_path / "g.so"
        assert main(["compile", str(MODEL), "-o", str(archive), "--executor", executor]) == 0
        if kind == "library":
            assert main(["library", str(archive), "-o", str(library)]) == 0
        module = mlftool.load(library if kind == "library" else archive, tmp_path / "c").module()
    forms: list[object] = [{"acceleration": several}]
    if kind != "debug":
        forms += [several, tmp_path / "x.npz"]
    for inputs in forms:
        with pytest.raises(MlfError, match=r"MLF0603.*one sample; got 3\nhelp: .*array\[i\]"):
            module.run(inputs)


IMAGE = '<ir_version: 9, opset_import: ["": 17]> g (float[1,2,3,4] x) => (float[1,2,3,4] y) '


@pytest.mark.parametrize(
    "shape", [(24,), (2, 3, 4), (1, 1, 2, 3, 4), (6, 4), (2, 12), (2, 3, 4, 1)]
)
def test_axes_that_are_merged_or_split_are_taken(shape: tuple[int, ...]) -> None:
    module = mlftool.load(onnx.parser.parse_model(IMAGE + "{ y = Identity(x) }")).module()
    x = np.arange(24, dtype=np.float32).reshape(shape)
    np.testing.assert_array_equal(module.run(x)["y"].ravel(), x.ravel())


@pytest.mark.parametrize("shape", [(1, 3, 4, 2), (4, 3, 2), (2, 4, 3), (3, 8), (8, 3, 1), (4, 6)])
def test_axes_in_another_order_are_not(shape: tuple[int, ...]) -> None:
    """NHWC for NCHW has as many elements; the results would be wrong numbers."""
    module = mlftool.load(onnx.parser.parse_model(IMAGE + "{ y = Identity(x) }")).module()
    with pytest.raises(MlfError, match=r"x: wrong shape; got .*, expected \[1, 2, 3, 4\]"):
        module.run(np.zeros(shape, np.float32))


@pytest.mark.parametrize("form", ["path", "bytes"])
def test_an_open_batch_is_said_of_the_file_with_pythons_remedy(tmp_path: Path, form: str) -> None:
    net = Net()
    model = net.model(net.node("Relu", net.input("x", np.float32, ("N", 4))))  # type: ignore[arg-type]
    onnx.save(model, tmp_path / "open.onnx")
    given = str(tmp_path / "open.onnx") if form == "path" else model.SerializeToString()
    with pytest.raises(MlfError) as caught:
        mlftool.build(given)
    (problem,) = caught.value.problems
    assert problem.file == (given if form == "path" else "net")
    assert "shape in Python" in problem.help
    mod, _ = mlftool.from_onnx(given, shape={"x": (1, 4)})
    assert mlftool.build(mod)
