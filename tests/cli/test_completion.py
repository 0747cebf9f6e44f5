"""What bash completes: every command, every option that --help shows, and the values of those that
have few. zsh completes in a terminal; fish's script is compared option by option."""

from __future__ import annotations

import argparse
import os
import pty
import re
import shlex
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path

import pytest

from mlftool.cli import COMMANDS, main, parser_of
from mlftool.targets import TARGETS


def script(shell: str, capsys: pytest.CaptureFixture[str]) -> str:
    assert main(["completion", shell]) == 0
    return capsys.readouterr().out


def completed(capsys: pytest.CaptureFixture[str], *lines: str) -> list[set[str]]:
    """What is offered where each line ends."""
    code = script("bash", capsys)
    for line in lines:
        words = line.split(" ")
        quoted = " ".join(map(shlex.quote, words))
        code += f"COMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; COMPREPLY=(); _mlftool\n"
        code += 'echo "${COMPREPLY[*]}"\n'
    done = subprocess.run(
        ["bash", "--norc", "-c", code], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stderr == ""
    return [set(line.split()) for line in done.stdout.splitlines()]


def shown(command: str, capsys: pytest.CaptureFixture[str]) -> set[str]:
    """The options of --help."""
    with pytest.raises(SystemExit):
        main([*command.split(" "), "--help"])
    text = capsys.readouterr().out.partition("options:")[2]
    return set(re.findall(r"^  (?:-\w(?: \S+)?, )?(--[\w-]+)", text, re.MULTILINE))


def actions(command: str) -> list[str]:
    """The words of a command that have options of their own."""
    subs = (a for a in parser_of(command)._actions if isinstance(a, argparse._SubParsersAction))
    return [word for sub in subs for word in sub.choices]


INNER = [f"{command} {word}" for command in COMMANDS for word in actions(command)]


def test_bash_knows_every_command_and_option(capsys: pytest.CaptureFixture[str]) -> None:
    known = [*COMMANDS, *INNER]
    first, *rest = completed(capsys, "mlftool ", *(f"mlftool {name} --" for name in known))
    assert first == {*COMMANDS, "--help", "--version"}
    for command, offered in zip(known, rest, strict=True):
        assert offered == shown(command, capsys)


INNER_LINES = {
    "micro -q ru": {"run"},
    "micro run --fill-mode ": {"zeros", "ones", "random"},
    "micro create x check --temp": {"--template-dir"},
    "check run --sa": set(),
}


def test_bash_knows_what_an_action_takes(capsys: pytest.CaptureFixture[str]) -> None:
    assert "micro create-project" in INNER
    found = completed(capsys, *(f"mlftool {line}" for line in INNER_LINES))
    assert dict(zip(INNER_LINES, found, strict=True)) == INNER_LINES


def test_bash_knows_values_and_leaves_files_alone(capsys: pytest.CaptureFixture[str]) -> None:
    lines = ["compile m.onnx --executor ", "compile m.onnx --executor g", "size x --target cor"]
    lines += ["completion ", "compile ", "compile m.onnx --data ", "--json ch", "memmap x --svg "]
    found = completed(capsys, *(f"mlftool {line}" for line in lines))
    assert found[:2] == [{"aot", "graph", "vm"}, {"graph"}]
    assert found[2] == {name for name in TARGETS if name.startswith("cor")}
    assert found[3] == {"bash", "zsh", "fish"}
    assert found[4:] == [set(), set(), {"check"}, set()]  # empty: bash completes files


IN_FOLDER = "fpath=($HOME $fpath); autoload -Uz compinit; compinit -D -u"


@pytest.mark.skipif(shutil.which("zsh") is None, reason="apt-get install zsh")
@pytest.mark.parametrize("start", [IN_FOLDER, "source $HOME/_mlftool"], ids=["fpath", "rc"])
def test_zsh_completes(start: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """In a terminal, from a folder of fpath and from a shell's own file."""
    (tmp_path / "_mlftool").write_text(script("zsh", capsys))
    pid, handle = pty.fork()
    if pid == 0:
        os.environ.update(HOME=str(tmp_path), ZDOTDIR=str(tmp_path), TERM="dumb")
        os.execvp("zsh", ["zsh", "-f", "-i"])
    typed = [start, "mlftool() { echo got $*= }"]
    typed += ["mlftool prof\t", "mlftool compile m --executor g\t", "mlftool completion fi\t"]
    typed += ["mlftool micro fl\t", "mlftool micro create d --temp\t"]
    with os.fdopen(handle, "r+b", buffering=0) as terminal:
        for line in [*typed, "exit"]:
            terminal.write(line.encode() + b"\n")
        shown = b""
        with suppress(OSError):  # which is how a terminal ends
            while part := terminal.read(4096):
                shown += part
    os.waitpid(pid, 0)
    found = re.findall(r"^got (.*)=\r?$", shown.decode(), re.MULTILINE)
    assert found[:3] == ["profile", "compile m --executor graph", "completion fish"]
    assert found[3:] == ["micro flash", "micro create d --template-dir"]


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_offsets_are_numbers(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where zsh is not installed: it takes a letter after a colon for a modifier."""
    assert re.findall(r"\[@\]:\d+:(?!\d|\$\(\()", script(shell, capsys)) == []


def test_fish_has_the_same_options(capsys: pytest.CaptureFixture[str]) -> None:
    lines = [shlex.split(line.replace("\\'", "")) for line in script("fish", capsys).splitlines()]
    lines = [line for line in lines if line[:3] == ["complete", "-c", "mlftool"]]
    commands = {line[line.index("-a") + 1] for line in lines if "__mlftool_in" in line}
    assert commands == set(COMMANDS)
    for command in (*COMMANDS, *INNER):
        of = [line for line in lines if f"__mlftool_in {command}" in line]
        flags = {f"--{line[line.index('-l') + 1]}" for line in of if "-l" in line}
        assert flags == shown(command, capsys)


@pytest.mark.skipif(shutil.which("fish") is None, reason="apt-get install fish")
def test_fish_completes(capsys: pytest.CaptureFixture[str]) -> None:
    lines = {**INNER_LINES, "prof": {"profile"}, "run --on cortex-m5": {"cortex-m55"}}
    code = script("fish", capsys)
    for line in lines:
        code += f"\ncomplete -C {shlex.quote(f'mlftool {line}')} | string split -f1 \\t; echo ="
    done = subprocess.run(["fish", "-N", "-c", code], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    found = [set(part.split()) for part in done.stdout.split("=\n")[:-1]]
    assert dict(zip(lines, found, strict=True)) == lines


def test_help_has_commands_to_copy(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each in one line, however narrow the terminal is."""
    monkeypatch.setenv("COLUMNS", "40")
    with pytest.raises(SystemExit):
        main(["completion", "--help"])
    help_ = capsys.readouterr().out
    folder = "~/.local/share/bash-completion/completions"
    assert f"\n    mlftool completion bash > {folder}/mlftool\n" in help_


def test_other_shells_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["completion", "fsh"]) == 2
    assert "did you mean 'fish'" in capsys.readouterr().err


@pytest.mark.parametrize("command", COMMANDS)
def test_each_choice_is_taken_after_a_space(command: str) -> None:
    """Also those that begin with a dash, such as -Os, which argparse takes for options."""
    parser = parser_of(command)
    asked = [a for a in parser._actions if a.required and a.option_strings]
    asked += [g._group_actions[0] for g in parser._mutually_exclusive_groups if g.required]
    needed = [word for a in asked for word in (a.option_strings[-1], "x")]
    words = ["1" for a in parser._get_positional_actions() if a.nargs is None and not a.choices]
    words += [str(next(iter(a.choices))) for a in parser._get_positional_actions() if a.choices]
    if any(isinstance(a, argparse._SubParsersAction) for a in parser._actions):
        return
    for action in parser._actions:
        for value in (action.choices or ()) if action.option_strings else ():
            found = parser.parse_args([*words, *needed, action.option_strings[-1], str(value)])
            given = getattr(found, action.dest)
            assert value in (given if isinstance(given, list) else [given]), (command, value)
