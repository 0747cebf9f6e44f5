"""Generated C with its samples: what a C compiler and a judge need of a model, and our compiler no
longer. Every module becomes one object file, all are linked into one program with sanitizers on,
and one process runs them.

A module whose C does not compile, or that a sanitizer stops, fails alone.
"""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlftool.ir import dtype
from mlftool.ir.values import EXTENTS, cut
from mlftool.mlf.runtime_tree import helper_headers
from mlftool.targets import CFLAGS

Array = np.ndarray[Any, Any]
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
LONGEST_RUN_S = 120  # all programs together
INCLUDE = "codegen/host/include"


MAIN = r"""
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


def run_programs(
    programs: Sequence[Program], work: Path, flags: Sequence[str], threads: int = 2
) -> list[Ran]:
    """What became of each, after one program that holds all was built and run in folder `work`."""
    write_headers(work)
    with ThreadPoolExecutor(threads) as pool:
        failures = list(pool.map(lambda program: _object(program, work, flags), programs))
    alive = [p for p, failure in zip(programs, failures, strict=True) if not failure]
    ran: dict[str, Ran] = {}
    if alive:
        _link(alive, work, flags)
        ran = _run(alive, work)
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
    (work / f"{name}_lib0.c").write_text(program.lib0)
    (work / f"{name}_lib1.c").write_text(program.lib1)
    (work / f"{name}.c").write_text(f'#include "{name}_lib0.c"\n#include "{name}_lib1.c"\n')
    return f"{name}.c"


def _object(program: Program, work: Path, flags: Sequence[str]) -> str:
    """Compiles the module; what the C compiler says if it cannot."""
    source = write_program(program, work)
    command = ["gcc", *CFLAGS, *flags, *WARNINGS, f"-I{INCLUDE}", "-c", source]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    return "C does not compile:\n" + done.stderr[:2000] if done.returncode else ""


def _link(programs: Sequence[Program], work: Path, flags: Sequence[str]) -> None:
    """Write the program's table and link it with the objects."""
    parts, rows, includes = [], [], []
    for k, program in enumerate(programs):
        inputs, outputs = len(program.input_bytes), len(program.outputs)
        sizes = [*program.input_bytes, *(o.bytes for o in program.outputs)]
        ins = ", ".join(f"in[{i}]" for i in range(inputs)) or "0"
        outs = ", ".join(f"out[{i}]" for i in range(outputs))
        assert inputs + outputs <= 64
        includes.append(f'#include "tvmgen_{program.name}.h"\n')
        parts.append(
            f"static const long sizes{k}[] = {{{', '.join(map(str, sizes))}}};\n"
            f"static int32_t run{k}(void **in, void **out) {{\n"
            f"  struct tvmgen_{program.name}_inputs i = {{{ins}}};\n"
            f"  struct tvmgen_{program.name}_outputs o = {{{outs}}};\n"
            f"  (void)in;\n  return tvmgen_{program.name}_run(&i, &o);\n}}\n"
        )
        rows.append(f"  {{{len(program.samples)}, {inputs}, {outputs}, sizes{k}, run{k}}},")
    table = "static const struct module modules[] = {\n" + "\n".join(rows) + "\n};\n"
    modules = "".join(includes) + "".join(parts) + table
    (work / "main.c").write_text(MAIN % {"modules": modules, "count": len(programs)})
    objects = [f"{program.name}.o" for program in programs]
    command = ["gcc", "-std=c11", *flags, f"-I{INCLUDE}", "main.c", *objects, "-o", "program"]
    subprocess.run([*command, "-lm"], cwd=work, check=True)


def _run(programs: Sequence[Program], work: Path) -> dict[str, Ran]:
    """Program -> what it wrote; one that is stopped does not keep the others from running."""
    for index, program in enumerate(programs):
        (work / f"in{index}.bin").write_bytes(b"".join(program.samples))
    failures: dict[int, str] = {}
    start = 0
    while start < len(programs):
        command = ["timeout", str(LONGEST_RUN_S), "./program", str(start)]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True)
        if done.returncode == 0:
            break
        last, _, message = done.stderr.rpartition("@@")[2].partition("\n")
        failures[int(last)] = f"stopped with {done.returncode}:\n{message[:2000]}"
        start = int(last) + 1
    return {
        program.name: Ran(failure=failures[index])
        if index in failures
        else Ran((work / f"out{index}.bin").read_bytes())
        for index, program in enumerate(programs)
    }
