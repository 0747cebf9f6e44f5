"""Generated C is clean under strict warnings as C99 and in a C++17 program, needs nothing of the C
library beyond memcpy and its like, computes nothing in double, and keeps constants in flash."""

from __future__ import annotations

import io
import re
import shutil
import subprocess
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from batch import INCLUDE, WARNINGS, compile_model, write_sources
from builders import Net
from elftools.elf.elffile import ELFFile
from families import FAMILIES, PORTABLE, weights

from mlftool.compile import Module
from mlftool.targets import CFLAGS, TARGETS

pytestmark = pytest.mark.together("family")

# What a compiler may call on its own, and the run-time support of soft floating point.
LIBRARY = re.compile(r"^(mem(cpy|set|move|cmp)|__aeabi_(f\w+|i2f|ui2f|l?mul|u?i?div\w*|mem\w+))$")
C99 = (*CFLAGS, *WARNINGS, "-pedantic")
CXX = ("-x", "c++", "-std=c++17", "-ffp-contract=off", *WARNINGS)


def compilers(target: str) -> dict[str, tuple[str, ...]]:
    m3, m4 = TARGETS["cortex-m3"].cflags, TARGETS["cortex-m4"].cflags
    # What gcc sees when it optimises, it sees in C; of C++ it has another parser.
    found = {
        "gcc-O0": ("gcc", "-O0", *C99),
        "gcc-O3": ("gcc", "-O3", *C99),
        "g++": ("g++", "-O0", *CXX),
        "arm-m4": ("arm-none-eabi-gcc", "-O2", *m4, *C99),
        "arm-m3": ("arm-none-eabi-gcc", "-O2", *m3, *C99),
    }
    if target == "cortex-m4":
        del found["arm-m3"]
    if target == "host":  # in vectors
        del found["arm-m3"], found["arm-m4"]
    return found


COMPILERS = tuple(compilers(PORTABLE))


@cache
def module(family: str) -> Module:
    target, make = FAMILIES[family]
    return compile_model(make(), family, target)


