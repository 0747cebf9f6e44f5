"""Shows that a change of the compiler changes no archive: the proof of a redesign.

    python tools/same_archives.py --against main               every case, byte by byte
    python tools/same_archives.py --against main --only kws --code

Compiles the same cases with the compiler of this tree and with that of a commit, and prints how
each archive differs: the examples, MLPerf Tiny's networks (MLFTOOL_SHARED_MODELS), the other
benchmark networks and 300 cases of the ONNX backend suite, over targets, executors and options.
With --code, comments and headers are left out. Exit code 1 says that an archive differs.
"""

from __future__ import annotations

import argparse
import difflib
import hashlib
import os
import pickle
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).absolute().parent.parent
COMMENT = re.compile(rb"/\*.*?\*/|//[^\n]*", re.DOTALL)

TARGETS = ("host", "x86-64-v3", "x86-64-v4", "aarch64", "cortex-m0", "cortex-m3", "cortex-m4")
TARGETS += ("cortex-m55", "rv32imc")
# What else is asked of one model, on the host and on a core with DSP instructions.
VARIANTS: tuple[Mapping[str, Any], ...] = (
    {"executor": "graph", "interface_api": "packed"},
    {"executor": "vm"},
    {"interface_api": "packed"},
    {"optimize": "size"},
    {"patches": "auto"},
    {"workspace_io": True},
    {"float_mode": "fused"},
    {"opt_level": 0},
)
SUITE_CASES = 300


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=_Plain)
    parser.add_argument(
        "--against", metavar="REV", default="HEAD", help="the commit to compare with"
    )
    parser.add_argument("--only", metavar="TEXT", default="", help="cases whose names contain TEXT")
    parser.add_argument(
        "--code", action="store_true", help="compare C without comments, no headers"
    )
    parser.add_argument("--compile", metavar="FILE", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.compile:
        with asked.compile.open("wb") as file:
            pickle.dump(dict(_compiled(asked.only)), file)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        old_tree = Path(folder) / "tree"
        _git("worktree", "add", "--detach", "--quiet", str(old_tree), asked.against)
        try:
            trees = {"old": old_tree, "new": ROOT}
            old, new = (_archives(t, Path(folder) / n, asked.only) for n, t in trees.items())
        finally:
            _git("worktree", "remove", "--force", str(old_tree))
    return _report(old, new, asked.code)


class _Plain(argparse.RawDescriptionHelpFormatter):
    pass


def _git(*arguments: str) -> None:
    subprocess.run(["git", "-C", str(ROOT), *arguments], check=True)


def _archives(tree: Path, out: Path, only: str) -> dict[str, dict[str, bytes]]:
    """What the compiler of `tree` makes of every case: its name -> the archive's files."""
    paths = [tree, ROOT / "tests" / "support", ROOT]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, paths)), "PYTHONHASHSEED": "0"}
    command = [sys.executable, __file__, "--compile", str(out), "--only", only]
    subprocess.run(command, check=True, env=env, cwd=tree)
    with out.open("rb") as file:
        return dict(pickle.load(file))


def _compiled(only: str) -> Iterator[tuple[str, dict[str, bytes]]]:
    from mlftool.compile import compile_modules
    from mlftool.errors import MlfError
    from mlftool.module import ModuleSpec

    for name, model, options in _cases():
        if only not in name:
            continue
        try:
            bundle = compile_modules([ModuleSpec(model, "m", **options)])
            yield name, {path: _slim(data) for path, data in bundle.files.items()}
        except MlfError as error:  # a refusal is compared, too
            text = "\n".join(f"{p.code} {p.path} {p.message}" for p in error.problems)
            yield name, {"refused": text.encode()}


def _slim(data: bytes) -> bytes:
    """The file, or what tells it from others where it is too large to keep hundreds of."""
    return data if len(data) <= 1 << 18 else hashlib.sha256(data).hexdigest().encode()


def _cases() -> Iterator[tuple[str, Any, dict[str, Any]]]:
    for path in _networks():
        for target in TARGETS:
            yield f"{path.stem} {target}", path, {"target": target}
        for options in VARIANTS:
            said = " ".join(f"{k}={v}" for k, v in options.items())
            for target in ("host", "cortex-m4"):
                yield f"{path.stem} {target} {said}", path, {"target": target, **options}
    from other_networks import other_networks

    for name, model in other_networks().items():
        for target in ("host", "cortex-m4", "cortex-m55"):
            yield f"{name} {target}", model, {"target": target}
    from tests.conformance.suite import load_suite

    suite = load_suite()
    for k, case in enumerate(suite[:: max(1, len(suite) // SUITE_CASES)]):
        target = ("host", "cortex-m4", "x86-64-v3")[k % 3]
        yield f"{case.name} {target}", case.model, {"target": target}


def _networks() -> Iterator[Path]:
    shared = os.environ.get("MLFTOOL_SHARED_MODELS")
    if not shared:
        print(
            "MLFTOOL_SHARED_MODELS is not set: MLPerf Tiny's networks are left out", file=sys.stderr
        )
    folders = [Path(shared)] if shared else []
    for folder in [*folders, ROOT / "examples" / "models"]:
        yield from sorted(folder.glob("*.onnx"))


def _report(
    old: Mapping[str, Mapping[str, bytes]], new: Mapping[str, Mapping[str, bytes]], code: bool
) -> int:
    differ = 0
    for name in sorted(old.keys() | new.keys()):
        before, after = _looked_at(old.get(name, {}), code), _looked_at(new.get(name, {}), code)
        changed = [p for p in sorted(before.keys() | after.keys()) if before.get(p) != after.get(p)]
        if changed:
            differ += 1
            print(f"{name}: {', '.join(changed[:6])}")
            if differ <= 3:
                print(_difference(before.get(changed[0], b""), after.get(changed[0], b"")))
    print(f"{len(new)} archives compared, {differ} differ")
    return int(differ > 0)


def _looked_at(files: Mapping[str, bytes], code: bool) -> dict[str, bytes]:
    if not code:
        return dict(files)
    kept = {p: d for p, d in files.items() if p.endswith((".c", ".cc")) or p == "refused"}
    return {p: b" ".join(COMMENT.sub(b" ", d).split()) for p, d in kept.items()}


def _difference(before: bytes, after: bytes) -> str:
    lines = (d.decode(errors="replace").splitlines() for d in (before, after))
    return "\n".join(list(difflib.unified_diff(*lines, "old", "new", lineterm="", n=1))[:30])


if __name__ == "__main__":
    sys.exit(main())
