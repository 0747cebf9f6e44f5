"""Generated C with its samples: what a C compiler and a judge need of a model, and our compiler no
longer. Some modules at a time become one object file, all are linked into one program with
sanitizers on, and one process runs them. Those of which it is asked run as optimised C, too.

A module whose C does not compile, or that a sanitizer stops, fails alone.
"""

from __future__ import annotations

import functools
import itertools
import subprocess
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path

import kept
import numpy as np
import units
from units import INCLUDE, Array, Program, headers, together, undeclared, write_program

from mlftool.targets import CFLAGS

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
LONGEST_RUN_S = 120  # all programs together
# Modules that gcc reads at once. To start gcc and to parse the headers takes 30 ms of a processor,
# as long as to compile a small module.
TOGETHER = 32
# What is undefined traps: messages about it are a third of the time of gcc, and only a module that
# was stopped needs them. Addresses are checked by calls, which gcc writes faster than the checks
# themselves, and null by the processor, which has no page there.
TRAPPING = (
    *("-fsanitize=address,undefined", "-fsanitize-undefined-trap-on-error"),
    *("--param=asan-instrumentation-with-call-threshold=0", "-fno-sanitize=null"),
)
TELLING = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")


@dataclass(frozen=True)
class Build:
    """How modules are compiled: at which level, with which sanitizers, for which processor.

    Sanitizers see most at -O0, and there gcc takes a fifth of the time that it takes to optimise
    what it has instrumented."""

    level: str = "-O0"
    sanitizers: tuple[str, ...] = ()
    processor: tuple[str, ...] = ()

    @property
    def flags(self) -> tuple[str, ...]:
        return (self.level, *self.sanitizers, *self.processor)

    @property
    def optimised(self) -> Build:
        """For the same processor, without sanitizers: what users run."""
        return replace(self, level="-O1", sanitizers=())

    @property
    def telling(self) -> Build:
        """The same that says what it stops for."""
        return replace(self, sanitizers=TELLING)


SANITIZED = Build(sanitizers=TRAPPING)

# What programs have of a board whose C library reads and writes this computer's files; `files()` is
# the first that they call.
BOARD = r"""
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
#define files() initialise_monitor_handles()
#else
#define files() (void)0
#endif
"""

MAIN = (
    BOARD
    + r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
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
  files();
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
)


@dataclass(frozen=True)
class Ran:
    """What a program wrote, or why it did not."""

    output: bytes = b""
    failure: str = ""
    stopped: bool = False  # the failure is that it did not run to its end


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
    build: Build = SANITIZED,
    threads: int = 2,
    machine: Machine = HERE,
) -> list[Ran]:
    """What became of each, after one program that holds all was built and run in folder `work`: all
    but those of which it is known from an earlier run on this computer (kept.py)."""
    if machine is not HERE:
        return _run_new(programs, work, build, threads, machine)
    keys = [_key(program, build) for program in programs]
    known = [kept.recall(key) for key in keys]
    new = [p for p, output in zip(programs, known, strict=True) if output is None]
    made = iter(_run_new(new, work, build, threads, machine) if new else ())
    ran = [next(made) if output is None else Ran(output) for output in known]
    for key, output, done in zip(keys, known, ran, strict=True):
        if output is None and not done.failure:
            kept.keep(key, done.output)
    return ran


def _key(program: Program, build: Build) -> str:
    """Names all that the output of a program depends on."""
    fields = repr(replace(program, samples=(), weights=()))
    weights = [part for item in program.weights for part in item]
    read = [part for item in headers(program).items() for part in item]
    return kept.key_of((*_frame(), repr(build), fields, *program.samples, *weights, *read))


@functools.cache
def _frame() -> tuple[bytes | str, ...]:
    """What all programs share: the compiler, and what is around a module."""
    ours = [Path(file).read_bytes() for file in (__file__, units.__file__)]
    return (kept.compiler("gcc"), *CFLAGS, *WARNINGS, *ours)


