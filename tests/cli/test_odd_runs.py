"""Tensors of rank 0, archives that somebody changed, lists without end, and places in messages."""

from __future__ import annotations

import io
import json
import tarfile
import time
from pathlib import Path

import numpy as np
import pytest
from onnx import parser, save

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
