"""What the networks cost: one command, all tables.

    python benchmarks/bench.py [--only memory,instructions,...] [--models DIR]
                               [--cores cortex-m4,...] [--float-mode fused|fast]
                               [--optimize size] [--patches auto] [--weights-budget 64KiB]
                               [--markdown docs/benchmarks.md]
                               [NAME ...]

The networks are those of --models (default: MLFTOOL_SHARED_MODELS, else ../shared/models), those of
examples/models, and ten that tests/support/other_networks.py builds. Each result is compared with
onnxruntime's before its cost counts. Instructions are counted by QEMU (-icount), the same on every
computer; seconds and microseconds are not, and stand in tables of their own.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import compiling
import emx
import host
from corpus import Network, networks
from device import CORES, MODULE, Cost, Setting, board_of, compiled, macs_of, measure
from peers import BARS, CODE, LIVENESS, PEERS_M4, TFLM_M4
from server import server_table
from tables import grid, refresh

from mlftool.describe import bundle as bundle_of
from mlftool.insight import cycles
from mlftool.runtime.interface import read_interface

M4 = "cortex-m4"


@dataclass(frozen=True)
class Asked:
    """What a table is made of."""

    networks: Sequence[Network]
    cores: Sequence[str]
    setting: Setting


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", default=",".join(TABLES), help=", ".join(TABLES))
    parser.add_argument("--models", type=Path)
    parser.add_argument("--cores", default=",".join(CORES))
    parser.add_argument("--float-mode", choices=["exact", "fused", "fast"], default="exact")
    parser.add_argument("--optimize", choices=["speed", "size"], default="speed")
    parser.add_argument("--patches", default="off", metavar="off|auto|N")
    parser.add_argument("--weights-budget", default="none", metavar="BYTES")
    parser.add_argument("--markdown", type=Path, help="put the tables into their places there")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args(argv)
    wanted = args.only.split(",")
    if unknown := set(wanted) - set(TABLES):
        parser.error(f"no table {', '.join(sorted(unknown))}; there are {', '.join(TABLES)}")
    setting = Setting(args.float_mode, args.optimize, args.patches, args.weights_budget)
    found = tuple(networks(args.models, args.names))
    asked = Asked(found, args.cores.split(","), setting)
    for name in wanted:
        print(f"measuring for table {name} ...", file=sys.stderr, flush=True)
        table = TABLES[name](asked)
        print(f"\n{name}\n\n{table}", flush=True)
        if args.markdown:
            refresh(args.markdown, {name: table})
    return 0


def millions(cost: Cost | None) -> str:
    return f"{cost.instructions / 1e6:.3f}" if cost else "too large"


def memory(asked: Asked) -> str:
    heads = ["on Cortex-M4", "MACs", "weights B", "arena B", "liveness B", "flash B", "own code B"]
    rows = []
    for n in asked.networks:
        c = measure(n, M4, asked.setting)
        bound = str(LIVENESS.get(n.name, "-"))
        if c is None:
            rows.append([n.name, "-", "-", "-", bound, "too large", "-", "-", "-"])
            continue
        cells = (c.macs, c.weights, c.arena, bound, c.flash, c.own, c.stack, c.bound)
        rows.append([n.name, *map(str, cells)])
    return grid([*heads, "stack B", "stack bound B"], rows)


# On cores without FPU a float operation is a library call of dozens of instructions.
_WITHOUT_FPU = ("cortex-m0", "cortex-m3", "rv32imc")
_LARGEST_IN_SOFTWARE = (
    500_000  # products of a float network: beyond that a simulation takes minutes
)


def _on(n: Network, core: str, setting: Setting) -> Cost | None:
    """The cost of a network on a core, None where it is not counted."""
    macs = macs_of(compiled(n.path, M4, setting))
    if core in _WITHOUT_FPU and not n.is_int8 and macs > _LARGEST_IN_SOFTWARE:
        return None
    return measure(n, core, setting)


def instructions(asked: Asked) -> str:
    heads = ["M instructions", *asked.cores, f"{emx.NAME}, M4", "best peer, M4"]
    rows = []
    for n in asked.networks:
        costs = [_on(n, core, asked.setting) for core in asked.cores]
        cells = [f"{c.instructions / 1e6:.3f}" if c else "-" for c in costs]
        peer = emx.instructions(n)
        cells.append(f"{peer / 1e6:.3f}" if peer else "-")
        rows.append([n.name, *cells, str(PEERS_M4.get(n.name, "-"))])
    return grid(heads, rows)


def per_mac(asked: Asked) -> str:
    rows = []
    for n in asked.networks:
        costs = [_on(n, core, asked.setting) for core in asked.cores]
        if any(c and c.macs for c in costs):
            cells = [f"{c.instructions / c.macs:.2f}" if c else "-" for c in costs]
            rows.append([n.name, *cells])
    return grid(["instructions per MAC", *asked.cores], rows)


def fused(asked: Asked) -> str:
    """Floats with sums contracted, and in Helium's vectors, beside the default mode."""
    ways = [("fused", M4), ("fused", "cortex-m55"), ("fast", "cortex-m55")]
    ways = [(mode, core) for mode, core in ways if core in asked.cores]
    rows = []
    for n in asked.networks:
        if not n.is_int8:
            exact = measure(n, M4, asked.setting)
            costs = [
                measure(n, core, replace(asked.setting, float_mode=mode)) for mode, core in ways
            ]
            rows.append([n.name, millions(exact), *map(millions, costs)])
    return grid(
        ["M instructions", "exact, cortex-m4", *(f"{mode}, {core}" for mode, core in ways)], rows
    )


