"""A loop that runs once leaves; what its body says stays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlftool.ir.holes import Number, filled, form
from mlftool.ir.loops import ZERO, each

MLFTOOL = Path(__file__).absolute().parents[2] / "mlftool"
BARE = re.compile(
    r"for \(int32_t (\S+|\w*{{[^}]*}}) = 0; \1 < {{ [^}]* }}; \1(\+\+| \+= [^;{]*)\) {$"
)


def loop(bound: int, body: str, step: int = 1) -> str:
    return filled(f"  {each('k', bound, step)}\n    {body}\n  }}\n  last();\n")


@pytest.mark.parametrize(
    ("body", "alone"),
    [
        ("y[k * 64 + c] = x[(k * 3 + c) * 5];", "y[c] = x[c * 5];"),
        ("y[k] = x + k;", "y[0] = x;"),
        ("const int32_t iy = k * 2 - 1;", "const int32_t iy = -1;"),
        ("at = q / 2 * k - c + k;", "at = -c;"),
        ("p->k = s.k + k; // k of them", "p->k = s.k; // k of them"),
        ("y = 16 * (k + 1) + a * k * b;", "y = 16 * 1;"),
    ],
)
def test_what_one_turn_computes_stays(body: str, alone: str) -> None:
    assert loop(Number(1), body) == loop(1, body) == loop(2, body, 3) == f"  {alone}\n  last();\n"


def test_loops_of_more_turns_stay() -> None:
    for bound, step in ((0, 1), (Number(0), 4), (2, 1), (Number(4), 2), (5, Number(4))):
        assert f"; k < {int(bound)}; k" in loop(bound, "y[k] = 0;", step)
    assert "for (" in loop(1, "if (x[k]) continue;")
    assert "for (" in filled(f"{each('k', 'n')}\n}}\n")


def test_names_that_occur_elsewhere_stay_in_a_block() -> None:
    text = f"  const int32_t a = 2;\n  {each('k', 1)}\n    const int32_t a = k;\n  }}\n"
    assert filled(text) == "  const int32_t a = 2;\n  {\n    const int32_t a = 0;\n  }\n"


@pytest.mark.parametrize("declared", ["", "  const int32_t a = 2;\n"])
@pytest.mark.parametrize("hint", [f"MLF_UNROLL({Number(3)})", "MLF_ROLLED"])
def test_a_hint_for_the_compiler_leaves_with_its_loop(declared: str, hint: str) -> None:
    body = "    const int32_t a = k;\n  }\n"
    text = f"{declared}  f();\n  {hint}\n  {each('k', Number(1))}\n{body}"
    assert "MLF_" not in filled(text)
    assert "const int32_t a = 0;" in filled(text)
    assert "MLF_" in filled(text.replace("i1", "i2"))


def test_loops_in_loops() -> None:
    inner = f"    {each('j', Number(1))}\n      y[i * 4 + j] = '}}';\n    }}\n"
    text = f"  {each('i', Number(3))}\n{inner}  }}\n".replace("'}'", '"}"')
    kept = '  for (int32_t i = 0; i < 3; i++) {\n    y[i * 4] = "}";\n  }\n'
    assert filled(text) == kept


def test_layers_that_differ_in_the_bound_are_of_one_form() -> None:
    one, many = (f"{each('k', Number(n))}\n  f(k);\n}}\n" for n in (1, 9))
    assert form(one) == form(many)
    assert "k < layer[0]" in filled(one, lambda hole: "layer[0]")


TERMS = st.recursive(
    st.sampled_from(["k", "k", "q", "2", "3"]),
    lambda inner: st.builds(
        lambda a, op, b: f"({a} {op} {b})" if op in "+-" else f"{a} {op} {b}",
        *(inner, st.sampled_from("+-*/%"), inner),
    ),
    max_leaves=8,
)


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


def value(text: str) -> int | None:
    """What C computes for the text; None where it divides by zero."""
    names = {"k": Whole(0), "q": Whole(7), "Whole": Whole}
    try:
        return int(eval(re.sub(r"\b(\d+)", r"Whole(\1)", text.replace(" / ", " // ")), names))
    except ZeroDivisionError:
        return None


@given(TERMS, TERMS, st.sampled_from("+-"))
def test_the_value_stays(left: str, right: str, sign: str) -> None:
    term = f"{left} {sign} {right}"
    made = loop(1, f"y = {term};").split(" = ")[1].split(";")[0]
    assert ZERO not in made
    if value(term) is not None:
        assert value(made) == value(term)


def test_templates_declare_their_loops() -> None:
    bare = [
        f"{file.name}: {line.strip()}"
        for file in sorted(MLFTOOL.rglob("*.j2"))
        for line in file.read_text().splitlines()
        if BARE.search(line)
    ]
    assert bare == []


def test_no_template_has_a_macro_of_that_name() -> None:
    taken = re.compile(r"{%-? *(?:macro|set) each\b")
    assert [f.name for f in MLFTOOL.rglob("*.j2") if taken.search(f.read_text())] == []
