"""`mlftool compile MODEL.onnx -o OUT.tar`."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlftool.cli import tvmc_options
from mlftool.cli.inputs import add_input_value, parse_shapes, parse_values
from mlftool.codegen.names import check_module_name


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL.onnx", type=Path)
    parser.add_argument("-o", "--output", metavar="OUT.tar", type=Path, required=True)
    parser.add_argument("--module-name", default="default", help="prefix of every C symbol")
    parser.add_argument(
        "--target",
        default="host",
        help="a short name, or TVM's words: 'llvm -mcpu=cortex-m4' gives object files",
    )
    parser.add_argument(
        "--input-shape",
        action="append",
        default=[],
        metavar="NAME:1,3,32,32",
        help="bind an input's symbolic dimensions, or say how large a tensor whose shape is "
        "computed gets at most; repeatable",
    )
    add_input_value(parser)
    parser.add_argument(
        "--workspace-io",
        action="store_true",
        help="inputs and outputs live in the workspace and share its memory",
    )
    parser.add_argument(
        "--float-mode",
        choices=["exact", "fused"],
        default="exact",
        help="fused: products are added with one rounding (fmaf), faster where the FPU can",
    )
    parser.add_argument(
        "--weights",
        choices=["auto", "text", "binary"],
        default="auto",
        help="binary: in a file that the assembler reads (gcc and clang only); text: C arrays; "
        "auto: binary from 4 MiB on",
    )
    parser.add_argument(
        "--optimize",
        choices=["speed", "size"],
        help="size: one C function for all layers of a kind; compile it with -Os (speed)",
    )
    parser.add_argument(
        "--pool",
        action="append",
        default=[],
        metavar="NAME=BYTES[@SECTION]",
        help="a memory to work in, fastest first: the module's array in SECTION, or the caller's",
    )
    parser.add_argument(
        "--patches",
        default="off",
        metavar="off|auto|N",
        help="compute the first layers in N bands of rows: less memory, some rows twice",
    )
    parser.add_argument(
        "--tuning",
        metavar="RECORD.json",
        type=Path,
        help="take the kernels that `mlftool tune` measured to be best",
    )
    parser.add_argument(
        "--data",
        action="append",
        default=[],
        metavar="FILE",
        type=Path,
        help="an external data file of the model that may be a link; repeatable",
    )
    parser.add_argument(
        "--only-declared",
        action="store_true",
        help="read external data from the --data files only, for build systems",
    )

    tvmc_options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    check_module_name(args.module_name)
    shapes = parse_shapes([*args.input_shape, *tvmc_options.shapes_of(args.input_shapes)])
    options = tvmc_options.spec_options(args)
    from mlftool.compile import ModuleSpec, compile_modules
    from mlftool.mlf import write_tar

    spec = ModuleSpec(
        args.model,
        args.module_name,
        input_shapes=shapes,
        input_values=parse_values(args.input_value),
        data_files=tuple(args.data),
        only_declared=args.only_declared,
        float_mode=args.float_mode,
        pools=tuple(args.pool),
        patches=args.patches,
        tuning=args.tuning,
        weights=args.weights,
        **options,
    )
    write_tar(compile_modules([spec]), args.output)
    return 0
