"""`mlftool build` and `mlftool check` on manifests with small models made here."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import onnx
import pytest
from manifest_corpus import HERE
from onnx import TensorProto, helper, numpy_helper
from shared import REPO

import mlftool.compile
from mlftool import builder
from mlftool.cli import main
from mlftool.manifest import read
from mlftool.manifest.entries import Entry, entries
from mlftool.mlf import read_tar
from mlftool.stamps import FOLDER

ROOT = HERE.parent.parent
MANIFEST = """version: 1
defaults: {targets: [host, cortex-m4]}
models:
  small: {model: small.onnx}
  large: {model: large.onnx, targets: board}
archives:
  both: {models: [small, large], target: cortex-m7}
targets:
  board: {base: cortex-m4, flash: 1MiB, ram: 64KiB}
"""
OUTPUTS = ["both.tar", "large/board-aot.tar", "small/cortex-m4-aot.tar", "small/host-aot.tar"]


def save_model(path: str, width: int, op: str = "Relu", batch: int | str = 1) -> None:
    """y = op(x @ w), with `width` x `width` weights."""
    weights = np.arange(width * width, dtype=np.float32).reshape(width, width) / 100
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node(op, ["h"], ["y"])]
    x, y = (helper.make_tensor_value_info(n, TensorProto.FLOAT, [batch, width]) for n in ("x", "y"))
    graph = helper.make_graph(nodes, "g", [x], [y], [numpy_helper.from_array(weights, "w")])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    save_model("small.onnx", 4)
    save_model("large.onnx", 32)
    Path("m.yaml").write_text(MANIFEST)
    return tmp_path


def tree(folder: str = "out") -> list[str]:
    found = (p for p in Path(folder).rglob("*") if not p.is_dir() and FOLDER not in p.parts)
    return sorted(p.relative_to(folder).as_posix() for p in found)


def mlftool_build(*more: str) -> int:
    return main(["build", "m.yaml", "-o", "out", *more])


Captured = pytest.CaptureFixture[str]


def test_builds_every_entry(work: Path, capsys: Captured) -> None:
    assert mlftool_build() == 0
    assert tree() == OUTPUTS
    captured = capsys.readouterr()
    assert captured.out == ""
    lines = captured.err.splitlines()
    assert sorted(line.split("] ")[1].split(": written")[0] for line in lines) == OUTPUTS
    both = read_tar(Path("out/both.tar"))
    assert {"codegen/host/src/small_lib1.c", "codegen/host/src/large_lib1.c"} <= set(both.files)
    facts = json.loads(
        read_tar(Path("out/large/board-aot.tar")).text("executor-config/aot/large.json")
    )
    assert facts["target"] == "cortex-m4"  # which any tool knows, unlike the board's name


def test_the_manual_is_true(work: Path) -> None:
    """The first example of docs/manifest.md and the commands below it, as they stand there."""
    page = (ROOT / "docs" / "manifest.md").read_text(encoding="utf-8")
    example = re.search(r"```yaml\n(.*?)```", page, re.DOTALL)
    commands = re.search(r"\nThen\n\n```\n(.*?)```", page, re.DOTALL)
    assert example
    assert commands
    Path("models.yaml").write_text(example[1])
    save_model("kws.onnx", 4)
    for line in commands[1].splitlines():
        name, *arguments = line.partition("#")[0].split()
        assert name == "mlftool"
        assert main(arguments) == 0
    assert {f"out/{file}" for file in tree()} == set(re.findall(r"out/kws/[^ ]*\.tar", page))


def test_what_did_not_change_is_left_alone(work: Path, capsys: Captured) -> None:
    assert mlftool_build() == 0
    for name in OUTPUTS:
        os.utime(Path("out") / name, (1000, 1000))
    save_model("small.onnx", 5)
    capsys.readouterr()
    assert mlftool_build() == 0
    changed = [name for name in OUTPUTS if (Path("out") / name).stat().st_mtime != 1000]
    assert changed == ["both.tar", "small/cortex-m4-aot.tar", "small/host-aot.tar"]
    assert capsys.readouterr().err.count(": up to date, ") == 1


def test_jobs_do_not_change_bytes(work: Path) -> None:
    assert mlftool_build("-j", "1") == 0
    alone = [(Path("out") / name).read_bytes() for name in OUTPUTS]
    assert main(["build", "m.yaml", "-o", "two", "-j", "2"]) == 0
    assert [(Path("two") / name).read_bytes() for name in OUTPUTS] == alone


def test_only(work: Path, capsys: Captured) -> None:
    assert mlftool_build("--only", "both", "--only", "large") == 0
    assert tree() == ["both.tar", "large/board-aot.tar"]
    capsys.readouterr()
    assert mlftool_build("--only", "smal", "--only", "both") == 2
    assert capsys.readouterr().err == (
        "mlftool: error[MLF0400]: --only: unknown name; got 'smal', expected a model or archive "
        "of the manifest\nhelp: did you mean 'small'?\n"
    )


@pytest.mark.parametrize("jobs", ["0", "-1", "x", "1.5", "99999999999999999999", ""])
def test_bad_jobs(work: Path, capsys: Captured, jobs: str) -> None:
    assert mlftool_build(f"-j={jobs}") == 2
    assert "error[MLF0400]: argument -j/--jobs: got " in capsys.readouterr().err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_one_failure_stops_no_other(work: Path, capsys: Captured, jobs: str) -> None:
    save_model("small.onnx", 4, op="NoSuchOperator")
    Path("m.yaml").write_text(MANIFEST.replace("  large:", "  junk: {model: junk.onnx}\n  large:"))
    Path("junk.onnx").write_bytes(b"junk")
    assert mlftool_build("-j", jobs) == 2
    assert tree() == ["large/board-aot.tar"]
    lines = capsys.readouterr().err.splitlines()
    assert sum(": FAILED, " in line for line in lines) == 5
    errors = [line for line in lines if ": error[" in line]
    # Each model's problem once, though two targets and an archive met it.
    assert sorted(line.split(":")[0] for line in errors) == ["junk.onnx", "small.onnx"]


def constants(archive: str, module: str) -> int:
    facts = read_tar(Path("out") / archive).text(f"executor-config/aot/{module}.json")
    return int(json.loads(facts)["constants_bytes"])


def test_budgets(work: Path, capsys: Captured) -> None:
    limited = MANIFEST.replace("small.onnx}", "small.onnx, budget: {flash: 1MiB, ram: 16B}}")
    Path("m.yaml").write_text(limited.replace("flash: 1MiB, ram: 64KiB", "flash: 4kB"))
    assert mlftool_build() == 1
    assert tree() == OUTPUTS  # to look at what is too large, one needs it
    captured = capsys.readouterr().err
    assert captured.count("written, over its limits") == 3  # of boards
    ram, flash = (line for line in captured.splitlines() if ": error[" in line)
    assert ram.startswith("m.yaml:4:57: error[MLF0119]: models.small.budget.ram: small/")
    assert ram.endswith("32 inputs and outputs), expected at most 16 bytes")
    assert flash == (
        "m.yaml:9:35: error[MLF0119]: targets.board.flash: large/board-aot.tar is over this "
        f"limit; got {constants('large/board-aot.tar', 'large')} bytes of constants, before any "
        "code, expected at most 4000 bytes"
    )


def test_json(work: Path, capsys: Captured) -> None:
    assert mlftool_build("--json", "--only", "large") == 0
    report = json.loads(capsys.readouterr().out)
    assert report["schema_version"] == 1
    (entry,) = report["entries"]
    assert entry["path"] == "out/large/board-aot.tar"
    assert (entry["ok"], entry["changed"], entry["target"]) == (True, True, "board")
    (module,) = entry["modules"]
    assert module["constants_bytes"] == constants("large/board-aot.tar", "large")
    assert module["ram_bytes"] == module["workspace_bytes"] + 2 * 32 * 4


def test_output_folder_that_cannot_be_made(work: Path, capsys: Captured) -> None:
    Path("out").write_text("in the way")
    assert mlftool_build("-j", "1", "--only", "small") == 2
    assert "error[MLF0402]" in capsys.readouterr().err
    assert Path("out").read_text() == "in the way"


def test_bad_manifest_builds_nothing(work: Path, capsys: Captured) -> None:
    Path("m.yaml").write_text(MANIFEST.replace("large.onnx", "larg.onnx"))
    assert mlftool_build() == 2
    assert capsys.readouterr().err.startswith("m.yaml:5:18: error[MLF0116]: models.large.model: ")
    assert not Path("out").exists()


def test_killed_worker(work: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    def die(specs: Sequence[object]) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    monkeypatch.setattr(mlftool.compile, "compile_specs", die)
    assert mlftool_build("-j", "2", "--only", "small") == 3
    assert "error[MLF0701]: small/host-aot.tar: " in capsys.readouterr().err


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_our_own_bug(
    work: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch, jobs: str
) -> None:
    def fail(specs: Sequence[object]) -> None:
        raise KeyError("a bug")

    monkeypatch.setattr(mlftool.compile, "compile_specs", fail)
    monkeypatch.delenv("MLF_DEBUG", raising=False)
    assert mlftool_build("-j", jobs, "--only", "small") == 4
    errors = [line for line in capsys.readouterr().err.splitlines() if ": error[" in line]
    assert len(errors) == 2
    assert errors[0].startswith("mlftool: error[MLF0900]: small/")


def test_a_value_that_does_not_fit_is_the_manifests_mistake(work: Path, capsys: Captured) -> None:
    save_model("small.onnx", 4)
    text = MANIFEST.replace("model: small.onnx", "model: small.onnx, input_values: {z: 1}")
    Path("m.yaml").write_text(text)
    assert main(["check", "m.yaml"]) == 2
    place = "m.yaml:4:30: error[MLF0209]: models.small.input_values: is not an input of the model"
    assert place in capsys.readouterr().err


@pytest.mark.parametrize("command", [["check"], ["build", "-o", "out"]])
def test_what_is_wrong_with_a_whole_archive_is_the_manifests_mistake(
    command: list[str], work: Path, capsys: Captured
) -> None:
    """One file cannot have two versions of the format; neither model's file is at fault."""
    text = MANIFEST.replace("large.onnx, targets", "large.onnx, mlf_version: 6, targets")
    Path("m.yaml").write_text(text)
    assert main([command[0], "m.yaml", *command[1:]]) == 2
    assert (
        "m.yaml:7:3: error[MLF0506]: archives.both: one archive has one version; got 7 of 'small', "
        "6 of 'large'\nhelp: give its models one mlf_version"
    ) in capsys.readouterr().err


