"""What weights of zero save: each network as it is and with most of its weights made zero.

    python benchmarks/sparse.py [--models DIR] [--core CORE ...] [--optimize size] [NAME ...]

A pruned network computes something else, of course; what is measured is code. Of every so many
neighbours in the order of products one weight is kept, the largest, or of all of a layer so many.
Depthwise layers keep theirs, as pruning tools leave them. Constants are those of the module,
instructions are counted by QEMU, and the outputs must be those of onnxruntime.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from corpus import Network, networks
from device import CORES, MODULE, OPTIMISE, board_of
from nibbles import quantised_weights
from onnx import numpy_helper
from oracle import onnxruntime_float, onnxruntime_integer

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

Array = np.ndarray[Any, Any]
FORMS: tuple[tuple[str, int, float], ...] = (
    ("dense", 1, 1.0),
    ("1:4", 4, 1.0),
    ("1:8", 8, 1.0),
    ("1:16", 16, 1.0),
    ("80 %", 1, 0.2),
    ("90 %", 1, 0.1),
    ("95 %", 1, 0.05),
)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=Path, default=None)
    parser.add_argument("--core", choices=sorted(CORES), action="append")
    parser.add_argument("--optimize", choices=sorted(OPTIMISE), default="speed")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args(argv)
    cores = args.core or ["cortex-m4", "rv32imc"]
    heads = [f"{core}: {what}" for core in cores for what in ("constants B", "M instr", "times")]
    print("| network | weights | " + " | ".join(heads) + " |")
    print("|---|---" + "|---" * len(heads) + "|")
    for network in networks(args.models, args.names or ["kws_int8"]):
        dense: dict[str, float] = {}
        for label, group, kept in FORMS:
            model, cells = pruned(network.model, group, kept), [network.name, label]
            for core in cores:
                size, n = measure(model, network, core, args.optimize)
                first = dense.setdefault(core, n)
                cells += [str(size), f"{n:.3f}", f"{first / n:.2f}"]
            print("| " + " | ".join(cells) + " |", flush=True)
    return 0


def pruned(model: onnx.ModelProto, group: int, kept: float) -> onnx.ModelProto:
    """The model with zeros for all but the largest weights: of each group, or of a layer."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    stored = {t.name: t for t in made.graph.initializer}
    for name, dq in quantised_weights(made).items():
        users = [n for n in made.graph.node if name in n.input]
        w = numpy_helper.to_array(stored[dq.input[0]])
        grouped = any(a.name == "group" and a.i > 1 for n in users for a in n.attribute)
        if w.dtype == np.int8 and w.ndim > 1 and not grouped:
            matrix = w.ndim == 2 and not any(a.name == "transB" and a.i for a in users[0].attribute)
            rows = w.T if matrix else np.moveaxis(w, 1, -1)
            flat = largest(rows.reshape(len(rows), -1), group, kept).reshape(rows.shape)
            array = np.ascontiguousarray(flat.T if matrix else np.moveaxis(flat, -1, 1))
            stored[dq.input[0]].CopyFrom(numpy_helper.from_array(array, dq.input[0]))
    return made


def largest(w: Array, group: int, kept: float) -> Array:
    """Weights [output channel, place], of which so many remain."""
    size = np.abs(w.astype(np.int32))
    if group == 1:
        return np.where(size >= np.quantile(size, 1 - kept) if kept < 1 else True, w, 0)
    short = -w.shape[1] % group
    parts = np.pad(size, ((0, 0), (0, short))).reshape(len(w), -1, group)
    keep = np.arange(group) == parts.argmax(axis=-1)[..., None]
    return np.where(keep.reshape(len(w), -1)[:, : w.shape[1]], w, 0).astype(w.dtype)


def measure(
    model: onnx.ModelProto, network: Network, core: str, optimize: str
) -> tuple[int, float]:
    """(bytes of constants, millions of instructions); outputs must be onnxruntime's."""
    spec = ModuleSpec(
        model, MODULE, core, optimize=optimize, disabled_pass=("drop_constant_channels",)
    )
    bundle = compile_modules([spec])
    interface = read_interface(bundle, MODULE)
    elf = link_firmware(bundle, interface, board_of(core), optimise=OPTIMISE[optimize])
    result = run_on_board(elf, board_of(core), interface, [network.sample], repetitions=1)
    ways = (onnxruntime_float, onnxruntime_integer)
    wanted = [way(model, [network.sample])[0] for way in ways]
    for name, got in result.outputs[0].items():
        assert any(np.array_equal(got, want[name]) for want in wanted), f"{network.name}: {name}"
    return interface.constants_bytes, float(result.figures["instructions"]) / 1e6


if __name__ == "__main__":
    sys.exit(main())
