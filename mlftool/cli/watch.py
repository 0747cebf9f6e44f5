"""`mlftool watch MANIFEST.yaml`: build on every save, and show what changed."""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from mlftool.builder import Memory, Result, build, raise_problems
from mlftool.cli.named import listed
from mlftool.cli.options import add_jobs
from mlftool.cli.terminal import printed, terminal_of
from mlftool.errors import MlfError, Problem, one_line
from mlftool.manifest import Manifest, load
from mlftool.manifest.entries import entries
from mlftool.mlf import check_folders
from mlftool.width import folded

HELP = "build a manifest again whenever one of its files is saved, and show what changed"
GROUP = "make"

POLL_S = 0.25
Stamps = Mapping[Path, tuple[int, int]]
Known = dict[tuple[str, str], Memory]  # (archive, module) -> what it needs


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("manifest", metavar="MANIFEST.yaml", type=Path)
    parser.add_argument(
        "-o", "--output", metavar="DIR", type=Path, default=Path("build"), help="default: build"
    )
    parser.add_argument("--json", action="store_true", help="print JSON, a line for each build")
    add_jobs(parser)


def run(args: argparse.Namespace) -> NoReturn:
    """Runs until it is interrupted. Raises MlfError if the manifest does not exist at first, or the
    folder is not writable."""
    files = files_of(load(args.manifest))
    check_folders(args.output)
    _watch(args, files)


def _watch(args: argparse.Namespace, files: tuple[Path, ...]) -> NoReturn:
    """For ever."""
    known = Known()
    built: Stamps | None = None
    while True:
        now = _stamps(files)
        if now != built:
            now = _settled(files, now)
            files = _round(args, files, known)
            # Files that the manifest names since then were read just now.
            built = now if now.keys() == set(files) else _stamps(files)
        time.sleep(POLL_S)


def files_of(manifest: Manifest) -> tuple[Path, ...]:
    """The manifest, and all that its models are made of."""
    return manifest.file, *listed(manifest)


def _stamps(files: tuple[Path, ...]) -> Stamps:
    """Time and size of each file; one that is not there has none."""
    found = {}
    for file in files:
        try:
            status = file.stat()
            found[file] = (status.st_mtime_ns, status.st_size)
        except OSError:
            found[file] = (0, -1)
    return found


def _settled(files: tuple[Path, ...], now: Stamps) -> Stamps:
    """The stamps when nothing has changed for a while: editors save in steps."""
    while True:
        time.sleep(POLL_S)
        last, now = now, _stamps(files)
        if last == now:
            return now


def _round(args: argparse.Namespace, files: tuple[Path, ...], known: Known) -> tuple[Path, ...]:
    """One build. Returns the files to watch from now on: as before, if the manifest is broken."""
    results: tuple[Result, ...] = ()
    problems: tuple[Problem, ...] = ()
    try:
        manifest = load(args.manifest)
        files = files_of(manifest)
        results = build(manifest, entries(manifest), args.output, args.jobs)
        raise_problems(results)
    except MlfError as error:
        problems = error.problems
    made = [_became(result, known) for result in results]
    if args.json:
        told = {
            "entries": made,
            "problems": list(map(vars, problems)),
            "files": list(map(str, files)),
        }
        printed(json.dumps({"schema_version": 1, **told}))
        return files
    printed(*(folded(_line(one)) for one in made))
    terminal = terminal_of(args)
    terminal.show(problems)
    terminal.end()
    printed(f"watching {len(files)} files; Ctrl-C ends")
    return files


def _became(result: Result, known: Known) -> dict[str, Any]:
    """What became of an entry, with what each module needed before; it is known from now on."""
    outcome = "FAILED" if result.problems else "written" if result.changed else "unchanged"
    modules = []
    for memory in result.memory:
        at = result.entry.output, memory.module
        before = known.get(at)
        known[at] = memory
        modules.append(
            {
                "module": memory.module,
                "ram_bytes": memory.ram_bytes,
                "constants_bytes": memory.constants_bytes,
                "ram_bytes_before": before.ram_bytes if before else None,
                "constants_bytes_before": before.constants_bytes if before else None,
            }
        )
    return {"path": result.entry.output, "outcome": outcome, "modules": modules}


def _line(entry: Mapping[str, Any]) -> str:
    parts = [f"{entry['path']}: {entry['outcome']}"]
    for of in entry["modules"]:
        ram = _changed(of["ram_bytes"], of["ram_bytes_before"])
        constants = _changed(of["constants_bytes"], of["constants_bytes_before"])
        parts.append(f"{one_line(of['module'])}: {ram} RAM, {constants} constants")
    return "; ".join(parts)


def _changed(now: int, before: int | None) -> str:
    change = f" ({now - before:+,})" if before is not None and now != before else ""
    return f"{now:,} B{change}"
