"""Generated C with its samples: what a C compiler and a judge need of a model, and our compiler no
longer. Some modules at a time become one object file, all are linked into one program with
sanitizers on, and one process runs them.

A module whose C does not compile, or that a sanitizer stops, fails alone.
"""

from __future__ import annotations

import functools
import itertools
import re
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import kept
import numpy as np

from mlftool.ir import dtype
from mlftool.ir.values import EXTENTS, cut
from mlftool.mlf.runtime_tree import helper_headers
from mlftool.targets import CFLAGS

Array = np.ndarray[Any, Any]
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
LONGEST_RUN_S = 120  # all programs together
# Modules that gcc reads at once. To start gcc and to parse the headers takes 30 ms of a processor,
# as long as to compile a small module.
TOGETHER = 16
# What a module names for its own file alone.
OWN_NAME = re.compile(r"^(?![\s#/]).*\bstatic\b[^=;{(]*?\b(\w+)(?:\[[^\]]*\])*\s*(?:[=;(]|$)", re.M)
HELPER = re.compile(r"\b(?:mlf|MLF)_\w+")
LANES = re.compile(r"^mlf_\w+x\d+$")  # functions of simd.h, whose names its macros make
DEFINED = re.compile(r"^# *define (\w+)", re.M)
INCLUDED = re.compile(r'^#include "(?:mlf/)?(\w+\.h)"', re.M)
INCLUDE = "codegen/host/include"


MAIN = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef SEMIHOSTED
void initialise_monitor_handles(void);
void _init(void);
void _fini(void);
void _init(void) {}
void _fini(void) {}
void *_sbrk(int bytes);
void *_sbrk(int bytes) { /* newlib's own wants the stack above the heap */
  static char heap[1 << 20];
  static int used;
  if (bytes > (int)sizeof heap - used) return (void *)-1;
  used += bytes;
  return heap + used - bytes;
}
#endif
struct module {
  int samples, inputs, outputs;
  const long *sizes;
  int32_t (*run)(void **, void **);
};
%(modules)s
static void *block(long size) {
  void *p = malloc(size ? (size_t)size : 1);
  if (!p) exit(9);
  memset(p, 0xa5, (size_t)size);
  return p;
}
int main(int argc, char **argv) {
  (void)argc;
#ifdef SEMIHOSTED
  initialise_monitor_handles();
#endif
  for (int m = atoi(argv[1]); m < %(count)d; m++) {
    char name[64];
    const struct module *module = &modules[m];
    snprintf(name, sizeof name, "in%%d.bin", m);
    FILE *in = fopen(name, "rb");
    snprintf(name, sizeof name, "out%%d.bin", m);
    FILE *out = fopen(name, "wb");
    fprintf(stderr, "@@%%d\n", m);
    for (int s = 0; s < module->samples; s++) {
      void *at[64];
      void *copy[64];
      for (int i = 0; i < module->inputs + module->outputs; i++) {
        at[i] = block(module->sizes[i]);
        if (i >= module->inputs) continue;
        copy[i] = block(module->sizes[i]);
        if (fread(at[i], 1, (size_t)module->sizes[i], in) != (size_t)module->sizes[i]) exit(8);
        memcpy(copy[i], at[i], (size_t)module->sizes[i]);
      }
      if (module->run(at, at + module->inputs)) exit(7);
      for (int i = 0; i < module->inputs + module->outputs; i++) {
        if (i >= module->inputs) fwrite(at[i], 1, (size_t)module->sizes[i], out);
        else if (memcmp(copy[i], at[i], (size_t)module->sizes[i])) {
          fprintf(stderr, "input %%d was overwritten\n", i);
          exit(6);
        } else free(copy[i]);
        free(at[i]);
      }
    }
    fclose(in);
    fclose(out);
  }
  return 0;
}
"""


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
    optimise: tuple[str, ...] = ()  # flags of this module alone

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


@dataclass(frozen=True)
class Ran:
    """What a program wrote, or why it did not."""

    output: bytes = b""
    failure: str = ""


@dataclass(frozen=True)
class Machine:
    """How programs are built for a machine, this computer unless told otherwise, and started there;
    `sources` and `linking` are what a program needs beside its modules."""

    compiler: str = "gcc"
    sources: tuple[str, ...] = ()
    linking: tuple[str, ...] = ()
    start: Callable[[Path, str], list[str]] = lambda program, argument: [str(program), argument]


HERE = Machine()


def run_programs(
    programs: Sequence[Program],
    work: Path,
    flags: Sequence[str],
    threads: int = 2,
    machine: Machine = HERE,
) -> list[Ran]:
    """What became of each, after one program that holds all was built and run in folder `work`: all
    but those of which it is known from an earlier run on this computer (kept.py)."""
    if machine is not HERE:
        return _run_new(programs, work, flags, threads, machine)
    keys = [_key(program, flags) for program in programs]
    known = [kept.recall(key) for key in keys]
    new = [p for p, output in zip(programs, known, strict=True) if output is None]
    made = iter(_run_new(new, work, flags, threads, machine) if new else ())
    ran = [next(made) if output is None else Ran(output) for output in known]
    for key, output, done in zip(keys, known, ran, strict=True):
        if output is None and not done.failure:
            kept.keep(key, done.output)
    return ran


def _key(program: Program, flags: Sequence[str]) -> str:
    """Names all that the output of a program depends on."""
    fields = repr(replace(program, samples=(), weights=()))
    weights = [part for item in program.weights for part in item]
    return kept.key_of((*_frame(), repr(flags), fields, *program.samples, *weights))


@functools.cache
def _frame() -> tuple[bytes | str, ...]:
    """What all programs share: the compiler, headers, and what is around a module."""
    headers = [part for item in sorted(helper_headers().items()) for part in item]
    return (kept.compiler("gcc"), *CFLAGS, *WARNINGS, Path(__file__).read_bytes(), *headers)


def _run_new(
    programs: Sequence[Program], work: Path, flags: Sequence[str], threads: int, machine: Machine
) -> list[Ran]:
    write_headers(work)
    with ThreadPoolExecutor(threads) as pool:
        units = _units(programs)
        made = list(pool.map(lambda unit: _objects(unit, work, flags, machine), units))
    objects = [name for names, _ in made for name in names]
    texts = itertools.chain.from_iterable(texts for _, texts in made)
    modules = itertools.chain.from_iterable(units)
    said = {p.name: text for p, text in zip(modules, texts, strict=True)}
    failures = [said[p.name] for p in programs]
    alive = [p for p in programs if not said[p.name]]
    ran: dict[str, Ran] = {}
    if alive:
        _link(alive, objects, work, flags, machine)
        ran = _run(alive, work, machine)
    pairs = zip(programs, failures, strict=True)
    return [Ran(failure=failure) if failure else ran[p.name] for p, failure in pairs]


def write_headers(work: Path) -> None:
    for name, data in helper_headers().items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def write_program(program: Program, work: Path) -> str:
    """The module's C as one file that includes both parts; returns its name."""
    name = program.name
    (work / INCLUDE / f"tvmgen_{name}.h").write_text(program.header)
    # The entry point's file names its pools as the kernels' file names parameters.
    (work / f"{name}_lib0.c").write_text(re.sub(r"\b(\w+_pool)\b", r"\1_", program.lib0))
    (work / f"{name}_lib1.c").write_text(program.lib1)
    for file, data in program.weights:
        (work / file).write_bytes(data)
    (work / f"{name}.c").write_text(f'#include "{name}_lib0.c"\n#include "{name}_lib1.c"\n')
    return f"{name}.c"


