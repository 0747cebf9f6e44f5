"""`mlftool build` compiles what has changed, whatever changed, and nothing else."""

from __future__ import annotations

import importlib.metadata
import json
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from mlftool import compile, stamps
from mlftool.cli import main
from mlftool.compile import ModuleSpec
from mlftool.mlf.runtime_tree import crt_root
from mlftool.module import Module

MANIFEST = """version: 1
models:
  plain: {model: plain.onnx, targets: board, tuning: plain.json}
  beside: {model: beside.onnx, input_shapes: {x: [1, 4]}}
  declared: {model: declared.onnx, data_files: [declared.data]}
archives:
  both: {models: [plain, beside], target: host}
targets:
  board: {base: cortex-m4, ram: 64KiB}
"""
ALL = {"plain", "beside", "declared", "both"}
Build = Callable[[], set[str]]


def save(name: str, weight: float = 1, external: bool = False) -> None:
    """y = x @ w, four floats wide."""
    weights = numpy_helper.from_array(np.full((4, 4), weight, np.float32), "w")
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [1, 4]) for n in "xy")
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", [x], [y],
                              [weights])  # fmt: skip
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)])
    Path(f"{name}.data").unlink(missing_ok=True)
    onnx.save(
        model, f"{name}.onnx", save_as_external_data=external, location=f"{name}.data",
        size_threshold=0,
    )  # fmt: skip