def build(family: str, compiler: str, folder: Path) -> ELFFile:
    command = compilers(FAMILIES[family][0]).get(compiler)
    if command is None:
        pytest.skip(f"{family} is for another core than {compiler}")
    if shutil.which(command[0]) is None:
        pytest.skip(f"did not run: {command[0]} is not installed")
    source = write_sources(module(family), folder)
    flags = (f"-I{INCLUDE}", "-c", source, "-o", "module.o")
    done = subprocess.run([*command, *flags], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return ELFFile(io.BytesIO((folder / "module.o").read_bytes()))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("family", FAMILIES)
def test_compiles_clean_and_stands_alone(family: str, compiler: str, tmp_path: Path) -> None:
    elf = build(family, compiler, tmp_path)
    symbols = [s for t in elf.iter_sections("SHT_SYMTAB") for s in t.iter_symbols()]
    needed = {s.name for s in symbols if s["st_shndx"] == "SHN_UNDEF" and s.name}
    strangers = {n for n in needed if not LIBRARY.match(n)}
    assert not strangers
    shown = {
        s.name
        for s in symbols
        if s["st_info"]["bind"] == "STB_GLOBAL" and s["st_shndx"] != "SHN_UNDEF"
    }
    main = f"tvmgen_{family}___tvm_main__"  # between the two sources, so C++ may mangle it
    marks = {s.name for s in symbols if s["st_shndx"] == "SHN_ABS" and s.name in shown}
    assert {main if main in n else n for n in shown - marks} == {f"tvmgen_{family}_run", main}
    same = f"tvmgen_two_models_are_named_{family}__compile_one_with_another_module_name"
    model = rf"tvmgen_{family}_model_[0-9a-f]{{16}}"
    assert {re.sub(model, "MODEL", n) for n in marks} == {same, "MODEL"}
    if compiler == "arm-m4":
        assert not any(n.startswith("__aeabi_") and "mem" not in n for n in needed), needed
    check_constants(elf, module(family), all_of_them=compiler in ("gcc-O0", "g++"))


def check_constants(elf: ELFFile, compiled: Module, all_of_them: bool) -> None:
    """Constant arrays lie in .rodata, aligned to 16; only the workspace is writable."""
    names = re.findall(r"static const \w+ (\w+)\[", compiled.sources.lib1)
    sections = list(elf.iter_sections())
    found = set()
    for table in elf.iter_sections("SHT_SYMTAB"):
        for symbol in table.iter_symbols():
            plain = re.sub(r"^_ZL\d+", "", symbol.name)  # C++ spells static variables so
            if plain in names:
                section = sections[symbol["st_shndx"]]
                assert section.name.startswith(".rodata"), symbol.name
                assert symbol["st_value"] % 16 == 0, symbol.name
                assert section["sh_addralign"] >= 16
                found.add(plain)
    assert found == set(names) or not all_of_them  # an optimiser may use up a small array
    writable = sum(s["sh_size"] for s in sections if s.name.startswith((".data", ".bss")))
    assert writable == compiled.program.memory.size_bytes


@pytest.mark.parametrize("family", FAMILIES)
def test_nothing_is_computed_in_double(family: str, tmp_path: Path) -> None:
    """On a core without any float unit every double operation would be a call to __aeabi_d..."""
    target = FAMILIES[family][0]
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("did not run: arm-none-eabi-gcc is not installed")
    source = write_sources(module(family), tmp_path)
    core = ("-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=soft")
    flags = ("-O0", *core, *CFLAGS, "-Wdouble-promotion", "-Wfloat-conversion", "-Werror")
    command = ["arm-none-eabi-gcc", *flags, f"-I{INCLUDE}", "-S", source, "-o", "module.s"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, f"{target}: {done.stderr}"
    calls = re.findall(r"\bbl\s+(\w+)", (tmp_path / "module.s").read_text())
    assert not [c for c in calls if re.match(r"__aeabi_(d\w+|\w+2d|cd\w+)$", c)]


@pytest.mark.parametrize("family", FAMILIES)
def test_no_heap_and_no_variable_length_arrays(family: str) -> None:
    text = module(family).sources.lib0 + module(family).sources.lib1
    assert not re.search(r"\b(malloc|calloc|realloc|free|alloca)\b", text)
    for length in re.findall(r"^\s+\w+ \w+\[([^\]]+)\];", text, re.MULTILINE):
        assert length.isdecimal(), length


@pytest.mark.sampled(2)
@pytest.mark.parametrize("target", ["cortex-m0", "cortex-m4", "cortex-m55", "rv32imc", "host"])
def test_windows_that_are_never_inside(target: str, tmp_path: Path) -> None:
    """Clang knows which comparisons of a place with a negative end are always true."""
    net, outs = Net(), []
    for row, group, kernel in product((np.int8, np.int16), (1, 4, 8), ((5, 1), (1, 5), (4, 4))):
        x = net.input(f"x{len(outs)}", row, (1, 8, 3, 2))
        w = net.dq(net.const(weights(8, 8 // group, *kernel), np.int8), 0.02, np.int8(0))
        pads = [n // 2 + 2 for n in kernel] * 2
        y = net.node("Conv", net.dq(x, 0.05, row(0)), w, group=group, pads=pads)
        outs.append(net.q(y, 0.04, row(0)))
    w = net.const(weights(8, 4, 5, 1), np.int8)
    outs.append(net.node("ConvInteger", "x0", w, group=2, pads=[4, 0, 4, 0]))
    source = write_sources(compile_model(net.model(*outs), target=target), tmp_path)
    for command in (("clang", *C99), ("clang++", *CXX)):
        flags = ("-fsyntax-only", f"-I{INCLUDE}", source)
        done = subprocess.run([*command, *flags], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
