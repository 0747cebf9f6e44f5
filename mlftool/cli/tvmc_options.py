"""`mlftool compile` takes the options of `tvmc compile` that matter for an archive.

As in tvmc, an option of an executor or target that was not chosen is an error. Options that only
TVM can use are refused, with a hint what to do instead.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from mlftool.cli.options import add_option
from mlftool.config import EXECUTOR_OPTIONS, Executor, Option, PassContext, Runtime, settings
from mlftool.errors import MlfError, Problem
from mlftool.options import EXECUTORS, OPTIONS
from mlftool.targets.strings import ATTRIBUTES, KINDS

# Options of tvmc that have no meaning here, and the remedy.
_REFUSED = {
    "--cross-compiler": "an archive of sources needs no compiler; for object files use --cc and a "
    "target of kind llvm",
    "--cross-compiler-options": "append the options to the compiler's name in --cc",
    "--desired-layout": "mlftool chooses the layout of each kernel",
    "--tuning-records": "TVM's records are for its own schedules; make a record with mlftool "
    "tune, and pass it with --tuning",
    "--dump-code": "the archive holds the code; see mlftool extract",
    "--dump-offloads": "the command prints what backends are given, with --json as JSON",
    "--print-pass-times": "MLF_DEBUG=1 prints the time of each stage",
    "--mixed-precision": "convert the model first; float16 models compile as they are",
}


# What tvmc can say of pools, too: the order of --workspace-pools says it here.
_POOL_NOTES = (
    *("targets", "clock-frequency-hz", "read-bandwidth-bytes-per-cycle"),
    *("write-bandwidth-bytes-per-cycle", "read-latency-cycles", "write-latency-cycles"),
    "target-burst-bytes",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--executor", choices=EXECUTORS, default="aot", help="how the archive runs the model (aot)")
    add_option(parser, OPTIONS["interface_api"])
    for executor, name, option in _of_executors():
        help = f"for the {executor} executor"
        add(f"--executor-{executor}-{name}", metavar=option.shown, help=help)
    add("--runtime", default="crt", metavar="crt", help="crt: the code is C")
    add("--runtime-crt-system-lib", metavar="{0,1}", help="find packed functions by name")
    for kind in KINDS:
        for name in sorted(n for n, kinds in ATTRIBUTES.items() if kind in kinds):
            add(f"--target-{kind}-{name}", metavar="VALUE", help=argparse.SUPPRESS)
    add("--cc", default="", metavar="COMMAND",
        help="the compiler for a target of kind llvm (the target's usual compiler)")  # fmt: skip
    add("--pass-config", action="append", default=[], metavar="KEY=VALUE",
        help="a key of TVM's PassContext; docs/migration.md lists them; repeatable")  # fmt: skip
    add("--disabled-pass", action="append", default=[], metavar="NAME,...",
        help="passes to leave out, by mlftool's or TVM's names; repeatable")  # fmt: skip
    add("-O", "--opt-level", default="3", metavar="0..3", help="optimisation level (3)")
    add("--input-shapes", default="", metavar="'NAME:[1,3] ...'",
        help="tvmc's form of --input-shape")  # fmt: skip
    add(
        "--output-names",
        default="",
        metavar="NAME,...",
        help="names of the outputs, instead of the model's",
    )
    add("-f", "--output-format", default="mlf", choices=("mlf", "so"),
        help="mlf: an archive; so: a shared library for this computer (mlf)")  # fmt: skip
    add("--model-format", default="onnx", metavar="onnx", help="onnx")
    add("--workspace-pools", metavar="NAME,...",
        help="tvmc's form of --pool: names, fastest first")  # fmt: skip
    add("--workspace-pools-size-hint-bytes", metavar="NAME:BYTES,...", help="their sizes")
    for name in _POOL_NOTES:
        add(f"--workspace-pools-{name}", help=argparse.SUPPRESS)
    for name in _REFUSED:
        add(name, nargs="?", const="", help=argparse.SUPPRESS)


def spec_options(args: argparse.Namespace) -> dict[str, Any]:
    """Fields of ModuleSpec that the options decide. Raises MlfError with every problem."""
    problems = [
        _problem(f"{name} has no meaning here", remedy)
        for name, remedy in _REFUSED.items()
        if _given(args, name[2:]) is not None
    ]
    problems += _fixed(args)
    options = _executor_options(args, problems)
    if problems:
        raise MlfError(problems)
    executor = Executor(args.executor, options)
    runtime = Runtime(args.runtime, _flags("--runtime-crt-system-lib", args, "system-lib"))
    disabled = [name for item in args.disabled_pass for name in item.split(",") if name]
    level = _level(args.opt_level)
    context = PassContext(level, disabled_pass=disabled, config=_config(args.pass_config))
    pools = _pools(args)
    return {
        **settings(executor, runtime, context),
        **({"pools": pools} if pools else {}),
        "target": _target(args),
        "output_names": tuple(filter(None, args.output_names.split(","))),
        "cc": args.cc,
    }


def shapes_of(text: str) -> list[str]:
    """tvmc's `a:[1,2] b:[3]` as arguments of --input-shape. Raises MlfError."""
    found = re.findall(r"\s*(.+?):\s*\[([0-9,\s]*)\]\s*,?", text)
    rest = re.sub(r"\s*(.+?):\s*\[([0-9,\s]*)\]\s*,?", "", text).strip()
    if rest:
        raise MlfError(_problem(f"--input-shapes: got '{rest}'", "write NAME:[1,3,32,32]"))
    return [f"{name}:{re.sub(r'[ ]', '', extents)}" for name, extents in found]


