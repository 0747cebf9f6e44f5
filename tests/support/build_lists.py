"""The lists of files in BUILD files, which are read as the Python that they also are."""

from __future__ import annotations

import ast
import builtins
import functools
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from shared import REPO

# Repositories of this one's WORKSPACE that are folders of it. Others are fetched.
FOLDERS = {"@sensor_example": "examples/external_workspace"}
NOT_OURS = re.compile(r"__pycache__|bazel-.*|build|\.(?!bcr|bazel|ci).*")


@dataclass(frozen=True)
class Package:
    """What a BUILD file says, in order: the rule or macro and its attributes."""

    folder: Path
    calls: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def named(self, name: str) -> dict[str, Any] | None:
        """The target of that name."""
        return next((given for _, given in self.calls if given.get("name") == name), None)

    def of(self, rule: str) -> list[dict[str, Any]]:
        return [given for called, given in self.calls if called == rule]

    def glob(self, include: Sequence[str], exclude: Sequence[str] = (), **_: object) -> list[str]:
        """As Bazel's: files of the package, of no package below it."""
        wanted, unwanted = (re.compile(_pattern(patterns)) for patterns in (include, exclude))
        names = _names(self.folder)
        return [n for n in names if wanted.fullmatch(n) and not unwanted.fullmatch(n)]


class _Unknown(list[Any]):
    """A rule whose calls are remembered; as a list or table that a file loads, an empty one."""

    def __init__(self, name: str, package: Package) -> None:
        super().__init__()
        self.name, self.package = name, package

    def __call__(self, *_: object, **given: object) -> None:
        self.package.calls.append((self.name, given))

    def __getattr__(self, _: str) -> Callable[..., list[Any]]:
        return lambda *_: []


class _Names(dict[str, Any]):
    """What a BUILD file may use: all names that it does not define itself."""

    def __init__(self, package: Package) -> None:
        super().__init__(glob=package.glob)
        self.package = package

    def __missing__(self, name: str) -> Any:
        known = getattr(builtins, name, None)
        return _Unknown(name, self.package) if known is None else known


def _pattern(globs: Sequence[str]) -> str:
    """A regular expression for all of them; of none, one that nothing matches."""
    words = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*"}
    parts = [re.split(r"(\*\*/|\*\*|\*)", glob) for glob in globs]
    return "|".join("".join(words.get(p) or re.escape(p) for p in part) for part in parts) or "(?!)"


@functools.cache
def _names(folder: Path) -> tuple[str, ...]:
    found = []
    for place, folders, files in os.walk(folder, followlinks=True):
        here = Path(place)
        folders[:] = sorted(
            f for f in folders
            if not NOT_OURS.fullmatch(f) and not (here / f / "BUILD.bazel").exists()
        )  # fmt: skip
        found += [(here / f).relative_to(folder).as_posix() for f in sorted(files)]
    return tuple(found)


@functools.cache
def package(folder: str) -> Package:
    """The package in a folder of the repository, without targets that a loop makes of a table."""
    made = Package(REPO / folder)
    file = made.folder / "BUILD.bazel"
    tree = ast.parse(file.read_text(), str(file))
    loops = [s for s in tree.body if isinstance(s, ast.Expr) and isinstance(s.value, ast.ListComp)]
    tree.body = [statement for statement in tree.body if statement not in loops]
    exec(compile(tree, str(file), "exec"), _Names(made))
    return made


def files_of(labels: Sequence[str], here: str = "") -> set[str]:
    """The files of the repository that labels in package `here` stand for, by their paths."""
    found: set[str] = set()
    for label in labels:
        repository, folder, name = _parts(label, here)
        if repository in FOLDERS:
            inside = Package(REPO / FOLDERS[repository])
            found |= {f"{FOLDERS[repository]}/{name}" for name in inside.glob(["**"])}
        elif not repository:
            target = package(folder).named(name)
            if target is None:
                found.add(f"{folder}/{name}".lstrip("/"))
            else:
                found |= files_of(target.get("srcs", ()), folder)
    return found


def _parts(label: str, here: str) -> tuple[str, str, str]:
    """Repository, package and name of a label in package `here`."""
    repository, slashes, rest = label.rpartition("//")
    if not slashes:
        return "", here, label.removeprefix(":")
    folder, _, name = rest.partition(":")
    return repository, folder, name or folder.rpartition("/")[2]


@functools.cache
def rooms() -> dict[str, frozenset[str]]:
    """Folder of tests -> all files that its tests have under Bazel."""
    tests = package("tests")
    (suites,) = tests.of("pytest_suites")
    folders = {name.split("/")[0] for name in tests.glob(["*/**/test_*.py", "*/test_*.py"])}
    common = [*suites["shared"], *suites["data"]]
    return {
        folder: frozenset(
            files_of([*common, *suites["extra_data"].get(folder, ())], "tests")
            | files_of(tests.glob([f"{folder}/**/*"]), "tests")
        )
        for folder in sorted(folders)
    }
