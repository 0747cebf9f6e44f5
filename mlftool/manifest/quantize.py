"""The keys below `quantize` of a model."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from mlftool.frozen import frozen
from mlftool.manifest.kinds import File, OneOf, Reading, Size, refuse
from mlftool.manifest.nodes import Node, Scalar
from mlftool.manifest.records import Record, key
from mlftool.options import METRICS, Goal
from mlftool.targets import TARGETS

_VALUE = r"([0-9]+(?:\.[0-9]+)?) ?(%|dB)"


@frozen
class Accuracy:
    """A share such as 97% or 0.97, or decibels."""

    expected: str = "an accuracy such as 97%, 0.97 or 30dB"

    def read(self, node: Node, path: str, reading: Reading) -> Any:
        if not isinstance(node, Scalar) or isinstance(node.value, bool | None):
            return refuse(self, node, path, reading)
        if isinstance(node.value, str) and not re.fullmatch(_VALUE, node.text):
            return refuse(self, node, path, reading, "not an accuracy", "MLF0109")
        goal = Goal.of(node.text) if isinstance(node.value, str) else Goal(float(node.value))
        if not 0 <= goal.value < 1000:
            return refuse(self, node, path, reading, "out of range", "MLF0109")
        return goal

    def schema(self) -> dict[str, Any]:
        number = {"type": "number", "minimum": 0, "exclusiveMaximum": 1000}
        return {"anyOf": [number, {"type": "string", "pattern": f"^(?:{_VALUE})$"}]}


@frozen(kw_only=True)
class Wanted:
    """The accuracy to keep."""

    metric: str | None = key(
        OneOf("a metric", lambda: tuple(METRICS), "MLF0109"),
        "The metric of accuracy: "
        + "; ".join(f"`{name}` is {text}" for name, text in METRICS.items())
        + ".",
        example="top1",
        default=None,
        default_text="`top1` with labels, else `agreement`",
    )
    at_least: Goal | None = key(
        Accuracy(),
        "The lowest accepted accuracy; for `mse` the highest value.",
        example="97%",
        default=None,
        default_text="0.3 points less than the float model has",
    )


def _fit(values: dict[str, Any], path: str, reading: Reading) -> None:
    """The accuracy has the metric's unit."""
    goal, metric = values.get("at_least"), values.get("metric")
    if goal is not None and (expected := goal.misfit(metric)):
        at = f"{path}.at_least"
        message = f"not an accuracy of {metric or 'top1'}; got '{goal}', expected {expected}"
        reading.report("MLF0109", reading.places[at], message, path=at)


@frozen(kw_only=True)
class Most:
    """The limit for the quantised model's memory."""

    flash: int = key(Size(), "The most bytes of constants.", example="64KiB")


@frozen(kw_only=True)
class Quantize:
    """How a float model becomes an integer one before it is compiled."""

    data: str = key(
        File((".npz",)),
        "Samples of the model's inputs by their names, an array of [samples, ...] each; `labels`, "
        "or expected outputs, say what is right.",
        example="train_sample.npz",
    )
    accuracy: Wanted | None = key(
        Record(Wanted, "an accuracy", _fit, ("metric", "at_least")),
        "The accuracy to keep.",
        default=None,
        default_text="0.3 points less than the float model has",
    )
    budget: Most | None = key(
        Record(Most, "a budget"),
        "The limit for the quantised model's memory.",
        default=None,
        default_text="no limit",
    )

    @property
    def metric(self) -> str | None:
        return self.accuracy.metric if self.accuracy else None

    @property
    def at_least(self) -> float | None:
        goal = self.accuracy.at_least if self.accuracy else None
        return goal.value if goal else None

    @property
    def flash(self) -> int | None:
        return self.budget.flash if self.budget else None


def cost_target(targets: Sequence[str]) -> str:
    """Of a model's built-in targets the one whose costs decide how it is quantised: the first that
    is not the host."""
    return next((t for t in targets if not TARGETS[t].is_host), targets[0])


QUANTIZE = Record(Quantize, "quantisation")
