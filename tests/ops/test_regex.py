"""Patterns as automata, against Python's regular expressions, which agree on ASCII's classes."""

from __future__ import annotations

import random
import re

import pytest

from mlftool.regex.automaton import Tables, tables

PATTERNS = (
    r"", r"a*b+?c{2,3}", r"(a|b|)c", r"(a*)*b", r"x{0}", r"[]a]+", r"[a-]+", r"[^a-c]x",
    r"(?:ab)?(?P<name>c|d)*", r"\d{3}-\d{4}", r"[\W]+", r"[^\w]a", r"\x41\.[\]\-]?",
    r"^abc$|d.f", r"(?s)d.f", r"(?i)hello( WORLD)?", r"(?i:h)e|k+", r"\bfoo\b.*", r".*\Bbar",
    r"www\.[\w.-]+\.\bcom\b", r"(\W|^)[\w.\-]{0,25}@(yahoo|gmail)\.com(\W|$)",
    r"é+", r"[à-ü]+", r"[^x]*", r"[ -🙂]{2}", r"\A(a|é|🙂)*",
)  # fmt: skip
TEXTS = (
    "www.google.com", "account2@yahoo.com", "hello world", "HELLO", "abbbcc", "dxf", "d\nf",
    "foo bar", "foobar", "xbar", "éé", "àü", "123-4567", "A.]", "A.-", "🙂é", "KKkk",
)  # fmt: skip
LETTERS = "abcx-foobarhel w@.gmailyahoocom é☺🙂\n12A]ü"


def matches(made: Tables, text: str) -> bool:
    """The same walk as the generated C's."""
    state = made.starts[0]
    for byte in text.encode():
        state = int(made.next[state, made.column[byte]])
    return bool(made.next[state, -1])


def texts(count: int) -> list[str]:
    draw = random.Random(7)
    made = list(TEXTS)
    for _ in range(count):
        word = list(draw.choice(TEXTS) if draw.random() < 0.4 else draw.choices(LETTERS, k=4))
        if draw.random() < 0.5:
            word[draw.randrange(len(word))] = draw.choice(LETTERS)
        made.append("".join(word[: draw.randrange(len(word) + 1)] if draw.random() < 0.3 else word))
    return made


@pytest.mark.parametrize("pattern", PATTERNS)
def test_matches_what_python_matches(pattern: str) -> None:
    made, wanted = tables(pattern), re.compile(pattern.replace(r"\z", r"\Z"), re.ASCII)
    found = [t for t in texts(3000) if matches(made, t)]
    assert found == [t for t in texts(3000) if wanted.fullmatch(t)]


@pytest.mark.parametrize(
    ("pattern", "text", "fits"),
    [
        (r"\x{1F642}\z", "🙂", True),
        (r"\Q.*\E+", ".**", True),
        (r"[[:alpha:]]+[[:^digit:]]", "ab.", True),
        (r"(?i)\x{212A}", "k", True),
        (r"\pN", None, None),
    ],
)
def test_what_python_spells_otherwise(pattern: str, text: str | None, fits: bool | None) -> None:
    if text is None:
        with pytest.raises(ValueError, match="not supported"):
            tables(pattern)
    else:
        assert matches(tables(pattern), text) == fits


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        ("(a", "not closed"), ("a)", "closes no group"), ("[a", "too early"), ("a\\", "too early"),
        ("*a", "repeats nothing"), ("a**", "repeats nothing"), ("a{3,2}", "repeats"),
        ("a{1001}", "1000"), ("(?=a)b", "group"), ("(?m)^a", "group"), (r"(a)\1", "not supported"),
        ("[b-a]", "range"), (r"\x{110000}", "last"),
        ("(a|b)*a(a|b){13}", "4096 states"),
    ],
)  # fmt: skip
def test_what_is_not_supported_is_said(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        tables(pattern)


def test_tables_are_small() -> None:
    """Equal states and equal columns are one; bytes of no letter lead to the state that is lost."""
    made = tables("(ab|cb)*")
    assert made.next.shape == (3, 4)  # lost, whole, half; a or c, b, others, the end
    assert made.next.dtype.name == "uint16"
    assert made.next[0].tolist() == [0, 0, 0, 0]
