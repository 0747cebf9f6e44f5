"""Where a network's instructions go: one table per model, a line per layer.

    python benchmarks/layers.py [--models DIR] [--core cortex-m55] [--float-mode fused|fast]
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
from pathlib import Path

from corpus import networks
from device import CORES, MODULE, OPTIMISE, board_of
from tables import grid, refresh

from mlftool.compile import ModuleSpec, compile_module
from mlftool.insight.profile import Profile, counted_on


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=Path, default=None)
    parser.add_argument("--core", choices=sorted(CORES), default="cortex-m55")
    parser.add_argument("--float-mode", choices=["exact", "fused", "fast"], default="exact")
    parser.add_argument("--optimize", choices=["speed", "size"], default="speed")
    parser.add_argument("--markdown", type=Path, help="put the tables into their places there")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args(argv)
    for network in networks(args.models, args.names):
        spec = ModuleSpec(
            network.path, MODULE, args.core, float_mode=args.float_mode, optimize=args.optimize
        )
        board, flags = board_of(args.core), OPTIMISE[args.optimize]
        whole = counted_on(compile_module(spec), board, flags, network.sample, network.name)
        text = table(whole)
        print(f"{network.name} on {args.core}, instructions\n\n{text}\n")
        if args.markdown:
            refresh(args.markdown, {f"{network.name} {args.core}": text})
    return 0


def table(whole: Profile) -> str:
    """A Markdown table in the order of the layers, the whole network in its last line."""
    heads = ["layer", "kernel", "MACs", "instructions", "per MAC", "MAC bound", "times", "share"]
    lines = [
        (c.layer.name, c.layer.kernel, c.layer.macs or 0, c.instructions or 0, c.layer.least or 0)
        for c in whole.costs
    ]
    lines.append(("all", "", whole.macs or 0, whole.instructions, whole.least or 0))
    rows = []
    for name, kernel, macs, n, bound in lines:
        per, times = (f"{n / macs:.3f}", f"{n / bound:.1f}") if bound else ("-", "-")
        share = f"{100 * n / whole.instructions:.1f} %"
        rows.append([name, kernel, str(macs), str(n), per, f"{bound:.0f}", times, share])
    return grid(heads, rows)


if __name__ == "__main__":
    sys.exit(main())