def test_check_reports_manifest_and_models_and_writes_nothing(work: Path, capsys: Captured) -> None:
    save_model("small.onnx", 4, batch="N")
    bad = MANIFEST.replace("model: small.onnx", "model: small.onnx, input_shapes: {z: [1]}")
    bad = bad.replace("  large:", "  gone: {model: gone.onnx}\n  large:")
    Path("m.yaml").write_text(bad)
    before = tree(".")
    assert main(["check", "m.yaml"]) == 2
    captured = capsys.readouterr()
    errors = [line for line in captured.err.splitlines() if ": error[" in line]
    assert errors[0].startswith("m.yaml:5:17: error[MLF0116]: models.gone.model: no such file")
    assert any(
        line.startswith("m.yaml:4:30: error[MLF0208]: models.small.input_shapes: ")
        for line in errors[1:]
    )
    assert any(line.startswith("small.onnx: error[MLF0206]") for line in errors[1:])
    assert captured.out == ""
    assert tree(".") == before


def test_check_goes_on_past_what_leans_on_a_mistake(work: Path, capsys: Captured) -> None:
    """A board that was refused takes the models built for it out of the check, and nothing else."""
    save_model("small.onnx", 4, op="NoSuchOperator")
    Path("m.yaml").write_text(MANIFEST.replace("base: cortex-m4", "base: cortex-m9"))
    assert main(["check", "m.yaml"]) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if ": error[" in line]
    assert [line.split(":")[0] for line in errors] == ["m.yaml", "small.onnx"]


