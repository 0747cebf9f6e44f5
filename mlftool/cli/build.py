"""`mlftool build MANIFEST.yaml`: every archive a manifest asks for."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from mlftool.builder import Result, build, raise_problems
from mlftool.cli.compile import in_bands
from mlftool.cli.options import add_jobs
from mlftool.cli.terminal import printed
from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.manifest import load
from mlftool.manifest.entries import Entry, entries
from mlftool.mlf import check_folders
from mlftool.quantized import REPORT, Accuracy
from mlftool.width import folded

HELP = "build every entry of a manifest, without Bazel"
GROUP = "make"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("manifest", metavar="MANIFEST.yaml", type=Path)
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, default=Path("build"), help="default: build"
    )
    parser.add_argument(
        "--only",
        metavar="NAME",
        action="append",
        default=[],
        help="build only this model or archive; repeatable",
    )
    parser.add_argument(
        "--json", action="store_true", help="print what was built as JSON on stdout"
    )
    add_jobs(parser)


def run(args: argparse.Namespace) -> int:
    manifest = load(args.manifest)
    wanted = _only(entries(manifest), args.only)
    check_folders(args.output)
    progress = nothing if args.quiet else Progress(len(wanted))
    if args.json:
        printed()  # before the work: what is built stays built
    results = build(manifest, wanted, args.output, args.jobs, progress)
    if args.json:
        printed(json.dumps(to_json(args.output, results), indent=2))
    raise_problems(results)
    return 0


def _only(all_entries: Sequence[Entry], names: Sequence[str]) -> tuple[Entry, ...]:
    known = dict.fromkeys(entry.name for entry in all_entries)
    problems = [
        Problem(
            "MLF0400",
            f"--only: unknown name; got '{name}', expected a model or archive of the manifest",
            help=did_you_mean(name, known),
        )
        for name in names
        if name not in known
    ]
    if problems:
        raise MlfError(problems)
    return tuple(entry for entry in all_entries if not names or entry.name in names)


def nothing(result: Result) -> None:
    """What -q says of an entry that is done."""


class Progress:
    """One line on stderr for each entry, as it is done."""

    def __init__(self, total: int) -> None:
        self._total, self._done = total, 0

    def __call__(self, result: Result) -> None:
        self._done += 1
        outcome = "written" if result.changed else "unchanged"
        if not result.compiled:
            outcome = "up to date"
        if result.problems:
            outcome = "FAILED"
        elif result.over:
            outcome += ", over its limits"
        memory = ", ".join(
            f"{m.module}: {m.workspace_bytes:,} B workspace{in_bands(m.in_bands)}, "
            + (f"{m.state_bytes:,} B state, " if m.state_bytes else "")
            + f"{m.constants_bytes:,} B constants"
            for m in result.memory
        )
        memory += "".join(f"; {quantised(a)}" for a in result.quantised)
        text = f"[{self._done}/{self._total}] {result.entry.output}: {outcome}"
        details = f", {result.seconds:.2f} s" + (f"; {memory}" if memory else "")
        print(folded(text + details), file=sys.stderr, flush=True)


def quantised(found: Accuracy) -> str:
    """For people: keyword: top1 97.20 %, of the float model 97.40 %."""
    from mlftool.quantize.metrics import shown

    after, before = (shown(found.metric, value) for value in (found.after, found.before))
    return f"{found.model}: {found.metric} {after}, of the float model {before}"


def to_json(folder: Path, results: Sequence[Result]) -> dict[str, object]:
    """The result for scripts; new versions only add keys."""
    return {
        "schema_version": 1,
        "entries": [
            {
                "path": str(folder / r.entry.output),
                "name": r.entry.name,
                "models": r.entry.models,
                "target": r.entry.target,
                "executor": r.entry.executor,
                "ok": r.exit_code == 0,
                "compiled": r.compiled,
                "changed": r.changed,
                "modules": [{**vars(m), "ram_bytes": m.ram_bytes} for m in r.memory],
                "quantized": [
                    {**vars(a), "report": str(folder / a.model / REPORT)} for a in r.quantised
                ],
            }
            for r in results
        ],
    }