def size(asked: Asked) -> str:
    """`--optimize size` beside `speed` on Cortex-M4."""
    heads = ["int8 on Cortex-M4", "speed: own code B", "size: own code B", "bar B"]
    heads += ["speed: M instructions", "size: M instructions", "times"]
    rows = []
    for n in (n for n in asked.networks if n.is_int8):
        fast = measure(n, M4, Setting(optimize="speed"))
        small = measure(n, M4, Setting(optimize="size"))
        if fast and small:
            cells = [str(fast.own), str(small.own), str(CODE.get(n.name, ("-", "-"))[1])]
            ratio = f"{small.instructions / fast.instructions:.2f}"
            rows.append([n.name, *cells, millions(fast), millions(small), ratio])
    return grid(heads, rows)


def estimate(asked: Asked) -> str:
    """Cycles, estimated, on every core that has a table of prices."""
    cores = [core for core in asked.cores if core in cycles.CORES]
    rows = []
    for n in asked.networks:
        clocks = [_clocks(n, core, asked.setting) for core in cores]
        rows.append([n.name, *(f"{c.cycles / 1e6:.3f}" if c else "-" for c in clocks)])
    return grid(["M cycles", *cores], rows)


def cpi(asked: Asked) -> str:
    """The same for each instruction."""
    cores = [core for core in asked.cores if core in cycles.CORES]
    rows = []
    for n in asked.networks:
        clocks = [_clocks(n, core, asked.setting) for core in cores]
        rows.append([n.name, *(f"{c.each:.2f}" if c else "-" for c in clocks)])
    return grid(["cycles an instruction", *cores], rows)


@cache
def _clocks(n: Network, core: str, setting: Setting) -> cycles.Clocks | None:
    """None where instructions are not counted either."""
    cost = _on(n, core, setting)
    if cost is None:
        return None
    interface = read_interface(bundle_of([compiled(n.path, core, setting)]), MODULE)
    data = b"".join(n.sample[t.name].tobytes() for t in interface.inputs)
    found = cycles.functions(cost.elf, board_of(core), data)
    return sum(found.values(), cycles.NONE)


def bars(asked: Asked) -> str:
    """Our aims for MLPerf Tiny's networks, and where they stand."""
    rows = []
    for name, core, mode, bar in BARS:
        network = next((n for n in asked.networks if n.name == name), None)
        cost = network and measure(network, core, Setting(mode))
        if cost:
            got = cost.instructions / 1e6
            verdict = "met" if got <= bar else f"missed by {100 * (got / bar - 1):.0f} %"
            rows.append([f"{name}, {core}, {mode}", f"{bar:g}", f"{got:.3f}", verdict])
    for name, limit in TFLM_M4.items():
        network = next((n for n in asked.networks if n.name == name), None)
        for core in ("cortex-m0", "cortex-m3") if network else ():
            cost = network and measure(network, core, Setting())
            if cost:
                got = cost.instructions / 1e6
                verdict = "met" if got <= limit / 2 else "missed"
                rows.append(
                    [f"{name}, {core}, half of TFLM's", f"{limit / 2:g}", f"{got:.3f}", verdict]
                )
    return grid(["network", "at most, M instructions", "reached", ""], rows)


def compile_time(asked: Asked) -> str:
    heads = ["seconds", "model to archive", "gcc -O3, Cortex-M4", "gcc -O3, x86-64-v4"]
    rows = []
    for n in asked.networks:
        device, here = (compiling.measure(n, core) for core in (M4, "x86-64-v4"))
        rows.append([n.name, f"{device.archive:.2f}", f"{device.c:.2f}", f"{here.c:.2f}"])
    return grid(heads, rows)


def on_host(asked: Asked) -> str:
    """Our time over the better of onnxruntime's and LiteRT's, and over emx-onnx-cgen's.

    Each level of x86-64 stands beside the peers on the same level; v3 also beside all they have.
    """
    kinds = (*host.PEERS, *(f"{p} {host.V3}" for p in host.PEERS), emx.NAME, *host.TARGETS)
    every, v3 = kinds[:2], kinds[2:4]
    pairs = {
        "x86-64-v3 / best of v3": ("x86-64-v3", v3),
        "x86-64-v3 / best": ("x86-64-v3", every),
        "x86-64-v4 / best": ("x86-64-v4", every),
        "host / emx": ("host", (emx.NAME,)),
    }
    rows, ratios = [], []
    for n in asked.networks:
        times = host.measure(n, asked.setting)
        ratio = [_ratio(times, *pair) for pair in pairs.values()]
        cells = [f"{times[k]:.1f}" if k in times else "-" for k in kinds]
        rows.append([n.name, *cells, *(f"{r:.2f}" if r else "-" for r in ratio)])
        if n.name in PEERS_M4:
            ratios.append(ratio)
    if ratios and all(map(all, ratios)):
        means = [math.exp(sum(map(math.log, c)) / len(c)) for c in zip(*ratios, strict=True)]
        blank = [""] * len(kinds)
        rows.append(["geometric mean of MLPerf's eight", *blank, *(f"{m:.2f}" for m in means)])
    return grid(["us, and ours over theirs", *kinds, *pairs], rows)


def _ratio(times: Mapping[str, float], ours: str, theirs: Sequence[str]) -> float:
    """0 where no peer has a time."""
    best = min((times[p] for p in theirs if p in times), default=math.inf)
    return times[ours] / best


TABLES: dict[str, Callable[[Asked], str]] = {
    "bars": bars,
    "memory": memory,
    "instructions": instructions,
    "per_mac": per_mac,
    "fused": fused,
    "size": size,
    "server": lambda asked: server_table(asked.cores),
    "estimate": estimate,
    "cpi": cpi,
    "compile": compile_time,
    "host": on_host,
}

if __name__ == "__main__":
    sys.exit(main())
