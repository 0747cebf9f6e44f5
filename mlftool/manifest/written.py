"""A manifest as one BUILD file that is committed, for builds without a repository rule.

The calls are those of the repository that `mlf_manifest_repository` makes, in one package: what is
`@models//keyword:host` there is `//models:keyword/host` here. A test in the file itself, which has
the labels of all files from Bazel, fails when the manifest and the file differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from mlftool.errors import MlfError, Problem
from mlftool.manifest import Manifest, load
from mlftool.manifest.bazel import (
    BUILD_FILES,
    Labels,
    archive_calls,
    check_boards,
    check_budgets,
    check_files,
    measured,
    model_calls,
)
from mlftool.manifest.starlark import call, loaded

ROOTS = ("MODULE.bazel", "REPO.bazel", "WORKSPACE.bazel", "WORKSPACE")
TEST = "up_to_date_test"


def workspace_of(file: Path) -> Path:
    """The root of the workspace that contains a file. Raises MlfError."""
    for folder in file.absolute().parents:
        if any((folder / name).is_file() for name in ROOTS):
            return folder
    text = f"no folder above it has one of {', '.join(ROOTS)}"
    raise MlfError(Problem("MLF0122", text, str(file)))


def package_of(root: Path, file: Path, also: str) -> str:
    """The package a file of the workspace belongs to; `also` is one that is about to be made."""
    folder = file.absolute().parent
    while folder != root:
        name = folder.relative_to(root).as_posix()
        if name == also or any((folder / build).is_file() for build in BUILD_FILES):
            return name
        folder = folder.parent
    return ""


def build_file(
    file: Path,
    out: Path,
    rules: str,
    known: Mapping[str, str] | None = None,
    root: Path | None = None,
) -> str:
    """The text of OUT. Raises MlfError. With `known` no file but the manifest is looked at."""
    manifest = load(file, check_files=known is None)
    root = root or workspace_of(file)
    if root not in out.absolute().parents:
        text = f"is not in the workspace of its manifest; expected it below {root}"
        raise MlfError(Problem("MLF0122", text, str(out)))
    package = out.absolute().parent.relative_to(root).as_posix().removeprefix(".")
    path = file.absolute().relative_to(root).as_posix()
    own = (known or {}).get(path) or _label(path, package_of(root, file, package))
    labels = Labels(manifest, own, known, package)
    if known is None:
        check_boards(manifest, labels)
    check_budgets(manifest)
    check_files(manifest)
    return _text(manifest, labels, own, rules)


def _label(path: str, package: str) -> str:
    return f"//{package}:{path.removeprefix(package).lstrip('/')}"


def _text(manifest: Manifest, labels: Labels, own: str, rules: str) -> str:
    """The BUILD file, with the test that it is current."""
    calls, files, tests = [], [own], []
    for model in manifest.models.values():
        calls += model_calls(manifest, model, labels, f"{model.name}/")
        files += map(labels, model.files)
        tests += [f":{model.name}/{name}_tests" for name in measured(manifest, model)]
    for archive in manifest.archives.values():
        calls += archive_calls(manifest, archive, labels, f"{archive.name}/")
    calls.append(
        call(
            "mlf_manifest_test",
            name=TEST,
            size="small",
            files=sorted(set(files)),
            generated="BUILD.bazel",
            manifest=own,
        )
    )
    header = (
        f"# Written from {own}; edit that, then\n"
        f"#   bazel run //{labels.also}:{TEST} -- --update\n\n"
    )
    # Nothing to load: Bazel's own.
    suite = call("test_suite", name="tests", tests=sorted([*tests, f":{TEST}"]))
    return f"{header}{loaded(rules, calls)}\n{suite}"


def problem(label: str, out: str) -> Problem:
    """The error for a file that does not match its manifest."""
    remedy = f"bazel run {label} -- --update" if label else "mlftool bazel with --write"
    return Problem("MLF0121", "does not match its manifest", out, help=f"run: {remedy}")
