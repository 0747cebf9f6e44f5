"""Every file that a command reads, bad in every way: one line, exit code 2, nothing written.

Commands and their files are found by asking the parsers, so a new command or option is tested as
soon as it is there. What `GOOD` does not know is guessed from how the help calls it.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import re
import signal
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import numpy as np
import onnx
import pytest

from mlftool.cli import COMMANDS, main, parser_of

MODEL = '<ir_version: 9, opset_import: ["": 17]> g (float[1,4] x) => (float[1,4] y) { y = Relu(x) }'
MANIFEST = "version: 1\nmodels:\n  m: {model: good.onnx, targets: [cortex-m4]}\n"

# What a command takes, by its destination in the parser: a good one, and for the words of a call
# that is right but for the file under test.
GOOD = {
    "after": "good.onnx",
    "against": "good.onnx",
    "archive": "good.tar",
    "backend_file": "good.py",
    "before": "good.onnx",
    "check": "BUILD.good",
    "data": "good.bin",
    "expect": "good.npz",
    "file": "good.onnx",
    "inputs": "good.npz",
    "manifest": "good.yaml",
    "mlf": "good.tar",
    "model": "good.onnx",
    "model_data": "good.bin",
    "project_dir": "project",
    "runner": "good.elf",
    "shell": "bash",
    "target": "cortex-m4",
    "template_dir": "template",
    "tuning": "good.json",
    "workspace": "sources",
}
# What it writes, where the destination is no word of GOOD.
WRITTEN = {
    *("all", "dump", "folder", "output", "outputs", "report", "save", "svg", "write"),
}
FOLDERS = {"project_dir", "template_dir", "workspace"}
# Beside what a call needs: what its files mean something with.
ALSO = {
    ("compare", "*"): ["--against", "good.onnx"],
    ("compare", "against"): [],
    ("diff", "*"): ["good.onnx", "--no-run"],
    ("diff", "before"): ["good.onnx", "--no-run"],
    ("diff", "after"): ["--no-run"],
    ("extract", "*"): ["--all", "made"],
    ("extract", "all"): [],
    ("graph", "*"): ["-o", "made.svg"],
    ("graph", "output"): [],
    ("report", "inputs"): ["--expect", "good.npz"],
    ("report", "expect"): ["--inputs", "good.npz"],
    ("bazel", "manifest"): ["--write", "made.bazel"],
    ("size", "against"): [],
    ("ops", "*"): ["good.onnx"],
    ("ops", "file"): [],
    ("init", "*"): ["--model", "good.onnx"],
    ("init", "model"): [],
    ("init", "second"): ["made"],
    ("library", "*"): ["-o", "made.so"],
    ("library", "output"): [],
    ("micro", "mlf"): ["host"],
    ("run", "*"): ["good.onnx", "--inputs", "good.npz"],
    ("run", "dump"): ["good.onnx", "--inputs", "good.npz", "--executor", "debug"],
    ("run", "file"): [],
    ("run", "inputs"): ["good.onnx"],
    ("run", "project_dir"): [],
}
# Archives are read in other ways than models: files of these commands are both.
BOTH = {
    ("file", c)
    for c in (
        *("run", "runner", "profile", "size", "memmap", "graph", "report", "trace"),
        *("compare", "ops", "bench"),
    )
}
BOTH |= {("before", "diff"), ("after", "diff"), ("against", "size")}


@dataclass(frozen=True)
class Case:
    """A file of a command: the argument that names it, and what it is when it is good."""

    words: tuple[str, ...]
    action: argparse.Action
    parser: argparse.ArgumentParser
    good: str

    @property
    def name(self) -> str:
        return "-".join((*self.words, self.action.dest, Path(self.good).suffix[1:]))


def parsers() -> Iterator[tuple[tuple[str, ...], argparse.ArgumentParser]]:
    """Each command with its parser, and each action of those that have several."""
    for command in COMMANDS:
        inner = [
            a for a in parser_of(command)._actions if isinstance(a, argparse._SubParsersAction)
        ]
        if not inner:
            yield (command,), parser_of(command)
        seen: list[argparse.ArgumentParser] = []
        for name, parser in inner[0].choices.items() if inner else ():
            if parser not in seen:  # other names of the same
                yield (command, name), parser
            seen.append(parser)


def cases() -> Iterator[Case]:
    for words, parser in parsers():
        for action in parser._actions:
            if action.type is not Path or is_written(action):
                continue
            if words[-1] == "create" and action.dest == "project_dir":
                continue
            goods = [good_of(action)]
            goods += ["good.tar"] if (action.dest, words[0]) in BOTH else []
            goods += ["good.yaml"] if words[0] == "check" and action.dest == "file" else []
            for good in goods:
                yield Case(words, action, parser, good)


def good_of(action: argparse.Action) -> str:
    """A good value; of a file that is not known, one with the suffix that its help has."""
    suffix = Path(str(action.metavar)).suffix
    guess = f"good{suffix}" if suffix else f"made.{action.dest}"
    is_other = action.dest == "data" and suffix  # quantize's samples; elsewhere bytes of any kind
    return guess if is_other else GOOD.get(action.dest, guess)


def is_written(action: argparse.Action) -> bool:
    """Whether a file or folder is made there: what is not known by name is called so."""
    called = str(action.metavar).startswith(("OUT", "DIR"))
    return action.dest in WRITTEN or (called and action.dest not in GOOD)


CASES = list(cases())


def call(case: Case, bad: str) -> list[str]:
    """The command with what it needs, and `bad` where the case has it."""
    words = list(case.words)
    for action in case.parser._actions:
        under_test = action.dest == case.action.dest
        if not (action.required or under_test) or action.dest == "help":
            continue
        value = (
            bad
            if under_test
            else (f"made.{action.dest}" if is_written(action) else good_of(action))
        )
        words += [*action.option_strings[-1:], value]
    for key in ((case.words[0], case.action.dest), (case.words[0], "*")):
        if key in ALSO:
            return words + ALSO[key]
    return words


@pytest.fixture(scope="module")
def goods(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("goods")
    onnx.save(onnx.parser.parse_model(MODEL), folder / "good.onnx")
    zeros = np.zeros((1, 4), np.float32)
    np.savez(folder / "good.npz", x=zeros, y=zeros)
    (folder / "good.yaml").write_text(MANIFEST)
    (folder / "WORKSPACE").touch()
    assert main(["compile", str(folder / "good.onnx"), "-o", str(folder / "good.tar")]) == 0
    return folder


def _missing(path: Path, good: bytes) -> None:
    pass


def _folder(path: Path, good: bytes) -> None:
    path.mkdir()


def _pipe(path: Path, good: bytes) -> None:
    os.mkfifo(path)


def _dangling(path: Path, good: bytes) -> None:
    path.symlink_to("nowhere")


def _circle(path: Path, good: bytes) -> None:
    path.symlink_to(path.name)


def _empty(path: Path, good: bytes) -> None:
    path.write_bytes(b"")


def _half(path: Path, good: bytes) -> None:
    path.write_bytes(good[: len(good) // 2])


def _noise(path: Path, good: bytes) -> None:
    path.write_bytes(np.random.default_rng(1).bytes(5000))


def _foreign(path: Path, good: bytes) -> None:
    """A zip file of something else, which an .npz file is, too."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as file:
        file.writestr("word/document.xml", "<xml/>")
    path.write_bytes(buffer.getvalue())


