"""Repositories, packages and targets, as far as loading knows them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from modern_bazel.facts import Module

BUILD_FILES = ("BUILD.bazel", "BUILD")


@dataclass
class Target:
    kind: str
    visibility: list[str] | None = None
    testonly: bool = False


@dataclass
class Package:
    repo: str
    name: str
    targets: dict[str, Target] = field(default_factory=dict)
    # Files that the BUILD file names or exports: other packages see those and no others.
    files: set[str] = field(default_factory=set)
    visibility: list[str] = field(default_factory=lambda: ["//visibility:private"])
    testonly: bool = False


@dataclass
class Repository:
    name: str
    folder: Path | None
    mapping: Callable[[], Mapping[str, str]]
    facts: Module | None = None


def files_of(folder: Path, patterns: list[str]) -> Iterator[str]:
    """Files below a folder, those of packages in it left out."""
    for pattern in patterns:
        # Of Python's pattern the last "**" means folders only.
        for path in folder.glob(pattern + "/*" if pattern.endswith("**") else pattern):
            if path.is_file() and not _in_subpackage(folder, path):
                yield path.relative_to(folder).as_posix()


def _in_subpackage(folder: Path, path: Path) -> bool:
    between = [p for p in path.parents if p != folder and p.is_relative_to(folder)]
    return any((p / name).is_file() for p in between for name in BUILD_FILES)