def test_check_good(work: Path, capsys: Captured) -> None:
    for file in ("m.yaml", "small.onnx"):
        assert main(["check", file]) == 0
        assert capsys.readouterr() == ("", f"{file}: no problems\n")
    assert main(["check", "m.yaml", "--json"]) == 0
    expected = {"schema_version": 1, "file": "m.yaml", "ok": True, "problems": [], "warnings": []}
    assert json.loads(capsys.readouterr().out) == expected


def test_check_json(work: Path, capsys: Captured) -> None:
    Path("m.yaml").write_text("version: 2\n")
    assert main(["check", "m.yaml", "--json"]) == 2
    captured = capsys.readouterr()
    report = json.loads(captured.out)
    assert captured.err == ""
    assert report["ok"] is False
    assert [(p["code"], p["line"], p["path"]) for p in report["problems"]] == [
        ("MLF0107", 1, "models"),
        ("MLF0117", 1, "version"),
    ]


@pytest.mark.parametrize(
    ("arrays", "codes"),
    [
        ({"x": (3, 1, 4), "y": (3, 1, 4), "labels": (3,), "notes": (7,)}, []),
        ({"x": (1, 4), "y": (1, 4)}, []),
        ({"x": (3, 1, 4)}, ["MLF0601"]),
        ({"x": (3, 1, 5), "z": (3, 1, 4)}, ["MLF0602", "MLF0601"]),
        ({"x": (3, 1, 4), "y": (2, 1, 4)}, ["MLF0603"]),
        ({"x": (3, 1, 4), "y": (3, 1, 4), "labels": (4,)}, ["MLF0602"]),
        (None, ["MLF0600"]),
    ],
)
def test_check_looks_into_the_vectors(
    work: Path, capsys: Captured, arrays: dict[str, tuple[int, ...]] | None, codes: list[str]
) -> None:
    Path("v.npz").write_bytes(b"junk")
    if arrays is not None:
        kinds = {"labels": np.int64}
        np.savez("v.npz", **{n: np.zeros(s, kinds.get(n, np.float32)) for n, s in arrays.items()})
    Path("m.yaml").write_text(
        MANIFEST.replace("small.onnx}", "small.onnx, test: {vectors: v.npz}}")
    )
    assert main(["check", "m.yaml"]) == (2 if codes else 0)
    errors = [line for line in capsys.readouterr().err.splitlines() if ": error[" in line]
    assert [line[: len("v.npz: error[MLF0000]")] for line in errors] == [
        f"v.npz: error[{code}]" for code in codes
    ]


