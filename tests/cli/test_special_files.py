"""Files that are none, streams that are closed or full, odd folders: an answer, and no hang."""

from __future__ import annotations

import ast
import os
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from onnx import numpy_helper, parser, save
from onnx.external_data_helper import set_external_data
from shared import REPO

from mlftool.cli import COMMANDS, main, parser_of
from mlftool.errors import MlfError
from mlftool.runtime.cache import build_once

MODEL = '<ir_version: 9, opset_import: ["": 17]> g (float[3] x) => (float y) {\n' \
        "y = ReduceSum <keepdims=0> (x) }"  # fmt: skip


def mlftool(*arguments: str | bytes, shell: str = "") -> subprocess.CompletedProcess[str]:
    command: list[str | bytes] = [sys.executable, "-m", "mlftool", *arguments]
    if shell:
        command = ["sh", "-c", f'"$@" {shell}', "sh", *command]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(REPO), *sys.path])}
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=120)


@pytest.fixture
def pipe(tmp_path: Path) -> str:
    os.mkfifo(tmp_path / "pipe.onnx")
    return str(tmp_path / "pipe.onnx")


@pytest.mark.parametrize("command", ["check", "build", "compile", "inspect", "run"])
def test_a_pipe_is_refused_at_once(pipe: str, command: str, tmp_path: Path) -> None:
    out = {"compile": ["-o", str(tmp_path / "o.tar")], "run": ["--inputs", pipe]}.get(command, [])
    done = mlftool(command, pipe, *out)
    assert done.returncode == 2, done.stderr
    assert "error[MLF" in done.stderr


def test_inputs_that_are_a_pipe_or_a_folder(pipe: str, tmp_path: Path) -> None:
    save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    for inputs in (pipe, str(tmp_path), "/dev/zero"):
        done = mlftool("run", str(tmp_path / "m.onnx"), "--inputs", inputs)
        assert done.returncode == 2, done.stderr
        assert "MLF0600" in done.stderr


FULL = "standard output: error[MLF0704]: cannot be written: No space left on device\n"


