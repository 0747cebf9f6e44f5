"""Every template under all its conditions: rendered with unknown values, whichever way each of its
conditions goes, brackets are closed and a name is declared where it is used.

A model renders a template for a few combinations of its conditions. Here a combination needs no
model (tests/support/symbolic.py); what values a kernel never gives together is said in ALLOWED.
"""

from __future__ import annotations

import re

import pytest
from declared import declared, unclosed, unseen
from jinja2 import DictLoader
from symbolic import PRINTED_NAME, environment, texts

from mlftool.codegen.templates import _TEMPLATES

# Template -> a pattern of names, and decisions with which they need no declaration in it, and why.
OPERAND = "an operand of the kernel then"
NUMBERS = "unknown numbers: as many as are declared"
ONE_PIXEL = "0 / 1 % 1 leaves with all that reads it"
GROUPS = (r"step\d", ("group > 1",), "columns of a group are dense")
FOUR = [(r"(from|step)\d", (f"rows == {n}",), "rows are one or four") for n in (2, 3)]
INSIDE = (r"[be]Z\d+_", ("inside", "not padded"), "counted only where there is padding")
ALLOWED: dict[str, list[tuple[str, tuple[str, ...], str]]] = {
    **{
        name: [("outs", ("not straight",), OPERAND)]
        for name in ("narrow.c.j2", "narrow_words.c.j2")
    },
    "recurrent.c.j2": [("back", ("panels",), OPERAND)],
    "helium.c.j2": [
        ("columns", ("not direct",), OPERAND),
        ("q", ("rows == 1", "finish.shape.kind == 'pair'"), "a pair is of two rows"),
        ("first", ("rows != 1", "rows != 2"), "rows are one or two"),
        ("places", ("rows == 1", "finish.shape.scattered"), "one row is not a pair"),
    ],
    "integer_products.c.j2": [
        (r"acc0\d", ("form == 'quads'",), "a panel of quads has four columns"),
    ],
    "window.c.j2": [("places", ("place",), OPERAND), INSIDE],
    "simd_pool.c.j2": [INSIDE],
    "resize.c.j2": [
        (r"share\d", ("near",), NUMBERS),
        (r"first.*", ("crop",), "no axis of a crop is the same"),
    ],
    "simd_depthwise.c.j2": [(r"at\d", (), NUMBERS)],
    "dsp_rows.c.j2": [(r"part\d", ("zeros",), NUMBERS)],
    "simd_taps.c.j2": [
        (r"w\d", (), NUMBERS),
        ("(top|done)", ("not im.split", "im.uneven"), "bands are uneven, not an image"),
    ],
    **{
        name: [("[pq]", ("not dense", "pixels <= 1"), ONE_PIXEL)]
        for name in ("dsp.c.j2", "dsp_wide.c.j2")
    },
    "dsp_dense.c.j2": [
        ("[pq]", ("not dense", "pixels <= 1"), ONE_PIXEL),
        (r"acc0\d", (), NUMBERS),
    ],
    "dsp_triples.c.j2": [
        ("[pq]", ("not dense", "pixels <= 1"), ONE_PIXEL),
        (r"total\d", ("zeros",), "rows are three"),
    ],
    "dsp_wide_dense.c.j2": [("[pq]", ("not dense", "pixels <= 1"), ONE_PIXEL)],
    **{name: [GROUPS] for name in ("contract_f32.c.j2", "contract_s8.c.j2", "interleaved_s8.c.j2")},
    "vfp.c.j2": [
        ("run", ("rows == 1", "not dense"), "one row is dense"),
        *(GROUPS, *FOUR),
    ],
    "helium_lanes.c.j2": [
        ("run", ("rows == 1", "not dense"), "one row is dense"),
        ("(from|step)[123]", ("rows != 4", "rows != 1"), "rows are one or four"),
        *(GROUPS, *FOUR),
        (r"step\d", ("kh <= 1", "blocks > 1"), "blocks are lines of a window"),
    ],
    "simd.c.j2": [
        ("(top|done)", ("not im.split", "im.uneven"), "bands are uneven, not an image"),
        (r"x\d", ("kind != 'f32'", "kind != 's8'"), "there are two kinds"),
    ],
    "simd_crossed.c.j2": [
        ("(top|done)", ("not im.split", "im.uneven"), "bands are uneven, not an image")
    ],
}
PARAMETERS = {"x", "y", "w", "b"}
ENVIRONMENT = environment(_TEMPLATES)
NAMES = sorted(n for n in _TEMPLATES.list_templates() if n.endswith((".c.j2", ".h.j2")))


@pytest.mark.parametrize("name", NAMES)
def test_names_are_declared_under_all_conditions(name: str) -> None:
    made = list(texts(ENVIRONMENT, name))
    names = {n for _, text in made for n in declared(text) if not PRINTED_NAME.fullmatch(n)}
    for said, text in made:
        assert not (wrong := unclosed(text)), f"{wrong}\nwith {said}\n{text}"
        excused = [of for of, when, _ in ALLOWED.get(name, ()) if {*when} <= {*said}]
        missing = {
            n
            for n in unseen(text, names - PARAMETERS)
            if not any(re.fullmatch(e, n) for e in excused)
        }
        hint = "if a kernel never gives these values together, say so in ALLOWED"
        assert not missing, f"{sorted(missing)} ({hint})\nwith {said}\n{text}"


# A template's fault, and what is wrong.
FAULTS = {
    "a name under a narrower condition": (
        "{% if a %}int32_t n = 1;{% endif %} {% if b %}y[n] = 0;{% endif %}",
        "n",
    ),
    "a name under another value": (
        "{% if a == 'x' %}int32_t n = 1;{% elif a != 'y' %}y[n] = 0;{% endif %}",
        "n",
    ),
    "a name of a block that has ended": ("{ float *at = x; } at[0] = 1;", "at"),
    "a loop's variable after it": ("{{ each('i', n) }} {{ end }} y[i] = 0;", "i"),
    "a list that may be longer": (
        "int32_t a0 = 0;{% for k in range(n) %} int32_t a{{ k }} = 0;{% endfor %} y[a1] = 0;",
        "a1",
    ),
    "a branch without end": ("{% if a %}{{ each('i', n) }}{% else %}{ {% endif %} }{{ end }}", "}"),
    "a branch with too many ends": ("{ {% if a %} {{ end }} {% endif %} }", "}"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_are_found(fault: str) -> None:
    template, wrong = FAULTS[fault]
    env = environment(_TEMPLATES)
    env.loader = DictLoader({"t": template})
    made = [text for _, text in texts(env, "t")]
    names = {n for text in made for n in declared(text)}
    assert wrong in {f for text in made for f in (*unseen(text, names), unclosed(text))}


def test_conditions_that_exclude_each_other_are_not_combined() -> None:
    env = environment(_TEMPLATES)
    env.loader = DictLoader(
        {"t": "{% if n > 1 %}{% if n == 1 %}wrong{% endif %}{% elif n == 2 %}wrong{% endif %}"}
    )
    assert {text for _, text in texts(env, "t")} == {""}
