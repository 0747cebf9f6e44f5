"""A board on a line, at length: calls, bytes, damaged bytes, resets and hosts that disappear.

    python benchmarks/rpc_line.py --board mps2_an386 --calls 10000 --bytes 1000000 --faults 1000
    python benchmarks/rpc_line.py --network kws_int8.onnx

The first drives the example network on a simulated board's UART, or with `--board host` in a
program of this computer, and fails unless each call and byte is right and each fault ends in the
right result or a named error, with a next session that works. The second prints what driving a
network over a pipe takes beside its run time, and how many writes a frame takes.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "support")]

from rpc_line import MODEL, built, calls, copied, faults, overhead  # noqa: E402

from mlftool.micro.transport import TransportTimeouts  # noqa: E402
from mlftool.runtime.boards import find  # noqa: E402


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    add = parser.add_argument
    add("--board", default="host", help="a simulated board, or host")
    add("--calls", type=int, default=0)
    add("--bytes", type=int, default=0)
    add("--faults", type=int, default=0)
    add("--network", type=Path, help="a model whose overhead over a pipe is printed")
    args = parser.parse_args(argv)
    board = None if args.board == "host" else find(args.board)
    if args.calls or args.bytes or args.faults:
        interface, line = built(MODEL, board)
        begin = time.monotonic()
        if args.calls:
            print(f"{calls(line, args.calls):,} calls, none lost: {_since(begin)}", flush=True)
        begin = time.monotonic()
        if args.bytes:
            print(f"{copied(line, args.bytes):,} bytes there and back: {_since(begin)}", flush=True)
        begin = time.monotonic()
        if args.faults:
            wait = 0.05 if board is None else 1.0
            limits = TransportTimeouts(wait, 20, wait)
            found = Counter[str]()
            # Most of a fault is silence, a second or two: a run that is stopped has figures, too.
            for done in range(0, args.faults, 100):
                count = min(100, args.faults - done)
                found += faults(line, interface, count, limits, seed=7 + done)
                ends = ", ".join(f"{name} {n:,}" for name, n in sorted(found.items()))
                print(f"{done + count:,} faults: {ends}: {_since(begin)}", flush=True)
    if args.network:
        run, beside, writes = overhead(args.network)
        print(f"{args.network.stem}: {run:.3f} ms run time, {median(beside):.3f} ms beside it")
        print(f"{writes:g} writes for a frame")
    return 0


def _since(begin: float) -> str:
    return f"{time.monotonic() - begin:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
