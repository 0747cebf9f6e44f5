"""TVM's time evaluator on this computer, and its results, wherever they were measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from numbers import Integral, Real

from mlftool.errors import ArgumentError, Problem
from mlftool.frozen import frozen

# Options of TVM's time evaluator that are taken and change nothing.
OF_TIMERS = ("cooldown_interval_ms", "limit_zero_time_iterations", "repeats_to_cooldown")


@frozen(repr=False)
class Times:
    """Seconds per call: a result for each repetition."""

    results: tuple[float, ...]

    @property
    def mean(self) -> float:
        return statistics.fmean(self.results)

    @property
    def median(self) -> float:
        return statistics.median(self.results)

    @property
    def min(self) -> float:
        return min(self.results)

    @property
    def max(self) -> float:
        return max(self.results)

    @property
    def std(self) -> float:
        """Of the results as they are, as numpy's."""
        return statistics.pstdev(self.results)

    def __repr__(self) -> str:
        return f"Times(mean={self.mean:.9f} s of {len(self.results)})"


def check_counts(number: int, repeat: int, min_repeat_ms: float) -> None:
    """Raises ArgumentError for what nothing can be measured by."""
    for name, value, kind, least in (
        ("number", number, Integral, 1),
        ("repeat", repeat, Integral, 1),
        ("min_repeat_ms", min_repeat_ms, Real, 0),
    ):
        if not (isinstance(value, kind) and least <= value < 1 << 31):
            text = f"{name} is {value!r}, expected {least} or more"
            raise ArgumentError(Problem("MLF0400", text))


def measured(
    seconds: Callable[[int], float], number: int, repeat: int, min_repeat_ms: float
) -> Times:
    """`repeat` results, each the mean of `number` calls, or of as many as take `min_repeat_ms`.
    `seconds` makes so many calls and says how long they took. Raises ArgumentError."""
    check_counts(number, repeat, min_repeat_ms)
    seconds(1)  # unmeasured: what is loaded and cached by the first call

    def results() -> Iterator[float]:
        count = number
        for _ in range(repeat):
            while (taken := seconds(count)) * 1e3 < min_repeat_ms:
                wanted = min_repeat_ms / 1e3 / (taken / count) if taken > 0 else 0
                count = max(int(wanted) + 1, int(count * 1.618) + 1)
            yield taken / count

    return Times(tuple(results()))
