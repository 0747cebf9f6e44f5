"""Labels, and what Bazel would end with."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple


class RefusedError(Exception):
    """What Bazel would end with."""


class Label(NamedTuple):
    """A label in canonical form; `repo` is "" for the root module."""

    repo: str
    package: str
    name: str

    def __str__(self) -> str:
        return f"@@{self.repo}//{self.package}:{self.name}"


class Mention(NamedTuple):
    """A label that something in a package depends on."""

    where: str
    repo: str
    package: str
    label: Label
    testonly: bool = True
    target: bool = True  # a file that nobody exports will do, if not


def parse(
    text: str,
    repo: str,
    package: str,
    mapping: Mapping[str, str],
    canonical: Iterable[str] | None = None,
) -> Label:
    """A label as a BUILD file, .bzl file or MODULE.bazel writes it. Raises RefusedError for one
    that means nothing there."""
    match = re.fullmatch(r"(?:(@@?)([\w.~+-]*))?(?://([^:]*))?(?::?([^:]+))?", text)
    if not match or not text:
        raise RefusedError(f"'{text}' is no label")
    at, name, folder, target = match.groups()
    if at == "@@":
        if canonical is not None and name not in canonical:
            raise RefusedError(f"'{text}': there is no repository '@@{name}'")
        repo = name
    elif at == "@" and name == "":
        repo = ""
    elif at == "@":
        if name not in mapping:
            raise RefusedError(
                f"'{text}': no repository is visible as '@{name}' here; those are: "
                f"{', '.join(sorted(mapping))}"
            )
        repo = mapping[name]
    if folder is None:
        folder = "" if at else package
        target = target or name
    return Label(repo, folder, target or folder.rpartition("/")[2] or name or "")
