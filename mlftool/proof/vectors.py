"""Vectors of offsets, a sum of unknowns in each lane, and the bytes at them: what intrinsics of
Helium compute, as their instructions do.

What is computed of anything else is not known, so a load or a store at such offsets is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from mlftool.proof.affine import Sum

Vector = tuple[Sum, ...]
PREDICATE_BITS = 16  # a bit for each byte of a vector
_LENGTH = re.compile(r"_[su](\d+)$")
# What each lane is, of the arguments: vectors are their lanes, numbers are the same in all.
_OF_SUMS: Mapping[str, Callable[..., Sum]] = {
    "vdupq_n": lambda n: n,
    "vaddq": lambda a, b: a + b,
    "vaddq_n": lambda a, n: a + n,
    "vmulq_n": lambda a, n: a * n,
    "vmlaq_n": lambda a, b, n: a + b * n,
}
_OF_NUMBERS: Mapping[str, Callable[[int, int], int]] = {
    "vandq": lambda a, b: a & b,
    "vshlq_n": lambda a, n: a << n,
    "vshrq_n": lambda a, n: a >> n,
}
OPERATIONS = frozenset(
    f"{name}_u{bits}" for name in (*_OF_SUMS, *_OF_NUMBERS, "vidupq_n") for bits in (8, 16, 32)
)
# The bytes at each offset; with `_z` or `_p` the last argument is a predicate.
AT_OFFSETS: Mapping[str, int] = {
    f"v{way}{letter}q_{form}_offset{masked}_s{bits}": size
    for way, form, mask in (("ldr", "gather", "_z"), ("str", "scatter", "_p"))
    for letter, size in (("b", 1), ("h", 2), ("w", 4))
    for bits in (8, 16, 32)
    for masked in ("", mask)
    if bits >= 8 * size
}


def computed(
    name: str,
    given: Sequence[Vector | Sum | None],
    is_in: Callable[[Sum, tuple[int, int]], bool],
) -> Vector | None:
    """What one of OPERATIONS gives, or None if that is not known: an argument is not, or a lane may
    wrap around. `is_in` says whether a sum is between two ends."""
    bits = lane_bits(name)
    count = 128 // bits
    known = [one for one in given if one is not None]
    if len(known) < len(given) or any(isinstance(v, tuple) and len(v) != count for v in known):
        return None
    arguments = ([v[k] if isinstance(v, tuple) else v for v in known] for k in range(count))
    lanes = tuple(_lane(name.rpartition("_")[0], k, of) for k, of in enumerate(arguments))
    found = tuple(lane for lane in lanes if lane and is_in(lane, (0, (1 << bits) - 1)))
    return found if len(found) == count else None


def _lane(operation: str, k: int, of: Sequence[Sum]) -> Sum | None:
    if operation == "vidupq_n":
        return of[0] + of[1].times(k)
    if operation in _OF_SUMS:
        return _OF_SUMS[operation](*of)
    a, b = (one.constant for one in of)
    return None if a is None or b is None else Sum.of(_OF_NUMBERS[operation](a, b))


def lane_bits(name: str) -> int:
    """Of the vectors of an intrinsic."""
    match = _LENGTH.search(name)
    assert match
    return int(match[1])


def active(offsets: Vector, mask: int | None) -> Vector:
    """The offsets of lanes that a predicate may have active; all, if its bits are not known."""
    if mask is None:
        return offsets
    bits = PREDICATE_BITS // len(offsets)
    return tuple(at for k, at in enumerate(offsets) if mask >> bits * k & ((1 << bits) - 1))
