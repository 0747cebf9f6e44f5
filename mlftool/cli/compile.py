"""`mlftool compile MODEL.onnx -o OUT.tar`."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlftool.cli import tvmc_options
from mlftool.cli.inputs import add_input_value, parse_shapes, parse_values
from mlftool.cli.options import add_option, given_options
from mlftool.codegen.names import check_module_name
from mlftool.options import OPTIONS


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
    for asked in OPTIONS.values():
        if not asked.of_tvm:
            add_option(parser, asked)
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
    options = {**tvmc_options.spec_options(args), **given_options(args)}
    from mlftool.compile import ModuleSpec, compile_modules
    from mlftool.mlf import write_tar

    spec = ModuleSpec(
        args.model,
        args.module_name,
        input_shapes=shapes,
        input_values=parse_values(args.input_value),
        data_files=tuple(args.data),
        only_declared=args.only_declared,
        tuning=args.tuning,
        **options,
    )
    write_tar(compile_modules([spec]), args.output)
    return 0