def _units(programs: Sequence[Program]) -> list[list[Program]]:
    """Modules that gcc reads at once: those with the same flags, so many at a time."""
    kinds: dict[tuple[str, ...], list[Program]] = {}
    for program in programs:
        kinds.setdefault(program.optimise, []).append(program)
    groups = kinds.values()
    return [group[k : k + TOGETHER] for group in groups for k in range(0, len(group), TOGETHER)]


def _objects(
    programs: Sequence[Program], work: Path, flags: Sequence[str], machine: Machine
) -> tuple[list[str], list[str]]:
    """Compiles the modules together, or each by itself if the compiler says anything; the object
    files, and for each module what the compiler says if it cannot."""
    sources = [write_program(program, work) for program in programs]
    flags = (*flags, *programs[0].optimise)
    if len(programs) > 1 and not any(map(undeclared, programs)):
        unit = f"{programs[0].name}_and_more"
        parts = map(_included, programs, sources)
        (work / f"{unit}.c").write_text("".join(parts))
        if not _said(f"{unit}.c", work, flags, machine):
            return [f"{unit}.o"], [""] * len(programs)
    said = [_said(source, work, flags, machine) for source in sources]
    good = [p.name for p, failure in zip(programs, said, strict=True) if not failure]
    return [f"{name}.o" for name in good], said


def undeclared(program: Program) -> set[str]:
    """Names of helpers that none of the module's own headers has: in one file with other modules
    theirs would do."""
    text = program.lib0 + program.lib1 + program.header
    used = {LANES.sub("MLF_SIMD_H_", n) for n in HELPER.findall(text)} - set(DEFINED.findall(text))
    return used.difference(*map(_helpers, INCLUDED.findall(text)))


@functools.cache
def _helpers(header: str) -> frozenset[str]:
    """The names of helpers in a header of mlf/ and in those that it includes."""
    text = helper_headers().get(f"{INCLUDE}/mlf/{header}", b"").decode()
    return frozenset(HELPER.findall(text)).union(*map(_helpers, INCLUDED.findall(text)))