def _program(path: Path, good: bytes) -> None:
    path.write_bytes(b"\x7fELF\x01\x01\x01" + bytes(45))


def _nested(path: Path, good: bytes) -> None:
    """Of text formats the deepest."""
    path.write_text("[" * 50_000)


NOT_THERE = [_missing, _folder, _pipe, _dangling, _circle]
CONTENTS = [_empty, _half, _noise, _foreign, _program, _nested]


def _alarm(number: int, frame: FrameType | None) -> None:
    pytest.fail("the command waits")


# External data are bytes of any kind.
MATRIX = [
    pytest.param(case, damage, id=f"{case.name}-{damage.__name__.strip('_')}")
    for case in CASES
    for damage in NOT_THERE + CONTENTS * (case.good != "good.bin")
]


@pytest.mark.parametrize(("case", "damage"), MATRIX)
def test_a_bad_file(
    damage: Callable[[Path, bytes], None],
    case: Case,
    goods: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],  # programs that the command starts speak, too
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in goods.iterdir():
        Path(file.name).symlink_to(file)
    bad = Path("bad" + Path(case.good).suffix)
    good = goods / case.good
    damage(bad, good.read_bytes() if good.is_file() else b"half")
    before = sorted(tmp_path.rglob("*"))
    old = signal.signal(signal.SIGALRM, _alarm)
    signal.alarm(30)
    try:
        status = main(call(case, str(bad)))
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, old)
    out, err = capfd.readouterr()
    # To `bazel --check` a file of any kind is one that differs.
    is_check = case.action.dest == "check"
    assert status == (1 if is_check else 2), (status, out, err)
    first, *rest = err.splitlines()
    assert "error[MLF" in first, err
    # Nothing else is wrong; a project is named with its file.
    assert bad.name in first or (case.words[0] == "micro" and "project" in first), err
    assert "MLF09" not in err
    assert len(rest) == 1 or (is_check and not rest), err  # each has a remedy
    assert all(line.startswith("help: ") for line in rest), err
    assert out == ""
    assert sorted(tmp_path.rglob("*")) == before
    open_files = [os.path.realpath(handle) for handle in Path("/proc/self/fd").iterdir()]
    assert [name for name in open_files if name.startswith(str(tmp_path))] == []


