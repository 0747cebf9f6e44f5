"""Modules that tests compile together: each has its own names, and each fails alone."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import batch
import numpy as np
import programs
import pytest
import units
from batch import Job, compile_model, program_of
from builders import Net, random_feeds
from families import FAMILIES
from programs import Ran, run_programs
from units import Output, Program

from mlftool.compile import ModuleSpec, compile_module

HEADER = """#ifndef TVMGEN_{upper}_H_
#define TVMGEN_{upper}_H_
#include <stdint.h>
struct tvmgen_{name}_inputs {{ void *x; }};
struct tvmgen_{name}_outputs {{ void *y; }};
int32_t tvmgen_{name}_run(struct tvmgen_{name}_inputs *, struct tvmgen_{name}_outputs *);
#endif
"""
ENTRY = """#include "tvmgen_{name}.h"
static uint8_t global_workspace[{size}];
int32_t tvmgen_{name}_run(struct tvmgen_{name}_inputs *i, struct tvmgen_{name}_outputs *o) {{
  uint8_t *y = o->y;
  (void)i;
  y[0] = (uint8_t)(global_workspace[0] + step1_weights[{at}]);
  return 0;
}}
"""
WEIGHTS = "#include <stdint.h>\nstatic const {type} step1_weights[2][1] = {{{{{value}}}, {{0}}}};\n"


def _program(name: str, value: int, type_: str = "int8_t", at: str = "0][0") -> Program:
    """A module that writes `value`, with names that all of them have."""
    weights = WEIGHTS.format(type=type_, value=value)
    entry = ENTRY.format(name=name, size=8 + value, at=at)
    header = HEADER.format(name=name, upper=name.upper())
    outputs = (Output("y", "uint8", (1,)),)
    return Program(name, header, weights, entry, (1,), outputs, (b"\0",))


@pytest.fixture
def sources(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that the compiler was given since."""
    given: list[str] = []
    compiled = programs._said

    def said(source: str, *rest: object) -> str:
        given.append(source)
        return compiled(source, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(programs, "_said", said)
    monkeypatch.setenv("MLFTOOL_TEST_CACHE", "off")
    return given


def test_modules_of_one_file_keep_their_names(tmp_path: Path, sources: list[str]) -> None:
    modules = [_program("a", 3), _program("b", 5, "int16_t"), _program("c", 7)]

    ran = run_programs(modules, tmp_path)

    assert ran == [Ran(b"\3"), Ran(b"\5"), Ran(b"\7")]
    assert sources == ["a_and_more.c"]


def test_pools_of_one_name_have_their_own_sizes(tmp_path: Path, sources: list[str]) -> None:
    """As real modules have them; if one file did not do, each would be compiled again alone."""
    jobs = []
    for size in (12, 24):
        net = Net()
        inner = net.const(np.ones((3, size)), np.float32)
        outer = net.const(np.ones((size, 2)), np.float32)
        y = net.node("MatMul", net.node("MatMul", net.input("x", np.float32, (1, 3)), inner), outer)
        model, name = net.model(y), f"m{size}"
        spec = ModuleSpec(model, name, pools=("near=128@.near", "far=4MiB@.far"))
        jobs.append(Job(model, random_feeds(model, 1), name=name, module=compile_module(spec)))

    batch.build_jobs(jobs, tmp_path, optimised=lambda _: False)

    assert [j.failure for j in jobs] == ["", ""]
    pools = re.compile(r"static uint8_t (\w+_pool)\[(\d+)\]")
    one, other = (dict(pools.findall(j.compiled.sources.lib0)) for j in jobs)
    assert any(one[name] != other[name] for name in one.keys() & other.keys())
    assert sources == ["m12_and_more.c"]


def test_a_module_that_does_not_compile_fails_alone(tmp_path: Path, sources: list[str]) -> None:
    modules = [_program("a", 3), _program("b", 300), _program("c", 7)]  # 300 is no int8_t

    ran = run_programs(modules, tmp_path)

    assert [r.output for r in ran] == [b"\3", b"", b"\7"]
    assert ran[1].failure.startswith("C does not compile:")
    assert "overflow" in ran[1].failure
    assert sources == ["a_and_more.c", "a.c", "b.c", "c.c"]


def test_a_module_that_lacks_an_include_fails_alone(tmp_path: Path, sources: list[str]) -> None:
    """In one file the include of another module would do."""
    lacks, has = _program("b", 5, at="mlf_min_i32(0, 0)][0"), _program("a", 3)
    has = replace(has, lib0='#include "mlf/kernel.h"\n' + has.lib0)

    ran = run_programs([has, lacks], tmp_path)

    assert ran[0] == Ran(b"\3")
    assert "mlf_min_i32" in ran[1].failure
    assert sources == ["a.c", "b.c"]


def test_a_module_that_a_sanitizer_stops_fails_alone(tmp_path: Path, sources: list[str]) -> None:
    outside = _program("b", 5, at="i->x != 0 ? 2 : 0][0")  # of two rows

    modules = [_program("a", 3), outside, _program("c", 7)]
    ran = run_programs(modules, tmp_path)

    assert [r.output for r in ran] == [b"\3", b"", b"\7"]
    assert "index 2 out of bounds" in ran[1].failure
    assert sources == ["a_and_more.c", "b.c"]  # the second time for the message


FAULTS = {
    "reads behind an input": "y[0] = ((const uint8_t *)i->x)[1];",
    "writes behind an output": "y[1] = 1;",
    "reads behind a static": "const uint8_t *volatile p = global_workspace; y[0] = p[13];",
    "reads behind a local": "uint8_t b[4] = {0}; const uint8_t *volatile p = b; y[0] = p[4];",
    "reads at null": "const uint8_t *volatile p = 0; y[0] = *p;",
    "reads far from null": "const uint8_t *volatile p = 0; y[0] = p[1 << 24];",
    "writes at null": "uint8_t *volatile p = 0; *p = y[0];",
    "reads a word at an odd address": (
        "const void *volatile p = global_workspace + 1; y[0] = (uint8_t)*(const int32_t *)p;"
    ),
    "overflows": "volatile int32_t n = INT32_MAX; n += 1; y[0] = (uint8_t)n;",
    "shifts by a word": "volatile int32_t n = 32; y[0] = (uint8_t)(1 << n);",
    "divides by zero": "volatile int32_t n = 0; y[0] = (uint8_t)(1 / n);",
}


def test_each_kind_of_fault_stops_a_module(tmp_path: Path) -> None:
    """As the modules are built before anybody asks what stopped them."""
    plain = _program("right", 5)
    modules = [plain]
    for k, fault in enumerate(FAULTS.values()):
        made = _program(f"fault{k}", 5)
        lines = made.lib1.splitlines()
        (at,) = (n for n, line in enumerate(lines) if line.startswith("  y[0] ="))
        modules.append(replace(made, lib1="\n".join([*lines[:at], fault, *lines[at:], ""])))

    ran = programs._run_all(modules, tmp_path, programs.SANITIZED, 1, programs.HERE)

    assert ran.pop("right") == Ran(b"\5")
    alive = [name for name, done in zip(FAULTS, ran.values(), strict=True) if not done.stopped]
    assert alive == []


def test_many_modules_become_several_files(tmp_path: Path, sources: list[str]) -> None:
    count = programs.TOGETHER + 1

    ran = run_programs([_program(f"m{k}", k) for k in range(count)], tmp_path)

    assert [r.output[0] for r in ran] == list(range(count))
    assert sorted(sources) == ["m0_and_more.c", f"m{count - 1}.c"]


def test_an_optimiser_sees_each_kernel_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two modules with one kernel the first is optimised, too, and so is one with another
    kernel."""
    given: list[tuple[str, tuple[str, ...]]] = []
    compiled = programs._said

    def said(source: str, work: Path, flags: Sequence[str], machine: programs.Machine) -> str:
        parts = re.findall(r'#include "(\w+)_lib0\.c"', (work / source).read_text())
        given.append((flags[0], tuple(parts)))
        return compiled(source, work, flags, machine)

    def job(op: str, size: int) -> Job:
        net = Net()
        model = net.model(net.node(op, net.input("x", np.float32, (size,))))
        return Job(model, random_feeds(model, 1), name=f"{op.lower()}{size}")

    monkeypatch.setattr(programs, "_said", said)
    monkeypatch.setattr(batch, "OPTIMISED", set())
    monkeypatch.setenv("MLFTOOL_TEST_CACHE", "off")
    jobs = [job("Exp", 3), job("Exp", 4), job("Erf", 3)]

    batch.run_jobs(jobs, tmp_path)

    assert [j.failure for j in jobs] == ["", "", ""]
    assert given == [("-O0", ("exp3", "exp4", "erf3")), ("-O1", ("exp3", "erf3"))]


def test_an_optimiser_that_changes_the_bits_is_found(tmp_path: Path) -> None:
    """Whether an optimiser runs, the compiler says in a macro."""
    told = replace(_program("b", 5, at="OPTIMISED][0"), optimised=True)
    macro = "#ifdef __OPTIMIZE__\n#define OPTIMISED 1\n#else\n#define OPTIMISED 0\n#endif\n"

    ran = run_programs([_program("a", 3), replace(told, lib0=macro + told.lib0)], tmp_path)

    assert ran == [Ran(b"\3"), Ran(failure="-O1 gives other bits")]


def test_kernels_with_the_same_text_are_read_once(tmp_path: Path, sources: list[str]) -> None:
    """But not those that name something of their module's own, a macro, a table or a kernel."""
    jobs = []
    for k, extent in enumerate((4, 4, 6)):
        net = Net()
        x = net.node("Exp", net.input("x", np.float32, (extent,)))
        model, name = net.model(net.node("Neg", x)), f"n{k}"
        jobs.append(Job(model, random_feeds(model, 1), name=name))

    batch.run_jobs(jobs, tmp_path)

    assert [j.failure for j in jobs] == ["", "", ""]
    assert sources[0] == "n0_and_more.c"
    kernels = [len(units.KERNEL.findall((tmp_path / f"n{k}_rest.c").read_text())) for k in range(3)]
    assert kernels[0] == kernels[2] > kernels[1] == 0

    kernel = "MLF_KERNEL int one(void) {{\n  return %s;\n}}\n"
    for own, before in (
        ("step1_table[0]", "static const int step1_table[1] = {{{k}}};\n"),
        ("OWN", "#define OWN {k}\n"),
        ("tvmgen_{name}_n()", "MLF_KERNEL int tvmgen_{name}_n(void) {{\n  return {k};\n}}\n"),
    ):
        modules = [
            replace(_program(name, 3), lib1=(before + kernel % own).format(k=k, name=name))
            for k, name in enumerate("ab")
        ]
        units.together(modules, tmp_path)
        assert all("one(" in (tmp_path / f"{n}_rest.c").read_text() for n in "ab"), own


def test_bits_are_alike_but_for_nans() -> None:
    one = np.array([1, 0, np.nan], np.float32)
    assert programs.bits_alike(one, np.array([1, 0, -np.nan], np.float32))
    assert not programs.bits_alike(one, np.array([1, -0.0, np.nan], np.float32))
    assert not programs.bits_alike(one, np.array([1, 0, 1], np.float32))
    assert not programs.bits_alike(one, one[:2])
    assert programs.bits_alike(np.array(["a"]), np.array(["a"]))


def test_of_a_real_module_all_own_names_are_known(tmp_path: Path) -> None:
    """What nm calls local is what the expression finds, so modules seldom clash."""
    for name, (_, make) in FAMILIES.items():
        program = program_of(compile_model(make(), "m"), ())
        source = units.write_program(program, tmp_path)
        command = ["gcc", "-std=c99", "-O0", f"-I{units.INCLUDE}", "-c", source, "-o", "m.o"]
        subprocess.run(command, cwd=tmp_path, check=True)
        table = subprocess.run(["nm", "m.o"], cwd=tmp_path, capture_output=True, text=True)
        rows = [line.split() for line in table.stdout.splitlines()]
        local = {row[-1] for row in rows if row[-2] in "bdrt" and not row[-1].startswith("mlf_")}
        found = set(units.OWN_NAME.findall(program.lib0 + program.lib1))
        assert not units.undeclared(program), name
        assert {n for n in local if "." not in n and "tvmgen_m" not in n} <= found, name