@pytest.fixture
def build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Build:
    """Builds the manifest; the names of the entries that were compiled."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("MLF_DEBUG", raising=False)
    save("plain")
    Path("plain.json").write_text('{"version": 1, "targets": {}}')
    save("beside", external=True)
    save("declared", external=True)
    Path("m.yaml").write_text(MANIFEST)
    # The compiler's own files, where a test can change them.
    shutil.copytree(Path(stamps.__file__).parent, "copy/mlftool")
    shutil.copytree(crt_root(), "copy/crt")
    monkeypatch.setattr(stamps, "__file__", str(tmp_path / "copy/mlftool/stamps.py"))
    monkeypatch.setattr(stamps, "crt_root", lambda: tmp_path / "copy/crt")

    def run() -> set[str]:
        capsys.readouterr()
        assert main(["build", "m.yaml", "-o", "out", "-j", "1", "--json"]) == 0
        entries = json.loads(capsys.readouterr().out)["entries"]
        return {entry["name"] for entry in entries if entry["compiled"]}

    return run


def replaced(old: str, new: str) -> None:
    assert MANIFEST.count(old) == 1
    Path("m.yaml").write_text(MANIFEST.replace(old, new))


def touch_and_link(name: str) -> None:
    """New times, and a copy under another inode: the same contents."""
    shutil.copy(name, "copy/file")
    Path(name).unlink()
    shutil.move("copy/file", name)


def append(name: str, text: str) -> None:
    with Path(name).open("a") as file:
        file.write(text)


CHANGES: dict[str, tuple[Callable[[], object], set[str]]] = {
    "nothing": (lambda: None, set()),
    "times": (lambda: touch_and_link("plain.onnx"), set()),
    "comment": (lambda: append("m.yaml", "# a comment\n"), set()),
    "model": (lambda: save("plain", 2), {"plain", "both"}),
    "data beside the model": (lambda: save("beside", 2, True), {"beside", "both"}),
    "tuning record": (lambda: append("plain.json", " "), {"plain", "both"}),
    "declared data": (lambda: save("declared", 2, True), {"declared"}),
    "module name": (lambda: replaced("beside.onnx,", "beside.onnx, module_name: m,"),
                    {"beside", "both"}),
    "target": (lambda: replaced("base: cortex-m4", "base: cortex-m7"), {"plain"}),
    "target of an archive": (lambda: replaced("target: host", "target: cortex-m3"), {"both"}),
    "models of an archive": (lambda: replaced("[plain, beside]", "[beside]"), {"both"}),
    "executor": (lambda: replaced("[declared.data]", "[declared.data], executor: graph"),
                 {"declared"}),
    "interface": (lambda: replaced("[declared.data]", "[declared.data], interface_api: packed"),
                  {"declared"}),
    "version": (lambda: replaced("[declared.data]", "[declared.data], mlf_version: 4"),
                {"declared"}),
    "a source of the compiler": (lambda: append("copy/mlftool/plan/memory.py", "#"), ALL),
    "a kernel's template": (
        lambda: append(str(min(Path("copy/mlftool").rglob("*.j2"))), " "), ALL),
    "a source of the C runtime": (lambda: append("copy/crt/include/mlf/math.h", "\n"), ALL),
    "a new file of the compiler": (lambda: append("copy/mlftool/new.py", ""), ALL),
    "archive": (lambda: append("out/both.tar", "x"), {"both"}),
    "archive gone": (lambda: Path("out/both.tar").unlink(), {"both"}),
    "stamp": (lambda: append("out/.mlftool/both.tar.json", "x"), {"both"}),
    "stamp of another": (
        lambda: shutil.copy("out/.mlftool/plain/board-aot.tar.json", "out/.mlftool/both.tar.json"),
        {"both"}),
    "stamps gone": (lambda: shutil.rmtree("out/.mlftool"), ALL),
}  # fmt: skip


@pytest.mark.sampled(4)
@pytest.mark.parametrize("change", CHANGES)
def test_what_changed_is_compiled(build: Build, change: str) -> None:
    make, expected = CHANGES[change]
    assert build() == ALL
    make()
    assert build() == expected
    assert build() == set()


def test_the_environment_counts(build: Build, monkeypatch: pytest.MonkeyPatch) -> None:
    assert build() == ALL
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "1000000000")
    assert build() == ALL
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "0.0.1")
    assert build() == ALL
    assert build() == set()
    monkeypatch.setenv("MLF_DEBUG", "1")  # who asks what the compiler does gets to see it
    assert build() == ALL


def test_a_model_that_changes_while_it_is_compiled(
    build: Build, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows which of the two was read, so the archive is not trusted."""
    original = compile.compile_specs

    def late(specs: Sequence[ModuleSpec]) -> list[Module]:
        modules = original(specs)
        if specs[0].module_name == "declared":
            save("declared", 3, external=True)
        return modules

    monkeypatch.setattr(compile, "compile_specs", late)
    assert build() == ALL
    assert build() == {"declared"}
    assert build() == set()


def test_data_behind_a_link_are_not_up_to_date(build: Build) -> None:
    """The compiler refuses them, so there is nothing that could be up to date."""
    assert build() == ALL
    Path("beside.data").rename("elsewhere")
    Path("beside.data").symlink_to("elsewhere")
    assert main(["build", "m.yaml", "-o", "out", "-j", "1"]) == 2


def test_a_limit_is_checked_though_nothing_is_compiled(build: Build) -> None:
    assert build() == ALL
    Path("m.yaml").write_text(MANIFEST)
    assert main(["build", "m.yaml", "-o", "out", "-j", "1"]) == 0
    replaced("ram: 64KiB", "ram: 1B")
    for _ in range(2):  # compiled, and then up to date
        assert main(["build", "m.yaml", "-o", "out", "-j", "1"]) == 1


@pytest.mark.parametrize("location", ["../secret", "/etc/passwd", "a/b", ".."])
def test_stamps_open_nothing_elsewhere(location: str, tmp_path: Path) -> None:
    """What a model calls its data is as little trusted here as by the importer."""
    (tmp_path / "model.onnx").write_bytes(b"")
    stamp = stamps.Stamp(tmp_path, "a.tar", [], [(tmp_path / "model.onnx", [])])
    with pytest.raises(OSError, match="not in the model's folder"):
        stamp._inputs([[location]])