def _included(program: Program, source: str) -> str:
    """The module as a part of a file that has others: what names it uses for its own file are
    its own there, too."""
    names = sorted({*OWN_NAME.findall(program.lib0), *OWN_NAME.findall(program.lib1)})
    before = [f"#define {name} {program.name}_{name}\n" for name in names]
    after = [f"#undef {name}\n" for name in names]
    return "".join([*before, f'#include "{source}"\n', *after])


def _said(source: str, work: Path, flags: Sequence[str], machine: Machine) -> str:
    """Compiles a file; what the C compiler says if it cannot."""
    command = [machine.compiler, *CFLAGS, *flags, *WARNINGS, f"-I{INCLUDE}", "-c", source]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    return "C does not compile:\n" + done.stderr[:2000] if done.returncode else ""


def _link(
    programs: Sequence[Program],
    objects: Sequence[str],
    work: Path,
    flags: Sequence[str],
    machine: Machine,
) -> None:
    """Write the program's table and link it with the objects."""
    parts, rows, includes = [], [], []
    for k, program in enumerate(programs):
        inputs, outputs = len(program.input_bytes), len(program.outputs)
        sizes = [*program.input_bytes, *(o.bytes for o in program.outputs)]
        ins = ", ".join(f"in[{i}]" for i in range(inputs)) or "0"
        outs = ", ".join(f"out[{i}]" for i in range(outputs))
        assert inputs + outputs <= 64
        includes.append(f'#include "tvmgen_{program.name}.h"\n')
        prefix = f"tvmgen_{program.name}"
        given = (
            f"  struct {prefix}_inputs i = {{{ins}}};\n"
            f"  struct {prefix}_outputs o = {{{outs}}};\n"
            f"  (void)in;\n  return {prefix}_run(&i, &o);\n"
        )
        parts.append(
            f"static const long sizes{k}[] = {{{', '.join(map(str, sizes))}}};\n"
            f"static int32_t run{k}(void **in, void **out) {{\n"
            f"{_copied(program) if program.workspace_io else given}}}\n"
        )
        rows.append(f"  {{{len(program.samples)}, {inputs}, {outputs}, sizes{k}, run{k}}},")
    table = "static const struct module modules[] = {\n" + "\n".join(rows) + "\n};\n"
    modules = "".join(includes) + "".join(parts) + table
    (work / "main.c").write_text(MAIN % {"modules": modules, "count": len(programs)})
    command = [machine.compiler, "-std=gnu11", *flags, f"-I{INCLUDE}", *machine.linking]
    command += ["main.c", *machine.sources, *objects, "-o", "program"]
    subprocess.run([*command, "-lm"], cwd=work, check=True)


def _copied(program: Program) -> str:
    """The body of a call whose tensors lie in the workspace: copied there, run, copied out."""
    prefix, sizes = f"tvmgen_{program.name}", program.input_bytes
    rows = lambda kind, count: (  # noqa: E731
        f"  struct {prefix}_{kind} {kind} = {prefix}_map_{kind}();\n"
        f"  void *{kind}_at[{max(1, count)}];\n"
        f"  memcpy({kind}_at, &{kind}, sizeof {kind}_at);\n"
    )
    text = rows("inputs", len(sizes)) if sizes else "  (void)in;\n"
    text += "".join(f"  memcpy(inputs_at[{k}], in[{k}], {n});\n" for k, n in enumerate(sizes))
    text += f"  if ({prefix}_run()) return 1;\n" + rows("outputs", len(program.outputs))
    for k, output in enumerate(program.outputs):
        text += f"  memcpy(out[{k}], outputs_at[{k}], {output.bytes});\n"
    return text + "  return 0;\n"


def _run(programs: Sequence[Program], work: Path, machine: Machine) -> dict[str, Ran]:
    """Program -> what it wrote; one that is stopped does not keep the others from running."""
    for index, program in enumerate(programs):
        (work / f"in{index}.bin").write_bytes(b"".join(program.samples))
    failures: dict[int, str] = {}
    start = 0
    while start < len(programs):
        command = machine.start(work.resolve() / "program", str(start))
        command = ["timeout", str(LONGEST_RUN_S), *command]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, errors="replace")
        if done.returncode == 0:
            break
        said = done.stdout + done.stderr  # a board has one console for both
        last, _, message = said.rpartition("@@")[2].partition("\n")
        failures[int(last)] = f"stopped with {done.returncode}:\n{message[:2000]}"
        start = int(last) + 1
    return {
        program.name: Ran(failure=failures[index])
        if index in failures
        else Ran((work / f"out{index}.bin").read_bytes())
        for index, program in enumerate(programs)
    }
