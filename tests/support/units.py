"""Modules as values, and as C files that a compiler reads together with those of others."""

from __future__ import annotations

import functools
import itertools
import re
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlftool.ir import dtype
from mlftool.ir.values import EXTENTS, cut
from mlftool.mlf.runtime_tree import headers_of, helper_headers

Array = np.ndarray[Any, Any]
# What a module names for its own file alone.
OWN_NAME = re.compile(r"^(?![\s#/]).*\bstatic\b[^=;{(]*?\b(\w+)(?:\[[^\]]*\])*\s*(?:[=;(]|$)", re.M)
KERNEL = re.compile(r"^MLF_KERNEL\b[^;{]*?\b(\w+)\(.*?^\}\n", re.M | re.S)
WORD = re.compile(r"\b[A-Za-z_]\w*")
HELPER = re.compile(r"\b(?:mlf|MLF)_\w+")
PASTED = re.compile(r"\bmlf_\w*(?:##\w+)+")
DEFINED = re.compile(r"^# *define (\w+)", re.M)
INCLUDED = re.compile(r'^[ \t]*# *include "(?:mlf/)?(\w+\.h)"', re.M)
INCLUDE = "codegen/host/include"


@dataclass(frozen=True)
class Output:
    """One output as C writes it."""

    name: str
    dtype: str
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        return dtype.BY_NAME[self.dtype].size(int(np.prod(self.shape, dtype=np.int64)))

    def array(self, data: bytes) -> Array:
        return dtype.texts(dtype.restored(data, dtype.BY_NAME[self.dtype], self.shape))


@dataclass(frozen=True)
class Program:
    """One module: its C, the bytes of each input, its outputs, and all inputs of each sample."""

    name: str
    header: str
    lib0: str
    lib1: str
    input_bytes: tuple[int, ...]
    outputs: tuple[Output, ...]
    samples: tuple[bytes, ...]
    workspace_io: bool = False  # inputs and outputs are where the module says
    weights: tuple[tuple[str, bytes], ...] = ()  # files the C includes, by their names in archives
    optimised: bool = False  # it runs as an optimiser makes it, too, and writes the same

    def results(self, data: bytes) -> list[dict[str, Array]]:
        """The outputs of each sample in `data`, which the program wrote."""
        results, at = [], 0
        for _ in self.samples:
            sample = {}
            for output in self.outputs:
                sample[output.name] = output.array(data[at : at + output.bytes])
                at += output.bytes
            for output in self.outputs:
                extents = sample.pop(output.name + EXTENTS, None)
                if extents is not None:
                    sample[output.name] = cut(sample[output.name], extents)
            results.append(sample)
        assert at == len(data)
        return results


def write_headers(work: Path) -> None:
    """All that any module includes."""
    _write(helper_headers(), work)


def _write(files: Mapping[str, bytes], work: Path) -> None:
    """Each whole or not at all: threads write modules while compilers read those of others."""
    for name, data in files.items():
        path = work / name
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            scratch = path.with_suffix(f".{threading.get_ident()}")
            scratch.write_bytes(data)
            scratch.replace(path)


def headers(program: Program) -> Mapping[str, bytes]:
    """The helpers that a module includes, as files. Others are not read: a test runs again when one
    that it has read changes (reads.py)."""
    return _files(*sorted(set(INCLUDED.findall(program.lib0 + program.lib1 + program.header))))


@functools.cache
def _files(*names: str) -> Mapping[str, bytes]:
    """Headers of mlf/ and what they include."""
    return headers_of([f'#include "mlf/{name}"\n'.encode() for name in names])


def write_program(program: Program, work: Path) -> str:
    """The module's C as one file that includes both parts, with the headers that it needs; returns
    its name."""
    name = program.name
    (work / INCLUDE).mkdir(parents=True, exist_ok=True)
    _write(headers(program), work)
    (work / INCLUDE / f"tvmgen_{name}.h").write_text(program.header)
    (work / f"{name}_lib0.c").write_text(_entry(program))
    (work / f"{name}_lib1.c").write_text(program.lib1)
    for file, data in program.weights:
        (work / file).write_bytes(data)
    (work / f"{name}.c").write_text(f'#include "{name}_lib0.c"\n#include "{name}_lib1.c"\n')
    return f"{name}.c"


def _entry(program: Program) -> str:
    """The entry point's file, which names its pools as the kernels' file names parameters."""
    return re.sub(r"\b(\w+_pool)\b", r"\1_", program.lib0)


def undeclared(program: Program) -> set[str]:
    """Names of helpers that none of the module's own headers has: in one file with other modules
    theirs would do."""
    text = program.lib0 + program.lib1 + program.header
    used = set(HELPER.findall(text)).difference(DEFINED.findall(text))
    headers = [_helpers(header) for header in INCLUDED.findall(text)]
    made = re.compile("|".join(itertools.chain(*(pasted for _, pasted in headers))) or "(?!)")
    left = used.difference(*(names for names, _ in headers))
    return {name for name in left if not made.fullmatch(name)}


@functools.cache
def _helpers(header: str) -> tuple[frozenset[str], frozenset[str]]:
    """The names of helpers in a header of mlf/ and in those that it includes; and expressions for
    names that its macros put together."""
    text = _files(header).get(f"{INCLUDE}/mlf/{header}", b"").decode()
    below = [_helpers(name) for name in INCLUDED.findall(text)]
    names = frozenset(HELPER.findall(text)).union(*(names for names, _ in below))
    parts = (name.split("##") for name in PASTED.findall(text))
    # What is pasted is a parameter unless it goes on with "_".
    pasted = {"".join(p if p.startswith(("mlf_", "_")) else r"\w+" for p in ps) for ps in parts}
    return names, frozenset(pasted).union(*(more for _, more in below))


def together(programs: Sequence[Program], work: Path) -> str:
    """Modules that are written in folder `work` as one file. Of kernels with the same text, as
    the ways of a network have, the compiler reads the first."""
    known: dict[str, str] = {}
    return "".join(_included(program, work, known) for program in programs)


def _included(program: Program, work: Path, known: dict[str, str]) -> str:
    """The module as a part of a file that has others: what names it uses for its own file are
    its own there, too. `known`: the kernels of those before, by their text, to which come its."""
    own, name = _own_names(program), program.name
    public = f"tvmgen_{name}"
    local = {*own, *DEFINED.findall(program.lib1)}
    renamed = {n: f"{name}_{n}" for n in own}

    def once(kernel: re.Match[str]) -> str:
        text = re.sub(rf"\b{kernel[1]}\b", "", kernel[0])
        words = WORD.findall(text)
        if not local.isdisjoint(words) or any(w.startswith(public) for w in words):
            return kernel[0]
        if text not in known:
            known[text] = kernel[1]
            return kernel[0]
        renamed[kernel[1]] = known[text]
        return ""

    (work / f"{name}_rest.c").write_text(KERNEL.sub(once, program.lib1))
    before = [f"#define {a} {b}\n" for a, b in sorted(renamed.items())]
    after = [f"#undef {a}\n" for a in sorted(renamed)]
    files = [f'#include "{name}_{part}.c"\n' for part in ("lib0", "rest")]
    return "".join([*before, *files, *after])


def _own_names(program: Program) -> set[str]:
    """What the module names for its own file alone."""
    return {*OWN_NAME.findall(_entry(program)), *OWN_NAME.findall(program.lib1)}
