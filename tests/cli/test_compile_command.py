"""What `mlftool compile` says of its own arguments and of a machine that is too small."""

from __future__ import annotations

from pathlib import Path

import pytest

import mlftool.compile
from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import MlfError

MODEL = Path(__file__).parents[2] / "examples" / "models" / "vibration_float32.onnx"
BAD_MODULES = ["", "A", "1a", "a-b", "a b", "a/b", "../a", "a\n", "é", "a" * 65, "a;b", "%s"]


@pytest.mark.parametrize("name", BAD_MODULES)
def test_module_names(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out.tar"
    assert main(["compile", str(MODEL), "-o", str(out), f"--module-name={name}"]) == 2
    said = capsys.readouterr().err
    assert said.startswith("mlftool: error[MLF0404]: module name '")
    assert said.count("\n") == 1
    assert not out.exists()
    with pytest.raises(MlfError, match="MLF0404"):
        compile_modules([ModuleSpec(MODEL, name)])


def test_every_model_of_an_archive_is_reported(tmp_path: Path) -> None:
    (tmp_path / "empty.onnx").write_bytes(b"")
    specs = [
        ModuleSpec(tmp_path / "empty.onnx", "a"),
        ModuleSpec(MODEL, "a", "cortex-m99"),
        ModuleSpec(tmp_path / "gone.onnx", "b"),
    ]
    with pytest.raises(MlfError) as caught:
        compile_modules(specs)
    assert [p.code for p in caught.value.problems] == ["MLF0202", "MLF0403", "MLF0201", "MLF0503"]


@pytest.mark.parametrize("name", ["compile_specs", "imported"])
@pytest.mark.parametrize("limit", ["0", "64"])
def test_not_enough_memory(
    name: str,
    limit: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without a limit the machine has too little (3), with one the model wants too much (2)."""

    def too_much(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(mlftool.compile, name, too_much)
    code = main(["compile", str(MODEL), "-o", str(tmp_path / "out.tar"), "--max-memory", limit])
    first, *_ = capsys.readouterr().err.splitlines()
    if limit == "0":
        assert (code, first) == (3, "mlftool: error[MLF0703]: not enough memory")
    else:
        said = "takes more than 64 MiB of memory to compile"
        assert (code, first) == (2, f"{MODEL}: error[MLF0705]: {said}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("raised", [SystemError("no exception set"), TypeError(), ValueError()])
def test_whatever_is_raised_where_memory_is_all(
    raised: Exception,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Code in C may say anything then, and it is no bug."""

    def too_much(*_: object) -> None:
        kept = bytearray(200 << 20)  # of 256 MiB
        raise raised from ValueError(len(kept))

    monkeypatch.setattr(mlftool.compile, "imported", too_much)
    code = main(["compile", str(MODEL), "-o", str(tmp_path / "out.tar"), "--max-memory", "256"])
    first, *_ = capsys.readouterr().err.splitlines()
    said = "takes more than 256 MiB of memory to compile"
    assert (code, first) == (2, f"{MODEL}: error[MLF0705]: {said}")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "the following arguments are required: MODEL.onnx, -o/--output"),
        (["m.onnx"], "the following arguments are required: -o/--output"),
        (["m.onnx", "-o", "o", "--executor", "vm2"], "argument --executor: invalid choice: 'vm2'"),
        (["m.onnx", "-o", "o", "--colour", "red"], "unrecognized arguments: --colour red"),
        (["m.onnx", "-o", "o", "more.onnx"], "unrecognized arguments: more.onnx"),
    ],
)
def test_arguments(arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", *arguments]) == 2
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.startswith(f"mlftool: error[MLF0400]: {message}")
    assert len(rest) == 1
    assert rest[0].startswith("help: ")
    assert "see 'mlftool" in rest[0]


@pytest.mark.parametrize(
    ("words", "help"),
    [
        ("compare a.onnx b.onnx", "did you mean '--against b.onnx'? see 'mlftool compare --help'"),
        ("size a.tar b.tar", "did you mean '--against b.tar'? see 'mlftool size --help'"),
        ("profile a.onnx b.onnx", "see 'mlftool profile --help'"),
    ],
)
def test_a_second_file_has_an_option(
    words: str, help: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(words.split()) == 2
    assert capsys.readouterr().err.splitlines()[1:] == [f"help: {help}"]


@pytest.mark.parametrize("kind", ["onnx", "tflite"])
def test_a_reference_is_asked_for_in_the_models_format(
    kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["compare", f"a.{kind}"]) == 2
    assert f"expected either --against FLOAT.{kind} or --on BOARD" in capsys.readouterr().err


def test_a_missing_option_is_explained(capsys: pytest.CaptureFixture[str]) -> None:
    """What SAMPLES.npz is, a newcomer does not know."""
    assert main(["quantize", "m.onnx", "-o", "q.onnx"]) == 2
    help = capsys.readouterr().err.splitlines()[1]
    assert help.startswith("help: --data SAMPLES.npz: samples of inputs by name")
    assert help.endswith("; see 'mlftool quantize --help'")
