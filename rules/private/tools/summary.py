"""`summary ROWS.json`: one table of reports, then where the archives and images are.

`summary ROWS.json OUT.txt` writes the table alone.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from textwrap import dedent
from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from mlftool.mlf import write_atomically

Report = Mapping[str, Any]


def count(report: Report, key: str) -> str:
    """A number with its thousands apart, a dash where nothing was measured."""
    value = report.get(key)
    return "-" if value is None else f"{round(value):,}"


def error(report: Report) -> str:
    """The largest difference from the reference; an integer network that agrees says so."""
    value = report["max_abs_error"]
    text = "exact" if value == 0 else f"{value:.2g}"
    return text if report["passed"] else f"{text} FAILED"


def accuracy(report: Report) -> str:
    """Share of labelled samples that were classified right."""
    value = report.get("accuracy")
    return "-" if value is None else f"{100 * value:.2f} %"


def flash(report: Report) -> str:
    """Bytes of the whole program in flash."""
    return count(report, "flash_bytes")


def ram(report: Report) -> str:
    """Bytes of the whole program's static data."""
    return count(report, "ram_bytes")


def instructions(report: Report) -> str:
    """Per inference, on a simulated board."""
    return count(report, "instructions")


# Column -> what stands in it, left to right after model and target.
COLUMNS: Mapping[str, Callable[[Report], str]] = {
    "error": error,
    "accuracy": accuracy,
    "flash": flash,
    "RAM": ram,
    "instructions": instructions,
}


def table(rows: list[tuple[str, str, Report]]) -> Table:
    """The table; the model's name stands only where it changes."""
    view = Table(box=box.SIMPLE_HEAD, pad_edge=False, collapse_padding=True)
    view.add_column("model", style="bold", no_wrap=True)
    view.add_column("target", no_wrap=True)
    for heading in COLUMNS:
        view.add_column(heading, justify="right", no_wrap=True)
    before = ""
    for title, cpu, report in rows:
        style = None if report["passed"] else "red"
        cells = [cell(report) for cell in COLUMNS.values()]
        view.add_row("" if title == before else title, cpu, *cells, style=style)
        before = title
    return view


def written(rows: list[tuple[str, str, Report]]) -> str:
    """The table as a file has it: no colours, and no trailing blanks."""
    console = Console(file=io.StringIO(), highlight=False, width=100, color_system=None)
    with console.capture() as taken:
        console.print(table(rows))
    lines = [line.rstrip() for line in dedent(taken.get()).splitlines()]
    return "\n".join(line for line in lines if line) + "\n"


def patterns(rows: list[dict[str, Any]]) -> list[str]:
    """Where the files are, as patterns for the shell: models differ only in the folder's name."""
    archives = {str(Path(row["archive"]).parent.parent / "*" / "*.tar") for row in rows}
    images: dict[str, list[str]] = {}
    for row in rows:
        for path in map(Path, row["images"]):
            stem = str(path.parent.parent / "*" / path.stem)
            endings = images.setdefault(stem, [])
            if path.suffix not in endings:
                endings.append(path.suffix)
    return sorted(archives) + [
        stem + (f".{{{','.join(e[1:] for e in endings)}}}" if len(endings) > 1 else endings[0])
        for stem, endings in images.items()
    ]


def main(arguments: list[str]) -> int:
    """0 when every run agreed with its reference, 1 otherwise."""
    rows = json.loads(Path(arguments[0]).read_text())
    reports = [json.loads(Path(row["report"]).read_text()) for row in rows]
    entries = [(r["title"], r["cpu"], report) for r, report in zip(rows, reports, strict=True)]
    if arguments[1:]:
        write_atomically(Path(arguments[1]), written(entries).encode())
        return 0
    console = Console(highlight=False, width=None if sys.stdout.isatty() else 100)
    console.print(table(entries))
    console.print(
        "Error is the largest difference from the reference. Flash and RAM are bytes of the whole "
        "program, instructions are per inference, counted by QEMU.\n"
    )
    console.print("Archives and firmware, by model:")
    for pattern in patterns(rows):
        # Not console.print: braces and brackets are part of the text.
        print(f"  {pattern}")
    return 0 if all(report["passed"] for report in reports) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
