"""`limits LABEL OUT REPORT.json ATTRIBUTE=FIGURE=LIMIT...`: checks the totals of a report."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from mlftool.errors import CHECK_FAILED, MlfError, Problem, exits
from mlftool.mlf import write_atomically


@exits
def main(arguments: list[str]) -> None:
    """Writes a line for each limit that holds, or fails with all that do not."""
    label, out, report, *limits = arguments
    total = json.loads(Path(report).read_text())["total"]
    lines, problems = [], []
    for attribute, figure, limit in (text.split("=") for text in limits):
        value, most = total[figure], int(limit)
        lines.append(f"{figure}: {value:,} of {most:,}\n")
        if value > most:
            text = f"{attribute}: it is {most:,}, and {value:,} are needed, {value - most:,} more"
            problems.append(Problem("MLF0119", text, label, help=REMEDIES[figure]))
    if problems:
        raise MlfError(problems, CHECK_FAILED)
    write_atomically(Path(out), "".join(lines).encode())


# What to do about too much of a figure.
REMEDIES = {
    "workspace_bytes": "raise the limit, or make the model's largest tensors smaller",
    "constants_bytes": "raise the limit, or quantise the model: int8 weights take a quarter",
    "flash_bytes": "raise the limit, or see what takes it: mlf_size_report",
    "ram_bytes": "raise the limit, or see what takes it: mlf_size_report",
    # Of a run alone: budget.py.
    "instructions": "raise the limit, or see what each layer takes: mlf_analysis of kind profile",
    "stack_bytes": "raise the limit, or give the program fewer and smaller local variables",
}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
