"""`matrix` of a model: one model for each combination of options, before anything else is read.

    kws: {model: kws.onnx, matrix: {optimize: [speed, size]}}

is read as the models `kws-speed` and `kws-size`, each with its own `optimize`. Everything else that
the manifest can say of a model, targets and executors included, holds for each of them.
"""

from __future__ import annotations

import itertools
from typing import Any

from mlftool.errors import did_you_mean
from mlftool.frozen import frozen
from mlftool.manifest.kinds import BAD, Reading, refuse
from mlftool.manifest.nodes import Mapping, Node, Scalar, Sequence, clip, join
from mlftool.manifest.records import kind_of
from mlftool.options import OPTIONS, Several

KEY = "matrix"
MAX_MODELS = 64
NAMES = tuple(n for n, option in OPTIONS.items() if not isinstance(option.kind, Several))


@frozen
class Matrix:
    """Options with lists of their values; `expand` has removed the valid ones."""

    expected: str = "a mapping from options to lists of values, such as {optimize: [speed, size]}"

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        """Reports the problems of matrices that `expand` left in place."""
        if not isinstance(node, Mapping) or not node.entries:
            return refuse(self, node, path, reading)
        for key, values in node.entries:
            place = join(path, key.text)
            if key.text not in NAMES:
                message = f"unknown option; got '{clip(key.text)}', expected one of the compiler"
                reading.report(
                    "MLF0106", key.at, message, did_you_mean(clip(key.text), NAMES), place
                )
            elif not isinstance(values, Sequence) or not values.items:
                refuse(self, values, place, reading)
            else:
                kind = kind_of(OPTIONS[key.text].kind)
                for i, value in enumerate(values.items):
                    kind.read(value, f"{place}[{i}]", reading)
        if (count := _count(node)) > MAX_MODELS:
            message = f"too many models; got {count}, expected at most {MAX_MODELS}"
            reading.report("MLF0109", node.at, message, path=path)
        return BAD

    def schema(self) -> dict[str, Any]:
        options = {
            name: {
                "description": OPTIONS[name].doc,
                "type": "array",
                "minItems": 1,
                "items": kind_of(OPTIONS[name].kind).schema(),
            }
            for name in NAMES
        }
        return {
            "type": "object",
            "properties": options,
            "additionalProperties": False,
            "minProperties": 1,
        }


def expand(root: Mapping, reading: Reading) -> Mapping:
    """`root` with a model for each combination; an invalid matrix stays, to be reported."""
    entries = []
    for key, section in root.entries:
        if key.text == "models" and isinstance(section, Mapping):
            models: dict[str, tuple[Scalar, Node]] = {}
            made = (m for name, model in section.entries for m in _models(name, model, reading))
            for name, model in made:
                if name.text in models:
                    message = f"name taken; got '{name.text}' twice, expected unique names"
                    reading.report("MLF0111", name.at, message, path=f"models.{name.text}")
                models.setdefault(name.text, (name, model))
            section = Mapping(section.at, tuple(models.values()))
        entries.append((key, section))
    return Mapping(root.at, tuple(entries))


def _models(name: Scalar, model: Node, reading: Reading) -> list[tuple[Scalar, Node]]:
    if not isinstance(model, Mapping):
        return [(name, model)]
    matrix = next((child for key, child in model.entries if key.text == KEY), None)
    if not isinstance(matrix, Mapping) or not _is_right(matrix, reading):
        return [(name, model)]
    axes = [
        [(key, value) for value in values.items]
        for key, values in matrix.entries
        if isinstance(values, Sequence)
    ]
    made: list[tuple[Scalar, Node]] = []
    for choice in itertools.product(*axes):
        suffix = "-".join(_word(key.text, value) for key, value in choice)
        chosen = {key.text for key, _ in choice}
        kept = [
            (key, _module(child, suffix) if key.text == "module_name" else child)
            for key, child in model.entries
            if key.text != KEY
        ]
        # An option that is set besides is reported by its place: the matrix alone may say it.
        if twice := next((key for key, _ in kept if key.text in chosen), None):
            message = f"'{twice.text}' is in the matrix too; expected it in one place"
            reading.report("MLF0105", twice.at, message, "remove one of them", name.text)
            return []
        here = Scalar(name.at, f"{name.text}-{suffix}", f"{name.text}-{suffix}", name.plain)
        made.append((here, Mapping(model.at, (*kept, *choice))))
    return made


def _is_right(matrix: Mapping, reading: Reading) -> bool:
    trial = Reading(reading.file, None)
    Matrix().read(matrix, KEY, trial)
    return not trial.problems


def _count(matrix: Mapping) -> int:
    count = 1
    for _, values in matrix.entries:
        count *= len(values.items) if isinstance(values, Sequence) else 1
    return count


def _word(option: str, value: Node) -> str:
    """The part of a name that distinguishes a combination."""
    assert isinstance(value, Scalar)
    if isinstance(value.value, bool):
        return ("" if value.value else "no-") + option.replace("_", "-")
    if isinstance(value.value, int):
        return f"{option.replace('_', '-')}-{value.value}"
    return str(value.value).lower()  # 24KiB: names have no capitals


def _module(name: Node, suffix: str) -> Node:
    if not isinstance(name, Scalar) or not isinstance(name.value, str):
        return name
    text = f"{name.value}_{suffix.replace('-', '_')}"
    return Scalar(name.at, text, text, name.plain)
