"""A loop that runs once leaves; what its body says stays."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mlftool.ir.holes import Number, filled, form
from mlftool.ir.loops import END, each

MLFTOOL = Path(__file__).absolute().parents[2] / "mlftool"
# Steps that only a turn knows cannot be declared.
BARE = re.compile(
    r"for \(int32_t (\S+|\w*{{[^}]*}}) = 0; \1 < {{ [^}]* }}; \1(\+\+| \+= \d[^;{]*)\) {$"
)


def loop(bound: int, body: str, step: int = 1) -> str:
    head = "  int32_t q; int32_t c; int32_t a; int32_t b;\n"
    made = filled(f"{head}  {each('k', bound, step)}\n    {body}\n  {END}\n  last();\n")
    return made.removeprefix(head)


@pytest.mark.parametrize(
    ("body", "alone"),
    [
        ("y[k * 64 + c] = x[(k * 3 + c) * 5];", "y[c] = x[c * 5];"),
        ("y[k] = x + k;", "y[0] = x;"),
        ("const int32_t iy = k * 2 - 1;", "const int32_t iy = -1;"),
        ("at = q / 2 * k - c + k;", "at = -c;"),
        ("p->k = s.k * k; // k of them", "p->k = s.k * 0; // k of them"),
        ("y = 16 * (k + 1) + a * k * b;", "y = 16;"),
        ('f("k", k); /* k */', 'f("k", 0); /* k */'),
    ],
)
def test_what_one_turn_computes_stays(body: str, alone: str) -> None:
    assert loop(Number(1), body) == loop(1, body) == loop(2, body, 3) == f"  {alone}\n  last();\n"


def test_loops_of_more_turns_stay() -> None:
    for bound, step in ((0, 1), (Number(0), 4), (2, 1), (Number(4), 2), (5, Number(4))):
        assert f"; k < {int(bound)}; k" in loop(bound, "y[k] = 0;", step)
    assert "for (" in filled(f"{each('k', 'n')}\n{END}\n")


@pytest.mark.parametrize(
    "body",
    [
        "if (x[k]) continue;",
        "if (x[k]) {\n      break;\n    }",
        "k++;",
        "--k;",
        "k += c;",
        "read(&k);",
        "const int32_t k = c;",
        "for (int32_t k = 0; k < c; k++) {}",
        "const float *k = x;",
    ],
)
def test_bodies_that_need_their_loop_keep_it(body: str) -> None:
    assert "for (int32_t k = 0; k < 1; k++) {" in loop(1, body)


def test_jumps_of_loops_inside_are_their_own() -> None:
    for inner in ("for (; n < c; n++)", "while (n < c)", each("n", 9)):
        close = END if "\0" in inner else "}"
        brace = "" if "\0" in inner else " {"
        body = f"{inner}{brace}\n      if (x[n]) break;\n    {close}"
        assert "k++" not in loop(1, body)


def test_names_that_occur_beside_it_stay_in_a_block() -> None:
    text = f"  const int32_t a = 2;\n  {each('k', 1)}\n    int32_t a = k;\n  {END}\n"
    block = "  {\n    int32_t a = 0;\n  }\n"
    assert filled(text) == f"  const int32_t a = 2;\n{block}"
    inner = f"  {each('k', 1)}\n    const int32_t b = 1, *a = k;\n  {END}\n"
    assert "for" not in filled(inner)
    assert filled(inner).startswith("  const int32_t")
    assert filled(inner, types={"a": "float"}).startswith("  {")  # a parameter


def test_the_statement_of_a_condition_stays_one() -> None:
    text = f"  if (c) {each('k', 1)}\n    y[k] = 1;\n    x[k] = 2;\n  {END}\n"
    assert filled(text) == "  if (c) {\n    y[0] = 1;\n    x[0] = 2;\n  }\n"


@pytest.mark.parametrize("declared", ["", "  const int32_t a = 2;\n"])
@pytest.mark.parametrize("hint", [f"MLF_UNROLL({Number(3)})", "MLF_ROLLED"])
def test_a_hint_for_the_compiler_leaves_with_its_loop(declared: str, hint: str) -> None:
    body = f"    int32_t a = k;\n  {END}\n"
    text = f"{declared}  f();\n  {hint}\n  {each('k', Number(1))}\n{body}"
    assert "MLF_" not in filled(text)
    assert "int32_t a = 0;" in filled(text)
    assert "MLF_" in filled(text.replace("i1", "i2"))


def test_loops_in_loops() -> None:
    inner = f"    {each('j', Number(1))}\n      y[i * 4 + j] = '}}';\n    {END}\n"
    text = f"  {each('i', Number(3))}\n{inner}  {END}\n".replace("'}'", '"}"')
    kept = '  for (int32_t i = 0; i < 3; i++) {\n    y[i * 4] = "}";\n  }\n'
    assert filled(text) == kept


def test_layers_that_differ_in_the_bound_are_of_one_form() -> None:
    one, many = (f"{each('k', Number(n))}\n  f(k);\n{END}\n" for n in (1, 9))
    assert form(one) == form(many)
    assert "k < layer[0]" in filled(one, lambda hole: "layer[0]")


def test_an_end_of_a_plain_block_is_a_brace() -> None:
    assert filled(f"if (c) {{\n  {each('k', 2)} {END}\n{END}") == (
        "if (c) {\n  for (int32_t k = 0; k < 2; k++) { }\n}"
    )
    with pytest.raises(AssertionError, match="end"):
        filled(f"{each('k', 2)}")


def test_templates_declare_their_loops() -> None:
    bare = [
        f"{file.name}: {line.strip()}"
        for file in sorted(MLFTOOL.rglob("*.j2"))
        for line in file.read_text().splitlines()
        if BARE.search(line)
    ]
    assert bare == []


def test_no_template_has_a_macro_of_that_name() -> None:
    taken = re.compile(r"{%-? *(?:macro|set) (?:each|end)\b")
    assert [f.name for f in MLFTOOL.rglob("*.j2") if taken.search(f.read_text())] == []


@pytest.mark.parametrize(
    ("body", "made"),
    [
        ("const int32_t s = k * 2;\n y[s + q] = s * 3 + q;", "y[q] = q;"),
        ("const int32_t s = 0;\n { y = x + s; }", "y = x;"),
        ("const int32_t s = 0;\n y = s + q < 5;", "y = q < 5;"),
        ("const int32_t s = 0;\n const int32_t t = s * 2 + s;\n y[t + q];", "y[q];"),
    ],
)
def test_a_constant_that_is_zero_leaves_where_terms_go_without_it(body: str, made: str) -> None:
    assert loop(1, body).split("\n")[0].strip() == made


@pytest.mark.parametrize(
    "body",
    [
        "const int32_t s = 0;\n y = s < 0 ? q : 1;",
        "const int32_t s = 0;\n f(s);",
        "const int32_t s = 0, t = 1;\n y = s + t;",
        "const int32_t s = 0;\n { const int32_t s = 4; y = s * 3; }",
        "int32_t s = 0;\n y = s + q; s++;",
        "const float s = 0;\n y = s + q;",
    ],
)
def test_other_constants_stay(body: str) -> None:
    assert body.split("\n")[0] in loop(1, body)


def test_a_block_leaves_unless_a_name_of_it_occurs_beside_it() -> None:
    text = "  f();\n  {\n    const int32_t a = g();\n    h(a);\n  }\n  {\n    for (;;) {}\n  }\n"
    alone = "  f();\n  const int32_t a = g();\n  h(a);\n  for (;;) {}\n"
    some = each("k", "n") + END
    assert filled(text + some).startswith(alone)
    assert filled(text + "  h(a);\n" + some).startswith("  f();\n  {\n    const int32_t a")
    assert filled(text + some, types={"a": "float"}).startswith("  f();\n  {\n")


@pytest.mark.parametrize(
    "text",
    ["  x = {{1, 2}, {3}};\n", "  if (q) {\n    f();\n  }\n", "  do {\n    f();\n  } while (q);\n"],
)
def test_other_braces_stay(text: str) -> None:
    assert filled(text + each("k", "n") + END).startswith(text)


def test_what_was_counted_for_a_next_turn_leaves() -> None:
    body = "const int8_t *wp = w;\n  {}\n    f(wp);\n    wp += 4;\n  {}\n".format
    assert "wp += 4" not in filled(body(each("k", 1), END))
    assert "wp += 4" in filled(body(each("k", 2), END))
    assert "wp += 4" in filled(body(each("k", 1), END) + "g(wp);")
    assert "wp += 4" in filled("  for (;;) {\n" + body(each("k", 1), END).partition("\n")[2] + "}")


def test_a_condition_that_is_known_leaves() -> None:
    block = f"{{\n    y[{Number(1)}] = a;\n  }}"
    assert filled(f"  if ({Number(1)} < {Number(3)}) {block}\n") == "  y[1] = a;\n"
    known = f"if ({Number(3)} < {Number(3)}) {block}"
    assert filled(f"  f();\n  {known}\n  g();\n") == "  f();\n  g();\n"
    read = f"const int32_t b = c; if ({Number(3)} < {Number(3)}) {{\n    y[1] = b;\n  }}"
    assert "if (3 < 3)" in filled(f"  {read}\n")  # b would be read nowhere
    computed = f"if (f(q) < {Number(3)}) {block}", f"if ({Number(3)} < f(q)) {block}"
    grouped = f"if ((q) < {Number(3)}) {block}"
    for kept in (
        f"if (p < {Number(3)}) {block}",
        *computed,
        grouped,
        f"if (c) a = 1; else {known}",
    ):
        assert filled(f"  {kept}\n").startswith("  if (")
    other = f"  if ({Number(1)} < {Number(3)}) {block} else {{\n    b();\n  }}\n"
    assert "else" in filled(other)
