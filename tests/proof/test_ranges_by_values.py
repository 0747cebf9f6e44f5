"""Index ranges that depend on what a tensor holds: after a search for its greatest element, or
where it is a constant."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from small_c import check, reason

from mlftool.proof.ctree import Type
from mlftool.proof.indices import Memory, UnprovenError

# A search for the greatest of the four elements of q, with its start, its first turn and its end,
# what is done then, and where the elements are looked at from; and whether each is at most that.
GREATEST = {
    "all": ((0, 1, 4, "", 0), True),
    "all, one twice": ((0, 0, 4, "", 0), True),
    "all but one": ((0, 1, 3, "", 0), False),
    "all but the first": ((1, 2, 4, "", 0), False),
    "those looked at": ((1, 2, 4, "", 1), True),
    "a start from elsewhere": ((3, 1, 4, "", 0), False),
    "something else then": ((0, 1, 4, "m--;", 0), False),
    "another element then": ((0, 1, 4, "((int8_t *)q)[2] = 127;", 0), False),
    "another element by another address": (
        (0, 1, 4, "int8_t *p = (int8_t *)q; for (int32_t i = 0; i < 2; i++) { *p++ = 1; }", 0),
        False,
    ),
    "another tensor then": ((0, 1, 4, "y[3] = 1.0f;", 0), True),
}


@pytest.mark.parametrize("entries", [256, 255])
@pytest.mark.parametrize("name", GREATEST)
def test_no_element_is_above_the_greatest(name: str, entries: int) -> None:
    """A table with an entry for each distance from the greatest of all elements."""
    (first, start, end, then, from_), inside = GREATEST[name]
    c = (
        "MLF_KERNEL void k(const int8_t *q, const float *t, float *y) {\n"
        f"  int32_t m = q[{first}]; "
        f"for (int32_t k = {start}; k < {end}; k++) {{ m = q[k] > m ? q[k] : m; }} {then} "
        f"for (int32_t k = {from_}; k < 4; k++) {{ y[0] = t[m - q[k]]; }}\n}}\n"
    )
    assert (reason(c, 4, 4 * entries, 48) == "") is (inside and entries == 256)
    shared = Memory(4, shared=True), Memory(4 * entries), Memory(48, shared=True)
    with pytest.raises(UnprovenError):  # q may be where y is
        check(c, *shared)


# What a loop writes where it looks at what the one before it has searched, and whether the greatest
# is still the greatest of what it looks at.
OVERWRITTEN = {
    "in place": ("z[k] = (int8_t)t[m - q[k]];", True),
    "in place, by another index": ("z[k] = (int8_t)t[m - q[k]]; at++;", True),
    "the first again and again": ("z[0] = (int8_t)t[m - q[k]];", True),
    "the one before": ("const int32_t v = m - q[k]; z[k > 0 ? k - 1 : 0] = (int8_t)t[v];", True),
    "then it is looked at": ("z[k] = 9; z[k] = (int8_t)t[m - q[k]];", False),
    "the next one": ("const int32_t v = m - q[k]; z[k < 3 ? k + 1 : 3] = (int8_t)t[v];", False),
    "from the end": ("const int32_t v = m - q[k]; z[3 - k] = (int8_t)t[v];", False),
    "any": ("const int32_t v = m - q[k]; z[u[k] & 3] = (int8_t)t[v];", False),
    "two at once": (
        "const int32_t v = m - q[k]; if (k < 3) { *(int16_t *)(z + k) = (int16_t)t[v]; }",
        False,
    ),
    "what a loop in it writes": (
        "const int32_t v = m - q[k]; for (int32_t i = 0; i < 4; i++) { z[i] = (int8_t)t[v]; }",
        False,
    ),
    "in a condition": ("if ((z[3] = (int8_t)t[m - q[k]]) > 0) { at++; }", False),
    "by a copy whose size only a turn knows": (
        "const float v = t[m - q[k]]; memcpy(z, u, n); n = n - 1;",
        False,
    ),
    "sometimes the last": (
        "const int32_t v = m - q[k]; if (u[k] > 0) { z[3] = (int8_t)t[v]; }",
        False,
    ),
}


@pytest.mark.parametrize("name", OVERWRITTEN)
def test_a_search_whose_elements_are_overwritten(name: str) -> None:
    """q and z are one tensor."""
    body, inside = OVERWRITTEN[name]
    c = (
        "MLF_KERNEL void k(const int8_t *x, const uint8_t *u, const float *t, int8_t *y) {\n"
        "  for (int32_t o = 0; o < 3; o++) {\n"
        "    const int8_t *const q = x + 4 * o; int8_t *const z = y + 4 * o;\n"
        "    int32_t at = 0, n = 4, m = q[0];\n"
        "    for (int32_t k = 1; k < 4; k++) { m = q[k] > m ? q[k] : m; }\n"
        f"    for (int32_t k = 0; k < 4; k++) {{ {body} }}\n  }}\n}}\n"
    )
    for entries in (256, 255):
        given = Memory(12), Memory(4), Memory(4 * entries), Memory(12, same=0)
        why = nullcontext() if inside and entries == 256 else pytest.raises(UnprovenError)
        with why:
            check(c, *given)
    for other in (Memory(12, shared=True), Memory(13, same=0)):  # elsewhere in it, or more of it
        with pytest.raises(UnprovenError):
            check(c, Memory(12, shared=other.shared), Memory(4), Memory(1024), other)


# A constant of six numbers, statements that use them, and whether y of 12 elements is enough.
TABLES = {
    "each": ((0, 3, 7, 11, 2, 1), "for (int32_t i = 0; i < 6; i++) { y[t[i]] = 0.0f; }", True),
    "one too large": (
        (0, 3, 12, 1, 2, 1),
        "for (int32_t i = 0; i < 6; i++) { y[t[i]] = 0; }",
        False,
    ),
    "one too small": (
        (0, 3, -1, 1, 2, 1),
        "for (int32_t i = 0; i < 6; i++) { y[t[i]] = 0; }",
        False,
    ),
    "every other": (
        (0, 99, 7, -1, 11, 99),
        "for (int32_t i = 0; i < 3; i++) { y[t[2 * i]] = 0; }",
        True,
    ),
    "the others": (
        (0, 99, 7, -1, 11, 99),
        "for (int32_t i = 0; i < 3; i++) { y[t[2 * i + 1]] = 0; }",
        False,
    ),
    "every other, from the end": (
        (99, 0, 99, 7, -1, 11),
        "for (int32_t i = 2; i >= 0; i--) { y[t[5 - 2 * i]] = 0; }",
        True,
    ),
    "one of two": (
        (4, 99, 99, 7, 99, 99),
        "y[t[q[0] > 0 ? 0 : 3]] = 0;",
        True,
    ),
    "one of two, too large": (
        (4, 99, 99, 7, 99, 99),
        "y[t[q[0] > 0 ? 0 : 3] * 2] = 0;",
        False,
    ),
    "a tree": (
        (1, 2, -1, 2, -9, -3),
        "int32_t at = 0; while (at >= 0) { at = t[2 * at + (q[0] > 0 ? 0 : 1)]; } y[-at] = 0;",
        True,
    ),
    "a tree with a node that is not there": (
        (1, 2, -1, 3, -9, -3),
        "int32_t at = 0; while (at >= 0) { at = t[2 * at + (q[0] > 0 ? 0 : 1)]; } y[-at] = 0;",
        False,
    ),
    "a tree with a leaf that is not there": (
        (1, 2, -1, 2, -12, -3),
        "int32_t at = 0; while (at >= 0) { at = t[2 * at + (q[0] > 0 ? 0 : 1)]; } y[-at] = 0;",
        False,
    ),
}


# Steps through eight bytes of y by two constants of bytes, and how many there are in each of four
# rows.
LED = (
    "const uint8_t *p = t; int32_t at; for (int32_t r = 0; r < 4; r++) { const int8_t *e = y; "
    "int32_t left = n[r]; do { e += (uint8_t)p[0] * 2; y[0] += e[0] + e[1]; p++; } "
    "while (--left != 0); }"
)
STEPS = {
    "as far as they go": ((0, 3, 2, 1, 1, 1, 0), (2, 1, 3, 1), True),
    "a step too far": ((0, 3, 2, 1, 1, 2, 0), (2, 1, 3, 1), False),
    "a row too long": ((0, 3, 2, 1, 1, 1, 0), (2, 1, 3, 2), False),
    "a row of all": ((0, 3, 2, 1, 1, 1, 0), (3, 1, 2, 1), False),
    "a row of none": ((0, 3, 2, 1, 1, 1, 0), (2, 1, 3, 0), False),
}


@pytest.mark.parametrize("name", STEPS)
def test_constants_that_lead_through_memory(name: str) -> None:
    steps, rows, inside = STEPS[name]
    c = f"MLF_KERNEL void k(const uint8_t *t, const uint16_t *n, int8_t *y) {{\n  {LED}\n}}\n"
    given = Memory(7, steps, Type("uint8_t")), Memory(8, rows, Type("uint16_t")), Memory(8)
    with nullcontext() if inside else pytest.raises(UnprovenError):
        check(c, *given)
    with pytest.raises(UnprovenError):  # nobody knows where they lead
        check(c, *(Memory(m.size_bytes) for m in given))


@pytest.mark.parametrize("name", TABLES)
def test_what_constants_say(name: str) -> None:
    holds, body, inside = TABLES[name]
    c = f"MLF_KERNEL void k(const int32_t *t, const int8_t *q, float *y) {{\n  {body}\n}}\n"
    why = nullcontext() if inside else pytest.raises(UnprovenError)
    with why:
        check(c, Memory(24, holds, Type("int32_t")), Memory(4), Memory(48))
