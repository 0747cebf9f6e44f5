"""Expressions keep their values when what has no effect leaves."""

from __future__ import annotations

import re

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from mlftool.ir.holes import Number, filled, pieces
from mlftool.ir.lexemes import names_in
from mlftool.ir.loops import END, each

NONE, ONE, FIVE = Number(0), Number(1), Number(5)


def settled(text: str) -> str:
    """What an expression becomes where q and r are integers, f is a float, and x points to floats
    that are declared elsewhere."""
    head = "int32_t q; int32_t r; float f; const uint8_t *at; y ="
    return filled(f"{head} {text};", types={"x": "float"}).removeprefix(head)[1:-1]


@pytest.mark.parametrize(
    ("text", "made"),
    [
        (f"q % {FIVE} * {ONE} - {NONE}", "q % 5"),
        (f"({NONE} + q * {ONE}) / {ONE} >> {NONE}", "q"),
        (f"q % {ONE} * r + 3", "3"),
        (f"x + {NONE} * 64 + (q + {NONE}) * 4", "x + q * 4"),
        (f"(({NONE} * 4 + q) * 4 + r) * {ONE}", "q * 4 + r"),
        (f"{NONE} - q * 3", "-q * 3"),
        (f"-({NONE} + 1) * q", "-1 * q"),
        (f"x[{NONE} * 4 + at[{NONE}]] * {ONE}", "x[at[0]]"),
        (f"{NONE} ? 2 : q * {ONE}", "q"),
        (f"{ONE} * sizeof *x", "sizeof *x"),
        (f"(int32_t)f * {ONE} + {NONE}", "(int32_t)f"),
        (f"(uint8_t){NONE} + &q - {NONE}", "(uint8_t)0 + &q"),
        (f"mlf_min_i32(q, 4 - {NONE}) + {NONE}", "mlf_min_i32(q, 4)"),
    ],
)
def test_neutral_numbers_leave_with_their_operator(text: str, made: str) -> None:
    assert settled(text) == made


@pytest.mark.parametrize(
    "text",
    [
        "f + 0",  # of -0.0f is 0.0f
        "x[q] + 0",
        "expf(q) + 0",
        "f * 0",  # of NaN is NaN
        "x[q] * 0 + 1",
        "0 / f",
        "0 - f",
        "next(q) * 0",  # a call may have an effect
        "at[q++] * 0",
        "q++ % 1",
        "unknown * 0",
        "x[1] + 0u",  # no whole number: a part of one
        "q - 0.0f",
        "a /* a comment */ * 0 + q",
        "(mlf_thing){1} * 0 + q",
        "q1 + acc0",
    ],
)
def test_what_is_not_known_stays(text: str) -> None:
    holes = re.sub(
        r"(?<= )[01](?=$|\D)|(?<=acc|. q)[01]|^0", lambda n: str(Number(int(n[0]))), text
    )
    assert holes == text or "\0" in holes
    assert settled(holes) == text


def test_a_statement_has_its_own_brackets() -> None:
    for head in ("if", "while", "switch"):
        text = f"{{ {head} (c) *p++ = {NONE} + at[{NONE}]; }}"
        assert filled(text) == f"{head} (c) *p++ = 0 + at[0];"
        assert filled(text, types={"at": "int8_t"}) == f"{head} (c) *p++ = at[0];"


def test_conditions_that_are_no_whole_value_stay() -> None:
    assert settled(f"1 + {NONE} ? q : r") == "1 ? q : r"
    assert settled(f"q & {NONE} ? 1 : r") == "q & 0 ? 1 : r"


class Whole(int):
    """An integer that is divided as C does."""

    def __floordiv__(self, other: int) -> Whole:
        quotient = abs(int(self)) // abs(int(other))
        return Whole(quotient if (self < 0) == (other < 0) else -quotient)

    def __mod__(self, other: int) -> Whole:
        return Whole(int(self) - int(self // other) * int(other))

    def __neg__(self) -> Whole:
        return Whole(-int(self))

    def __add__(self, other: int) -> Whole:
        return Whole(int(self) + int(other))

    def __sub__(self, other: int) -> Whole:
        return Whole(int(self) - int(other))

    def __mul__(self, other: int) -> Whole:
        return Whole(int(self) * int(other))

    def __lshift__(self, other: int) -> Whole:
        return Whole(int(self) << int(other))

    def __rshift__(self, other: int) -> Whole:
        return Whole(int(self) >> int(other))


def value(text: str, names: dict[str, int]) -> int | None:
    """What C computes for the text; None where that is undefined."""
    known = {name: Whole(n) for name, n in names.items()} | {"Whole": Whole}
    try:
        return int(eval(re.sub(r"\b(\d+)", r"Whole(\1)", text.replace(" / ", " // ")), known))
    except (ZeroDivisionError, ValueError):
        return None


LEAVES = st.sampled_from(["k", "k", "q", "r", "2", "3", "0", "1"]) | st.integers(0, 2).map(
    lambda n: str(Number(n))
)
TERMS = st.recursive(
    LEAVES,
    lambda inner: st.builds(
        lambda form, a, op, b: form % f"{a} {op} {b}",
        st.sampled_from(["(%s)", "%s", "%s", "-(%s)"]),
        inner,
        st.sampled_from(["+", "-", "*", "/", "%", "<<", ">>"]),
        inner,
    ),
    max_leaves=9,
)
VALUES = st.integers(-9, 9)


@given(TERMS, st.integers(1, 2), VALUES, VALUES)
@example("q / r * (k + 1) % 2", 1, -7, 2)
def test_the_value_stays(term: str, bound: int, q: int, r: int) -> None:
    """Of an expression in a loop of one turn, and in one that stays, at the loop's first turn."""
    head = f"int32_t q; int32_t r; {each('k', Number(bound))}"
    made = filled(f"{head} y = {term}; {END}").split(" y = ")[1].split(";")[0]
    assert (bound > 1) == ("for (" in filled(f"{head} y = {term}; {END}"))
    plain = "".join(p if isinstance(p, str) else p.text for p in pieces(term))
    names = {"k": 0, "q": q, "r": r}
    if (want := value(plain, names)) is not None:
        assert value(made, names) == want


def test_what_is_stored_has_no_brackets_around_it() -> None:
    stored = f"  y[{Number(1)}] = (b + c);\n  return (a ? b : c);\n"
    assert filled(stored) == "  y[1] = b + c;\n  return a ? b : c;\n"
    kept = f"  y[{Number(1)}] = (int8_t)(a + b);\n  z = (a + b) * c;\n  k = (a & b) == 0;\n"
    assert filled(kept) == kept.replace(str(Number(1)), "1")


def test_a_place_that_is_0_leaves_with_its_brackets() -> None:
    text = f"  const int32_t p = {Number(0)};\n  const int32_t to = (p) * 10;\n"
    text += "  g(y + to, (p + 1) * 3);\n"
    assert filled(text) == "  g(y, 3);\n"


def test_names_of_c_are_not_those_of_its_comments_and_texts() -> None:
    text = 'y[k] = mlf_at(x.w, "b") * 1e3f; // c of z'
    assert names_in(text) == {"y", "k", "mlf_at", "x", "w"}
