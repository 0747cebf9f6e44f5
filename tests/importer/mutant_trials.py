"""Trying mutants: each compiles or is refused in plain lines, soon and in little memory. What
compiles must also give onnxruntime's numbers.

    python tests/importer/mutant_trials.py 1000000 --menu woven --state trials.jsonl --oracle

runs for hours; started again with the same state file, it goes on where it was.
"""

from __future__ import annotations

import argparse
import collections
import contextlib
import io
import json
import os
import random
import re
import resource
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

if __name__ == "__main__":
    _TESTS = Path(__file__).parents[1]
    sys.path[:0] = [str(_TESTS.parent), str(_TESTS / "support"), str(_TESTS / "importer")]

from containers import CONTAINERS
from dent import dented
from mutant_judge import Accepted, disagreements
from mutant_seeds import seeds
from mutants import damage
from summaries import without_summary
from swap import swapped
from weave import woven

from mlftool.cli import main

SECONDS = 20  # of processor time: a compile
PATIENCE = 600  # until a child that says nothing is killed
MEMORY = 2 << 30  # of address space that a compile may add
BATCH = 200  # mutants of one child
MENUS = {"damaged": damage, "swapped": swapped, "dented": dented, "woven": woven}
ALL_MENUS = (*MENUS, *CONTAINERS)
EXPLAINING = ("sbom", "memmap", "graph", "trace", "size")
SUFFIXES = {"flat": ".tflite", "archived": ".tar"}
LINE = re.compile(r"(FILE: error\[MLF0[2-6]\d\d\]: .+|help: .+)")
WARNING = re.compile(r"FILE: warning\[MLF031[56]\]: .+|help: .+")


@dataclass(frozen=True)
class Finding:
    seed: int
    text: str


class _TooLongError(BaseException):
    pass


def _alarm(_: int, __: FrameType | None) -> NoReturn:
    raise _TooLongError


def mutant(seed: int, suite: bool = False, menu: str = "damaged") -> bytes:
    """The mutant of a number."""
    chance = random.Random(seed)
    if menu in CONTAINERS:
        return CONTAINERS[menu](chance)
    models = seeds(suite)
    return MENUS[menu](chance, chance.choice(models), chance.choice(models))


def complaint(data: bytes, path: Path) -> tuple[str, bool]:
    """What is wrong with how the compiler takes a model, or how others take an archive, or "";
    whether it is taken."""
    path.write_bytes(data)
    if path.suffix == ".tar":
        return taken_apart(path)
    archive = path.with_suffix(".out")
    code, lines, text = told(["compile", str(path), "-o", str(archive)], path)
    if text:
        return text, False
    written = archive.is_file()
    if written:
        archive.unlink()
    if code == 0 and all(map(WARNING.fullmatch, lines)) and written:
        return "", True
    if code == 2 and lines and all(map(LINE.fullmatch, lines)):
        return "wrote an archive all the same" if written else "", False
    return f"exit {code}, {lines[:3]}", False


