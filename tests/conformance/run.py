"""python -m tests.conformance.run [-k PATTERN]: backend cases as real C, under sanitizers.

python -m tests.conformance.run -k Relu        cases of an operator, or whose name matches
python -m tests.conformance.run                all, with a table of what is missing
python -m tests.conformance.run --update       write what became of each to expected.txt
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

from tests.conformance.expectations import expectations, write
from tests.conformance.outcome import run_cases
from tests.conformance.suite import load_suite, matching
from tests.conformance.trials import Outcome

ROOT = Path(__file__).parents[2]
CACHE = ROOT / "build" / "conformance"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.run", description=__doc__)
    parser.add_argument("-k", metavar="PATTERN", default="", help="operator or part of a name")
    parser.add_argument("-j", type=int, default=2, help="processes")
    parser.add_argument("--update", action="store_true", help="write expected.txt")
    parser.add_argument("--no-cache", action="store_true", help="compile and run everything anew")
    parser.add_argument("-q", action="store_true", help="totals only")
    args = parser.parse_args()
    cases = matching(args.k) if args.k else load_suite()

    def show(outcome: Outcome) -> None:
        if not args.q and (args.k or outcome.status in ("wrong", "crash")):
            print(f"{outcome.status:8}{outcome.name}  {outcome.reason}", flush=True)

    outcomes = run_cases(cases, args.j, None if args.no_cache else CACHE, show)
    if not args.k and not args.q:
        _table(outcomes)
    counts = Counter(o.status for o in outcomes)
    print(f"{len(outcomes)} cases: " + ", ".join(f"{n} {s}" for s, n in sorted(counts.items())))
    if args.update:
        _update(outcomes)


def _table(outcomes: list[Outcome]) -> None:
    reasons = Counter(
        re.sub(r"node '[^']*' \((\S+)\)", r"\1", re.sub(r"'[^()]*?'(?! \()", "'...'", o.reason))[
            :90
        ]
        for o in outcomes
        if o.status == "refused"
    )
    for reason, count in reasons.most_common(50):
        print(f"{count:5} {reason}")


def _update(outcomes: list[Outcome]) -> None:
    ran = {o.name for o in outcomes}
    lines = {n: line for n, line in expectations().items() if n not in ran}
    write(lines | {o.name: o.line for o in outcomes if o.status != "pass"})
    subprocess.run([sys.executable, ROOT / "tools" / "operators_doc.py"], check=True)


if __name__ == "__main__":
    main()
