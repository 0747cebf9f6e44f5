"""What Bazel builds again after an edit, counted in its execution log."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import onnx
import pytest
from nested import EVERYTHING, Workspace, digests, make_workspace

pytestmark = pytest.mark.sampled(8)


def flip_one_byte(model: Path) -> None:
    """Changes one byte of one weight and nothing else of the file."""
    data = bytearray(model.read_bytes())
    weights = max(
        onnx.load_from_string(bytes(data)).graph.initializer, key=lambda t: len(t.raw_data)
    )
    at = data.index(weights.raw_data) + len(weights.raw_data) // 2
    data[at] ^= 1
    model.write_bytes(bytes(data))


def test_one_byte_of_a_model_rebuilds_only_its_chain(built: Workspace) -> None:
    model = built.folder / "models" / "gesture_int8.onnx"
    before = model.read_bytes()
    built.build(*EVERYTHING)  # the last build may have had other options
    flip_one_byte(model)

    actions = built.build(*EVERYTHING)
    # Other tests compare what it computes, to the last bit.
    model.write_bytes(before)

    outputs = [path for action in actions for path in action["listedOutputs"]]
    # The application includes the model's header, which says the model's SHA-256.
    chain = ("models/gesture_int8/", "/bin/sensor.", "sensor_sources")
    assert [path for path in outputs if not any(part in path for part in chain)] == []
    counts = Counter(action["mnemonic"] for action in actions)
    # Two targets; the host links one program, the board two, and only the weights' file is new.
    # It unpacks what it makes: there is no other action for that.
    assert (counts["MlfCompile"], counts["MlfExtract"], counts["MlfLink"]) == (2, 0, 2)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        pytest.param("version: 1\n", "# changed\nversion: 1  # too\n", id="comment"),
        pytest.param("[host, cortex-m4]", "[ 'host' , cortex-m4 ]", id="spelling"),
    ],
)
def test_an_edit_that_means_the_same_rebuilds_nothing(
    built: Workspace, before: str, after: str
) -> None:
    manifest = built.folder / "models.yaml"
    text = manifest.read_text()
    assert before in text
    built.build(*EVERYTHING)
    manifest.write_text(text.replace(before, after))

    actions = built.build(*EVERYTHING)

    assert [action["listedOutputs"] for action in actions] == []
    manifest.write_text(text)


def test_an_edit_of_one_model_configures_no_other(built: Workspace) -> None:
    manifest = built.folder / "models.yaml"
    text = manifest.read_text()
    analyse = ("build", "--nobuild", *built.options(), *EVERYTHING)
    built.bazel(*analyse)
    name = "  gesture_int8:\n"
    manifest.write_text(text.replace(name, name + "    float_mode: fused\n"))

    talk = built.bazel(*analyse)

    assert manifest.read_text() != text
    assert "(1 packages loaded, " in talk
    manifest.write_text(text)


def test_compilation_modes_share_the_compiled_model(built: Workspace) -> None:
    """An archive is the same whoever asks for it, so nobody compiles it a second time."""
    built.build(*EVERYTHING)

    options = ("-c", "opt", "--copt=-g", "--linkopt=-s", "--define=x=y")
    actions = built.build(*options, "@models//gesture_int8:host_runner", "//:sensor")

    counts = Counter(action["mnemonic"] for action in actions)
    assert counts["MlfCompile"] == 0
    assert counts["CppCompile"] > 3  # the C is compiled again, for it is another mode
    assert counts["MlfLink"] == 1


def test_firmware_for_the_c_interface_has_no_c_runtime(built: Workspace) -> None:
    built.build(*EVERYTHING)
    name = "*/bin/external/models/gesture_int8/cortex-m4_firmware.elf"
    symbols = next((built.folder / "bazel-out").glob(name)).read_bytes()
    assert b"tvmgen_gesture_int8_run" in symbols
    for name in (b"TVMFuncCall", b"TVMInitializeRuntime", b"TVMPlatform", b"TVMBackend"):
        assert name not in symbols


def test_the_firmware_runs_on_the_simulated_board(built: Workspace) -> None:
    talk = built.bazel("test", *built.options(), "--test_output=all", "//:sensor_test")

    assert "sensor: one gesture judged" in talk
    assert "1 test passes" in talk


def test_a_model_reports_by_itself(built: Workspace) -> None:
    table = built.bazel("run", *built.options(), "@models//vibration_int8:report")

    rows = [line.split() for line in table.splitlines() if "exact" in line]
    assert [row[:2] for row in rows] == [["vibration_int8", "host"], ["cortex-m4", "exact"]]
    flash = rows[1][3].replace(",", "")  # after the accuracy, which is not measured
    assert int(flash) > 10_000


def test_a_baseline_is_kept_by_bazel_run(built: Workspace) -> None:
    folder = built.folder / "sizes"
    folder.mkdir()
    (folder / "sizes.json").write_text("{}\n")
    (folder / "BUILD.bazel").write_text(
        'load("@mlftool//rules:defs.bzl", "mlf_baseline_test")\n'
        'mlf_baseline_test(name = "sizes_test", size = "small", baseline = "sizes.json", '
        'reports = ["@models//vibration_int8:cortex-m4_report"])\n'
    )
    test = ("--test_output=all", "//sizes:sizes_test")

    talk = built.bazel("test", *built.options(), *test, fails=True)
    assert "vibration_int8 cortex-m4: not in the baseline" in talk
    assert "to accept this: bazel run //sizes:sizes_test -- --update" in talk
    built.bazel("run", *built.options(), "//sizes:sizes_test", "--", "--update")
    figures = json.loads((folder / "sizes.json").read_text())["vibration_int8 cortex-m4"]
    assert figures["flash_bytes"] > 10_000
    assert figures["instructions"] > 10_000
    built.bazel("test", *built.options(), *test)


def test_an_edit_that_means_something_is_noticed(built: Workspace) -> None:
    manifest = built.folder / "models.yaml"
    text = manifest.read_text()
    manifest.write_text(
        text.replace("gesture_int8:\n", "gesture_int8:\n    module_name: hand\n", 1)
    )

    actions = built.build("@models//gesture_int8:host_archive")

    assert [action["mnemonic"] for action in actions] == ["MlfCompile"]
    manifest.write_text(text)


def test_a_bad_manifest_is_reported_by_line(built: Workspace) -> None:
    manifest = built.folder / "models.yaml"
    text = manifest.read_text()
    manifest.write_text(text.replace("absolute: 0", "absolut: 0", 1))

    talk = built.bazel("build", *built.options(), "//:sensor", fails=True)

    line = 1 + text[: text.index("absolute: 0")].count("\n")
    assert f"models.yaml:{line}:" in talk
    assert "error[MLF0106]: models.gesture_int8.test.absolut: unknown key" in talk
    assert "did you mean 'absolute'?" in talk
    manifest.write_text(text)


@pytest.mark.parametrize(
    ("text", "wrong", "said"),
    [
        (
            'manifest = "//:models.yaml"',
            'manifest = "models.yaml"',
            "mlf_manifest_repository models: manifest: got 'models.yaml', expected the label of a "
            ".yaml file of the workspace, such as //:models.yaml",
        ),
        (
            "\nmlf_dependencies()\n",
            "\n",
            "mlf_manifest_repository models: there is no repository @mlf_python; call "
            "mlf_dependencies() before this",
        ),
    ],
)
def test_a_workspace_file_that_cannot_be_meant(
    built: Workspace, text: str, wrong: str, said: str
) -> None:
    workspace = built.folder / "WORKSPACE"
    whole = workspace.read_text()
    assert text in whole
    workspace.write_text(whole.replace(text, wrong))

    assert said in built.bazel("build", *built.options(), "--nobuild", "//:sensor", fails=True)

    workspace.write_text(whole)


def test_a_board_of_a_manifest_in_no_package(built: Workspace) -> None:
    manifest = built.folder / "models.yaml"
    text = manifest.read_text()
    manifest.write_text(text + "targets: {mine: {base: cortex-m4, board: //nowhere:board}}\n")

    talk = built.bazel("build", *built.options(), "--nobuild", "//:sensor", fails=True)

    assert "error[MLF0123]: targets.mine.board: no such package; got '//nowhere:board'" in talk
    manifest.write_text(text)


def test_external_data_is_read_in_the_sandbox(built: Workspace) -> None:
    """The sandbox shows every file as a link, and onnx reads no external data through links."""
    models = built.folder / "models"
    model = onnx.load(str(models / "vibration_int8.onnx"))
    onnx.save_model(
        model, str(models / "split.onnx"), save_as_external_data=True, location="split.data",
        size_threshold=0,
    )  # fmt: skip
    manifest = built.folder / "models.yaml"
    text = manifest.read_text()
    manifest.write_text(
        text + "  split:\n    model: models/split.onnx\n    data_files: [models/split.data]\n"
        "    module_name: vibration_int8_split\n"
    )

    actions = built.build("@models//split:host_archive")

    assert [action["mnemonic"] for action in actions] == ["MlfCompile"]
    manifest.write_text(text)


def test_another_folder_takes_everything_from_a_shared_cache(
    built: Workspace, tmp_path: Path, cache: Path
) -> None:
    built.build(*EVERYTHING)
    other = make_workspace(tmp_path / "a" / "longer" / "path", cache)
    for model in ("models/gesture_int8.onnx", "models.yaml"):
        (other.folder / model).write_bytes((built.folder / model).read_bytes())

    actions = other.build(*EVERYTHING)
    other.shutdown()

    missed = [action["listedOutputs"] for action in actions if not action.get("remoteCacheHit")]
    assert missed == []
    assert len(actions) > 30
    made = digests(actions)
    assert {path: built.first[path] for path in made} == made
