"""Tensors of rank 0, archives that somebody changed, lists without end, and places in messages."""

from __future__ import annotations

import io
import json
import shlex
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import parser, save
from shared import REPO

from mlftool.cli import main

HEAD = '<ir_version: 9, opset_import: ["": 17]> '
SCALARS = (
    "g (float x, float[3] v) => (float y, float z) { y = ReduceSum <keepdims=0> (v) z = Neg (x) }"
)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    save(parser.parse_model(HEAD + SCALARS), tmp_path / "m.onnx")
    return tmp_path / "m.onnx"


@pytest.mark.parametrize("samples", [1, 2])
def test_run_with_scalars(model: Path, samples: int, capsys: pytest.CaptureFixture[str]) -> None:
    folder = model.parent
    x = np.arange(samples, dtype=np.float32)
    v = np.arange(3 * samples, dtype=np.float32).reshape(samples, 3)
    np.savez(folder / "in.npz", x=x, v=v)
    np.savez(folder / "want.npz", y=v.sum(1), z=-x)
    out = folder / "out.npz"
    command = ["run", str(model), "--inputs", str(folder / "in.npz"), "-o", str(out)]
    assert main([*command, "--expect", str(folder / "want.npz")]) == 0, capsys.readouterr().err
    with np.load(out) as made:
        np.testing.assert_array_equal(made["y"], v.sum(1))
        np.testing.assert_array_equal(made["z"], -x)


