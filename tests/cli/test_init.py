"""`mlftool init`: a project whose test is green after three commands, or no project at all."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net
from shared import NETWORKS, OWN, REPO
from tfl_models import dense

from mlftool import starter
from mlftool.cli import main, terminal
from mlftool.manifest import load

GESTURE = OWN / "gesture_int8.onnx"

needs_board = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)


def init(capsys: pytest.CaptureFixture[str], *words: object) -> dict[str, object]:
    assert main(["init", *map(str, words), "--json"]) == 0
    data: dict[str, object] = json.loads(capsys.readouterr().out)
    assert data["schema_version"] == 1
    return data


@needs_board
@pytest.mark.parametrize("name", ["gesture_int8", "vibration_float32", "ad_int8"])
def test_three_commands_to_a_green_test(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = next(n for n in NETWORKS if n.name == name).path
    monkeypatch.chdir(tmp_path)
    assert main(["init", "project", "--model", str(model), "--target", "cortex-m4"]) == 0
    out = capsys.readouterr().out
    assert "equal to those of onnxruntime" in out
    enter, run = (line.strip() for line in out.partition("next:\n")[2].splitlines())
    assert enter == "cd project"
    monkeypatch.chdir(tmp_path / "project")
    assert main(shlex.split(run)[1:]) == 0
    assert "equal to the reference" in capsys.readouterr().out


def test_optimisers_that_are_off_by_one_are_not_the_reference(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """onnxruntime's own Softmax of int8 is off by one in some of these; the standard's is not."""
    net, zero = Net(17), np.int8(-128)
    x = net.dq(net.q(net.input("x", np.float32, (8, 64)), 0.03, np.int8(3)), 0.03, np.int8(3))
    model = net.model(net.dq(net.q(net.node("Softmax", x), 1 / 255, zero), 1 / 255, zero))
    onnx.save(model, tmp_path / "m.onnx")
    data = init(capsys, tmp_path / "p", "--model", tmp_path / "m.onnx", "--target", "host")
    assert str(data["reference"]).endswith(" without optimisations")
    assert data["passed"] is True


def test_the_manifest_is_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "project"
    data = init(capsys, folder, "--model", GESTURE, "--target", "rv32imac")
    files = ["BUILD.bazel", "README.md", "gesture_int8.npz", "gesture_int8.onnx", "models.yaml"]
    assert data["files"] == files == sorted(p.name for p in folder.iterdir())
    assert data["passed"] is True
    manifest = load(folder / "models.yaml")
    assert manifest.models["gesture_int8"].targets == ("host", "rv32imac")
    assert main(["check", str(folder / "models.yaml")]) == 0
    assert [p.name for p in folder.parent.iterdir()] == ["project"]


def test_a_narrow_terminal_breaks_no_command(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(terminal, "stdout_columns", lambda: 40)
    monkeypatch.chdir(tmp_path)
    assert main(["init", "p", "--model", str(GESTURE)]) == 0
    text, _, commands = capsys.readouterr().out.partition("next:\n")
    assert max(map(len, text.splitlines())) <= 40
    assert commands.count("\n") == 2


def test_folder_and_model_in_either_order(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = [
        init(capsys, *words) for words in ((GESTURE, tmp_path / "a"), (tmp_path / "b", GESTURE))
    ]
    assert [data["folder"] for data in made] == [str(tmp_path / "a"), str(tmp_path / "b")]
    assert made[0]["files"] == made[1]["files"]


@pytest.mark.parametrize("words", [["in/gait.onnx"], ["--model", "in/gait.onnx"]])
def test_a_model_alone_names_the_folder(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """In the current folder; what is there already stays, and the help says how to go on."""
    monkeypatch.chdir(tmp_path)
    Path("in").mkdir()
    shutil.copy(GESTURE, "in/gait.onnx")
    data = init(capsys, *words, "--target", "host")
    enter, run = (str(command) for command in list(data["commands"]))  # type: ignore[call-overload]
    assert (data["folder"], enter) == ("gait", "cd gait")
    said = refused(capsys, *words)
    assert said.startswith("gait: error[MLF0402]: is there already")
    assert said.endswith("help: mlftool init DIR --model in/gait.onnx\n")
    monkeypatch.chdir("gait")
    assert main(shlex.split(run)[1:]) == 0


def test_shapes_that_the_model_leaves_open(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    net = Net()
    model = net.model(net.node("Relu", net.input('x"y', np.float32, (1, 4))))
    model.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "batch"
    onnx.save(model, tmp_path / "my model.onnx")
    monkeypatch.chdir(tmp_path)
    init(capsys, "p q", "--model", "my model.onnx", "--target", "host", "--input-shape", 'x"y:3,4')
    (made,) = load(tmp_path / "p q" / "models.yaml").models.values()
    assert dict(made.input_shapes) == {'x"y': (3, 4)}
    assert main(["check", "p q/models.yaml"]) == 0
    run = (tmp_path / "p q" / "README.md").read_text().splitlines()[2]
    monkeypatch.chdir(tmp_path / "p q")
    assert main(shlex.split(run)[1:]) == 0


@pytest.mark.parametrize("model", ["gesture_float32", "gesture_int8", "digits_int8"])
def test_without_onnxruntime(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(__import__("sys").modules, "onnxruntime", None)
    data = init(capsys, tmp_path / "p", "--model", OWN / f"{model}.onnx")
    assert data["reference"] == "onnx's reference implementation"
    assert data["passed"] is True


def test_weights_travel_inside(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "at").mkdir()
    net = Net()
    x = net.input("x", np.float32, (1, 64))
    model = net.model(net.node("MatMul", x, net.const(np.ones((64, 64)), np.float32)))
    path = tmp_path / "at" / "m.onnx"
    onnx.save(model, path, save_as_external_data=True, location="m.bin", size_threshold=0)
    init(capsys, tmp_path / "p", "--model", path)
    made = onnx.load(tmp_path / "p" / "m.onnx", load_external_data=False)
    assert made.graph.initializer[0].raw_data


def refused(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert main(["init", *map(str, words)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "error[MLF" in err
    return err


def test_bad_input_writes_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.onnx").write_text("nothing")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("mine")
    bad = Net()
    onnx.save(bad.model(bad.node("RandomNormalLike", bad.input("x", np.float32, (2,)))),
              tmp_path / "r.onnx")  # fmt: skip
    before = sorted(tmp_path.rglob("*"))
    assert "MLF0202" in refused(capsys, tmp_path / "p", "--model", tmp_path / "x.onnx")
    assert "MLF0201" in refused(capsys, tmp_path / "p", "--model", tmp_path / "none.onnx")
    assert "MLF0302" in refused(capsys, tmp_path / "p", "--model", tmp_path / "r.onnx")
    assert "is there already" in refused(capsys, tmp_path / "full", "--model", GESTURE)
    assert "is there already" in refused(capsys, tmp_path / "x.onnx", "--model", GESTURE)
    assert "MLF0402" in refused(capsys, tmp_path / "x.onnx" / "p", "--model", GESTURE)
    assert "MLF0201" in refused(capsys, tmp_path / "none.onnx")
    assert "expected a model, an .onnx or .tflite file; got" in refused(capsys, tmp_path / "full")
    assert "expected a model, an .onnx or .tflite file\n" in refused(capsys)
    assert "got a and b" in refused(capsys, "a", "b")
    both = refused(capsys, tmp_path / "p", GESTURE, "--model", GESTURE)
    assert "expected one folder besides --model" in both
    assert "expected a folder and a model" in refused(capsys, GESTURE, GESTURE)
    near = refused(capsys, tmp_path / "p", "--model", GESTURE, "--target", "cortex-m44")
    assert "did you mean 'cortex-m4'" in near
    assert sorted(tmp_path.rglob("*")) == before


def test_an_interruption_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(starter, "save_npz", stop)
    assert main(["init", str(tmp_path / "p"), "--model", str(GESTURE)]) == 130
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_for_all_who_may(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As mkdir makes it: a temporary folder is for its owner only."""
    init(capsys, tmp_path / "p", "--model", GESTURE)
    subprocess.run(["mkdir", tmp_path / "q"], check=True)
    assert (tmp_path / "p").stat().st_mode == (tmp_path / "q").stat().st_mode