# Of each command one; the format of `sbom` is that of its document.
OF_COMMANDS = {c.words: c for c in CASES if c.words != ("sbom",)}.values()


@pytest.mark.parametrize("form", ["sarif", "json", "github"])
@pytest.mark.parametrize("case", OF_COMMANDS, ids=lambda c: c.name)
def test_a_bad_file_in_every_format(
    case: Case,
    form: str,
    goods: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Problems are on stderr, and nothing else is: `check`, whose data they are, prints them."""
    monkeypatch.chdir(tmp_path)
    for file in goods.iterdir():
        Path(file.name).symlink_to(file)
    bad = "bad" + Path(case.good).suffix
    assert main([*call(case, bad), "--format", form]) == (1 if case.action.dest == "check" else 2)
    out, err = capfd.readouterr()
    data, nothing = (out, err) if case.words == ("check",) else (err, out)
    assert nothing == ""
    if form == "github":
        assert re.fullmatch(r"::error .*title=MLF\d{4}::.*\n", data)
    elif form == "sarif":
        (run,) = json.loads(data)["runs"]
        assert [r["level"] for r in run["results"]] == ["error"]
    else:
        assert [p["severity"] for p in json.loads(data)["problems"]] == ["error"]


@pytest.mark.parametrize(
    "words",
    ["diff good.onnx --no-run good.onnx", "diff --no-run good.onnx good.onnx", "ops -q good.onnx"],
)
def test_options_stand_anywhere(
    words: str, goods: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also before an argument that may be left out."""
    monkeypatch.chdir(goods)
    assert main(words.split()) == 0
    assert "unrecognized" not in capsys.readouterr().err
    assert main([*words.split(), "more"]) == 2
    assert "unrecognized arguments: more" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["good.npz", "echo", "good.onnx"])