def taken_apart(path: Path) -> tuple[str, bool]:
    """The same of an archive: readers agree on it, and leave nothing when they refuse it. One of
    those that explain, by the archive's size, refuses it or not."""
    taken = {}
    other = EXPLAINING[path.stat().st_size // 512 % len(EXPLAINING)]
    for command in ("inspect", "extract", "verify", other):
        folder = path.with_suffix(".out")
        more = ["--all", str(folder)] if command == "extract" else []
        code, lines, text = told([command, str(path), *more], path)
        if text:
            return f"{command} {text}", False
        left = folder.exists()
        shutil.rmtree(folder, ignore_errors=True)
        if (code == 2 and (not lines or not all(map(LINE.fullmatch, lines)))) or code not in (0, 2):
            return f"{command} exit {code}, {lines[:3]}", False
        if command == "extract" and left == (code == 2):
            return f"extract exit {code} with {'a' if left else 'no'} folder", False
        taken[command] = code == 0
    if taken["verify"] > taken["inspect"]:
        return f"readers do not agree: {taken}", False
    return "", taken["verify"]


def told(arguments: list[str], path: Path) -> tuple[int, list[str], str]:
    """A command's exit code, what it says on stderr, and what is wrong if it does not end well."""
    err = io.StringIO()
    code = 0
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with contextlib.redirect_stderr(err), contextlib.redirect_stdout(io.StringIO()):
            code = main(arguments)
    except _TooLongError as error:
        place = error.__traceback__
        names = []
        while place:
            names.append(f"{place.tb_frame.f_code.co_name}:{place.tb_lineno}")
            place = place.tb_next
        return code, [], f"took over {SECONDS} s in {' '.join(names[-8:])}"
    except BaseException as error:
        return code, [], f"raised {error!r}"
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return code, without_summary(err.getvalue().replace(str(path), "FILE").splitlines()), ""


def try_batch(
    numbers: Sequence[int], folder: Path, suite: bool, oracle: bool, menu: str
) -> Iterator[str]:
    """Lines of what happens, for the parent to read."""
    usage = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    accepted = []
    signal.signal(signal.SIGPROF, _alarm)
    for number in numbers:
        yield f"at {number}"
        data = mutant(number, suite, menu)
        soft = resource.getrlimit(resource.RLIMIT_AS)
        resource.setrlimit(resource.RLIMIT_AS, (usage + MEMORY, soft[1]))
        text, compiled = complaint(data, folder / f"m{SUFFIXES.get(menu, '.onnx')}")
        resource.setrlimit(resource.RLIMIT_AS, soft)
        if text:
            yield f"found {number} {text}"
        elif compiled:
            yield f"compiled {number}"
            accepted.append(Accepted(number, data))
    if oracle and accepted:
        yield from disagreements(accepted, folder, lambda n: print(f"at {n}", flush=True))


def run(
    numbers: Sequence[int], folder: Path, suite: bool, oracle: bool, menu: str = "damaged"
) -> Iterator[str]:
    """The lines of all batches, each in a child that may crash, hang or be killed."""
    seeds(suite)
    left = list(numbers)
    while left:
        batch, left = left[:BATCH], left[BATCH:]
        while batch:
            last = None
            for line in _child(batch, folder, suite, oracle, menu):
                word, _, rest = line.partition(" ")
                if word == "at":
                    last = int(rest.split()[0])
                else:
                    yield line
                if word == "died":
                    break
            else:
                break
            if last is None or "oracle" in line or last not in batch:
                break
            batch = batch[batch.index(last) + 1 :]


def _child(
    batch: Sequence[int], folder: Path, suite: bool, oracle: bool, menu: str
) -> Iterator[str]:
    told, tell = os.pipe()
    sys.stdout.flush()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            os.close(told)
            os.dup2(tell, 1)
            sys.stdout = os.fdopen(1, "w")
            for line in try_batch(batch, folder, suite, oracle, menu):
                print(line.replace("\n", "\\n"), flush=True)
            code = 0
        except BaseException as error:
            print(f"died {batch[0]} {error!r}".replace("\n", "\\n"), flush=True)
        finally:
            os._exit(code)
    os.close(tell)
    buffer, at = b"", batch[0]
    why = ""
    while True:
        ready, _, _ = select.select([told], [], [], PATIENCE)
        if not ready:
            why = "hung"
            os.kill(process, signal.SIGKILL)
        data = os.read(told, 1 << 16)
        if not data:
            break
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            text = line.decode()
            if text.startswith("at "):
                at = int(text.split()[1])
            yield text
    os.close(told)
    _, status = os.waitpid(process, 0)
    if status:
        yield f"found {at} child ended with status {status} {why}"
        yield f"died {at}"


def kind(text: str) -> str:
    """Findings of one kind share it."""
    text = re.sub(r"after \d+ s", "", text)
    place = re.search(r"MLF0900\]: (.*?)(\w+ at \w+\.py:\d+)", text)
    return place[2] if place else re.sub(r"\d+", "N", text)[:90]


def main_() -> int:
    parser = argparse.ArgumentParser(description="try mutants of models, for as long as you like")
    add = parser.add_argument
    add("count", type=int, help="how many")
    add("--first", type=int, default=0, help="the first seed (0)")
    add("--menu", choices=ALL_MENUS, default="damaged", help="how models are changed (damaged)")
    add("--state", type=Path, help="what was found so far; a run goes on from it")
    add("--suite", action="store_true", help="also from the models of onnx's backend tests")
    add("--oracle", action="store_true", help="run what compiles, and compare with onnxruntime")
    args = parser.parse_args()
    os.environ["MLF_REPORTS"] = ""
    start, counts = args.first, collections.Counter[str]()
    found: dict[str, list[int]] = {}
    if args.state and args.state.exists():
        for line in args.state.read_text().splitlines():
            row: dict[str, Any] = json.loads(line)
            start = row.get("next", start)
            counts.update(row.get("counts", {}))
            for text, number in row.get("found", []):
                found.setdefault(kind(text), []).append(number)
    end, began = args.first + args.count, time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        while start < end:
            part = range(start, min(start + BATCH, end))
            rows, new = [], collections.Counter[str](tried=len(part))
            for line in run(part, Path(folder), args.suite, args.oracle, args.menu):
                word, _, rest = line.partition(" ")
                new[word] += 1
                if word == "found":
                    number, _, text = rest.partition(" ")
                    rows.append((text, int(number)))
                    if kind(text) not in found:
                        print(f"{number}: {text[:400]}", flush=True)
                    found.setdefault(kind(text), []).append(int(number))
            counts += new
            start = part.stop
            if args.state:
                with args.state.open("a") as file:
                    row = {"next": start, "counts": dict(new), "found": rows}
                    file.write(json.dumps(row) + "\n")
    print(f"{dict(counts)} in {time.monotonic() - began:.0f} s")
    for text, numbers in sorted(found.items(), key=lambda item: -len(item[1])):
        print(f"{len(numbers):6} {text}  {numbers[:5]}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main_())
