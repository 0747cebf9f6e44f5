"""Where a network's instructions go: one table per model, a line per layer.

    python benchmarks/layers.py [--models DIR] [--core cortex-m55] [--float-mode fused]
                                [--optimize size] [--markdown docs/performance.md] [NAME ...]

Each layer's instructions stand beside the least its multiplications alone need on that core: a core
that multiplies sixteen pairs of bytes with one instruction needs at least a sixteenth of an
instruction for each. Counted by QEMU (-icount) between marks that are put into the generated C, so
a figure is right to within a tick of the board's counter, 40 instructions or less.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from corpus import Network, networks
from device import CORES, MODULE, OPTIMISE, board_of
from tables import grid, refresh

from mlftool.compile import Module, ModuleSpec, compile_module
from mlftool.plan.program import Call
from mlftool.tune.marks import count


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
    parser.add_argument("--core", choices=sorted(CORES), default="cortex-m55")
    parser.add_argument("--float-mode", choices=["exact", "fused"], default="exact")
    parser.add_argument("--optimize", choices=["speed", "size"], default="speed")
    parser.add_argument("--markdown", type=Path, help="put the tables into their places there")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args(argv)
    for network in networks(args.models, args.names):
        spec = ModuleSpec(
            network.path, MODULE, args.core, float_mode=args.float_mode, optimize=args.optimize
        )
        text = table(measure(compile_module(spec), network))
        print(f"{network.name} on {args.core}, instructions\n\n{text}\n")
        if args.markdown:
            refresh(args.markdown, {f"{network.name} {args.core}": text})
    return 0


def measure(module: Module, network: Network) -> list[Layer]:
    """The layers of a module in the order they run, counted on its first sample."""
    calls = module.program.calls
    board, flags = board_of(module.program.target.name), OPTIMISE[module.spec.optimize]
    counts = count(module, board, network.sample, flags).steps
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


def table(layers: Sequence[Layer]) -> str:
    """A Markdown table, the whole network in its last line."""
    total = sum(layer.instructions for layer in layers)
    bound = sum(layer.bound for layer in layers)
    heads = ["layer", "kernel", "MACs", "instructions", "per MAC", "MAC bound", "times", "share"]
    rows = []
    everything = Layer("all", "", sum(layer.macs for layer in layers), total, bound)
    for layer in (*layers, everything):
        n, b = layer.instructions, layer.bound
        per, times = (f"{n / layer.macs:.3f}", f"{n / b:.1f}") if b else ("-", "-")
        share = f"{100 * n / total:.1f} %"
        rows.append(
            [layer.node, layer.kernel, str(layer.macs), str(n), per, f"{b:.0f}", times, share]
        )
    return grid(heads, rows)


if __name__ == "__main__":
    sys.exit(main())
