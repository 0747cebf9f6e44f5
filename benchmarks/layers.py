"""Where a network's instructions go: one table per model, a line per layer.

    python benchmarks/layers.py [--models DIR] [--board cortex-m55] [--float-mode fused]
                                [--optimize size] [NAME ...]

Each layer's instructions stand beside the least its multiplications alone need on that core: a core
that multiplies sixteen pairs of bytes with one instruction needs at least a sixteenth of an
instruction for each. Counted by QEMU (-icount) between marks that are put into the generated C, so
a figure is right to within a tick of the board's counter, 40 instructions or less.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from bench import OPTIMISE, models

from mlftool.compile import Module, ModuleSpec, compile_module
from mlftool.describe import bundle as bundle_of
from mlftool.plan.program import Call
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import qemu_command
from mlftool.runtime.vectors import load_vectors, samples_of

# In front of each call the generated function has a line that ends with the kernel's name.
_CALL = re.compile(r"^  (?=// .*\([\w.]+\)$)", re.M)
_RUN = re.compile(r"^int32_t \w+\([^;{]*\) \{\n", re.M)
_MARKS = """
#include "platform.h"

static uint64_t bench_at[{steps} + 1];

static void bench_mark(int step) {{
  bench_at[step] = platform_counter_end();
}}

static void bench_print(void) {{
  for (int step = 0; step < {steps}; step++) {{
    uint64_t n = platform_counter_cost(bench_at[step], bench_at[step + 1]);
    char digits[24];
    char *at = digits + sizeof digits - 2;
    at[0] = '\\n';
    at[1] = '\\0';
    do {{
      *--at = (char)('0' + n % 10);
      n /= 10;
    }} while (n != 0);
    platform_print("layer=");
    platform_print(at);
  }}
}}

"""


@dataclass(frozen=True)
class Layer:
    """One step of a network and what it took."""

    node: str
    kernel: str
    macs: int
    instructions: int
    bound: float  # what its multiplications need at least


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=Path, default=None)
    parser.add_argument("--board", choices=sorted(BOARDS), default="cortex-m55")
    parser.add_argument("--float-mode", choices=["exact", "fused"], default="exact")
    parser.add_argument("--optimize", choices=["speed", "size"], default="speed")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args(argv)
    for model in models(args.models, args.names):
        spec = ModuleSpec(
            model, "bench", args.board, float_mode=args.float_mode, optimize=args.optimize
        )
        print(f"{model.stem} on {args.board}, instructions\n")
        print(table(measure(compile_module(spec), model.with_suffix(".npz"))), end="\n\n")
    return 0


def measure(module: Module, vectors: Path) -> list[Layer]:
    """The layers of a module in the order they run, counted on its first sample."""
    calls = module.program.calls
    counts = run(marked(module), vectors)
    assert len(counts) == len(calls), "the marks do not match the calls"
    return [
        Layer(c.node.name, c.kernel.name, c.kernel.macs, n, c.kernel.macs * least(module, c))
        for c, n in zip(calls, counts, strict=True)
    ]


def least(module: Module, call: Call) -> float:
    """Instructions per multiplication, if there were no others."""
    features = module.program.target.features
    if module.program.graph.types[call.node.inputs[0]].dtype.is_int8:
        arm = module.program.target.name.startswith("cortex")
        return 1 / 16 if "mve" in features else 1 / 2 if "dsp" in features else 1 if arm else 2
    return 1 if "fused" in features else 2


def marked(module: Module) -> Module:
    """The module with the counter read before each call and after the last."""
    steps = len(module.program.calls)
    files = dict(module.sources.files)
    for name, text in files.items():
        entry = list(_RUN.finditer(text))
        if not name.endswith(".c") or not entry or not _CALL.search(text, entry[-1].end()):
            continue
        head, body = text[: entry[-1].start()], text[entry[-1].start() :]
        numbers = iter(range(steps))
        body = _CALL.sub(lambda _, n=numbers: f"  bench_mark({next(n)});\n  ", body)
        end = body.rindex("  return 0;")
        body = f"{body[:end]}  bench_mark({steps});\n  bench_print();\n{body[end:]}"
        files[name] = head + _MARKS.format(steps=steps) + body
    return replace(module, sources=replace(module.sources, files=files))


def run(module: Module, vectors: Path) -> list[int]:
    """What each step of the counted inference took."""
    bundle = bundle_of([module])
    interface = read_interface(bundle, module.spec.module_name)
    sample = samples_of(load_vectors(vectors), interface.inputs, interface.module)[0]
    board = BOARDS[module.program.target.name]
    elf = link_firmware(bundle, interface, board, optimise=OPTIMISE[module.spec.optimize])
    with tempfile.TemporaryDirectory() as folder:
        data = b"".join(sample[t.name].tobytes() for t in interface.inputs)
        (Path(folder) / "inputs.bin").write_bytes(data)
        command = qemu_command(board, elf.resolve(), ("inputs.bin", "outputs.bin", "1"))
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=True,
        )
    counts = [int(n) for n in re.findall(r"^layer=(\d+)$", done.stdout, re.M)]
    return counts[-len(module.program.calls) :]  # the runs before are not counted ones


def table(layers: Sequence[Layer]) -> str:
    """A Markdown table, the whole network in its last line."""
    total = sum(layer.instructions for layer in layers)
    bound = sum(layer.bound for layer in layers)
    lines = [["layer", "kernel", "MACs", "instructions", "per MAC", "MAC bound", "times", "share"]]
    lines.append(["-" * len(head) for head in lines[0]])
    everything = Layer("all", "", sum(layer.macs for layer in layers), total, bound)
    for layer in (*layers, everything):
        n, b = layer.instructions, layer.bound
        per, times = (f"{n / layer.macs:.3f}", f"{n / b:.1f}") if b else ("-", "-")
        share = f"{100 * n / total:.1f} %"
        lines.append(
            [layer.node, layer.kernel, str(layer.macs), str(n), per, f"{b:.0f}", times, share]
        )
    widths = [max(len(line[k]) for line in lines) for k in range(len(lines[0]))]
    return "\n".join(
        "| " + " | ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


if __name__ == "__main__":
    sys.exit(main())
