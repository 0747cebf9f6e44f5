"""`budget REPORT.json NAME=LIMIT...`: compares what a run measured with what it may take."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mlftool.errors import CHECK_FAILED


def verdict(report: dict[str, object], name: str, limit: int) -> tuple[str, bool]:
    """One line for a person, and whether the limit holds."""
    value = report.get(name)
    if not isinstance(value, int | float):
        return f"{name}: not measured on {report.get('target')}; limit {limit:,}", False
    share = 100 * value / limit if limit else float("inf")
    word = "fits" if value <= limit else f"over by {value - limit:,.0f}"
    return f"{name}: {value:,.0f} of {limit:,} ({share:.1f} %): {word}", value <= limit


def main(arguments: list[str]) -> int:
    """Prints every line; fails if a limit does not hold."""
    file, *limits = arguments
    report = json.loads(Path(file).read_text())
    pairs = [limit.partition("=")[::2] for limit in limits]
    lines = [verdict(report, name, int(limit)) for name, limit in pairs]
    print(f"{report['module']} on {report['target']}")
    for text, _holds in lines:
        print(f"  {text}")
    return 0 if all(holds for _text, holds in lines) else CHECK_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
