"""What no test reaches is not known to hold: every line of the runtime is executed."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

from crt_build import INCLUDES, SOURCES, part, sources
from malformed import CASES, CONTROL
from malformed_more import ACCEPTED, REFUSED
from test_malformed import PLATFORM, load
from test_programs import PARTS, PROGRAMS, program_sources


def build(folder: Path) -> None:
    """The runtime in objects that count, and all programs."""
    files = [file for name in PARTS for file in part(name)]
    command = ["gcc", "-std=c99", "-O0", "--coverage", *INCLUDES, "-c", *files]
    subprocess.run(command, cwd=folder, check=True)
    objects = sorted(folder.glob("*.o"))
    loader = [*sources("tests/crt/loader.c"), *PLATFORM, *objects]
    subprocess.run(["gcc", "--coverage", *loader, "-o", folder / "loader"], check=True)
    for name, platform in PROGRAMS:
        program = [*INCLUDES, *program_sources(name, platform), *objects]
        target = folder / f"{name}-{Path(platform).stem}"
        subprocess.run(["gcc", "--coverage", *program, "-o", target], cwd=folder, check=True)


def run(folder: Path) -> None:
    for name, platform in PROGRAMS:
        subprocess.run([folder / f"{name}-{Path(platform).stem}"], check=True)
    for case in (CONTROL, *ACCEPTED.values(), *CASES.values(), *REFUSED.values()):
        load(folder / "loader", case, folder)


def executed(folder: Path) -> dict[str, int]:
    """Line of a file of the runtime -> how often."""
    counts: dict[str, int] = {}
    command = ["gcov", "--json-format", "--stdout", *sorted(folder.glob("*.gcda"))]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True)
    for report in map(json.loads, done.stdout.splitlines()):
        for file in report["files"]:
            if not Path(file["file"]).is_relative_to(SOURCES):
                continue
            for line in file["lines"]:
                where = f"{Path(file['file']).name}:{line['line_number']}"
                counts[where] = counts.get(where, 0) + line["count"]
    return counts


def test_every_line_of_the_runtime_is_executed(tmp_path: Path) -> None:
    build(tmp_path)
    run(tmp_path)
    counts = executed(tmp_path)
    assert len(counts) > 1200
    assert " ".join(sorted(where for where, count in counts.items() if count == 0)) == ""
