"""Loads and stores of Helium at offsets of lanes: shown where each lane is inside, and nowhere
else."""

from __future__ import annotations

from pathlib import Path

import pytest

from mlftool.proof.affine import Known, Sum
from mlftool.proof.indices import Memory, UnprovenError, prove
from mlftool.proof.units import CONFIGURATIONS, sources
from mlftool.proof.vectors import OPERATIONS, active, computed

HEADERS = Path(__file__).parents[2] / "crt" / "include" / "mlf"
INCLUDES = "".join(f'#include "mlf/{name}.h"\n' for name in ("mve", "mve_patches", "mve_strips"))
FILES = {f"mlf/{path.name}": path.read_text() for path in HEADERS.glob("*.h")}
WAYS = ("gcc", "Helium")  # plain C, and intrinsics


def reason(body: str, size: int, way: str) -> str:
    """Why the statements are not shown to stay inside `size` bytes of y; "" if they are."""
    text = f"{INCLUDES}MLF_KERNEL void k(int8_t *y) {{\n{body}\n}}\n"
    found = list(sources("k.c", {**FILES, "k.c": text}))[list(CONFIGURATIONS).index(way)]
    kernel = found.find("k")
    if kernel is None:
        return "not read"
    try:
        prove(kernel, [Memory(size)], found.find)
    except UnprovenError as error:
        return str(error)
    return ""


NONE = "const mlf_halves v = mlf_halves_none();"
# Statements -> the bytes of y that they reach.
REACH = {
    "pair": ("const mlf_pair_places at = mlf_pair_places_of(16); mlf_pair_store8(y, v, at);", 20),
    "the same pixel twice": (
        "for (int32_t p = 0; p < 5; p += 2) { const int32_t q = mlf_min_i32(p + 1, 4);"
        "mlf_pair_store8(y + p * 8, v, mlf_pair_places_of((q - p) * 8)); }",
        36,
    ),
    "strip": (
        "const mlf_strip_places at = mlf_strip_places_of(32); mlf_strip_store(y, v, at, 0xffff);",
        98,
    ),
    "patch": ("mlf_patch_store(y, v, mlf_places_of(64, 8));", 64 + 3 * 8 + 1),
    "half of a patch": ("mlf_patch_store_some(y, v, mlf_places_of(64, 8), 0xff);", 25),
    "the last patch has two columns": (
        "const mlf_places at = mlf_places_of(64, 8); for (int32_t i = 0; i < 6; i += 4) {"
        "const int32_t lanes = i < 3 ? 0xffff : 0xffff & 0xf0f;"
        "mlf_patch_store_some(y + i * 8, v, at, lanes); }",
        64 + 5 * 8 + 1,
    ),
    "so has the last row": (
        "const mlf_places at = mlf_places_of(100, 2); for (int32_t r = 0; r < 5; r += 2) {"
        "const int32_t rows = r + 1 < 5 ? 0xffff : 0xff; for (int32_t i = 0; i < 50; i += 4) {"
        "const int32_t lanes = i < 47 ? rows : rows & 0xf0f;"
        "mlf_patch_store_some(y + r * 100 + i * 2, v, at, lanes); } }",
        499,
    ),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", REACH)
def test_each_lane_is_inside(name: str, way: str) -> None:
    body, size = REACH[name]
    assert reason(NONE + body, size, way) == ""
    assert reason(NONE + body, size - 1, way) == "no upper limit of an index of 'y' is known"


SCATTER = "vstrbq_scatter_offset{}_s16(y, {}, vdupq_n_s16(0){});"
EIGHT = "vidupq_n_u16(0, 1)"
# Statements -> why they are not shown.
REFUSED = {
    "an offset that wraps around": (
        SCATTER.format("", f"vmulq_n_u16({EIGHT}, 10000)", ""),
        "the offsets of a vector are not known",
    ),
    "offsets that are read": (
        "const uint16x8_t at = vldrbq_u16((const uint8_t *)y);" + SCATTER.format("", "at", ""),
        "not read",
    ),
    "a pitch that is read": (
        "const mlf_pair_places at = mlf_pair_places_of(y[0]);"
        + NONE
        + "mlf_pair_store8(y, v, at);",
        "the offsets of a vector are not known",
    ),
    "a mask that is read": (
        SCATTER.format("_p", f"vmulq_n_u16({EIGHT}, 100)", ", (mve_pred16_t)y[0]"),
        "no upper limit of an index of 'y' is known",
    ),
    "an address before the first": (
        SCATTER.format("", EIGHT, "").replace("(y", "(y - 1", 1),
        "no lower limit of an index of 'y' is known",
    ),
    "a gather": (
        "const int16x8_t v = vldrbq_gather_offset_s16(y + 93, " + EIGHT + ");",
        "no upper limit of an index of 'y' is known",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_known_is_refused(name: str) -> None:
    body, why = REFUSED[name]
    assert why in reason(body, 100, "Helium")


def test_lanes_are_those_of_the_instructions() -> None:
    def is_in(lane: Sum, ends: tuple[int, int]) -> bool:
        return Known().is_positive(lane - Sum.of(ends[0])) and Known().is_positive(
            Sum.of(ends[1]) - lane
        )

    def lanes(name: str, *given: list[int] | int) -> list[int | None] | None:
        made = [Sum.of(one) if isinstance(one, int) else tuple(map(Sum.of, one)) for one in given]
        assert name in OPERATIONS
        found = computed(name, made, is_in)
        return None if found is None else [lane.constant for lane in found]

    four = [0, 1, 2, 3]
    assert lanes("vidupq_n_u32", 4, 2) == [4, 6, 8, 10]
    assert lanes("vandq_u32", four, [1, 1, 1, 1]) == [0, 1, 0, 1]
    assert lanes("vshrq_n_u32", four, 1) == [0, 0, 1, 1]
    assert lanes("vshlq_n_u32", four, 2) == [0, 4, 8, 12]
    assert lanes("vmlaq_n_u32", four, four, 10) == [0, 11, 22, 33]
    assert lanes("vmulq_n_u32", four, -1) is None  # it wraps around
    assert lanes("vaddq_u16", four, four) is None  # of another length
    assert lanes("vdupq_n_u8", 256) is None
    assert active(tuple(map(Sum.of, four)), 0x0F08) == (Sum.of(0), Sum.of(2))
