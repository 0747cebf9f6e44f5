"""The user's own boards, as targets of a manifest."""

from __future__ import annotations

from typing import Any

from mlftool.frozen import frozen
from mlftool.manifest import known
from mlftool.manifest.kinds import OneOf, Reading, Size, Text
from mlftool.manifest.records import Record, key

_BASE = OneOf("a built-in target", known.targets, "MLF0112")
_PART = r"(?!\.+(?:[/:]|$))[\w.+=,@~-]+"
_LABEL = Text(
    "the label of an mlf_board, such as //boards/sensor or @vendor//boards:sensor",
    # Bazel's own grammar: no part of a path is empty or consists only of dots.
    rf"(@[\w.+~-]*)?//({_PART}(/{_PART})*(:{_PART}(/{_PART})*)?|:{_PART}(/{_PART})*)",
)


@frozen(kw_only=True)
class UserTarget:
    """A board of your own: a built-in target with the memory it really has."""

    name: str
    base: str = key(_BASE, "The built-in target whose code the board runs.", example="cortex-m4")
    flash: int | None = key(
        Size(), "Flash of the board.", example="512KiB", default=None, default_text="not checked"
    )
    ram: int | None = key(
        Size(), "RAM of the board.", example="128KiB", default=None, default_text="not checked"
    )
    board: str | None = key(
        _LABEL,
        "For Bazel: the `mlf_board` that programs for this target are built for and run on.",
        example="//boards/sensor",
        default=None,
        default_text="the simulated board of `base`",
    )


def _finish(values: dict[str, Any], path: str, reading: Reading) -> None:
    values["name"] = name = path.split(".", 1)[1]
    if name in known.targets():
        message = f"name taken; got '{name}', expected a name that no built-in target has"
        reading.report("MLF0111", reading.places[path], message, path=path)


USER_TARGET = Record(UserTarget, "a target", _finish)