@needs_board
def test_a_model_of_tensorflow_lite(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing here runs it but mlftool: what this computer gives is what a board has to give."""
    monkeypatch.chdir(tmp_path)
    Path("my net.tflite").write_bytes(dense(np.random.default_rng(0)))
    assert main(["init", "project", "--model", "my net.tflite"]) == 0
    out = capsys.readouterr().out
    assert "nothing here runs TensorFlow Lite" in out
    enter, run = (line.strip() for line in out.partition("next:\n")[2].splitlines())
    assert enter == "cd project"
    monkeypatch.chdir("project")
    assert main(["check", "models.yaml"]) == 0
    assert main(shlex.split(run)[1:]) == 0
    assert "equal to the reference" in capsys.readouterr().out
    refused(capsys, tmp_path / "p", "--model", "my_net.tflite", "--input-value", "x:1")
    assert not (tmp_path / "p").exists()


def test_a_workspace_for_bazel(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The example's, which tests build with Bazel 4 and 7, but for the path and the name."""
    folder = tmp_path / "p"
    data = init(capsys, folder, "--model", GESTURE, "--workspace", REPO)
    assert list(data["commands"])[-1] == "bazel test @models//..."  # type: ignore[call-overload]
    # A repository of its own under Bazel, which puts it beside ours.
    beside = REPO.parent / "sensor_example"
    example = beside if beside.exists() else REPO / "examples" / "external_workspace"
    for name in ("WORKSPACE", "MODULE.bazel", ".bazelrc"):
        made = (folder / name).read_text().replace(json.dumps(str(REPO.resolve())), '"../.."')
        assert lines(made.replace('"gesture_int8"', '"sensor"')) == lines(
            (example / name).read_text()
        )
    assert "has no rules" in refused(
        capsys, tmp_path / "q", "--model", GESTURE, "--workspace", tmp_path
    )
    assert not (tmp_path / "q").exists()


def lines(text: str) -> list[str]:
    """What is no comment, and of a .bazelrc what is for every build, whatever the line breaks."""
    kept = [
        line
        for line in text.splitlines()
        if line and not line.startswith(("#", '"""', "build:", "test:"))
    ]
    return re.findall(r"[^\s,()]+|[()]", "\n".join(kept))


LABELS = """<ir_version: 9, opset_import: ["": 17, "ai.onnx.ml": 3]>
g (float[1,3] x) => (string[1] label, float[1,3] score) {
  ids = ArgMax<axis=1, keepdims=0>(x)
  label = ai.onnx.ml.LabelEncoder<keys_int64s=[0,1,2], values_strings=["idle","walk","fall"]>(ids)
  score = ai.onnx.ml.ZipMap<classlabels_strings=["idle","walk","fall"]>(x)
}"""


@pytest.mark.parametrize("reference", ["onnxruntime", "onnx's reference implementation"])
def test_a_classifier_with_labels_and_maps(
    reference: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As scikit-learn's are exported: texts are vectors, and maps the rows that a device has."""
    monkeypatch.chdir(tmp_path)
    if reference != "onnxruntime":
        monkeypatch.setattr(starter, "imported", missing)
    model = onnx.parser.parse_model(LABELS)
    model.graph.output[1].ClearField("type")
    score = onnx.helper.make_map_type_proto(
        onnx.TensorProto.STRING, onnx.helper.make_tensor_type_proto(onnx.TensorProto.FLOAT, [])
    )
    sequence = onnx.helper.make_sequence_type_proto(score)
    model.graph.output[1].type.CopyFrom(sequence)
    onnx.save(model, "gait.onnx")
    data = init(capsys, "made", "gait.onnx", "--target", "host")
    assert (data["passed"], str(data["reference"]).startswith(reference)) == (True, True)
    arrays = np.load("made/gait.npz")
    assert arrays["label"].dtype == np.dtype("S64")
    texts = np.array([b"idle", b"walk", b"fall"])
    assert (arrays["label"][:, 0] == texts[arrays["x"][:, 0].argmax(1)]).all()
    monkeypatch.chdir("made")
    words = ["run", "gait.onnx", "--inputs", "gait.npz", "--expect"]
    assert main([*words, "gait.npz"]) == 0
    assert "0 (default for strings)" in capsys.readouterr().out
    for kind in ("U", "S8"):  # other forms of the same texts
        np.savez("other.npz", **{**arrays, "label": arrays["label"].astype(kind)})
        assert main([*words, "other.npz"]) == 0
    np.savez("other.npz", **{**arrays, "label": np.full((4, 1), "run")})
    assert main([*words, "other.npz"]) == 1
    assert "expected 'run'" in capsys.readouterr().err


def missing() -> None:
    raise ImportError


def test_what_no_reference_computes_is_a_whole_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """onnx's message goes on for pages after its first line, which ends with "in"."""
    said = "No registered implementation for operator 'New' and domain 'ai.onnx.ml' in"

    def refused(model: object) -> None:
        raise RuntimeError(said + "\n['Abs',\n 'Acos']")

    monkeypatch.setattr(starter, "imported", missing)
    monkeypatch.setattr(starter, "_reference", refused)
    assert main(["init", str(tmp_path / "new"), str(GESTURE)]) == 2
    first = capsys.readouterr().err.splitlines()[0]
    assert first.endswith(
        ": No registered implementation for operator 'New' and domain 'ai.onnx.ml'"
    )
    assert not (tmp_path / "new").exists()
