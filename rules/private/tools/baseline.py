"""`baseline ROWS.json BASELINE.json TOLERANCE PATH LABEL [--update]`: measurements, then and now.

PATH is where the baseline lies in the workspace; `bazel run LABEL -- --update` writes it there.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

from mlftool.errors import CHECK_FAILED, ENVIRONMENT
from mlftool.mlf import write_atomically

# Of a report: what is the same whenever it is measured.
FIGURES = (
    "flash_bytes",
    "ram_bytes",
    "stack_bytes",
    "workspace_bytes",
    "constants_bytes",
    "instructions",
)
Table = Mapping[str, Mapping[str, int]]


def measured(rows: list[dict[str, str]]) -> Table:
    """Model and processor -> figure -> value, of those that were measured."""
    table = {}
    for row in rows:
        report = json.loads(Path(row["report"]).read_text())
        values = {name: report.get(name) for name in FIGURES}
        table[f"{row['title']} {row['cpu']}"] = {
            name: round(value) for name, value in values.items() if value is not None
        }
    return table


def changes(old: Table, new: Table, tolerance: float) -> Iterator[str]:
    """A line for each figure that differs by more than `tolerance` percent, either way."""
    for row in [*old, *(row for row in new if row not in old)]:
        if row not in new or row not in old:
            yield f"{row}: {'not measured any more' if row in old else 'not in the baseline'}"
            continue
        before, now = old[row], new[row]
        for name in FIGURES:
            a, b = before.get(name), now.get(name)
            if a == b:
                continue
            if a is None or b is None:
                yield f"{row}: {name}: {b or 'not measured'}, baseline {a or 'none'}"
            elif a == 0 or 100 * abs(b - a) / a > tolerance:
                share = f" ({100 * (b - a) / a:+.1f} %)" if a else ""
                yield f"{row}: {name}: {b:,}, baseline {a:,}{share}"


def main(arguments: list[str]) -> int:
    """Prints what changed; fails if anything did, or writes the new baseline."""
    rows, baseline, tolerance, path, label, *more = arguments
    new = measured(json.loads(Path(rows).read_text()))
    if more == ["--update"]:
        root = os.environ.get("BUILD_WORKSPACE_DIRECTORY")
        if not root:
            print(f"start it with: bazel run {label} -- --update", file=sys.stderr)
            return ENVIRONMENT
        write_atomically(Path(root) / path, (json.dumps(new, indent=2) + "\n").encode())
        print(f"{path} is written")
        return 0
    old: Table = json.loads(Path(baseline).read_text() or "{}")
    found = list(changes(old, new, float(tolerance)))
    for line in found:
        print(line)
    if found:
        print(f"to accept this: bazel run {label} -- --update")
    return CHECK_FAILED if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
