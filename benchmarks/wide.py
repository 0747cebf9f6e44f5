"""What activations of 16 bits cost: float networks quantised with int8 and with int16 activations.

    python benchmarks/wide.py [--models DIR] [--core CORE ...] [NAME ...]

onnxruntime's quantiser makes both, with weights of int8, one scale for each channel and the same
calibration. Channels without effect are kept, since only networks of bytes lose them. Instructions
are counted by QEMU; the last column is how much more of them int16 takes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import onnx
from corpus import Network, networks
from device import CORES, MODULE, OPTIMISE, board_of
from onnxruntime.quantization import QuantFormat, QuantType
from quantiser import quantised

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

NAMES = ("ad_fp32", "ic_fp32", "kws_fp32", "vww_fp32")
SHORT = ("cortex-m4",)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=Path, default=None)
    parser.add_argument("--core", choices=sorted(CORES), action="append")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args(argv)
    print("| network | core | M instructions, int8 | int16 | times |")
    print("|---|---|---|---|---|")
    for network in networks(args.models, args.names or NAMES):
        narrow, wide = (made(network, kind) for kind in (QuantType.QInt8, QuantType.QInt16))
        for core in args.core or SHORT:
            few, many = (count(model, network, core) for model in (narrow, wide))
            name = network.name.removesuffix("_fp32")
            print(f"| {name} | {core} | {few:.3f} | {many:.3f} | {many / few:.2f} |", flush=True)
    return 0


def made(network: Network, activations: QuantType) -> onnx.ModelProto:
    return quantised(network.model, QuantFormat.QDQ, True, activations)


def count(model: onnx.ModelProto, network: Network, core: str) -> float:
    """Millions of instructions of one inference."""
    spec = ModuleSpec(model, MODULE, core, disabled_pass=("drop_constant_channels",))
    bundle = compile_modules([spec])
    interface, board = read_interface(bundle, MODULE), board_of(core)
    elf = link_firmware(bundle, interface, board, optimise=OPTIMISE["speed"])
    result = run_on_board(elf, board, interface, [network.sample], repetitions=1)
    return float(result.figures["instructions"]) / 1e6


if __name__ == "__main__":
    sys.exit(main())
