"""`mlftool completion SHELL`: a script that completes commands, options and their values."""

from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator, Mapping

from mlftool.cli.terminal import put
from mlftool.frozen import frozen

HELP = "print a script that completes commands and options in bash, zsh or fish"
GROUP = "help"

SHELLS = ("bash", "zsh", "fish")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS)
    parser.epilog = """\
In a folder that the shell reads; for zsh one of $fpath:

    mlftool completion bash > ~/.local/share/bash-completion/completions/mlftool
    mlftool completion zsh > ~/.zfunc/_mlftool
    mlftool completion fish > ~/.config/fish/completions/mlftool.fish

Or in ~/.zshrc:

    eval "$(mlftool completion zsh)\""""


def run(args: argparse.Namespace) -> int:
    lines = {"bash": _bash, "zsh": _zsh, "fish": _fish}[args.shell](_commands())
    put("\n".join(lines))
    return 0


@frozen
class _Option:
    """An option by its names; `values` are all it can take, if there are few."""

    names: tuple[str, ...]
    help: str
    takes_value: bool
    values: tuple[str, ...]


def _commands() -> Mapping[str, tuple[str, tuple[_Option, ...]]]:
    """command -> its line of help and its options, without those that are not shown. An action of
    a command, such as `micro create`, follows its command."""
    from mlftool.cli import COMMANDS, parser_of

    found = {}
    for name, line in COMMANDS.items():
        parser = parser_of(name)
        found[name] = line, tuple(_options(name, parser))
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction):
                for word, sub in action.choices.items():
                    of = tuple(_options(f"{name} {word}", sub))
                    found[f"{name} {word}"] = sub.description or "", of
    return found


def _options(command: str, parser: argparse.ArgumentParser) -> Iterator[_Option]:
    for action in parser._actions:
        values = _values(command, action)
        if action.option_strings and action.help != argparse.SUPPRESS:
            text = (action.help or "").replace("%%", "%")
            takes = action.nargs != 0
            yield _Option(tuple(action.option_strings), text, takes, values if takes else ())
        elif not action.option_strings and values:
            yield _Option((), "", True, values)  # a word of the command itself


def _values(command: str, action: argparse.Action) -> tuple[str, ...]:
    from mlftool.runtime.boards import BOARDS
    from mlftool.targets import TARGETS

    if action.choices is not None:
        return tuple(map(str, action.choices))
    boards = (*(("host",) if command == "run" else ()), *BOARDS)
    return {"target": tuple(TARGETS), "on": boards}.get(action.dest, ())


_CASES = """\
    case "$command $word" in
      %(commands)s) command=${command:+$command }$word ;;
    esac
  done
  case "$command $prev" in
%(values)s
    *)
      case "$command:$cur" in
        :*) offered=%(top)s ;;
%(options)s
      esac
      ;;
  esac"""

_BASH = """\
# Completes mlftool in bash. Written by mlftool completion bash.
_mlftool() {
  local cur=${COMP_WORDS[COMP_CWORD]} prev=${COMP_WORDS[COMP_CWORD - 1]} command= word offered=
  for word in "${COMP_WORDS[@]:1:$((COMP_CWORD - 1))}"; do
%s
  COMPREPLY=($(compgen -W "$offered" -- "$cur"))
}
complete -o default -F _mlftool mlftool"""

# A folder of fpath has the file as the function's body, which defines the function and calls it.
_ZSH = """\
#compdef mlftool
# Completes mlftool in zsh. Written by mlftool completion zsh.
_mlftool() {
  local cur=$words[CURRENT] prev=$words[CURRENT-1] command= word offered=
  for word in "${(@)words[2,CURRENT-1]}"; do
%s
  if [[ -n $offered ]]; then compadd -- ${=offered}; else _files; fi
}
if [[ $funcstack[1] == _mlftool ]]; then
  _mlftool
else
  (( $+functions[compdef] )) || { autoload -Uz compinit && compinit }
  compdef _mlftool mlftool
fi"""


def _bash(commands: Mapping[str, tuple[str, tuple[_Option, ...]]]) -> Iterator[str]:
    yield _BASH % _cases(commands)


def _zsh(commands: Mapping[str, tuple[str, tuple[_Option, ...]]]) -> Iterator[str]:
    yield _ZSH % _cases(commands)


def _cases(commands: Mapping[str, tuple[str, tuple[_Option, ...]]]) -> str:
    """What both shells understand: `offered` is what may follow `prev` and begin with `cur`."""
    values, options = [], []
    for name, (_, known) in commands.items():
        for option in known:
            for flag in option.names if option.takes_value else ():
                listed = shlex.quote(" ".join(option.values))
                values.append(f"    {shlex.quote(f'{name} {flag}')}) offered={listed} ;;")
        words = " ".join(flag for o in known for flag in o.names)
        options.append(f"        '{name}:-'*) offered={shlex.quote(words)} ;;")
        if own := " ".join(word for o in known if not o.names for word in o.values):
            options.append(f"        '{name}:'*) offered={shlex.quote(own)} ;;")
    return _CASES % {
        "commands": "|".join(shlex.quote(_path(name)) for name in commands),
        "top": shlex.quote(" ".join([*_outer(commands), "--help", "--version"])),
        "values": "\n".join(values),
        "options": "\n".join(options),
    }


def _path(name: str) -> str:
    """A command as the scripts look for it: what came before, a space, and the word."""
    return name if " " in name else f" {name}"


def _outer(commands: Mapping[str, object]) -> tuple[str, ...]:
    return tuple(name for name in commands if " " not in name)


_FISH = """\
# Completes mlftool in fish. Written by mlftool completion fish.
function __mlftool_in
  set -l command
  set -l words (commandline -opc)
  for word in $words[2..]
    switch "$command $word"
      case %s
        set command (string trim "$command $word")
    end
  end
  test "$command" = "$argv"
end"""


def _fish(commands: Mapping[str, tuple[str, tuple[_Option, ...]]]) -> Iterator[str]:
    yield _FISH % " ".join(shlex.quote(_path(name)) for name in commands)
    for name in _outer(commands):
        line = _fish_quoted(commands[name][0])
        yield f"complete -c mlftool -n __mlftool_in -x -a {name} -d {line}"
    for name, (_, known) in commands.items():
        for option in known:
            words = [f"complete -c mlftool -n '__mlftool_in {name}'"]
            for flag in option.names:
                words.append(f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}")
            if option.values:
                words.append(f"-x -a {_fish_quoted(' '.join(option.values))}")
            elif option.takes_value:
                words.append("-r")
            yield " ".join([*words, f"-d {_fish_quoted(option.help)}"] if option.help else words)


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