def _pools(args: argparse.Namespace) -> tuple[str, ...]:
    """The option `pools`; a pool without a size takes what is needed. Raises MlfError."""
    names = [name for name in (args.workspace_pools or "").split(",") if name]
    sizes = {}
    for item in filter(None, (args.workspace_pools_size_hint_bytes or "").split(",")):
        name, colon, size = item.partition(":")
        if name not in names or not colon or not re.fullmatch("-1|[1-9][0-9]{0,11}", size):
            text = f"--workspace-pools-size-hint-bytes: got '{item}'"
            raise MlfError(_problem(text, "write NAME:BYTES of pools in --workspace-pools"))
        sizes[name] = size
    anything = str((1 << 31) - 1)
    return tuple(f"{n}={sizes.get(n, '-1').replace('-1', anything)}" for n in names)


def _of_executors() -> Iterator[tuple[str, str, Option]]:
    """TVM's options: the executor, the option's name, and what it is."""
    for executor, options in EXECUTOR_OPTIONS.items():
        for name, option in options.items():
            yield executor, name, option


def _problem(text: str, help: str = "", code: str = "MLF0400") -> Problem:
    return Problem(code, text, help=help)


def _given(args: argparse.Namespace, name: str) -> str | None:
    value: str | None = getattr(args, name.replace("-", "_"))
    return value


def _fixed(args: argparse.Namespace) -> list[Problem]:
    """Problems of options that allow only one value."""
    problems = []
    if args.model_format != "onnx":
        text = f"--model-format is '{args.model_format}', expected onnx"
        problems.append(_problem(text, "convert the model to ONNX"))
    if args.runtime == "cpp":
        text = "the code is C and needs no C++ runtime; use --runtime crt"
        problems.append(_problem(f"--runtime is 'cpp', expected crt: {text}"))
    return problems


def _executor_options(args: argparse.Namespace, problems: list[Problem]) -> dict[str, Any]:
    """Options of the chosen executor; options of other executors are problems."""
    options: dict[str, Any] = {}
    if args.interface_api is not None:
        if args.executor != "aot":
            text = f"--interface-api is aot's; got --executor {args.executor}"
            problems.append(_problem(text, "leave it out", "MLF0405"))
        options["interface-api"] = args.interface_api
    for executor, name, _ in _of_executors():
        option = f"executor-{executor}-{name}"
        value = _given(args, option)
        if value is None:
            continue
        if executor != args.executor:
            text = f"--{option} given, but not --executor {executor}"
            problems.append(_problem(text, "leave one of them out", "MLF0405"))
        elif name == "interface-api" and options.get(name, value) != value:
            text = f"--{option} {value} and --interface-api {options[name]}"
            problems.append(_problem(text, "leave one of them out", "MLF0405"))
        else:
            options[name] = int(value) if value.isdecimal() else value
    return options


def _flags(option: str, args: argparse.Namespace, name: str) -> Mapping[str, Any]:
    value = _given(args, option[2:])
    return {} if value is None else {name: int(value) if value.isdecimal() else value}


def _target(args: argparse.Namespace) -> str:
    """--target, followed by the attributes of --target-<kind>-<attribute>."""
    text: str = args.target
    for kind in KINDS:
        for name in (n for n, kinds in ATTRIBUTES.items() if kind in kinds):
            value = _given(args, f"target-{kind}-{name}")
            if value is None:
                continue
            if text.split()[:1] != [kind]:
                message = f"--target-{kind}-{name} given, but not --target {kind}"
                raise MlfError(_problem(message, f"write --target {kind}", "MLF0405"))
            text += f" -{name}={value}"
    return text


def _level(text: str) -> int:
    if text not in ("0", "1", "2", "3"):
        raise MlfError(_problem(f"--opt-level is '{text}', expected 0 to 3"))
    return int(text)


def _config(items: list[str]) -> dict[str, Any]:
    """KEY=VALUE arguments; a value is a number, true, false or text."""
    config = {}
    for item in items:
        key, equals, value = item.partition("=")
        if not equals:
            raise MlfError(_problem(f"--pass-config: got '{item}', expected KEY=VALUE"))
        try:
            config[key] = json.loads(value)
        except ValueError:
            config[key] = value
    return config
