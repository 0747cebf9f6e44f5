"""Compiling and running many small models as real C: every module becomes one object file, all are
linked into one program with sanitizers on, and one process runs them.

A module whose C does not compile, or that a sanitizer stops, fails alone.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx

from mlftool.compile import Module, ModuleSpec, compile_module
from mlftool.errors import MlfError
from mlftool.ir.dtype import restored, stored
from mlftool.ir.graph import TensorType
from mlftool.mlf.runtime_tree import helper_headers
from mlftool.targets import CFLAGS

Array = np.ndarray[Any, Any]
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror")
SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
LONGEST_RUN_S = 120  # all jobs together
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


@dataclass
class Job:
    """One model on one target. After `run_jobs`, `results` or `failure` is set.

    `name` is the module's, numbered if left out; `output` is what the program wrote.
    """

    model: onnx.ModelProto | Path
    feeds: Sequence[dict[str, Array]]
    target: str = "host"
    name: str = ""
    executor: str = "aot"
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)
    module: Module | None = None
    results: list[dict[str, Array]] = field(default_factory=list)
    failure: str = ""
    output: bytes = b""

    def c_text(self) -> bytes:
        """Everything that gcc reads for this module alone."""
        assert self.module is not None
        files = self.module.sources.files
        return repr(sorted(files.items())).encode()

    def encode(self, feed: dict[str, Array]) -> bytes:
        """One sample's inputs as the bytes that C reads."""
        assert self.module is not None
        graph = self.module.imported
        return b"".join(_bytes_of(graph.types[n], feed[n]) for n in graph.inputs)

    def read(self, data: bytes) -> None:
        """Take `data`, which the program wrote, as results."""
        assert self.module is not None
        self.output = data
        self.results = _results(self, data)


def compile_model(
    model: onnx.ModelProto | Path,
    name: str = "m",
    target: str = "host",
    executor: str = "aot",
    shapes: Mapping[str, tuple[int, ...]] | None = None,
) -> Module:
    """The compiler's own result for a model in memory or in a file."""
    return compile_module(ModuleSpec(model, name, target, executor, input_shapes=shapes or {}))


def run_jobs(jobs: Sequence[Job], work: Path, flags: Sequence[str] = ("-O1", *SANITIZERS)) -> None:
    """Compile, link and run all jobs in folder `work`; results are left in the jobs."""
    alive: list[Job] = []
    for job in jobs:
        job.name = job.name or f"m{len(alive)}"
        try:
            compile_job(job)
            alive.append(job)
        except MlfError as error:
            job.failure = str(error)
        except Exception as error:  # a bug of the compiler: the test that owns the job fails
            job.failure = f"{type(error).__name__}: {error}"
    build_jobs(alive, work, flags)


def compile_job(job: Job) -> None:
    """The compiler's part. Raises what the compiler raises."""
    job.module = compile_model(job.model, job.name, job.target, job.executor, job.shapes)


def build_jobs(jobs: Sequence[Job], work: Path, flags: Sequence[str], threads: int = 2) -> None:
    """The C compiler's part for jobs that are compiled, then one program that runs them all."""
    write_headers(work)
    with ThreadPoolExecutor(threads) as pool:
        built = list(pool.map(lambda job: _object(job, work, flags), jobs))
    alive = [job for job, done in zip(jobs, built, strict=True) if done]
    if alive:
        _link(alive, work, flags)
        _run(alive, work)


def write_headers(work: Path) -> None:
    for name, data in helper_headers().items():
        path = work / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def write_sources(module: Module, work: Path) -> str:
    """The module's C as one file that includes both parts; returns its name."""
    name = module.spec.module_name
    (work / INCLUDE / f"tvmgen_{name}.h").write_text(module.sources.header)
    (work / f"{name}_lib0.c").write_text(module.sources.lib0)
    (work / f"{name}_lib1.c").write_text(module.sources.lib1)
    (work / f"{name}.c").write_text(f'#include "{name}_lib0.c"\n#include "{name}_lib1.c"\n')
    return f"{name}.c"