def test_labels_that_no_score_is_for_are_refused(work: Path, capsys: Captured) -> None:
    x = np.zeros((3, 1, 4), np.float32)
    np.savez("v.npz", x=x, y=x, labels=np.array([0, 4, 1]))
    Path("m.yaml").write_text(
        MANIFEST.replace("small.onnx}", "small.onnx, test: {vectors: v.npz}}")
    )
    assert main(["check", "m.yaml"]) == 2
    assert "v.npz: error[MLF0602]: labels: got 4, expected 0 to 3" in capsys.readouterr().err


def test_check_over_budget_is_a_failed_check(work: Path, capsys: Captured) -> None:
    Path("m.yaml").write_text(MANIFEST.replace("ram: 64KiB", "ram: 1B"))
    assert main(["check", "m.yaml"]) == 1
    assert "m.yaml:9:46: error[MLF0119]: targets.board.ram: " in capsys.readouterr().err


def test_check_model_with_open_shape(work: Path, capsys: Captured) -> None:
    save_model("small.onnx", 4, batch="N")
    assert main(["check", "small.onnx"]) == 2
    assert "error[MLF0206]" in capsys.readouterr().err
    assert main(["check", "small.onnx", "--input-shape", "x:1,4"]) == 0
    assert main(["check", "m.yaml", "--input-shape", "x:1,4"]) == 2
    assert "error[MLF0400]: --input-shape is for a model; " in capsys.readouterr().err


