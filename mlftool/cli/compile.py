"""`mlftool compile MODEL.onnx -o OUT.tar`."""

from __future__ import annotations

import argparse
import importlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from mlftool.cli import tvmc_options
from mlftool.cli.inputs import add_inputs, given_inputs
from mlftool.cli.options import add_compile_options, check_outputs, compile_options, natural
from mlftool.cli.terminal import as_json, printed, terminal_of
from mlftool.codegen.names import check_module_name, module_name_of
from mlftool.errors import one_line
from mlftool.sizes import in_bytes
from mlftool.width import folded

HELP = "compile a model to an MLF archive, or to a shared library"
GROUP = "make"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", metavar="MODEL.onnx", type=Path)
    parser.add_argument("-o", "--output", metavar="OUT.tar", type=Path, required=True)
    parser.add_argument(
        "--module-name",
        metavar="NAME",
        help="part of every C symbol, as in tvmgen_NAME_run (the name of MODEL.onnx)",
    )
    parser.add_argument(
        "--target",
        default="host",
        help="a short name, or TVM's string: 'llvm -mcpu=cortex-m4' gives object files",
    )
    add_inputs(parser)
    add_compile_options(parser)
    parser.add_argument(
        "--only-declared",
        action="store_true",
        help="for build systems: read external data from the --data files only, print no summary",
    )

    parser.add_argument(
        "--json", action="store_true", help="print the summary and what backends compute, as JSON"
    )
    parser.add_argument(
        "--max-seconds",
        type=natural,
        metavar="N",
        help="stop after this processor time (20, and more for large models; 0: no limit)",
    )
    parser.add_argument(
        "--max-memory",
        type=natural,
        metavar="MIB",
        help="stop at this memory (2048, and 24 times the model; 0: no limit)",
    )
    parser.add_argument(
        "--params-bson",
        action="store_true",
        help="write parameters as BSON, too, for the graph executor; needs pymongo",
    )
    tvmc_options.add_arguments(parser)


def run(args: argparse.Namespace) -> int:
    name = module_name_of(args.model) if args.module_name is None else args.module_name
    check_module_name(name)
    options = {**tvmc_options.spec_options(args), **compile_options(args)}
    # By name, so that builds of archives do not depend on what makes libraries.
    library = importlib.import_module("mlftool.cli.library") if args.output_format == "so" else None
    if library:
        library.check_name(args.output)
    from mlftool.compile import ModuleSpec, compile_specs
    from mlftool.describe import bundle
    from mlftool.limits import bounded
    from mlftool.mlf import write_tar
    from mlftool.mlf.bson import with_bson
    from mlftool.mlf.layout import Layout
    from mlftool.mlf.records import FULL_MODEL

    spec = ModuleSpec(
        args.model,
        name,
        **given_inputs(args, tvmc_options.shapes_of(args.input_shapes)),
        only_declared=args.only_declared,
        **options,
    )
    check_outputs(args, args.output)
    with bounded(args.model, args.data, args.max_seconds, args.max_memory):
        modules = compile_specs([spec])
        made = bundle(modules)
        made = with_bson(made) if args.params_bson else made
    member = f"executor-config/{spec.executor}/{name}.json"
    about = json.loads(made.text(Layout(spec.mlf_version, FULL_MODEL).name(member, name)))
    if args.json:
        printed(as_json(**to_json(args, about)))
    else:
        reports = (m.report for m in modules if m.report)
        printed(*(folded("\n".join(report.lines())) for report in reports))
    if library:
        library.write_library(made, str(args.model), args.output)
    else:
        write_tar(made, args.output)
    terminal_of(args).show(remark for m in modules for remark in m.imported.remarks)
    if not (args.json or args.quiet or args.only_declared):
        print(folded(summary(args, about)), file=sys.stderr)
    return 0


def in_bands(runs: Sequence[str]) -> str:
    """What is said of runs of layers that are computed in bands of rows; "" if there are none."""
    named = ", ".join(f"'{one_line(run)}'" for run in runs)
    return f", {named} in bands of rows" if runs else ""


def to_json(args: argparse.Namespace, about: Mapping[str, Any]) -> dict[str, Any]:
    """The summary for scripts, and what backends compute; new versions only add keys."""
    from mlftool.backends.report import Report

    keys = ("module", "target", "executor", "macs", "constants_bytes", "workspace_bytes")
    return {
        "file": str(args.model),
        "output": str(args.output),
        **{key: about[key] for key in keys},
        "layers": len(about["nodes"]),
        "io_bytes": _ends(about),
        "state_bytes": about.get("state_bytes", 0),
        **(about.get("backends") or Report(()).to_json()),
    }


def _ends(about: Mapping[str, Any]) -> int:
    """Bytes of inputs and outputs."""
    return sum(t["size_bytes"] for t in (*about["inputs"], *about["outputs"]))


def summary(args: argparse.Namespace, about: Mapping[str, Any]) -> str:
    """What was made, in five lines or, with a state, six; `about` is the archive's description of
    the module."""
    from mlftool.describe import bands_of

    bands = in_bands(bands_of(about))
    peak = max(about["memory"]["pools"], key=lambda p: p["size_bytes"], default={"peak_node": ""})
    has_peak = peak["peak_node"] and about["workspace_bytes"]
    at = f", most of it at '{one_line(peak['peak_node'])}'" if has_peak else ""
    kept = about.get("state_bytes", 0)
    name = about["module"]  # what calls the kernels of a graph is in the C runtime
    entry = f"module {name}" if about["executor"] == "graph" else f"tvmgen_{name}_run"
    made = f"{args.model.name} -> {args.output}: {entry} for {about['target']}"
    return "\n".join(
        [
            f"{one_line(made)}, executor {about['executor']}",
            f"  layers              {len(about['nodes']):,}, {about['macs']:,} multiplications",
            f"  weights             {in_bytes(about['constants_bytes'])}",
            f"  workspace           {in_bytes(about['workspace_bytes'])}{at}{bands}",
            f"  inputs and outputs  {in_bytes(_ends(about))}",
            *([f"  state               {in_bytes(kept)}"] if kept else []),
        ]
    )
