"""`baseline ROWS BASELINE TOLERANCE PATH LABEL [--update | --markdown[=FILE]]`: then and now.

PATH is the baseline's path in the workspace; `bazel run LABEL -- --update` writes it there.
With `--markdown` the changes are a table for a review, whatever they are.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mlftool.errors import CHECK_FAILED, exits
from rules.private.tools import forms

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


def figures(report: Mapping[str, Any]) -> dict[str, int]:
    """Those of a report that were measured."""
    values = {name: report.get(name) for name in FIGURES}
    return {name: round(value) for name, value in values.items() if value is not None}


def of_program(title: str, sizes: Mapping[str, Any]) -> Table:
    """A row for a program and one for each model in it, from what size.py writes."""
    models = {
        f"{title} {row['module']}": {**row, "workspace_bytes": row["arena_bytes"]}
        for row in sizes["models"]
    }
    return {name: figures(row) for name, row in {title: sizes["total"], **models}.items()}


def measured(rows: Mapping[str, list[dict[str, str]]]) -> Table:
    """What is measured -> figure -> value: models by title and processor, programs by name."""
    table: dict[str, Mapping[str, int]] = {}
    for row in rows["reports"]:
        report = json.loads(Path(row["report"]).read_text())
        table[f"{row['title']} {row['cpu']}"] = figures(report)
    for row in rows["programs"]:
        table |= of_program(row["title"], json.loads(Path(row["sizes"]).read_text()))
    return table


def beyond(before: int, now: int, tolerance: float) -> bool:
    """Whether a change is one that fails."""
    return before == 0 or 100 * abs(now - before) / before > tolerance


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
            elif beyond(a, b, tolerance):
                share = f" ({100 * (b - a) / a:+.1f} %)" if a else ""
                yield f"{row}: {name}: {b:,}, baseline {a:,}{share}"


def cell(before: int | None, now: int | None, tolerance: float) -> str:
    """One figure of a table: what it is, and by how much it grew."""
    if before is None or now is None or before == now:
        return "" if now is None else f"{now:,}"
    share = f", {100 * (now - before) / before:+.1f} %" if before else ""
    text = f"{now:,} ({now - before:+,}{share})"
    return f"**{text}**" if beyond(before, now, tolerance) else text


def markdown(label: str, old: Table, new: Table, tolerance: float) -> str:
    """The rows that changed, as a table; what the test fails for is bold."""
    rows = [
        row for row in [*old, *(r for r in new if r not in old)] if old.get(row) != new.get(row)
    ]
    if not rows:
        return f"`{label}`: no size changed ({len(new)} rows).\n"
    shown = [
        name for name in FIGURES if any(name in t.get(r, {}) for t in (old, new) for r in rows)
    ]
    heads = [name.removesuffix("_bytes") for name in shown]
    lines = [
        f"`{label}`: {len(rows)} of {len({*old, *new})} rows changed\n",
        f"| | {' | '.join(heads)} |",
        f"|---|{'---:|' * len(heads)}",
    ]
    for row in rows:
        before, now = old.get(row, {}), new.get(row, {})
        what = "" if row in old and row in new else ", **new**" if row in new else ", **gone**"
        cells = [cell(before.get(name), now.get(name), tolerance) for name in shown]
        lines.append(f"| {row}{what} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def judge(args: argparse.Namespace) -> int:
    """Prints what changed; fails if anything did, or writes the new baseline. Raises MlfError."""
    new = measured(json.loads(Path(args.rows).read_text()))
    if args.update:
        return forms.update(args.path, args.label, (json.dumps(new, indent=2) + "\n").encode())
    old: Table = json.loads(Path(args.baseline).read_text() or "{}")
    if args.markdown is not None:
        table = markdown(args.label, old, new, float(args.tolerance))
        return forms.shown(args.markdown, table)
    found = list(changes(old, new, float(args.tolerance)))
    for line in found:
        print(line)
    if found:
        print(f"to accept this: bazel run {args.label} -- --update")
    return CHECK_FAILED if found else 0


@exits
def main(arguments: list[str]) -> int:
    """Exit code as the command line's."""
    names = ("rows", "baseline", "tolerance", "path", "label")
    return judge(forms.parser(*names).parse_args(arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
