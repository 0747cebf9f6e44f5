"""What the models cost: one command, one table.

    python benchmarks/bench.py [--models DIR] [--boards cortex-m4,...] [--float-mode fused]
                               [--optimize size] [--patches auto] [--no-host]
                               [--markdown FILE] [NAME ...]

For every model of --models (default: MLFTOOL_SHARED_MODELS, else ../shared/models) and of
examples/models: seconds to an archive; flash, arena and stack bytes and exact instructions per
inference on each simulated board; microseconds on this computer beside onnxruntime with one thread,
both measured in this run, in turns. Instructions are counted by QEMU (-icount), never cycles.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np
import onnx

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from mlftool.codegen.share import TABLES  # noqa: E402
from mlftool.compile import Module, ModuleSpec, compile_module, compile_modules  # noqa: E402
from mlftool.describe import bundle as bundle_of  # noqa: E402
from mlftool.errors import MlfError  # noqa: E402
from mlftool.mlf import tar_bytes  # noqa: E402
from mlftool.runtime.boards import BOARDS  # noqa: E402
from mlftool.runtime.host import build_runner  # noqa: E402
from mlftool.runtime.interface import read_interface  # noqa: E402
from mlftool.runtime.link import footprint, link_firmware  # noqa: E402
from mlftool.runtime.runner import run_on_board, run_on_host  # noqa: E402
from mlftool.runtime.vectors import load_vectors, samples_of  # noqa: E402

OPTIMISE = {"speed": "-O3", "size": "-Os"}
Asked = Mapping[str, str]  # fields of ModuleSpec
ROUNDS = 5  # turns taken by us and by onnxruntime
HOST_TARGETS = ("host", "x86-64-v4")

# Millions of instructions on Cortex-M4, the best of all peers there: TensorFlow Lite Micro with
# CMSIS-NN for int8; for float the lowest of TFLM, onnx2c, emx-onnx-cgen and microTVM, whole
# inference. Source: the project's performance anchors, measured with gcc 12 -O3 in the same way.
PEERS_M4 = {
    "kws_int8": 7.42, "vww_int8": 23.44, "ic_int8": 28.62, "ad_int8": 0.574,
    "kws_fp32": 15.58, "vww_fp32": 46.91, "ic_fp32": 59.03, "ad_fp32": 1.177,
}  # fmt: skip
# Bytes alive at the worst step, inputs and outputs included, nothing in place: same source.
LIVENESS = {
    "kws_int8": 16000, "vww_int8": 55296, "ic_int8": 49152, "ad_int8": 768,
    "kws_fp32": 64000, "vww_fp32": 221184, "ic_fp32": 196608, "ad_fp32": 3072,
}  # fmt: skip


@dataclass
class Row:
    """One model's figures; a board that cannot hold the model has a reason instead of a number."""

    name: str
    compile_seconds: float = 0.0
    weights: int = 0
    arena: int = 0
    code: int = 0
    own: int = 0
    stack: int = 0
    instructions: dict[str, str] = field(default_factory=dict)
    host: dict[str, float] = field(default_factory=dict)  # target -> time / onnxruntime's
    onnxruntime_us: float = 0.0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=None)
    parser.add_argument("--boards", default=",".join(BOARDS))
    parser.add_argument("--markdown", type=Path, help="also write the table as a page")
    parser.add_argument("--float-mode", choices=["exact", "fused"], default="exact")
    parser.add_argument("--optimize", choices=["speed", "size"], default="speed")
    parser.add_argument("--patches", default="off", metavar="off|auto|N")
    parser.add_argument("--no-host", action="store_true", help="leave out the timed part")
    parser.add_argument("names", nargs="*", metavar="NAME")
    args = parser.parse_args(argv)
    asked = {"float_mode": args.float_mode, "optimize": args.optimize, "patches": args.patches}
    rows = []
    for model in models(args.models, args.names):
        print(f"measuring {model.stem} ...", file=sys.stderr, flush=True)
        rows.append(measure(model, args.boards.split(","), not args.no_host, asked))
    text = table(rows, args.boards.split(","))
    print(text)
    if args.markdown:
        args.markdown.write_text(page(text), encoding="utf-8")
    return 0


def models(folder: Path | None, names: Sequence[str]) -> Iterator[Path]:
    """The benchmark models, then the project's own; each has vectors beside it."""
    shared = folder or Path(os.environ.get("MLFTOOL_SHARED_MODELS", ROOT.parent / "shared/models"))
    if not shared.is_dir():
        print(f"no models in {shared}: measuring the examples only", file=sys.stderr)
    for where in (shared, ROOT / "examples" / "models"):
        for path in sorted(where.glob("*.onnx")):
            if not names or path.stem in names:
                yield path


def measure(model: Path, boards: Sequence[str], host: bool, asked: Asked) -> Row:
    """All figures of one model."""
    row = Row(model.stem)
    start = time.perf_counter()
    bundle = compile_modules([ModuleSpec(model, "bench", "cortex-m4", **asked)])
    tar_bytes(bundle)
    row.compile_seconds = time.perf_counter() - start
    interface = read_interface(bundle, "bench")
    vectors = load_vectors(model.with_suffix(".npz"))
    samples = samples_of(vectors, interface.inputs, "bench")[:1]
    row.weights = interface.constants_bytes
    row.arena = interface.workspace_bytes
    for board in boards:
        row.instructions[board] = on_board(model, board, samples, row, asked)
    if host:
        on_host(model, samples, row, asked)
    return row


