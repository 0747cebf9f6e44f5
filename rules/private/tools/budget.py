"""`budget REPORT.json NAME=LIMIT...`: compares what a run measured with what it may take."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mlftool.errors import CHECK_FAILED
from rules.private.tools.limits import REMEDIES


def verdict(report: dict[str, object], name: str, limit: int) -> tuple[str, str]:
    """One line for a person, and what to do if the limit does not hold, else ""."""
    value = report.get(name)
    if not isinstance(value, int | float):
        said = f"{name}: not measured on {report.get('target')}; limit {limit:,}"
        return said, "leave it out, or take the report of a simulated board"
    share = 100 * value / limit if limit else float("inf")
    word = "fits" if value <= limit else f"over by {value - limit:,.0f}"
    said = f"{name}: {value:,.0f} of {limit:,} ({share:.1f} %): {word}"
    return said, "" if value <= limit else REMEDIES[name]


def main(arguments: list[str]) -> int:
    """Prints every line, and below one of a limit that does not hold its remedy; then fails."""
    file, *limits = arguments
    report = json.loads(Path(file).read_text())
    pairs = [limit.partition("=")[::2] for limit in limits]
    print(f"{report['module']} on {report['target']}")
    remedies = []
    for text, remedy in (verdict(report, name, int(limit)) for name, limit in pairs):
        print(f"  {text}" + (f"\n  help: {remedy}" if remedy else ""))
        remedies.append(remedy)
    return CHECK_FAILED if any(remedies) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