@pytest.mark.parametrize("suffix", [".c", ".h", "metadata.json", "checksums.sha256"])
def test_extract_refuses_what_was_changed(
    model: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = model.parent
    assert main(["compile", str(model), "-o", str(folder / "a.tar")]) == 0
    changed = 0
    with tarfile.open(folder / "a.tar") as old, tarfile.open(folder / "b.tar", "w") as new:
        for member in old:
            data = old.extractfile(member)
            content = data.read() if data else b""
            if not changed and member.name.endswith(suffix):
                changed, content = 1, content[:-2] + b" " + content[-1:]
            member.size = len(content)
            new.addfile(member, io.BytesIO(content) if data else None)
    if not changed:
        pytest.fail(f"no member ends in {suffix}")
    capsys.readouterr()
    assert main(["extract", str(folder / "b.tar"), "--all", str(folder / "all")]) == 2
    assert "b.tar: error[MLF05" in capsys.readouterr().err
    assert not (folder / "all").exists()


def test_lists_of_metadata_cost_little(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = model.parent
    assert main(["compile", str(model), "-o", str(folder / "a.tar")]) == 0
    with tarfile.open(folder / "a.tar") as old, tarfile.open(folder / "b.tar", "w") as new:
        for member in old:
            data = old.extractfile(member)
            content = data.read() if data else b""
            if member.name.endswith("metadata.json"):
                metadata = json.loads(content)
                for module in metadata["modules"].values():
                    module["executors"] = [1] * 100_000
                content = json.dumps(metadata).encode()
            member.size = len(content)
            new.addfile(member, io.BytesIO(content) if data else None)
    capsys.readouterr()
    start = time.process_time()
    assert main(["inspect", str(folder / "b.tar")]) == 2
    assert time.process_time() - start < 5
    assert "b.tar" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            'version: 1\ntargets:\n  t: {base: cortex-m4, board: "//..:x"}\nmodels:\n'
            "  a: {model: m.onnx, targets: [t]}\n",
            "f.yaml:3:31: error[MLF0109]: targets.t.board: ",
        ),
        (
            "version: 1\nmodels:\n  a:\n    model: m.onnx\n    targets: [host]\n"
            '    pools: ["x:1"]\n',
            "f.yaml:6:13: error[MLF0109]: models.a.pools[0]: ",
        ),
        (
            "version: 1\nmodels:\n  a:\n    model: m.onnx\n    targets: [host]\n"
            "    tuning: t.json\n",
            "t.json: error[MLF0408]: ",
        ),
    ],
    ids=["board", "pool", "tuning record"],
)
def test_messages_say_where(
    model: Path, text: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (model.parent / "f.yaml").write_text(text)
    (model.parent / "t.json").write_text("{")
    assert main(["build", str(model.parent / "f.yaml"), "-o", str(model.parent / "out")]) == 2
    assert said in capsys.readouterr().err
    assert not list(model.parent.glob("out/**/*.tar"))


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-15", "utf-8"])
@pytest.mark.parametrize(
    "words",
    [("ops",), ("memmap", "--no-advice"), ("trace",), ("check",), ("inspect",), ("compare",),
     ("diff", "--no-run")],
    ids=lambda words: words[0],
)  # fmt: skip
def test_names_that_the_terminal_s_encoding_has_not(
    words: tuple[str, ...], encoding: str, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such a name, or one that is no text at all, is written escaped."""
    odd = model.with_name("\u0142\udcff.onnx")
    model.rename(odd)
    files = [str(odd)]
    if words[0] in ("inspect", "compare", "diff"):
        files = [str(odd.with_suffix(".tar"))]
        assert main(["compile", str(odd), "-o", *files, "--module-name", "m"]) == 0
    files += {"compare": ["--against", *files], "diff": files}.get(words[0], [])
    raw = io.BytesIO()
    monkeypatch.setattr("sys.stdout", io.TextIOWrapper(raw, encoding=encoding))
    assert main([words[0], *files, *words[1:]]) == 0
    said = raw.getvalue().decode(encoding)
    assert "\\udcff" in said or words[0] in ("check", "inspect")  # which say no name


def test_a_command_in_a_hint_can_be_typed(
    model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = model.with_name("my model.onnx")
    model.rename(odd)
    assert main(["verify", str(odd)]) == 2
    hint = capsys.readouterr().err.partition("compile it first: mlftool ")[2]
    monkeypatch.chdir(odd.parent)
    assert main(shlex.split(hint)) == 0
    assert (odd.parent / "my model.tar").is_file()
    assert main(["profile", "models.yaml:a b"]) == 2
    assert "models.yaml --entry 'a b'" in capsys.readouterr().err


@pytest.mark.parametrize("quiet", [False, True])
def test_compile_says_what_a_model_declares_wrongly(
    quiet: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    head = '<ir_version: 9, opset_import: ["": 17]>'
    save(
        parser.parse_model(f"{head} g (float[2,3] x) => (float[3,3] y) {{ y = Relu (x) }}"),
        tmp_path / "m.onnx",
    )
    words = ["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tar")]
    assert main([*words, *(["-q"] if quiet else [])]) == 0
    said = "declared as float32[3x3], but the model computes float32[2x3]"
    assert (said in capsys.readouterr().err) == (not quiet)


@pytest.mark.parametrize(("off", "said"), [(1, "at ORT_ENABLE_BASIC"), (2, "differ that much")])
def test_integers_one_apart_have_a_usual_cause(
    off: int, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """onnxruntime's optimised Softmax is a step off where mlftool has the standard's value."""
    models = REPO / "examples" / "models"
    with np.load(models / "gesture_int8.npz") as file:
        arrays = {name: file[name] for name in file.files}
    scores = arrays["probability"].reshape(-1)
    scores[0] += -off if scores[0] > 0 else off
    np.savez(tmp_path / "ref.npz", **arrays)
    model, inputs = str(models / "gesture_int8.onnx"), str(models / "gesture_int8.npz")
    words = ["run", model, "--inputs", inputs, "--expect", str(tmp_path / "ref.npz")]
    assert main(words) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("command", ["library", "run", "diff"])
def test_code_that_does_not_compile_is_told_with_its_file(
    model: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file, broken = model.parent / "a.tar", model.parent / "b.tar"
    target = "host" if command == "library" else "cortex-m0"
    assert main(["compile", str(model), "-o", str(file), "--target", target]) == 0
    with tarfile.open(file) as old, tarfile.open(broken, "w") as new:
        for member in old:
            data = old.extractfile(member)
            content = data.read() if data else b""
            content += b"int broken = ;\n" if member.name.endswith("lib1.c") else b""
            member.size = len(content)
            if not member.name.endswith("checksums.sha256"):
                new.addfile(member, io.BytesIO(content) if data else None)
    more = {
        "library": ["-o", str(model.parent / "m.so")],
        "run": ["--on", "cortex-m0"],
        "diff": [str(file), "--on", "cortex-m0"],
    }
    assert main([command, str(broken), *more[command]]) == 2
    assert f"{broken}: error[MLF0608]: module '" in capsys.readouterr().err