def on_board(
    model: Path, board: str, samples: Sequence[dict[str, np.ndarray]], row: Row, asked: Asked
) -> str:
    """Millions of instructions per inference, or why there are none."""
    module = compile_module(ModuleSpec(model, "bench", board, **asked))
    bundle = bundle_of([module])
    interface = read_interface(bundle, "bench")
    try:
        elf = link_firmware(bundle, interface, BOARDS[board], optimise=OPTIMISE[asked["optimize"]])
    except MlfError:
        return "too large"
    result = run_on_board(elf, BOARDS[board], interface, samples, repetitions=1)
    if board == "cortex-m4":
        row.code = footprint(elf).flash - interface.constants_bytes
        weights = interface.constants_bytes - table_bytes(module)
        row.own = footprint(elf).flash - flash_without_model(asked) - weights
        row.stack = int(result.figures["stack_bytes"])
    return f"{result.figures['instructions'] / 1e6:.3f}"


def table_bytes(module: Module) -> int:
    """Constants that stand for code: the numbers that functions of several layers are passed."""
    tables = {
        o.array.tobytes()
        for call in module.program.calls
        for o in call.kernel.operands
        if o.name in TABLES and o.array is not None
    }
    return sum(map(len, tables))


@cache
def _flash_of_nothing(optimize: str) -> int:
    node = onnx.helper.make_node("Relu", ["x"], ["y"])
    x, y = (onnx.helper.make_tensor_value_info(n, 1, [1]) for n in "xy")
    model = onnx.helper.make_model(onnx.helper.make_graph([node], "nothing", [x], [y]))
    bundle = compile_modules([ModuleSpec(model, "bench", "cortex-m4")])
    interface = read_interface(bundle, "bench")
    elf = link_firmware(bundle, interface, BOARDS["cortex-m4"], optimise=OPTIMISE[optimize])
    return footprint(elf).flash


def flash_without_model(asked: Asked) -> int:
    """The test firmware around a single Relu: startup, semihosting and the test runner."""
    return _flash_of_nothing(asked["optimize"])


def on_host(model: Path, samples: Sequence[dict[str, np.ndarray]], row: Row, asked: Asked) -> None:
    """Fastest of several turns each, ours and onnxruntime's, as a ratio."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    session = onnxruntime.InferenceSession(str(model), options)
    programs = {}
    for target in HOST_TARGETS:
        bundle = compile_modules([ModuleSpec(model, "bench", target, **asked)])
        interface = read_interface(bundle, "bench")
        programs[target] = (
            build_runner(bundle, interface, optimise=OPTIMISE[asked["optimize"]]),
            interface,
        )
    best = dict.fromkeys((*HOST_TARGETS, "onnxruntime"), float("inf"))
    for _ in range(ROUNDS):
        for target, (program, interface) in programs.items():
            result = run_on_host(program, interface, samples, repetitions=50)
            best[target] = min(best[target], result.figures["microseconds"])
        for _ in range(50):
            start = time.perf_counter()
            session.run(None, samples[0])
            best["onnxruntime"] = min(best["onnxruntime"], (time.perf_counter() - start) * 1e6)
    row.onnxruntime_us = best["onnxruntime"]
    row.host = {t: best[t] / best["onnxruntime"] for t in HOST_TARGETS}


def table(rows: Sequence[Row], boards: Sequence[str]) -> str:
    """A Markdown table that also reads well in a terminal."""
    heads = [
        "model",
        "compile s",
        "weights B",
        "arena B",
        "liveness B",
        "code B",
        "own code B",
        "stack B",
    ]
    heads += [f"{b} M instr" for b in boards] + ["best peer, M4"]
    heads += [f"{t} / ort" for t in HOST_TARGETS] + ["ort us"]
    body = []
    for r in rows:
        line = [r.name, f"{r.compile_seconds:.2f}", str(r.weights), str(r.arena)]
        line += [str(LIVENESS.get(r.name, "-")), str(r.code), str(r.own), str(r.stack)]
        line += [r.instructions[b] for b in boards] + [str(PEERS_M4.get(r.name, "-"))]
        line += [f"{r.host[t]:.2f}" if r.host else "-" for t in HOST_TARGETS]
        body.append([*line, f"{r.onnxruntime_us:.0f}" if r.host else "-"])
    widths = [max(len(line[k]) for line in (heads, *body)) for k in range(len(heads))]
    lines = [heads, ["-" * w for w in widths], *body]
    return "\n".join(
        "| " + " | ".join(cell.rjust(w) for cell, w in zip(line, widths, strict=True)) + " |"
        for line in lines
    )


def page(text: str) -> str:
    return f"""# Measured

Printed by `python benchmarks/bench.py --markdown docs/benchmarks.md`; nothing here is typed.

{text}

- *arena*: the workspace; inputs and outputs are the caller's. *liveness*: bytes alive at the
  worst step with inputs and outputs and nothing in place, the bound other planners are measured by.
- *code*: flash of the whole Cortex-M4 test firmware beside the weights, so with startup,
  semihosting and the test runner. *own code*: what the model adds to that beside its weights.
  *stack*: painted high water of one inference on Cortex-M4.
- *M instr*: millions of instructions of one inference, counted exactly by QEMU; gcc -O3, with
  `--optimize size` gcc -Os.
- *best peer, M4*: the fewest any of TensorFlow Lite Micro with CMSIS-NN, onnx2c, emx-onnx-cgen and
  microTVM needs for the network on Cortex-M4, counted the same way (a constant in the script).
- *host / ort*: our time over onnxruntime's (one thread, default settings), fastest of
  {ROUNDS} turns each in this run; below 1 we are faster. *ort us*: onnxruntime's microseconds here.
"""


if __name__ == "__main__":
    sys.exit(main())
