"""python -m tests.proof.networks --count 300: random networks compiled for many processors.

Each compile proves its plan and its C; then the archive's certificate is checked again. Nothing is
built or run: tests/random does that.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / p) for p in ("", "tests/proof", "tests/random", "tests/support")]

from campaign import OWN  # noqa: E402
from campaign import network as network_of  # noqa: E402
from machine import FIRST, WAYS  # noqa: E402

from mlftool.compile import ModuleSpec, compile_modules  # noqa: E402
from mlftool.errors import MlfError  # noqa: E402
from mlftool.mlf import Bundle, archive  # noqa: E402
from mlftool.proof import certificate  # noqa: E402

PROCESSORS = ("host", "x86-64-v3", "cortex-m0", "cortex-m4", "cortex-m55", "rv32imc")
EXECUTORS: tuple[Mapping[str, Any], ...] = (
    {"executor": "aot"},
    {"executor": "graph"},
    {"executor": "vm"},
    {"executor": "aot", "interface_api": "packed"},
    {"executor": "graph", "link_params": True},
)
MINE = ("MLF0900", "MLF0510")


def findings(seed: int, first: int, count: int, made: Counter[str]) -> Iterator[str]:
    """What is wrong, a line each; `made` counts archives and refusals."""
    for k in range(first, first + count):
        network = network_of(seed, k, sorted(OWN)[k % len(OWN)])
        if not network.operators:
            continue
        made["networks"] += 1
        for n, processor in enumerate(PROCESSORS):
            way = (FIRST, *WAYS)[n and (k + n) % (1 + len(WAYS))]
            asked = EXECUTORS[k % len(EXECUTORS)] if way is FIRST else EXECUTORS[0]
            asked = {**asked, **way.options, "target": processor}
            spec = ModuleSpec(network.model, "m", verify=True, **asked)
            try:
                bundle = compile_modules([spec])
            except MlfError as error:
                made["refused"] += 1
                if any(p.code in MINE for p in error.problems):
                    yield f"{network.name}, {processor}, {way.name}: {error}"
                continue
            made["archives"] += 1
            for text in _again(bundle.files, asked["executor"]):
                yield f"{network.name}, {processor}, {way.name}: {text}"


def _again(files: Mapping[str, bytes], executor: str) -> Iterator[str]:
    """What does not hold of an archive's certificate."""
    record = archive.read(Bundle(files))
    module = record.modules[0]
    own = certificate.path(executor, module.name)
    read = certificate.decode(module.files[own], "", own)
    yield from certificate.faults(read, module, record.shared)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.proof.networks", description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="networks (300)")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="a new one each time")
    args = parser.parse_args()
    made: Counter[str] = Counter()
    wrong = 0
    for text in findings(args.seed, 0, args.count, made):
        wrong += 1
        print(text, flush=True)
    print(f"seed {args.seed}: {dict(made)}, {wrong} findings")
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
