"""What a person sees: progress, colours, lines of source, and that a signal ended a command."""

from __future__ import annotations

import argparse
import io
import os
import pty
import re
import shutil
import signal
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

import pytest
from shared import OWN, REPO

from mlftool.cli import COMMANDS, main, parser_of, terminal
from mlftool.cli.terminal import Terminal, source_lines
from mlftool.errors import Problem
from mlftool.progress import heard_by, step

GESTURE = str(OWN / "gesture_int8.onnx")
NO_RICH = {"rich": None, "rich.console": None, "rich.live": None}


class Screen:
    """A terminal that nobody looks at: what is written to `stream` can be read."""

    def __init__(self) -> None:
        self._master, slave = pty.openpty()
        self.stream: TextIO = os.fdopen(slave, "w")

    def text(self) -> str:
        self.stream.flush()
        os.set_blocking(self._master, False)
        data = b""
        try:
            while part := os.read(self._master, 1 << 16):
                data += part
        except BlockingIOError:
            return data.decode()
        return data.decode()

    def close(self) -> None:
        self.stream.close()
        os.close(self._master)


@pytest.fixture
def screen(monkeypatch: pytest.MonkeyPatch) -> Iterator[Screen]:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    made = Screen()
    yield made
    made.close()


@pytest.mark.parametrize("has_rich", [True, False])
def test_a_terminal_says_what_takes_long_and_how_long(
    has_rich: bool, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, module in () if has_rich else NO_RICH.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(terminal, "SOON_S", 0.2)
    with Terminal(screen.stream).progress(), step("counting"):
        with step("at once"):
            pass
        time.sleep(1.5)
        while_busy = screen.text()
    assert re.search(r"counting \([01] s\)", while_busy)
    assert "at once" not in while_busy
    # Nothing stays on the line: rich clears it, or we write over it.
    after = screen.text()
    assert "\x1b[2K" in after or after.endswith(f"\r{' ' * len('counting (1 s)')}\r")


def test_a_terminal_says_which_step_a_part_is_of(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rounds of a search would else hide behind the compilers that they call."""
    monkeypatch.setattr(terminal, "SOON_S", 0.1)
    with Terminal(screen.stream).progress(), step("round 3 of 14"), step("linking"):
        time.sleep(0.8)
        while_busy = screen.text()
    assert "round 3 of 14: linking (" in while_busy


@pytest.mark.parametrize("has_rich", [True, False])
def test_the_line_is_one_line(
    has_rich: bool, screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """rich broke it in two at 40 columns, and left the first on old terminals."""
    for name, module in () if has_rich else NO_RICH.items():
        monkeypatch.setitem(sys.modules, name, module)
    monkeypatch.setattr(terminal, "SOON_S", 0.0)
    termios.tcsetwinsize(screen.stream, (24, 40))
    with Terminal(screen.stream).progress(), step("counting " * 20):
        time.sleep(0.5)
    assert "counting" in (said := screen.text())
    assert "\n" not in said.rstrip("\n").replace("\r\n\x1b", "")
    assert max(len(re.sub(r"\x1b\[[?\d]*\w", "", n)) for n in re.split(r"[\r\n]+", said)) <= 40


def test_many_short_steps_are_no_silence(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    """`profile` of a small model has eight steps of half a second."""
    monkeypatch.setattr(terminal, "SOON_S", 0.5)
    monkeypatch.setattr(terminal, "BEAT_S", 0.02)
    with Terminal(screen.stream).progress():
        for k in range(8):
            with step(f"part {k}"):
                time.sleep(0.15)
    assert re.search(r"part \d \(\d s\)", screen.text())


def test_a_worker_leaves_the_line_to_its_parent(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several processes would write over each other's lines."""
    monkeypatch.setattr(terminal, "SOON_S", 0.0)
    with Terminal(screen.stream).progress():
        pid = os.fork()
        if pid == 0:
            with step("compiling"):
                time.sleep(0.6)
            os._exit(0)
        os.waitpid(pid, 0)
    assert screen.text() == ""


def test_what_a_command_prints_is_left_alone(
    screen: Screen, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """rich would wrap it at the width of the terminal."""
    monkeypatch.setattr(terminal, "SOON_S", 0.0)
    with Terminal(screen.stream).progress(), step("counting"):
        time.sleep(0.6)
        print("x " * 300)
    assert capsys.readouterr().out == "x " * 300 + "\n"


def test_the_line_is_gone_before_the_command_goes_on(
    screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a busy machine the spinner's next turn came after what the command printed."""
    monkeypatch.setattr(terminal, "SOON_S", 0.0)
    with Terminal(screen.stream).progress():
        with step("counting"):
            time.sleep(0.6)
        shown = screen.text()
    assert "counting" in shown
    assert "\x1b[2K" in shown[shown.rindex("counting") :]


def test_what_is_quick_shows_nothing(screen: Screen) -> None:
    with Terminal(screen.stream).progress(), step("counting"):
        pass
    assert screen.text() == ""


def test_a_log_gets_a_line_for_what_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(terminal, "LATER_S", 0.3)
    for quiet, wanted in ((False, ["mlftool: counting ..."]), (True, [])):
        log = io.StringIO()
        with Terminal(log, quiet).progress(), step("counting"):
            time.sleep(1)
        assert log.getvalue().splitlines() == wanted


def test_a_log_gets_a_line_for_many_short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """`report` of 1,000 layers: none of ten steps took five seconds, all of them did."""
    monkeypatch.setattr(terminal, "LATER_S", 0.5)
    monkeypatch.setattr(terminal, "SOON_S", 0.05)
    monkeypatch.setattr(terminal, "BEAT_S", 0.01)
    log = io.StringIO()
    with Terminal(log).progress():
        for k in range(10):
            with step(f"part {k}"):
                time.sleep(0.15)
    said = log.getvalue().splitlines()
    assert 1 <= len(said) <= 3
    assert all(re.fullmatch(r"mlftool: part \d \.\.\.", line) for line in said)


def test_slow_machines_add_no_lines_to_what_tests_compare(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """conftest.py: commands in a test's own process report no progress, however slow they are."""
    now = time.monotonic
    monkeypatch.setattr("mlftool.cli.terminal.BEAT_S", 0.01)
    monkeypatch.setattr("mlftool.cli.terminal.time.monotonic", lambda: 1000 * now())
    model = REPO / "examples" / "models" / "vibration_int8.onnx"
    assert main(["check", str(model)]) == 0
    assert capsys.readouterr().err.splitlines() == [f"{model}: no problems"]


def test_verbose_names_every_step() -> None:
    log = io.StringIO()
    with Terminal(log, verbose=True).progress(), step("outer"), step("inner"):
        pass
    lines = log.getvalue().splitlines()
    assert lines[:2] == ["outer", "inner"]
    assert [re.sub(r"\d", "0", line) for line in lines[2:]] == ["inner: 0.0 s", "outer: 0.0 s"]


def test_a_library_s_user_hears_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with step("counting"):
        pass
    assert capsys.readouterr() == ("", "")


def test_steps_of_a_profile_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiling is one; what is counted on boards says so likewise (test_first_hour.py)."""
    from mlftool.compile import compile_module
    from mlftool.module import ModuleSpec

    told: list[str] = []

    def listen(what: str) -> object:
        told.append(what)
        return io.StringIO()

    with heard_by(listen):  # type: ignore[arg-type]
        compile_module(ModuleSpec(Path(GESTURE), "g", "cortex-m4"))
    assert told == ["compiling g for cortex-m4"]


@pytest.mark.parametrize(
    ("words", "env", "painted"),
    [
        ([], {}, False),  # not a terminal
        (["--color", "always"], {"NO_COLOR": "1"}, True),
        (["--color=never"], {}, False),
    ],
)
def test_colours(
    words: list[str],
    env: dict[str, str],
    painted: bool,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, value in env.items():
        monkeypatch.setenv(name, value)
    assert main(["check", "missing.yaml", *words]) == 2
    err = capsys.readouterr().err
    assert ("\x1b[1;31merror[MLF0100]\x1b[0m:" in err) is painted
    assert re.sub(r"\x1b\[[\d;]*m", "", err).startswith("missing.yaml: error[MLF0100]: ")


@pytest.mark.parametrize("command", [["check", "--nosuch"], ["nosuch"], ["compile"]])
def test_colours_of_a_command_line_that_cannot_be_read(
    command: list[str], screen: Screen, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stderr", screen.stream)
    for words, painted in ((["--color", "never"], False), (["--color=always"], True)):
        for argv in ([*command, *words], [*words, *command]):
            assert main(argv) == 2
            said = screen.text()
            assert ("\x1b[1;31m" in said) is painted, argv
            assert "choice: 'never'" not in said


def test_no_color_on_a_terminal(screen: Screen, monkeypatch: pytest.MonkeyPatch) -> None:
    problem = Problem("MLF0100", "wrong", "f", help="do better")
    Terminal(screen.stream).show([problem])
    assert "\x1b[1;31merror[MLF0100]\x1b[0m: wrong" in screen.text()
    monkeypatch.setenv("NO_COLOR", "1")
    Terminal(screen.stream).show([problem])
    assert screen.text() == "f: error[MLF0100]: wrong\r\nhelp: do better\r\n"


def test_a_terminal_shows_the_line(screen: Screen, tmp_path: Path) -> None:
    file = tmp_path / "m.yaml"
    file.write_text("version: 1\nmodels:\n  kws: {modle: kws.onnx}\n")
    problem = Problem("MLF0106", "unknown key", str(file), 3, 9, help="did you mean 'model'?")
    Terminal(screen.stream, color="never").show([problem])
    assert screen.text().splitlines()[1:] == [
        " 3 |   kws: {modle: kws.onnx}",
        "   |         ^",
        "help: did you mean 'model'?",
    ]
    assert source_lines(problem) == [" 3 |   kws: {modle: kws.onnx}", "   |         ^"]
    for line, text in ((9, ""), (1, "x\x1b[31m"), (1, "x" * 500)):
        if text:
            file.write_text(text)
        assert source_lines(Problem("MLF0106", "unknown", str(file), line, 2)) == []
    assert source_lines(Problem("MLF0106", "unknown", str(tmp_path / "none"), 1, 1)) == []


def test_every_command_takes_them() -> None:
    for command in COMMANDS:
        parser = parser_of(command)
        inner = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        leaves = inner[0].choices.values() if inner else [parser]
        for leaf in leaves:
            assert {"-q", "-v", "--color"} <= leaf._option_string_actions.keys(), command


@pytest.mark.parametrize("words", [["-q"], ["--color", "always"], ["--color=always"]])
def test_they_may_stand_before_the_command(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["check", str(tmp_path / "no.onnx")]
    assert main([*words, *command]) == main([*command, *words]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert lines[: len(lines) // 2] == lines[len(lines) // 2 :]
    assert ("\x1b[" in lines[0]) == (words != ["-q"])


def test_quiet_leaves_warnings_out(capsys: pytest.CaptureFixture[str]) -> None:
    problems = [Problem("MLF0312", "coarse", "m", severity="warning"), Problem("MLF0206", "bad")]
    Terminal(sys.stderr, quiet=True).show(problems)
    assert capsys.readouterr().err == "mlftool: error[MLF0206]: bad\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_ended_command_says_so(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    import mlftool.cli.schema as schema

    monkeypatch.setattr(schema, "run", lambda args: os.kill(os.getpid(), number))
    assert main(["schema"]) == 128 + number
    assert capsys.readouterr().err == f"mlftool: ended by {number.name}\n"


def test_quiet_commands_print_only_what_they_were_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`build -q` named each entry on stderr."""
    monkeypatch.chdir(tmp_path)
    shutil.copy(REPO / "examples" / "models" / "gesture_int8.onnx", "g.onnx")
    Path("m.yaml").write_text("version: 1\nmodels:\n  g:\n    model: g.onnx\n")
    for words in (
        *(["check", "g.onnx"], ["check", "m.yaml"], ["build", "m.yaml", "-o", "out"]),
        *(["compile", "g.onnx", "-o", "g.tar"], ["extract", "g.tar", "--all", "x"]),
        *(
            ["graph", "g.onnx", "-o", "g.svg"],
            ["inspect", "g.tar"],
            ["runner", "g.tar", "-o", "r.c"],
        ),
        *(["ops", "g.onnx"], ["trace", "g.tar"]),
    ):
        assert main([*words, "-q"]) == 0
        assert capsys.readouterr().err == "", words