def test_a_runner_that_is_another_program(
    name: str, goods: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is no program, or one that ends well and computes nothing."""
    monkeypatch.chdir(goods)
    script = goods / "echo"
    script.write_text("#!/bin/sh\necho hello\n")
    script.chmod(0o755)
    assert main(["run", "good.onnx", "--inputs", "good.npz", "--runner", name]) == 2
    err = capsys.readouterr().err
    assert f"{name}: error[MLF0609]: is not a test runner: " in err
    assert "help: " in err


@pytest.mark.parametrize(("name", "said"), [("good.yaml", "build"), ("good.onnx", "compile")])
def test_what_is_no_archive_yet_says_how_it_becomes_one(
    name: str,
    said: str,
    goods: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(goods)
    for words in (["inspect"], ["verify"], ["sbom"], ["extract", "--all", "made"]):
        assert main([*words[:1], name, *words[1:]]) == 2
        assert f"help: {said} it first: mlftool {said} {name}" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["good.yaml", "good.tar"])
def test_what_is_no_model_says_what_it_is(
    name: str,
    goods: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(goods)
    kind = {".yaml": "a manifest", ".tar": "an archive"}[Path(name).suffix]
    for words in ("compile NAME -o x.tar", "tune NAME -o x.json --target cortex-m4"):
        assert main(words.replace("NAME", name).split()) == 2
        err = capsys.readouterr().err
        assert f"{name}: error[MLF0202]: is {kind}, not a model\nhelp: name " in err


def test_members_are_not_extracted_to_a_dash(
    goods: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(goods)
    assert main(["extract", "good.tar", "--member", "metadata.json=-"]) == 2
    assert "error[MLF0402]" in capsys.readouterr().err
    assert not Path("-").exists()
    assert main(["extract", "good.tar", "--member", "metadata.json=/dev/stdout"]) == 0


def test_a_project_where_no_folder_can_be(
    goods: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Its template is a program of its own, whose log would have a traceback."""
    monkeypatch.chdir(goods)
    packed = ["--interface-api", "packed", "--runtime-crt-system-lib", "1", "-q"]
    assert main(["compile", "good.onnx", "-o", "packed.tar", *packed]) == 0
    assert main(["micro", "create", "good.npz/project", "packed.tar", "host"]) == 3
    out, err = capfd.readouterr()
    assert out == ""
    assert re.fullmatch(r"mlftool: error\[MLF0615\]: .*'\S*good.npz/project'\n", err), err


def _writers() -> Iterator[Case]:
    for words, parser in parsers():
        for action in parser._actions:
            # watch goes on after a failed build; quantize has no layer to quantise here.
            left_out = words in (("watch",), ("quantize",)) or action.help == argparse.SUPPRESS
            if action.type is Path and is_written(action) and not left_out:
                yield Case(words, action, parser, "")


def _above(name: str) -> tuple[str, str]:
    """A file where a folder above what is written is due."""
    Path("way").write_text("here before")
    return f"way/{name}", "way"


def _other(name: str) -> tuple[str, str]:
    """A folder in the place of a file, and a file in that of a folder."""
    if Path(name).suffix:
        Path(name).mkdir()
    else:
        Path(name).write_text("here before")
    return name, name


def _dash(name: str) -> tuple[str, str]:
    """Other programs take it for standard output; it would be a file that is hard to remove."""
    return "-", "'-'"


@pytest.mark.parametrize("way", [_above, _other, _dash])
@pytest.mark.parametrize("case", list(_writers()), ids=lambda c: c.name)
def test_something_is_where_results_are_written(
    case: Case,
    way: Callable[[str], tuple[str, str]],
    goods: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for file in goods.iterdir():
        Path(file.name).symlink_to(file)
    suffix = Path(str(case.action.metavar)).suffix or ".out" * (case.action.metavar == "OUT")
    name, obstacle = way(f"made{suffix}")
    before = sorted(tmp_path.rglob("*"))
    words = call(case, name)
    if case.words == ("runner",):
        words[words.index("good.onnx")] = "good.tar"
    status = main(words)
    err = capfd.readouterr().err
    assert status == 2, err
    assert "MLF09" not in err
    assert obstacle in err, err
    assert "error[MLF0402]" in err, err
    assert sorted(tmp_path.rglob("*")) == before