def test_interrupt_leaves_whole_files_only(work: Path) -> None:
    models = "".join(f"  m{i}: {{model: large.onnx}}\n" for i in range(300))
    Path("m.yaml").write_text(f"version: 1\nmodels:\n{models}")
    command = [sys.executable, "-m", "mlftool", "build", "m.yaml", "-o", "out", "-j", "2"]
    process = subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path])},
    )
    assert process.stderr
    first = process.stderr.readline()
    os.killpg(process.pid, signal.SIGINT)  # what Ctrl-C does: the whole group gets it
    rest = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "Traceback" not in first + rest
    written = tree()
    assert len(written) < 300
    assert all(name.endswith("/host-aot.tar") for name in written)
    for name in written:
        assert "metadata.json" in read_tar(Path("out") / name).files


def test_an_interrupt_ends_what_is_being_compiled(
    work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At once, and its temporary files go."""

    def compile_forever(_: object, entry: Entry, **__: object) -> NoReturn:
        file = Path(entry.output.replace("/", "-"))
        try:
            file.write_text("half")
            time.sleep(60)
        finally:
            file.unlink()
        raise AssertionError

    def stop() -> None:
        while not {"small-cortex-m4-aot.tar", "small-host-aot.tar"} <= {*os.listdir()}:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(builder, "_build_one", compile_forever)
    manifest, _ = read(Path("m.yaml"))
    assert manifest is not None
    wanted = [e for e in entries(manifest) if e.output.startswith("small")]
    before, since = sorted(os.listdir()), time.monotonic()
    # A child, as pytest itself has threads, and takes an interrupt for the end of all tests.
    pid = os.fork()
    if pid == 0:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        threading.Thread(target=stop, daemon=True).start()
        try:
            builder.build(manifest, wanted, work / "out", 2)
        except KeyboardInterrupt:
            os._exit(130)
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert time.monotonic() - since < 30
    assert sorted(os.listdir()) == before


def test_what_is_for_bazel_compiles_nothing_again(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", "m.yaml", "-o", "out"]) == 0
    stamps = {p: p.stat().st_mtime_ns for p in (work / "out" / FOLDER).rglob("*") if p.is_file()}
    keys = "tags: [x], size: large, timeout: long, exec_properties: {a: b}, visibility: [//a:b]"
    text = MANIFEST.replace("{model: small.onnx}", "{model: small.onnx, " + keys + "}")
    Path("m.yaml").write_text(text)

    assert main(["build", "m.yaml", "-o", "out"]) == 0

    assert {p: p.stat().st_mtime_ns for p in stamps} == stamps


def test_a_budget_of_ram_is_a_search(tmp_path: Path, capsys: Captured) -> None:
    """What the usual plan needs holds as it is; below it layers are computed in bands of rows, down
    to the least, which the message of a lower budget says. Inputs in the workspace count once."""
    model = REPO / "examples" / "models" / "gesture_int8.onnx"
    (tmp_path / "g.onnx").write_bytes(model.read_bytes())
    text = "version: 1\nmodels:\n  g:\n    model: g.onnx\n    targets: cortex-m4\n"
    text += "    workspace_io: true\n    budget: {{ram: {}}}\n"

    def built(budget: int) -> tuple[int, dict[str, Any], str]:
        (tmp_path / "m.yaml").write_text(text.format(budget))
        words = ["build", str(tmp_path / "m.yaml"), "-o", str(tmp_path / "out"), "--json"]
        status = main(words)
        told = capsys.readouterr()
        ((module,),) = (e["modules"] for e in json.loads(told.out)["entries"])
        assert module["workspace_io"]
        assert module["ram_bytes"] == module["workspace_bytes"]
        return status, module, told.err

    status, whole, _ = built(1024)
    assert (status, whole["ram_bytes"], whole["in_bands"]) == (0, 1024, [])
    status, banded, said = built(1023)
    assert (status, banded["in_bands"]) == (0, ["stem_Conv to pool_MaxPool"])
    assert banded["ram_bytes"] < 1023
    assert "'stem_Conv to pool_MaxPool' in bands of rows" in said
    status, least, said = built(16)
    assert status == 1
    assert f"got {least['ram_bytes']} bytes, the least found (" in said
    assert f"help: mlftool memmap {tmp_path}/m.yaml --entry g/cortex-m4-aot shows what" in said
    assert built(least["ram_bytes"])[0] == 0
    assert built(least["ram_bytes"] - 1)[0] == 1
