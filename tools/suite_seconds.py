#!/usr/bin/env python3
"""What the tests took: tools/suite_seconds.py, after ./bazelw test //...

For each target its shards, the processor seconds of pytest and of the programs that it started, and
the most that a shard took of both. They hardly depend on what else the machine does. The servers of
Bazels that tests start are no test's children and have a column of their own: those that
//tests:bazel ends itself, with the actions that they ran.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

LOGS = Path(__file__).parents[1] / "bazel-testlogs"
LINE = re.compile(r"^processor seconds: ([\d.]+) here, ([\d.]+) in programs$", re.MULTILINE)
SERVERS = re.compile(r"^processor seconds: ([\d.]+) in servers$", re.MULTILINE)
LIMIT = 90  # of a shard


def measured(logs: Path) -> dict[str, list[tuple[float, float, float]]]:
    """Target -> for each of its shards the seconds of pytest, of programs and of servers."""
    found: dict[str, list[tuple[float, float, float]]] = {}
    for log in sorted(logs.rglob("test.log")):
        text = log.read_text(encoding="utf-8", errors="replace")
        seconds = LINE.findall(text)
        if seconds:
            parts = [p for p in log.relative_to(logs).parts[:-1] if not p.startswith("shard_")]
            here, programs = map(float, seconds[-1])
            servers = sum(map(float, SERVERS.findall(text)))
            found.setdefault("/".join(parts), []).append((here, programs, servers))
    return found


def longest(shards: list[tuple[float, float, float]]) -> float:
    """Of pytest and programs together."""
    return max(here + programs for here, programs, _ in shards)


def main() -> int:
    found = measured(LOGS)
    if not found:
        print(f"{LOGS} has no log of a test; run ./bazelw test //... first", file=sys.stderr)
        return 2
    print(
        f"{'target':30}{'shards':>7}{'pytest':>9}{'programs':>9}{'servers':>9}{'longest':>9}",
    )
    whole = (sum(s[k] for shards in found.values() for s in shards) for k in range(3))
    for name, shards in sorted(found.items(), key=lambda item: -sum(map(sum, item[1]))):
        sums = "".join(f"{sum(s[k] for s in shards):9.1f}" for k in range(3))
        print(f"{name:30}{len(shards):7}{sums}{longest(shards):9.1f}")
    print("all:{:42.1f}{:9.1f}{:9.1f}".format(*whole))
    slow = [name for name, shards in found.items() if longest(shards) > LIMIT]
    if slow:
        print(f"more than {LIMIT} s in a shard of: {', '.join(slow)}", file=sys.stderr)
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())
