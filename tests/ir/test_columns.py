"""Lines of generated C begin where their blocks say, whatever left around them."""

from __future__ import annotations

import pytest

from mlftool.ir.holes import Number, filled
from mlftool.ir.loops import END, each

ONE = Number(1)  # a hole: only texts with holes are read


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("      a = 1;\n      b = 2;\n", "  a = 1;\n  b = 2;\n"),
        ("    for (;;) {\n    a = b +\n        c;\n  }\n",
         "  for (;;) {\n    a = b +\n        c;\n  }\n"),
        ("  if (a) {\n        b();\n\n        // why\n        c();\n    }\n",
         "  if (a) {\n    b();\n\n    // why\n    c();\n  }\n"),
        ("      int32_t a[2] = {\n        1, 2};\n", "  int32_t a[2] = {\n    1, 2};\n"),
        ("    do {\n        a();\n    } while (b);\n    c();\n",
         "  do {\n    a();\n  } while (b);\n  c();\n"),
        ("    switch (a) {\n      case 0: b();\n      case 6:\n        c();\n        d();\n    }\n",
         "  switch (a) {\n    case 0: b();\n    case 6:\n      c();\n      d();\n  }\n"),
        ("    a();\n#if MLF_DSP\n    b();\n#else\n    c();\n#endif\n    d();\n",
         "  a();\n#if MLF_DSP\n  b();\n#else\n  c();\n#endif\n  d();\n"),
        ("    asm(\"nop\\n\"\n        \"nop\" : : \"r\"(a));\n",
         "  asm(\"nop\\n\"\n      \"nop\" : : \"r\"(a));\n"),
    ],
)  # fmt: skip
def test_statements_begin_in_their_blocks_column(text: str, wanted: str) -> None:
    assert filled(f"{text}f({ONE});\n", column=2) == f"{wanted}  f(1);\n"


def test_bodies_of_loops_that_left_are_in_the_outer_column() -> None:
    inner = f"      {each('j', ONE)}\n        y[i * 4 + j] = 0;\n      {END}\n"
    text = f"    {each('i', Number(3))}\n{inner}    {END}\n"
    assert filled(text, column=2) == "  for (int32_t i = 0; i < 3; i++) {\n    y[i * 4] = 0;\n  }\n"


def test_a_part_of_a_text_begins_where_it_did() -> None:
    assert filled(f"    a({ONE});\n      b();\n") == "    a(1);\n    b();\n"
    assert filled(f"f({ONE}) +\n    g()") == "f(1) +\n    g()"
