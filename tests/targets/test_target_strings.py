"""Target strings: TVM's forms, what they mean here, and what is said of the others."""

from __future__ import annotations

import pytest

from mlftool.errors import MlfError
from mlftool.targets import TARGETS
from mlftool.targets.strings import of_mapping, parse

GOOD = {
    "c": ("host", "c", "c -keys=cpu -model=host"),
    "c -keys=arm_cpu,cpu -mcpu=cortex-m7": ("cortex-m7", "c", None),
    "c -mcpu=cortex-m7 -keys=arm_cpu,cpu": (
        *("cortex-m7", "c"),
        "c -keys=arm_cpu,cpu -mcpu=cortex-m7",
    ),
    "c -march=rv32imc": ("rv32imc", "c", "c -keys=cpu -march=rv32imc"),
    "c --runtime=c --link-params=0": ("host", "c", "c -keys=cpu -model=host"),
    "llvm": ("host", "llvm", "llvm -keys=cpu -model=host"),
    "llvm -mcpu=cortex-m4": ("cortex-m4", "llvm", "llvm -keys=arm_cpu,cpu -mcpu=cortex-m4"),
    "llvm -mtriple=thumbv7em-none-eabihf": (
        *("cortex-m4", "llvm"),
        "llvm -keys=arm_cpu,cpu -mtriple=thumbv7em-none-eabihf",
    ),
    "llvm -mtriple=x86_64-linux-gnu -device=x -mattr=+avx2,-sse4.2": (
        *("host", "llvm"),
        "llvm -keys=cpu -device=x -mattr=+avx2,-sse4.2 -mtriple=x86_64-linux-gnu",
    ),
}
BAD = {
    "cortex-m44": "unknown target 'cortex-m44'\nhelp: did you mean 'cortex-m",
    "": "unknown target ''",
    "c -mcpu=cortex-m44": "unknown device 'cortex-m44' in 'c -mcpu=cortex-m44'",
    "llvm -mtriple=sparc-sun": "unknown device 'sparc-sun'",
    "c -mattr=+dsp": "c has no attribute '-mattr'\nhelp: only llvm has it",
    "llvm -mcpy=x": "llvm has no attribute '-mcpy'\nhelp: did you mean 'mcpu'?",
    "llvm mcpu=x": "got 'mcpu=x', expected -name=value",
    "llvm -mattr=dsp": "-mattr has 'dsp', expected +feature or -feature",
    "llvm -opt-level=9": "-opt-level is '9', expected 0 to 3, s or z",
    "c -constants-byte-alignment=64": "-constants-byte-alignment is '64', expected at most 16",
    "c -keys='x": "No closing quotation",
    "c -link-params=1": "not part of a target\nhelp: say it with --executor-graph-link-params 1",
    "c -executor=aot": "-executor is not part of a target\nhelp: say it with --executor",
    "c, llvm": "2 targets in 'c, llvm'; expected one",
    "cmsis-nn -mcpu=cortex-m55, c": "help: leave it out, for our own kernels: --target "
    "'c -mcpu=cortex-m55'",
    "ethos-u,cmsis-nn,c": "target 'ethos-u' is code for an Ethos-U processor",
    "cuda": "target 'cuda' is code for a GPU",
}


@pytest.mark.parametrize("name", TARGETS)
def test_short_names_and_their_own_strings_are_the_same(name: str) -> None:
    assert parse(name) is TARGETS[name]
    assert parse(TARGETS[name].tvm) == TARGETS[name]


@pytest.mark.parametrize("text", GOOD)
def test_what_is_taken(text: str) -> None:
    name, kind, canonical = GOOD[text]
    target = parse(text)
    assert (target.name, target.kind, target.tvm) == (name, kind, canonical or text)
    assert parse(target.tvm) == target


@pytest.mark.parametrize("text", BAD)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(MlfError) as caught:
        parse(text)
    assert BAD[text] in str(caught.value)


def test_a_target_without_end_is_refused() -> None:
    """Readers of archives refuse such a text, so writing it would make an archive for nobody."""
    with pytest.raises(MlfError, match="a target of 300002 characters; expected at most 2048"):
        parse("c " + "a" * 300_000)


def test_features_decide_which_kernels_bid() -> None:
    assert "dsp" not in parse("llvm -mcpu=cortex-m33 -mattr=-dsp").features
    assert "avx2" in parse("llvm -mattr=+avx2").features


def test_every_mistake_is_told_at_once() -> None:
    with pytest.raises(MlfError) as caught:
        parse("c -a=1 -b=2 -executor=graph")
    assert len(caught.value.problems) == 3


def test_a_mapping_is_a_string() -> None:
    mapping = {"kind": "c", "keys": ["arm_cpu", "cpu"], "mcpu": "cortex-m4", "host": None}
    assert of_mapping(mapping) == "c -keys=arm_cpu,cpu -mcpu=cortex-m4"