def _object(job: Job, work: Path, flags: Sequence[str]) -> bool:
    assert job.module is not None
    source = write_sources(job.module, work)
    command = ["gcc", *CFLAGS, *flags, *WARNINGS, f"-I{INCLUDE}", "-c", source]
    done = subprocess.run(command, cwd=work, capture_output=True, text=True)
    if done.returncode:
        job.failure = "C does not compile:\n" + done.stderr[:2000]
    return done.returncode == 0


def _link(jobs: Sequence[Job], work: Path, flags: Sequence[str]) -> None:
    """Write the program's table and link it with the objects."""
    parts, rows, includes = [], [], []
    for k, job in enumerate(jobs):
        assert job.module is not None
        graph, members = job.module.imported, job.module.sources.members
        sizes = [graph.types[n].bytes for n in (*graph.inputs, *graph.outputs)]
        ins = ", ".join(f"in[{i}]" for i in range(len(graph.inputs))) or "0"
        outs = ", ".join(f"out[{i}]" for i in range(len(graph.outputs)))
        assert len(members) <= 64
        includes.append(f'#include "tvmgen_{job.name}.h"\n')
        parts.append(
            f"static const long sizes{k}[] = {{{', '.join(map(str, sizes))}}};\n"
            f"static int32_t run{k}(void **in, void **out) {{\n"
            f"  struct tvmgen_{job.name}_inputs i = {{{ins}}};\n"
            f"  struct tvmgen_{job.name}_outputs o = {{{outs}}};\n"
            f"  (void)in;\n  return tvmgen_{job.name}_run(&i, &o);\n}}\n"
        )
        rows.append(
            f"  {{{len(job.feeds)}, {len(graph.inputs)}, {len(graph.outputs)}, sizes{k}, run{k}}},"
        )
    table = "static const struct module modules[] = {\n" + "\n".join(rows) + "\n};\n"
    modules = "".join(includes) + "".join(parts) + table
    (work / "main.c").write_text(MAIN % {"modules": modules, "count": len(jobs)})
    objects = [f"{job.name}.o" for job in jobs]
    command = [
        "gcc",
        "-std=c11",
        *flags,
        f"-I{INCLUDE}",
        "main.c",
        *objects,
        "-o",
        "program",
        "-lm",
    ]
    subprocess.run(command, cwd=work, check=True)


def _run(jobs: Sequence[Job], work: Path) -> None:
    for index, job in enumerate(jobs):
        (work / f"in{index}.bin").write_bytes(b"".join(map(job.encode, job.feeds)))
    start = 0
    while start < len(jobs):
        command = ["timeout", str(LONGEST_RUN_S), "./program", str(start)]
        done = subprocess.run(command, cwd=work, capture_output=True, text=True)
        if done.returncode == 0:
            break
        last, _, message = done.stderr.rpartition("@@")[2].partition("\n")
        jobs[int(last)].failure = f"stopped with {done.returncode}:\n{message[:2000]}"
        start = int(last) + 1
    for index, job in enumerate(jobs):
        if not job.failure:
            job.read((work / f"out{index}.bin").read_bytes())


def _results(job: Job, data: bytes) -> list[dict[str, Array]]:
    assert job.module is not None
    graph = job.module.imported
    results, at = [], 0
    for _ in job.feeds:
        sample = {}
        for name in graph.outputs:
            type_ = graph.types[name]
            sample[name] = _array_of(type_, data[at : at + type_.bytes])
            at += type_.bytes
        for name in graph.outputs:
            extents = sample.pop(f"{name}.shape", None)
            if extents is not None:
                sample[name] = sample[name][tuple(slice(int(n)) for n in extents)]
        results.append(sample)
    assert at == len(data)
    return results


def _bytes_of(type_: TensorType, value: Array) -> bytes:
    array = np.asarray(value)
    assert array.dtype == type_.dtype.numpy, array.dtype
    return stored(np.ascontiguousarray(array).reshape(array.shape)).tobytes()


def _array_of(type_: TensorType, data: bytes) -> Array:
    return restored(data, type_.dtype, type_.shape)