def _run_new(
    programs: Sequence[Program], work: Path, build: Build, threads: int, machine: Machine
) -> list[Ran]:
    """As they are; under sanitizers those that ask for it run optimised, too, which writes the
    same."""

    def run(some: Sequence[Program], folder: Path, build: Build) -> dict[str, Ran]:
        return _run_all(some, folder, build, threads, machine) if some else {}

    ran = run(programs, work, build)
    if build.sanitizers:
        for program in programs:
            if ran[program.name].stopped:
                told = run([program], work / "telling" / program.name, build.telling)
                ran |= {name: done for name, done in told.items() if done.failure}
        alive = {p.name: p for p in programs if p.optimised and not ran[p.name].failure}
        again = run(list(alive.values()), work / "optimised", build.optimised)
        for name, done in again.items():
            if done.failure:
                ran[name] = Ran(failure=f"{build.optimised.level}: {done.failure}")
            elif not _alike(alive[name], ran[name].output, done.output):
                ran[name] = Ran(failure=f"{build.optimised.level} gives other bits")
    return [ran[program.name] for program in programs]


def _alike(program: Program, one: bytes, other: bytes) -> bool:
    """Whether all bits are equal; NaNs are all alike."""
    if one == other:
        return True
    samples = zip(program.results(one), program.results(other), strict=True)
    return all(bits_alike(a[name], b[name]) for a, b in samples for name in a)


def bits_alike(a: Array, b: Array) -> bool:
    """Of two tensors; NaNs are all alike."""
    if a.shape != b.shape or a.dtype.kind in "OSU":
        return np.array_equal(a, b)
    with np.errstate(invalid="ignore"):  # of NaNs that signal
        numbers = ~((a != a) & (b != b))
    word = f"u{a.dtype.itemsize}"
    return np.array_equal(a[numbers].view(word), b[numbers].view(word))


def _run_all(
    programs: Sequence[Program], work: Path, build: Build, threads: int, machine: Machine
) -> dict[str, Ran]:
    """Program -> what became of it."""
    with ThreadPoolExecutor(threads) as pool:
        parts = [programs[k : k + TOGETHER] for k in range(0, len(programs), TOGETHER)]
        made = list(pool.map(lambda part: _objects(part, work, build.flags, machine), parts))
    objects = [name for names, _ in made for name in names]
    said = itertools.chain.from_iterable(texts for _, texts in made)
    ran = {p.name: Ran(failure=text) for p, text in zip(programs, said, strict=True)}
    alive = [p for p in programs if not ran[p.name].failure]
    if alive:
        _link(alive, objects, work, build.flags, machine)
        ran |= _run(alive, work, machine)
    return ran


def _objects(
    programs: Sequence[Program], work: Path, flags: Sequence[str], machine: Machine
) -> tuple[list[str], list[str]]:
    """Compiles the modules together, or each by itself if the compiler says anything; the object
    files, and for each module what the compiler says if it cannot."""
    sources = {p.name: write_program(p, work) for p in programs}
    objects: list[str] = []
    said: dict[str, str] = {}
    able = [p for p in programs if not undeclared(p)]
    if len(able) > 1:
        unit = f"{able[0].name}_and_more"
        (work / f"{unit}.c").write_text(together(able, work))
        if not _said(f"{unit}.c", work, flags, machine):
            objects.append(f"{unit}.o")
            said = {p.name: "" for p in able}
    for name in [n for n in sources if n not in said]:
        said[name] = _said(sources[name], work, flags, machine)
        objects += [] if said[name] else [f"{name}.o"]
    return objects, [said[p.name] for p in programs]


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
    failures: dict[int, Ran] = {}
    start = 0
    while start < len(programs):
        command = machine.start(work.resolve() / "program", str(start))
        command = ["timeout", str(LONGEST_RUN_S), *command]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True, errors="replace")
        if done.returncode == 0:
            break
        said = done.stdout + done.stderr  # a board has one console for both
        last, _, message = said.rpartition("@@")[2].partition("\n")
        text = f"stopped with {done.returncode}:\n{message[:2000]}"
        failures[int(last)] = Ran(failure=text, stopped=True)
        start = int(last) + 1
    return {
        program.name: failures[index]
        if index in failures
        else Ran((work / f"out{index}.bin").read_bytes())
        for index, program in enumerate(programs)
    }
