"""`mlftool run`, `runner` and `doctor` as a user meets them: text, files and exit codes."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
import tomllib
from runtime_archives import HOSTILE, toy, vectors
from shared import REPO

from mlftool.cli import main
from mlftool.errors import MlfError
from mlftool.mlf import write_tar
from mlftool.mlf.runtime_tree import crt_root
from mlftool.runtime import doctor
from mlftool.runtime.execute import check_processor, place_for
from mlftool.runtime.interface import read_interface

needs_boards = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with toy.tar and v.npz, and the process in it."""
    monkeypatch.chdir(tmp_path)
    write_tar(toy(), tmp_path / "toy.tar")
    np.savez(tmp_path / "v.npz", **vectors())
    return tmp_path


def fails(arguments: str, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    """Exit code and the one error line, with its help line if it has one, after warnings."""
    code = main(arguments.split())
    out = capsys.readouterr()
    lines = out.err.splitlines()
    assert "Traceback" not in out.err
    while ": warning[MLF" in lines[0]:
        del lines[: 2 if lines[1].startswith("help: ") else 1]
    assert ": error[MLF" in lines[0]
    assert [line for line in lines[1:] if not line.startswith("help: ")] == []
    assert len(lines) <= 2
    return code, out.err


def test_a_run_on_the_host(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = "run toy.tar --inputs v.npz --expect v.npz -o out.npz --report r.json"
    assert main(command.split()) == 0
    shown = capsys.readouterr()
    assert shown.err == ""
    assert "30 elements, equal to the reference within 0 (default for int16), 1e-05 + " in shown.out
    with np.load(work / "out.npz") as out:
        assert out.files == ["sum", "s/c"]
        for name in out.files:
            np.testing.assert_array_equal(out[name], vectors()[name], strict=True)
    report = json.loads((work / "r.json").read_text())
    assert report.pop("microseconds") >= report.pop("microseconds_min") > 0
    assert report.pop("cosine") == pytest.approx(1)
    assert report == {
        "schema_version": 1,
        "module": "toy",
        "target": "host",
        "samples": 3,
        "passed": True,
        "elements": 30,
        "mismatches": 0,
        "max_abs_error": 0.0,
        "max_rel_error": 0.0,
        "rmse": 0.0,
        "tolerances": {
            "sum": {"absolute": 0.0, "relative": 0.0},
            "s/c": {"absolute": 1e-5, "relative": 1e-5},
        },
        "workspace_bytes": 0,
        "constants_bytes": 0,
    }


@needs_boards
@pytest.mark.parametrize("place", ["cortex-m0", "cortex-m4", "cortex-m55", "rv32imac", "rv64gc"])
def test_a_run_on_a_board(place: str, work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    command = f"run toy.tar --inputs v.npz --expect v.npz --on {place} --json"
    assert main(command.split()) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["target"] == place
    assert report["passed"] is True
    assert 30 < report["instructions"] < 2000
    assert 1000 < report["flash_bytes"] < 10_000
    assert 0 < report["ram_bytes"] < 2000
    assert 0 < report["stack_bytes"] < 400


@pytest.mark.parametrize(
    ("target", "place", "verdict"),
    [
        ("cortex-m4", "cortex-m3", "error"),
        ("cortex-m55", "cortex-m4", "error"),
        ("x86-64-v3", "cortex-m4", "error"),
        ("powerpc", "cortex-m4", "error"),
        ("host", "powerpc", "error"),
        ("host", "cortex-m4", "warning"),
        ("cortex-m0", "cortex-m4", "warning"),
        ("cortex-m4", "cortex-m4", ""),
        ("host", "host", ""),
        ("cortex-m4", "host", ""),
    ],
)
def test_code_for_another_processor(target: str, place: str, verdict: str) -> None:
    where = place_for(target, place)
    if verdict == "error":
        with pytest.raises(MlfError, match=f"is for {target}; .* is a {place}") as caught:
            check_processor(target, where, "a.tar")
        (problem,) = caught.value.problems
    else:
        found = check_processor(target, where, "a.tar")
        assert bool(found) == bool(verdict)
        if found is None:
            return
        problem = found
    hint = f"compile the model for it: mlftool compile MODEL -o FILE.tar --target {place}"
    assert (problem.severity, problem.help) == (verdict, hint)


@needs_boards
def test_a_run_warns_of_another_processor(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "toy.tar", "--inputs", "v.npz", "--on", "cortex-m4"]) == 0
    assert capsys.readouterr().err.startswith("toy.tar: warning[MLF0613]: the code is for host")


def test_a_difference_is_exit_1_and_everything_is_written(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = vectors()
    arrays["s/c"][1, 0, 2] += 0.25
    np.savez(work / "ref.npz", **arrays)
    files = "--inputs v.npz --expect ref.npz --report r.json -o out.npz"
    code, text = fails(f"run toy.tar {files} --absolute 0.125", capsys)
    assert code == 1
    assert "error[MLF0604]: 1 of 30 elements differ" in text
    assert "sample 1, 's/c'[0, 2]" in text
    report = json.loads((work / "r.json").read_text())
    assert (report["passed"], report["mismatches"]) == (False, 1)
    assert (work / "out.npz").exists()
    assert main(f"run toy.tar {files} --absolute 0.26".split()) == 0


def test_a_right_float_model_passes_by_default(
    work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arrays = vectors()
    arrays["s/c"] = arrays["s/c"] * np.float32(1 + 1e-6)
    np.savez(work / "ref.npz", **arrays)
    assert main(["run", "toy.tar", "--inputs", "v.npz", "--expect", "ref.npz"]) == 0
    shown = capsys.readouterr().out
    assert "1e-05 + 1e-05 x |expected| (default for float32)" in shown
    code, text = fails("run toy.tar --inputs v.npz --expect ref.npz --absolute 0", capsys)
    assert code == 1
    assert "by more than 0; largest" in text
    arrays["sum"] = arrays["sum"] + 1
    np.savez(work / "ref.npz", **arrays)
    code, text = fails("run toy.tar --inputs v.npz --expect ref.npz", capsys)
    assert code == 1
    assert "0 (default for int16)" in text
    assert "help: if the model may differ that much, allow it with --absolute" in text


def test_an_infinite_error_is_null_in_json(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arrays = vectors()
    arrays["s/c"][0, 0, 0] = np.nan
    np.savez(work / "ref.npz", **arrays)
    fails("run toy.tar --inputs v.npz --expect ref.npz --report r.json", capsys)
    assert json.loads((work / "r.json").read_text())["max_abs_error"] is None


def test_labels_give_accuracy(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    best = vectors()["sum"].argmax(axis=1)
    np.savez(work / "v.npz", **vectors(), labels=np.array([best[0], best[1], 3 - best[2]]))
    assert main(["run", "toy.tar", "--inputs", "v.npz", "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["accuracy"] == pytest.approx(2 / 3)
    assert "elements" not in report


@pytest.mark.parametrize("file", ["v.npz", "w.npz"])
def test_labels_that_no_score_is_for_are_refused(
    work: Path, capsys: pytest.CaptureFixture[str], file: str
) -> None:
    """In whichever file they are."""
    np.savez(work / "w.npz", **vectors())
    np.savez(work / file, **vectors(), labels=np.array([0, 99, 1]))
    code, said = fails("run toy.tar --inputs v.npz --expect w.npz", capsys)
    assert code == 2
    assert f"{file}: error[MLF0602]: labels: got 99, expected 0 to " in said


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ("run absent.tar --inputs v.npz", "MLF0501", "absent.tar"),
        ("run v.npz --inputs v.npz", "MLF0502", "v.npz"),
        ("run toy.tar --inputs absent.npz", "MLF0600", "absent.npz"),
        ("run toy.tar --inputs toy.tar", "MLF0600", "toy.tar"),
        ("run toy.tar --inputs objects.npz", "MLF0600", "pickled"),
        ("run toy.tar --inputs names.npz", "MLF0601", "no array for tensor 'a:0'"),
        ("run toy.tar --inputs type.npz", "MLF0602", "got int16, expected int8"),
        ("run toy.tar --inputs v.npz --expect two.npz", "MLF0603", "got 2, expected 3"),
        ("run toy.tar --inputs v.npz --module tiy", "MLF0606", "got 'tiy'"),
        ("run toy.tar --inputs v.npz --on z80", "MLF0610", "--on"),
        ("run toy.tar --inputs v.npz --on nonsense", "MLF0610", "nonsense"),
        ("run toy.tar --inputs v.npz --runner absent.elf", "MLF0609", "absent.elf"),
        ("run toy.tar --inputs v.npz --absolute -1", "MLF0400", "--absolute"),
        ("run toy.tar --inputs v.npz --relative nan", "MLF0400", "--relative"),
        ("run toy.tar --inputs v.npz --repetitions 0", "MLF0400", "--repetitions"),
        ("run toy.tar --inputs v.npz -o no/such/out.npz", "MLF0402", "no/such/out.npz"),
        ("runner toy.tar --module tiy -o x.c", "MLF0606", "got 'tiy'"),
        ("runner v.npz -o x.c", "MLF0502", "v.npz"),
    ],
)
def test_bad_input_is_one_line_and_exit_2(
    arguments: str, code: str, message: str, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    np.savez(work / "objects.npz", x=np.array([None], dtype=object))
    np.savez(work / "names.npz", **{HOSTILE: vectors()[HOSTILE], "A": np.zeros(3)})
    np.savez(work / "type.npz", **{**vectors(), "a:0": vectors()["a:0"].astype(np.int16)})
    np.savez(work / "two.npz", **{name: array[:2] for name, array in vectors().items()})
    status, text = fails(arguments, capsys)
    assert status == 2
    assert f"error[{code}]" in text
    assert message in text
    assert not (work / "x.c").exists()


def test_a_run_without_inputs_makes_them(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As tvmc does. A file with some of the inputs is refused, unless the rest is asked for."""
    found = []
    for mode in ([], ["--fill-mode", "random"], ["--fill-mode", "zeros"]):
        assert main(["run", "toy.tar", "-o", "out.npz", *mode]) == 0
        found.append((work / "out.npz").read_bytes())
        assert f"inputs: {mode[1] if mode else 'random'}): 1 sample" in capsys.readouterr().out
    assert found[0] == found[1] != found[2]
    first, *others = read_interface(toy(), None, "toy.tar").inputs
    assert others
    np.savez(work / "some.npz", **{first.name: np.ones(first.shape, first.dtype)})
    assert fails("run toy.tar --inputs some.npz", capsys)[0] == 2
    assert main(["run", "toy.tar", "--inputs", "some.npz", "--fill-mode", "ones"]) == 0
    assert "--expect needs --inputs" in fails("run toy.tar --expect v.npz", capsys)[1]


@pytest.mark.parametrize(
    ("on", "variable", "package"),
    [
        ("host", "CC", "gcc"),
        ("cortex-m4", "MLFTOOL_ARM_GCC", "gcc-arm-none-eabi"),
        pytest.param("cortex-m4", "MLFTOOL_QEMU_ARM", "qemu-system-arm", marks=needs_boards),
        ("rv32imc", "MLFTOOL_RISCV_GCC", "gcc-riscv64-unknown-elf picolibc-riscv64-unknown-elf"),
    ],
)
def test_a_missing_program_is_exit_3_with_what_to_install(
    on: str,
    variable: str,
    package: str,
    work: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv(variable, "no-such-program --flag")
    code, text = fails(f"run toy.tar --inputs v.npz --on {on}", capsys)
    assert code == 3
    assert "error[MLF0700]: 'no-such-program'" in text
    assert f"help: install it with: apt-get install {package}" in text


def test_a_runner_that_is_built_already(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What the Bazel rules do: descriptor, compiler, then run with --runner and no compiler."""
    assert main(["runner", "toy.tar", "-o", "runner_toy.c"]) == 0
    files = toy().files
    for name in ("codegen/host/include/tvmgen_toy.h", "codegen/host/src/toy_lib0.c"):
        (work / Path(name).name).write_bytes(files[name])
    crt = crt_root()
    sources = ["toy_lib0.c", "runner_toy.c", crt / "runner/runner.c"]
    sources += [crt / "platform/host/platform.c"]
    folders = [f"-I{crt / f}" for f in ("runner", "platform")]
    flags = ["-std=c99", "-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-I."]
    subprocess.run(["cc", *flags, *folders, *sources, "-o", "program"], check=True)
    command = "run toy.tar --inputs v.npz --expect v.npz --runner program"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", "no-such-program")
        assert main(command.split()) == 0
    assert "equal to the reference" in capsys.readouterr().out


def test_a_model_is_compiled_first(work: Path, capsys: pytest.CaptureFixture[str]) -> None:
    float1x3 = [onnx.helper.make_tensor_value_info(n, 1, ["n", 3]) for n in ("x y", "z")]
    node = onnx.helper.make_node("Relu", ["x y"], ["z"])
    graph = onnx.helper.make_graph([node], "g", float1x3[:1], float1x3[1:])
    opset = [onnx.helper.make_opsetid("", 17)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=8), "m.onnx")
    x = np.array([[[-1.5, 0, 2.5]], [[1, -2, 3]]], np.float32)
    np.savez("io.npz", **{"x y": x, "z": np.maximum(x, 0)})
    command = ["run", "m.onnx", "--inputs", "io.npz", "--expect", "io.npz"]
    assert main([*command, "--input-shape", "x y:1,3"]) == 0
    assert "6 elements, equal" in capsys.readouterr().out
    assert main(command) == 2
    assert "m.onnx: error[MLF0206]" in capsys.readouterr().err


def test_doctor_lists_what_is_there(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MLFTOOL_QEMU_ARM", "no-such-program")
    assert main(["doctor"]) == 3
    lines = capsys.readouterr().out.splitlines()
    missing = [line for line in lines if line.startswith("missing")]
    assert any("apt-get install qemu-system-arm" in line for line in missing)
    assert any(line.startswith("ok       numpy") for line in lines)
    assert main(["doctor", "--json"]) == 3
    findings = json.loads(capsys.readouterr().out)
    assert findings["ok"] is False
    (qemu,) = [f for f in findings["findings"] if f["name"] == "qemu-system-arm"]
    assert (qemu["ok"], qemu["needed"], qemu["install"]) == (
        False,
        True,
        "apt-get install qemu-system-arm",
    )


def test_doctor_is_content_when_nothing_needed_is_missing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for variable in ("CC", "MLFTOOL_ARM_GCC", "MLFTOOL_QEMU_ARM"):
        monkeypatch.setenv(variable, "cc")
    monkeypatch.setenv("BAZEL", "no-such-program")  # asked for, but no command needs it
    monkeypatch.setattr("mlftool.runtime.doctor._newlib", lambda: _ok("newlib"))
    assert main(["doctor"]) == 0
    assert "missing  bazel" in capsys.readouterr().out


def _ok(name: str) -> object:
    from mlftool.runtime.doctor import Finding

    return Finding(name, True, True, "here", "", "")


def test_doctor_asks_for_what_the_package_asks_for() -> None:
    """Every requirement of pyproject.toml that a command may need, with its least version."""
    project = tomllib.loads((REPO / "pyproject.toml").read_text())["project"]
    asked = list(project["dependencies"])
    for extra, packages in project["optional-dependencies"].items():
        asked += packages if extra != "test" else []
    wanted = dict(text.lower().split(">=") for text in asked)
    known = {name.lower(): least for name, least, _, _ in doctor._PACKAGES}
    assert wanted.keys() <= known.keys()
    for name, least in wanted.items():
        numbers = tuple(int(n) for n in least.split("."))
        assert numbers[: len(known[name])] == known[name], name
    needed = {name.lower() for name, _, needed, _ in doctor._PACKAGES if needed}
    assert needed == {text.partition(">=")[0] for text in project["dependencies"]}
