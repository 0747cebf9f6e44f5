"""What weights of four bits cost and save: each network as it is and with its weights rounded.

    python benchmarks/nibbles.py [--models DIR] [--board cortex-m4] [NAME ...]

The rounded network computes something else, of course; what is measured is code. Its weights keep
their type, int8: whether four bits do is for the values to say. Flash is that of the whole test
firmware, instructions are counted by QEMU, and both settings must give the same outputs.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
from corpus import Network, networks
from device import MODULE, OPTIMISE, board_of
from onnx import numpy_helper

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import footprint, link_firmware
from mlftool.runtime.runner import run_on_board

DOTS = ("Conv", "Gemm", "MatMul")
STEP = 16  # of the rounded weights, in steps of those of eight bits


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=None)
    parser.add_argument("--board", default="cortex-m4")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args(argv)
    names = args.names or ["ad_int8", "ic_int8", "kws_int8", "vww_int8"]
    print(f"| {args.board} | weights | flash B, speed | flash B, size | M instr, speed | size |")
    print("|---|---|---|---|---|---|")
    for network in networks(args.models, names):
        for label, form in (("8 bits", network.model), ("4 bits", rounded(network.model))):
            fast, small = (measure(form, network, args.board, o) for o in ("speed", "size"))
            assert fast[2] == small[2], network.name
            cells = [network.name, label, fast[0], small[0], f"{fast[1]:.3f}", f"{small[1]:.3f}"]
            print("| " + " | ".join(map(str, cells)) + " |", flush=True)
    fewest = min(fewest_values(network.model) for network in networks(args.models, ()))
    print(f"\nfewest different values that the int8 weights of a layer have: {fewest}")
    return 0


def quantised_weights(model: onnx.ModelProto) -> dict[str, onnx.NodeProto]:
    """The DequantizeLinear of each constant weight and bias, by name."""
    stored = {t.name for t in model.graph.initializer}
    biases = {t.name for t in model.graph.initializer if t.data_type == onnx.TensorProto.INT32}
    dequantised = {n.output[0]: n for n in model.graph.node if n.op_type == "DequantizeLinear"}
    names = [i for n in model.graph.node if n.op_type in DOTS for i in n.input[1:3]]
    added = [i for n in model.graph.node if n.op_type == "Add" for i in n.input]  # to a MatMul
    names += [i for i in added if i in dequantised and dequantised[i].input[0] in biases]
    found = {name: dequantised[name] for name in names if name in dequantised}
    return {name: dq for name, dq in found.items() if dq.input[0] in stored}


def fewest_values(model: onnx.ModelProto) -> int:
    stored = {t.name: numpy_helper.to_array(t) for t in model.graph.initializer}
    weights = [stored[dq.input[0]] for dq in quantised_weights(model).values()]
    return min((np.unique(w).size for w in weights if w.dtype == np.int8), default=256)


def rounded(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with int8 weights scaled to -7 ... 7, and biases with them. Scales take a power of
    two, which is exact: a bias keeps the scale of its sums, or the layer would add it in floats."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    stored = {t.name: t for t in made.graph.initializer}
    for dq in quantised_weights(made).values():
        for value, factor in ((dq.input[0], 1 / STEP), (dq.input[1], STEP)):
            array = numpy_helper.to_array(stored[value])
            scaled = array * factor
            scaled = np.rint(scaled) if array.dtype.kind == "i" else scaled
            scaled = np.clip(scaled, -7, 7) if array.dtype == np.int8 else scaled
            stored[value].CopyFrom(numpy_helper.from_array(scaled.astype(array.dtype), value))
    return made


def measure(
    model: onnx.ModelProto, network: Network, core: str, optimize: str
) -> tuple[int, float, list[bytes]]:
    """(flash, millions of instructions, outputs)."""
    bundle = compile_modules([ModuleSpec(model, MODULE, core, optimize=optimize)])
    interface = read_interface(bundle, MODULE)
    elf = link_firmware(bundle, interface, board_of(core), optimise=OPTIMISE[optimize])
    result = run_on_board(elf, board_of(core), interface, [network.sample], repetitions=1)
    outputs = [v.tobytes() for v in result.outputs[0].values()]
    return footprint(elf).flash, result.figures["instructions"] / 1e6, outputs


if __name__ == "__main__":
    sys.exit(main())
