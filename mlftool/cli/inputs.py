"""What the command line says about a model's inputs: their shapes and values."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence
from typing import Any

from mlftool.errors import MlfError, Problem


def add_inputs(parser: argparse.ArgumentParser, of: str = "") -> None:
    """The options that say what a model's inputs are; `of` begins their help."""
    bind = f"{of}bind an input's symbolic dimensions, or bound a tensor whose shape is computed; "
    value = f"{of}make an input a constant: a number, or one for each element (NAME:1,2,3); "
    for flag, form, text in (
        ("--input-shape", "NAME:1,3,32,32", bind),
        ("--input-value", "NAME:16000", value),
    ):
        help = text + "repeatable"
        parser.add_argument(flag, action="append", default=[], metavar=form, help=help)


def given_inputs(args: argparse.Namespace, shapes: Sequence[str] = ()) -> dict[str, Any]:
    """What they say, and `shapes` of the same form, as fields of ModuleSpec. Raises MlfError."""
    return {
        "input_shapes": parse_shapes([*args.input_shape, *shapes]),
        "input_values": parse_values(args.input_value),
    }


def parse_values(texts: list[str]) -> dict[str, tuple[int | float, ...]]:
    """`NAME:16000` and `NAME:0.5,1` arguments. Raises MlfError naming each malformed one."""
    values, problems = {}, []
    for text in texts:
        name, _, numbers = text.rpartition(":")
        try:
            values[name] = tuple(map(_number, numbers.split(",")))
        except ValueError:
            name = ""
        if not name:
            message = f"--input-value: got '{text}', expected NAME:16000 or NAME:0.5,1,2"
            problems.append(Problem("MLF0400", message))
    if problems:
        raise MlfError(problems)
    return values


def _number(text: str) -> int | float:
    if re.fullmatch(r"-?[0-9]{1,20}", text):
        return int(text)
    return float(text)


def parse_shapes(texts: list[str]) -> dict[str, tuple[int, ...]]:
    """`NAME:1,3,32,32` arguments. Raises MlfError naming each malformed one."""
    shapes, problems = {}, []
    for text in texts:
        match = re.fullmatch(r"(.+):([0-9]+(?:,[0-9]+)*)", text, re.DOTALL)
        if match and max(map(len, match[2].split(","))) > 18:
            problems.append(
                Problem("MLF0400", f"--input-shape: a dimension of '{match[1]}' has over 18 digits")
            )
        elif match:
            shapes[match[1]] = tuple(map(int, match[2].split(",")))
        else:
            problems.append(
                Problem("MLF0400", f"--input-shape: got '{text}', expected NAME:1,3,32,32")
            )
    if problems:
        raise MlfError(problems)
    return shapes


def add_fill_mode(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fill-mode", choices=("zeros", "ones", "random"),
        help="the values of inputs that are not given; the same each time (random)")  # fmt: skip