@pytest.mark.parametrize("buffering", ["", "1"])
@pytest.mark.parametrize(
    "arguments", [("schema",), ("--help",), ("run", "--help"), ("--version",), ("ops",)]
)
def test_streams_that_are_closed_full_or_gone(
    arguments: tuple[str, ...], buffering: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whether what is written fails at once, or at the end of a buffer."""
    monkeypatch.setenv("PYTHONUNBUFFERED", buffering)
    closed = mlftool(*arguments, shell=">&-")
    assert (closed.returncode, "MLF0402" in closed.stderr) == (2, True)
    full = mlftool(*arguments, shell=">/dev/full")
    assert (full.returncode, full.stderr) == (3, FULL)
    gone = mlftool(*arguments, shell="| true")
    assert (gone.returncode, gone.stderr) == (0, "")


def test_without_standard_error_the_data_are_the_same(tmp_path: Path) -> None:
    save(parser.parse_model(MODEL), tmp_path / "m.onnx")
    out = tmp_path / "o.tar"
    assert mlftool("schema", shell="2>&-").stdout == mlftool("schema").stdout
    assert (
        mlftool("compile", str(tmp_path / "m.onnx"), "-o", str(out), shell="2>&-").returncode == 0
    )
    whole = out.read_bytes()
    assert mlftool("compile", str(tmp_path / "m.onnx"), "-o", str(out)).returncode == 0
    assert out.read_bytes() == whole
    assert mlftool("check", str(tmp_path / "none.onnx"), shell="2>&-").returncode == 2
    assert mlftool("check", str(tmp_path / "none.onnx"), shell="2>&- >&- <&-").returncode == 2


SAYING = [
    "graph m.onnx -o o.svg --json", "report m.onnx -o o.html --json", "init o m.onnx",
    "init o m.onnx --json", "run m.onnx --inputs v.npz -o o.npz",
    "run m.onnx --inputs v.npz --report o.json --json", "diff m.onnx m.onnx --save o.json",
    "quantize m.onnx --data d.npz -o o.onnx", "build m.yaml -o o --json",
    "quantize m.onnx --data d.npz -o o.onnx --report o.txt --json",
]  # fmt: skip


def _folder_of_a_model(folder: Path) -> None:
    text = '<ir_version: 9, opset_import: ["": 17]> g (float[1, 4] x) => (float[1, 2] y)' \
           " <float[4, 2] w = {1, 2, 3, 4, 5, 6, 7, 8}> { y = MatMul(x, w) }"  # fmt: skip
    save(parser.parse_model(text), folder / "m.onnx")
    np.savez(folder / "v.npz", x=np.ones((1, 4), np.float32))
    np.savez(folder / "d.npz", x=np.random.default_rng(1).random((32, 1, 4), np.float32))
    (folder / "m.yaml").write_text("version: 1\nmodels:\n  m: {model: m.onnx, targets: [host]}\n")


@pytest.mark.parametrize("words", SAYING)
def test_what_is_not_said_is_not_written(
    words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where stdout is closed or full, no file is left; where its reader went away, all are. What
    `build` built before it could know stays."""
    monkeypatch.chdir(tmp_path)
    _folder_of_a_model(tmp_path)
    before = sorted(tmp_path.iterdir())
    monkeypatch.setattr(sys, "stdout", None)
    assert main(words.split()) == 2
    assert capsys.readouterr().err == "standard output: error[MLF0402]: is closed\n"
    assert sorted(tmp_path.iterdir()) == before
    if not words.startswith("build"):
        with open("/dev/full", "w") as full, suppress(OSError):
            monkeypatch.setattr(sys, "stdout", full)
            assert main(words.split()) == 3
        said = "standard output: error[MLF0704]: cannot be written: No space left on device\n"
        assert capsys.readouterr().err == said
        assert sorted(tmp_path.iterdir()) == before
    gone, write = os.pipe()
    os.close(gone)
    with open(write, "w") as unread, suppress(OSError):
        monkeypatch.setattr(sys, "stdout", unread)
        assert main(words.split()) == 0
    assert any(path.name.startswith("o") for path in tmp_path.iterdir())


def test_a_folder_whose_name_is_not_utf8(tmp_path: Path) -> None:
    folder = os.fsencode(tmp_path) + b"/a\xff"
    os.mkdir(folder)
    path = Path(os.fsdecode(folder))
    save(parser.parse_model(MODEL), path / "m.onnx")
    text = "version: 1\nmodels:\n  a: {model: m.onnx, targets: [host]}\n"
    (path / "m.yaml").write_text(text)
    done = mlftool("build", folder + b"/m.yaml", "-o", folder + b"/out")
    assert done.returncode == 0, done.stderr
    assert (path / "out/a/host-aot.tar").is_file()


def test_a_compiler_that_writes_nothing_leaves_nothing_behind(tmp_path: Path) -> None:
    for _ in range(2):  # the second finds no broken entry either
        with pytest.raises(MlfError, match="did not write it"):
            build_once(tmp_path, "key", {"a.c": b""}, lambda work: None, ["a.o"])
    assert list(tmp_path.iterdir()) == []
    made = build_once(tmp_path, "key", {}, lambda work: _write(work / "a.o"), ["a.o"])
    (made / "a.o").write_bytes(b"")  # an entry that was broken later is made again
    build_once(tmp_path, "key", {}, lambda work: _write(work / "a.o"), ["a.o"])
    assert (made / "a.o").read_bytes() == b"object"


def _write(path: Path) -> None:
    path.write_bytes(b"object")


OUTPUTS = [
    ("compile", "-o"), ("run", "-o"), ("run", "--report"), ("report", "-o"), ("graph", "-o"),
    ("memmap", "--svg"), ("tune", "--target", "cortex-m4", "-o"), ("quantize", "--data", "d", "-o"),
    ("quantize", "--data", "d", "-o", "q", "--report"), ("diff", "--save"), ("library", "-o"),
    ("micro", "run", "-o"),
]  # fmt: skip


@pytest.mark.parametrize("words", OUTPUTS, ids=" ".join)
@pytest.mark.parametrize("place", ["no/out.so", "folder", "a" * 300])
def test_an_output_is_tried_before_the_work(
    words: tuple[str, ...], place: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """The model is not there either: what is said is what was tried first."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    *command, flag = words
    assert main([*command, flag, place, "m.onnx"]) == 2
    name, error, *_ = capsys.readouterr().err.splitlines()[0].split(": ")
    assert (name, error) == (place, "error[MLF0402]")
    assert [p.name for p in tmp_path.rglob("*")] == ["folder"]


# What reads a model, whose external data is in m.data, and what reads a manifest, too.
LISTERS = (("graph", "m.onnx"), ("report", "m.onnx"), ("run", "m.onnx"))
READERS = (
    ("compile", "m.onnx"),
    ("quantize", "--data", "d.npz", "m.onnx"),
    ("tune", "--target", "cortex-m4", "m.onnx"),
    *LISTERS,
)
LISTED = ("m.yaml", "m.onnx", "m.data", "d.npz", "t.json")
MANIFEST = """version: 1
defaults: {targets: [cortex-m4]}
models: {m: {model: m.onnx, tuning: t.json, test: {vectors: d.npz}}}
"""


@pytest.mark.parametrize(
    ("words", "output"),
    [
        (("compile", "m.onnx"), "m.onnx"),
        (("compile", "m.onnx", "--data", "m.bin"), "m.bin"),
        (("quantize", "m.onnx", "--data", "d.npz"), "m.onnx"),
        (("quantize", "m.onnx", "--data", "d.npz"), "d.npz"),
        (("quantize", "m.onnx", "--data", "d.npz"), "link"),
        (("graph", "m.onnx"), "m.onnx"),
        (("report", "m.onnx"), "m.onnx"),
        (("tune", "m.onnx", "--target", "cortex-m4"), "m.onnx"),
        (("library", "m.bin"), "m.bin"),
        (("runner", "m.bin"), "m.bin"),
        (("sbom", "m.bin"), "m.bin"),
        (("micro", "run", "m.onnx", "-i", "d.npz"), "d.npz"),
        *((words, "m.data") for words in READERS),
        *(((*words[:-1], "m.yaml"), output) for words in LISTERS for output in LISTED),
    ],
)
def test_no_output_replaces_what_is_read(
    words: tuple[str, ...], output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    model = parser.parse_model(MODEL)
    model.graph.initializer.append(numpy_helper.from_array(np.ones(1, np.float32), "one"))
    set_external_data(model.graph.initializer[0], "m.data")
    Path("m.onnx").write_bytes(model.SerializeToString())
    for name in ("d.npz", "m.bin", "m.data", "t.json"):
        Path(name).write_bytes(name.encode())
    Path("m.yaml").write_text(MANIFEST)
    os.symlink("m.onnx", "link")
    before = Path(output).read_bytes()
    assert main([*words, "-o", output]) == 2
    assert "cannot be written: it is a file that is read" in capsys.readouterr().err
    assert Path(output).read_bytes() == before


@pytest.mark.parametrize(
    ("words", "output"),
    [("extract m.tar --member metadata.json=m.tar", "m.tar"), ("bazel m.yaml --write", "m.yaml"),
     ("bazel m.yaml --write", "d.npz")],
)  # fmt: skip
def test_no_output_of_other_options_does(
    words: str, output: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    save(parser.parse_model(MODEL), "m.onnx")
    Path("m.yaml").write_text(MANIFEST)
    for name in ("d.npz", "t.json"):
        Path(name).write_bytes(name.encode())
    assert main(["compile", "m.onnx", "-q", "-o", "m.tar"]) == 0
    before = Path(output).read_bytes()
    given = words.split()
    assert main(given if "=" in words else [*given, output]) == 2
    assert "cannot be written: it is a file that is read" in capsys.readouterr().err
    assert Path(output).read_bytes() == before


def read_with(command: str) -> list[str]:
    """The options of a command that name a file to be read."""
    actions = [a for a in parser_of(command)._actions if a.type is Path and a.option_strings]
    folders = ("DIR", "MLFTOOL", "TEMPLATE")
    flags = [a.option_strings[-1] for a in actions if a.metavar not in folders]
    written = {"--output", "--outputs", "--report", "--save", "--svg"}
    return [flag for flag in flags if flag not in written]


READ = [(words, flag) for words in OUTPUTS if words[0] != "micro"
        for flag in read_with(words[0])]  # fmt: skip


@pytest.mark.parametrize(
    ("words", "flag"), READ, ids=lambda v: v if type(v) is str else " ".join(v)
)
def test_no_output_replaces_what_an_option_names(
    words: tuple[str, ...], flag: str, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """Samples, data of weights, records, programs: of every option of every command that writes."""
    monkeypatch.chdir(tmp_path)
    save(parser.parse_model(MODEL), "m.onnx")
    Path("mine.so").write_bytes(b"mine")
    assert main([*words, "mine.so", flag, "mine.so", "m.onnx"]) == 2
    assert "mine.so: error[MLF0402]: cannot be written: it is a" in capsys.readouterr().err
    assert Path("mine.so").read_bytes() == b"mine"


def test_every_output_is_tried() -> None:
    """Options that name a file to be written, by what commands call it."""
    written = {
        (name, flag)
        for name in COMMANDS
        for action in parser_of(name)._actions
        for flag in action.option_strings
        if flag in ("-o", "--report", "--save", "--svg") and "DIR" not in str(action.metavar)
    }
    tried = {(words[0], words[-1]) for words in OUTPUTS}
    assert written - tried == {("runner", "-o"), ("sbom", "-o")}, "quick: nothing is lost"


def test_a_model_where_an_archive_is_expected(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    save(parser.parse_model(MODEL), "m.onnx")
    for words in (
        ["inspect"],
        ["library", "-o", "m.so"],
        ["extract", "--all", "a"],
        ["sbom"],
        ["verify"],
    ):
        assert main([*words, "m.onnx"]) == 2
        said = capsys.readouterr().err
        assert said.endswith("help: compile it first: mlftool compile m.onnx -o m.tar\n"), said


def test_a_board_s_archive_is_no_library(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The help is a command that works, with the name of a model."""
    monkeypatch.chdir(tmp_path)
    save(parser.parse_model(MODEL), "MODEL.onnx")
    assert main(["compile", "MODEL.onnx", "-o", "FILE.tar", "-q", "--target", "cortex-m4"]) == 0
    assert main(["library", "FILE.tar", "-o", "m.so"]) == 2
    said, hint = capsys.readouterr().err.splitlines()
    assert said.startswith("FILE.tar: error[MLF0613]")
    assert main(hint.partition(": mlftool ")[2].replace("MODEL", "MODEL.onnx").split()) == 0
    assert main(["library", "FILE.tar", "-o", "m.so"]) == 0


def test_commands_print_in_one_way() -> None:
    """terminal.put says what is wrong with a stream; print raises an OSError without a name."""
    found = []
    for file in sorted((REPO / "mlftool" / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
                bare = not any(k.arg == "file" for k in node.keywords)
                found += [f"{file.name}:{node.lineno}"] if bare and node.func.id == "print" else []
    assert found == []
