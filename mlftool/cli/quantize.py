"""`mlftool quantize MODEL.onnx --data SAMPLES.npz -o OUT.onnx`."""

from __future__ import annotations

import argparse
from pathlib import Path

from mlftool.cli.inputs import add_inputs, given_inputs
from mlftool.cli.options import check_outputs, positive
from mlftool.cli.terminal import as_json, printed
from mlftool.errors import MlfError, Problem
from mlftool.options import METRICS, Goal
from mlftool.sizes import bytes_of
from mlftool.width import folded, within

HELP = "quantise a float ONNX model within limits of accuracy and flash"
GROUP = "make"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("model", metavar="MODEL.onnx", type=Path)
    add("--data", metavar="SAMPLES.npz", type=Path, required=True,
        help="samples of inputs by name; 'labels' or expected outputs for accuracy")  # fmt: skip
    add("-o", "--output", metavar="OUT.onnx", type=Path, required=True)
    add("--test", metavar="TEST.npz", type=Path, help="other samples to measure accuracy on")
    add(
        "--metric",
        choices=tuple(METRICS),
        help="the metric of accuracy (top1 with labels, else agreement)",
    )
    add("--at-least", metavar="VALUE", type=accuracy,
        help="the accuracy to keep, such as 97%% or 30 dB of sqnr; of mse at most this "
        "(0.3 points below the float model's)")  # fmt: skip
    add("--flash", metavar="SIZE", type=size, help="the limit for constants, such as 64KiB")
    add(
        "--target",
        metavar="T",
        default="cortex-m4",
        help="the target whose costs are used (cortex-m4)",
    )
    add("--optimize", choices=("speed", "size"), default="speed",
        help="as in compile; with size, 4-bit weights take half a byte (speed)")  # fmt: skip
    add("--samples", metavar="N", type=positive, default=64,
        help="samples for calibration (64)")  # fmt: skip
    add("--simulate", action="store_true",
        help="measure accuracy without a C compiler, by onnxruntime")  # fmt: skip
    add("--model-data", metavar="FILE", type=Path, action="append", default=[],
        help="an external data file of the model that may be a link; repeatable")  # fmt: skip
    add(
        "--report",
        metavar="FILE",
        type=Path,
        help="write the report to FILE, as JSON if its name ends in .json",
    )
    add("--json", action="store_true", help="print the report as JSON")
    add_inputs(parser)


def accuracy(text: str) -> Goal:
    """97%, 0.97, 30 or 30dB."""
    return Goal.of(text)


def size(text: str) -> int:
    """65536, 64KiB, 64kB, 1MiB, 1MB."""
    found = bytes_of(text)
    if found is None:
        raise ValueError(text)
    return found


def run(args: argparse.Namespace) -> int:
    goal = args.at_least
    if goal is not None and (expected := goal.misfit(args.metric)):
        of = f" of {args.metric}" if args.metric else ""
        raise MlfError(Problem("MLF0400", f"--at-least {goal}: expected {expected}{of}"))
    from mlftool.frontends.given import with_values
    from mlftool.frontends.load import load_model
    from mlftool.frontends.models import TFLite, opened
    from mlftool.mlf import write_atomically
    from mlftool.quantize import report
    from mlftool.quantize.quantizer import Request, quantized
    from mlftool.runtime.vectors import load_vectors

    check_outputs(args, args.output, args.report)
    source = opened(args.model)
    if isinstance(source, TFLite):
        text = "is a TensorFlow Lite model; only ONNX models are quantised"
        help = "quantise it with TensorFlow's converter, or export the model as ONNX"
        raise MlfError(Problem("MLF0413", text, str(args.model), help=help))
    given = given_inputs(args)
    model = load_model(source, args.model_data)
    values, shapes = given["input_values"], given["input_shapes"]
    model = with_values(model, values, shapes, str(args.model))
    request = Request(
        *(
            str(args.model),
            str(args.data),
            args.target,
            args.metric,
            goal and goal.value,
            args.flash,
        ),
        *(args.optimize, args.samples, shapes, not args.simulate),
    )
    test = (load_vectors(args.test), str(args.test)) if args.test else None
    made = quantized(model, load_vectors(args.data), request, test)
    data = as_json(**report.to_json(made))
    if args.json or not args.report:
        printed(data if args.json else folded(report.text(made, str(args.output))))
    write_atomically(args.output, made.model.SerializeToString(deterministic=True))
    if args.report:
        with within(0):
            text = report.text(made, str(args.output))
        said = data if args.report.suffix == ".json" else text
        write_atomically(args.report, f"{said}\n".encode())
    return 0
