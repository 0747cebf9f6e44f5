"""What is read and written by what the checker does not read as C: intrinsics of compilers, and
functions whose loops end where a constant says so.

A row of a table is a fact of an instruction set, or what a comment in a header promises of its
function; tests/proof/test_assembly.py runs the latter at the ends of pages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache

from mlftool.frozen import frozen

# The bytes at the address that is the first argument.
BYTES: Mapping[str, int] = {
    **dict.fromkeys(("vld1q_s8", "vld1q_u8", "vld1q_s16", "vld1q_s32", "vldrbq_s8"), 16),
    **dict.fromkeys(("vst1q_s8", "vst1q_s16", "vst1q_s32", "vstrbq_s8", "vldrhq_s16"), 16),
    **dict.fromkeys(("vldrbq_s16", "vstrbq_s16", "vldrhq_s32", "vstrhq_s32"), 8),
    **dict.fromkeys(("vldrbq_s32", "vstrbq_s32"), 4),
    **dict.fromkeys(("_mm_loadl_epi64", "_mm_storel_epi64"), 8),
    **dict.fromkeys(("_mm_loadu_si128", "_mm_storeu_si128"), 16),
    **dict.fromkeys(("_mm256_loadu_si256", "_mm256_storeu_si256"), 32),
    **dict.fromkeys(("_mm512_loadu_si512", "_mm512_storeu_si512"), 64),
    # One instruction each, written as such in mlf/simd.h.
    **dict.fromkeys(("mlf_spread_x8", "mlf_spread_f32x8", "mlf_times_f32x16"), 4),
}
# The bytes of each active lane, and which argument is the predicate.
PREDICATED: Mapping[str, tuple[int, int]] = {
    **dict.fromkeys(("vldrbq_z_s8", "vldrbq_z_s16", "vldrbq_z_s32"), (1, 1)),
    **dict.fromkeys(("vstrbq_p_s8", "vstrbq_p_s16", "vstrbq_p_s32"), (1, 2)),
    **dict.fromkeys(("vstrhq_p_s16", "vstrhq_p_s32"), (2, 2)),
}
PREDICATES: Mapping[str, int] = {"vctp8q": 16, "vctp16q": 8, "vctp32q": 4}  # and their lanes
# How many addresses functions of the C library touch; the size is their last argument.
COPIES: Mapping[str, int] = {"memcpy": 2, "memmove": 2, "memset": 1}
# What gives its first argument.
SAME = ("__builtin_assume_aligned", "INT64_C", "UINT64_C", "UINT32_C")


class ContractError(Exception):
    """What does not hold where a function with a contract is called."""


@frozen
class Given:
    """An argument of a function with a contract: a number, or an address with the constants from
    there on, as far as they are known."""

    number: int | None = None
    apart: Mapping[str, int] | None = None  # elements to other arguments, by their names
    rest: Sequence[int] = ()


Touched = tuple[str, int]  # a parameter, and how many of its elements are read or written


def _eights(of: Mapping[str, Given]) -> list[Touched]:
    """mlf_eights of mlf/narrow_pairs.h."""
    channels, words = _distance(of, "y", "y_end"), _distance(of, "x", "end")
    weights, k = of["w"].rest, of["k"].rest
    at = 0
    if channels < 1 or words < 4 or words % 4:
        raise ContractError("nothing to sum")
    for _ in range(channels):
        left = words // 4
        while left:
            part = -_known(weights, at)
            if not 0 < part <= left:
                raise ContractError("a part of the weights is not of the products")
            at += 1 + part
            left -= part
    rare = sum(_known(k, 3 * c + 1) < 0 for c in range(channels))
    stride = of["stride"].number
    if stride is None or stride < 0:
        raise ContractError("a stride is not known")
    found = [("y", channels + 7 * stride), ("k", 3 * channels), ("w", at), ("x", words)]
    return [*found, ("form", 4), *([("rare", 8 * rare)] if rare else [])]


def _words(of: Mapping[str, Given]) -> list[Touched]:
    """mlf_words of mlf/narrow_words.h."""
    channels, inputs = _distance(of, "y", "y_end"), _distance(of, "x", "end")
    weights, k = of["w"].rest, of["k"].rest
    at = 0
    if channels < 8 or channels % 8 or inputs < 2 or inputs % 2:
        raise ContractError("nothing to sum")
    for _ in range(channels // 8):
        left = inputs
        while left:
            part = _known(weights, at) // 4
            if not 0 < part <= left or part % 2 or _known(weights, at) % 4:
                raise ContractError("a part of the weights is not of the inputs")
            at += 1 + 2 * part
            left -= part
    rare = sum(_known(k, 24 * (c // 8) + 8 + 2 * (c % 8)) < 0 for c in range(channels))
    found = [("y", channels), ("k", 3 * channels), ("w", at), ("x", inputs), ("totals", 2)]
    return [*found, ("form", 4), *([("rare", rare)] if rare else [])]


def _pixel(of: Mapping[str, Given], block: int) -> list[Touched]:
    """mlf_pixel_8 and mlf_pixel_4 of mlf/narrow.h."""
    channels, inputs = _distance(of, "y", "y_end"), _distance(of, "x", "end")
    k, step = of["k"].rest, 32 // block
    if channels < block or channels % block or inputs < step or inputs % step:
        raise ContractError("nothing to sum")
    signs = range(channels)
    rare = sum(_known(k, 3 * (c - c % block) + block + 2 * (c % block)) < 0 for c in signs)
    found = [("y", channels), ("k", 3 * channels), ("w", channels * inputs), ("x", inputs)]
    return [*found, ("form", 3), *([("rare", rare)] if rare else [])]


def _take_bytes(of: Mapping[str, Given]) -> list[Touched]:
    """mlf_take_bytes of mlf/narrow.h."""
    count = of["count"].number
    if count is None or count < 0:
        raise ContractError("a size is not known")
    return [("to", count), ("from", count)]


CONTRACTS: Mapping[str, Callable[[Mapping[str, Given]], list[Touched]]] = {
    "mlf_eights": _eights,
    "mlf_words": _words,
    "mlf_pixel_8": lambda of: _pixel(of, 8),
    "mlf_pixel_4": lambda of: _pixel(of, 4),
    "mlf_take_bytes": _take_bytes,
}


def _distance(of: Mapping[str, Given], start: str, end: str) -> int:
    found = (of[start].apart or {}).get(end)
    if found is None:
        raise ContractError(f"how far '{end}' is from '{start}' is not known")
    return found


def _known(numbers: Sequence[int], at: int) -> int:
    if at >= len(numbers):
        raise ContractError("constants are not known, or end too early")
    return numbers[at]


@lru_cache(maxsize=64)
def numbers(source: str) -> tuple[int, ...]:
    """The constants of an array's text; none if it has anything else."""
    words = re.sub(r"//[^\n]*", "", source).replace(",", " ").split()
    try:
        return tuple(int(word.rstrip("uU"), 0) for word in words)
    except ValueError:
        return ()
