"""python -m tests.random.run --count N --seed S: random networks against onnxruntime.

Each network is compiled in several ways, run under sanitizers, some on a simulated Cortex-M4, and
compared: with onnxruntime, and bit for bit among the ways. Findings are made small and written to
build/random/SEED, with their numbers, so that a network can be grown again. A run that was ended
goes on where it was when it is given the same seed again.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "tests/random"), str(ROOT / "tests/support")]

import numpy as np  # noqa: E402
import onnx  # noqa: E402
from campaign import KINDS, Tally, campaign, smallest  # noqa: E402
from kernels import missing  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.random.run", description=__doc__)
    parser.add_argument("--count", type=int, default=1000, help="networks (1000)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="a new one each time")
    parser.add_argument("--board", type=int, default=4, help="one in N on a board (4; 0: none)")
    parser.add_argument("--menu", choices=KINDS, default="all", help="what networks consist of")
    parser.add_argument("--folder", type=Path, default=ROOT / "build" / "random")
    parser.add_argument("--forced", action="store_true", help="every kernel of each, on a board")
    parser.add_argument("--no-shrink", action="store_true", help="leave findings as they are")
    args = parser.parse_args()
    folder = args.folder / (
        str(args.seed) + (f"_{args.menu}" if args.menu != "all" else "") + "_forced" * args.forced
    )
    folder.mkdir(parents=True, exist_ok=True)
    state = folder / "done.json"
    done = json.loads(state.read_text()) if state.is_file() else {"next": 0, "findings": 0}
    print(f"seed {args.seed}, from network {done['next']} on", flush=True)
    began, written = time.monotonic(), 0

    def tell(tally: Tally, upto: int) -> None:
        nonlocal written
        for finding in tally.findings[written:]:
            small = finding if args.no_shrink else smallest(finding)
            name = f"{finding.network.name}_{finding.kind}_{written}"
            onnx.save(small.network.model, folder / f"{name}.onnx")
            np.savez(folder / f"{name}.npz", **small.network.feeds[0])
            (folder / f"{name}.txt").write_text(f"{finding}\n\n{small}\n")
            print(finding, f"  smallest: {small}", sep="\n", flush=True)
            written += 1
        print(f"{upto}: {tally}, {time.monotonic() - began:.0f} s", flush=True)
        found = done["findings"] + len(tally.findings)
        state.write_text(json.dumps({"next": upto, "findings": found}))

    left = args.count - done["next"]
    tally = campaign(
        *(args.seed, done["next"], max(0, left), args.board, tell),
        kind=args.menu,
        forced=args.forced,
    )
    if args.menu == "shapes":
        print(f"{len(tally.kernels)} kernels; never chosen:", *missing(tally.kernels))
    return int(json.loads(state.read_text())["findings"] > 0) if state.is_file() else 0


if __name__ == "__main__":
    sys.exit(main())
