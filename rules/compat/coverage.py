#!/usr/bin/env python3
"""Bazel's lcov_merger and coverage_report_generator, which it would download as Java programs.

As the first, merges what gcov and llvm-cov left in --coverage_dir, without the sources that a
--filter_sources matches and, where --source_file_manifest names sources, without all others. As the
second, merges the reports that --reports_file lists. Writes an lcov tracefile to --output_file.
"""

from __future__ import annotations

import argparse
import gzip
import json
import re
import sys
from collections import Counter
from pathlib import Path

NOT_SOURCES = (".em", ".gcno", ".txt")


class Source:
    """Counts of one source file: by line, by (line, function) and by (line, block, branch)."""

    def __init__(self) -> None:
        self.lines: Counter[int] = Counter()
        self.functions: Counter[tuple[int, str]] = Counter()
        self.branches: Counter[tuple[int, str, str]] = Counter()


Sources = dict[str, Source]


def read_gcov(path: Path, sources: Sources) -> None:
    """Adds a .gcov.json.gz file of gcov 9 and newer."""
    with gzip.open(path) as stream:
        data = json.load(stream)
    for file in data["files"]:
        source = sources.setdefault(file["file"], Source())
        for function in file["functions"]:
            source.functions[function["start_line"], function["name"]] += function[
                "execution_count"
            ]
        for line in file["lines"]:
            source.lines[line["line_number"]] += line["count"]


def read_lcov(text: str, sources: Sources) -> None:
    """Adds a tracefile of lcov."""
    source = Source()
    starts: dict[str, int] = {}
    for line in text.splitlines():
        kind, _, rest = line.partition(":")
        words = rest.split(",")
        if kind == "SF":
            source, starts = sources.setdefault(rest, Source()), {}
        elif kind == "FN":
            starts[words[-1]] = int(words[0])
            source.functions[int(words[0]), words[-1]] += 0
        elif kind == "FNDA":
            name = rest.partition(",")[2]
            source.functions[starts.get(name, 0), name] += int(words[0])
        elif kind == "DA":
            source.lines[int(words[0])] += int(words[1])
        elif kind == "BRDA":
            taken = 0 if words[3] == "-" else int(words[3])
            source.branches[int(words[0]), words[1], words[2]] += taken


def tracefile(sources: Sources) -> str:
    """All of them as lcov writes them."""
    out = []
    for name, source in sorted(sources.items()):
        functions, branches, lines = source.functions, source.branches, source.lines
        out.append(f"SF:{name}")
        out += [f"FN:{line},{function}" for line, function in sorted(functions)]
        out += [f"FNDA:{functions[key]},{key[1]}" for key in sorted(functions)]
        out += [f"FNF:{len(functions)}", f"FNH:{sum(n > 0 for n in functions.values())}"]
        out += [f"BRDA:{line},{a},{b},{branches[line, a, b]}" for line, a, b in sorted(branches)]
        if branches:
            out += [f"BRF:{len(branches)}", f"BRH:{sum(n > 0 for n in branches.values())}"]
        out += [f"DA:{line},{lines[line]}" for line in sorted(lines)]
        out += [f"LH:{sum(n > 0 for n in lines.values())}", f"LF:{len(lines)}", "end_of_record"]
    return "".join(f"{line}\n" for line in out)


def main(arguments: list[str]) -> int:
    """Writes the report."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--coverage_dir", type=Path)
    parser.add_argument("--reports_file", type=Path)
    parser.add_argument("--output_file", type=Path, required=True)
    parser.add_argument("--filter_sources", action="append", default=[])
    parser.add_argument("--source_file_manifest", type=Path)
    args = parser.parse_known_args(arguments)[0]
    found: list[Path] = []
    if args.reports_file:
        found = [Path(line) for line in args.reports_file.read_text().splitlines() if line]
    if args.coverage_dir:
        found += sorted(p for p in args.coverage_dir.rglob("*") if p.is_file())
    sources: Sources = {}
    for path in found:
        if path.name.endswith(".gcov.json.gz"):
            read_gcov(path, sources)
        elif path.suffix == ".dat" and path.is_file() and path != args.output_file:
            read_lcov(path.read_text(), sources)
    wanted = set()
    if args.source_file_manifest:
        lines = args.source_file_manifest.read_text().splitlines()
        wanted = {line for line in lines if line and not line.endswith(NOT_SOURCES)}
    kept = {
        name: source
        for name, source in sources.items()
        if not any(re.fullmatch(pattern, name) for pattern in args.filter_sources)
        and (not wanted or name in wanted)
    }
    args.output_file.write_text(tracefile(kept))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
