"""Writes the Bazel packages of a manifest, for the repository rule that makes @models from it.

`python -m mlftool.manifest.bazel MANIFEST LABEL RULES STORE FOLDER` keeps each file in the folder
STORE, named by its digest, and makes links to them in FOLDER. LABEL is the manifest's own label,
RULES the repository of our rules ("@mlftool"). The text depends on what the manifest means and not
on how it is written: a new comment changes no package.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from mlftool.errors import MlfError, Problem
from mlftool.manifest import Archive, Manifest, Model, load
from mlftool.manifest.entries import (
    base_target,
    executor_options,
    executors_of,
    has_budget,
    limit_of,
    ram_goal,
)
from mlftool.manifest.quantize import cost_target
from mlftool.manifest.starlark import call, constant, loaded
from mlftool.options import OPTIONS
from mlftool.runtime.boards import BOARDS

BUILD_FILES = ("BUILD.bazel", "BUILD")
HEADER = "# Written from a manifest by mlftool.manifest.bazel; edit the manifest instead.\n\n"
PUBLIC = "//visibility:public"


class Labels:
    """Turns paths of the manifest into labels of the workspace it is in.

    `known` has the labels of files by their path in the workspace, where that cannot be looked at;
    `also` is a package that is about to be made.
    """

    def __init__(
        self,
        manifest: Manifest,
        label: str,
        known: Mapping[str, str] | None = None,
        also: str | None = None,
    ) -> None:
        self.known, self.also = known or {}, also
        self.repository, _, rest = label.partition("//")
        self.package, _, name = rest.partition(":")
        # The manifest may be in a folder below its package.
        self.folder = [p for p in [*self.package.split("/"), *name.split("/")[:-1]] if p]
        # From the folder of the manifest up to the root of the workspace, following no link.
        self.root = manifest.file.absolute().parent
        for _part in self.folder:
            self.root = self.root.parent

    def __call__(self, path: str) -> str:
        """The label of the file the manifest calls `path`: in the nearest package above it."""
        parts = [*self.folder, *path.split("/")]
        if label := self.known.get("/".join(parts)):
            return label
        for depth in range(len(parts) - 1, -1, -1):
            package = "/".join(parts[:depth])
            here = any((self.root / package / name).is_file() for name in BUILD_FILES)
            if here or package == self.also:
                return f"{self.repository}//{package}:{'/'.join(parts[depth:])}"
        return f"{self.repository}//{self.package}:{path}"

    def absolute(self, label: str) -> str:
        """A label that the manifest gives: `//x` is one of its own workspace."""
        own = label.startswith("//") and not label.startswith("//visibility:")
        return self.repository + label if own else label


def variants(model: Model) -> Iterator[tuple[str, str, str]]:
    """(name, target, executor) of all that `model` becomes; the first executor has no suffix."""
    for target in model.targets:
        for i, executor in enumerate(model.executors):
            yield (target if i == 0 else f"{target}_{executor}"), target, executor


def check_boards(manifest: Manifest, labels: Labels) -> None:
    """Raises MlfError for boards in folders of this workspace that are no packages: Bazel would
    not say where their labels come from. Whether a package has the board only Bazel can tell.
    """
    problems = []
    for name, target in manifest.targets.items():
        label = target.board or ""
        folder = labels.root / label.removeprefix("//").partition(":")[0]
        if not label.startswith("//") or any((folder / file).is_file() for file in BUILD_FILES):
            continue
        path = f"targets.{name}.board"
        line, column = manifest.place(path)
        text = f"no such package; got '{label}', expected the label of an mlf_board"
        remedy = f"its folder has no {' or '.join(BUILD_FILES)}"
        file = str(manifest.file)
        problems.append(Problem("MLF0123", text, file, line, column, path, remedy))
    if problems:
        raise MlfError(problems)


def named_files(model: Model) -> list[tuple[str, str]]:
    """(key, path) of every file that the manifest names for a model; a path may be empty."""
    named = [("model", model.model), ("tuning", model.tuning or "")]
    named += [("data", path) for path in model.data_files]
    named += [("backends", path) for path in model.backend_files]
    named += [("quantize.data", model.quantize.data)] if model.quantize else []
    return named + ([("test.vectors", model.test.vectors)] if model.test else [])


def build_files(manifest: Manifest, labels: Labels) -> list[str]:
    """Paths of the BUILD files that labels depend on, if only by not being there."""
    paths = {path for model in manifest.models.values() for _, path in named_files(model)}
    files = [labels.root.joinpath(*labels.folder, path) for path in sorted(paths - {""})]
    folders = dict.fromkeys(up for f in files for up in f.parents if up.is_relative_to(labels.root))
    return [str(folder / name) for folder in folders for name in BUILD_FILES]


def check_files(manifest: Manifest) -> None:
    """Raises MlfError for files whose names Bazel cannot pass on: it reads the letters of a BUILD
    file byte by byte, and a rule's request has them encoded twice."""
    problems = []
    remedy = "rename the file, or build without Bazel: mlftool build"
    for model in manifest.models.values():
        for key, name in named_files(model):
            if not name.isascii():
                path = f"models.{model.name}.{key}"
                text = f"Bazel takes names of files in ASCII alone; got '{name}'"
                at, file = manifest.place(path), str(manifest.file)
                problems.append(Problem("MLF0115", text, file, *at, path, remedy))
    if problems:
        raise MlfError(problems)


def check_budgets(manifest: Manifest) -> None:
    """Raises MlfError for budgets of models without test vectors: Bazel compares what a run takes,
    and would name a target of a package that the user has not written."""
    problems = []
    for model in manifest.models.values():
        limited = model.budget and any(has_budget(manifest, t) for t in model.targets)
        if not limited or model.test:
            continue
        path = f"models.{model.name}.budget"
        path = path if path in manifest.places else "defaults.budget"
        line, column = manifest.place(path)
        text = (
            f"Bazel checks a budget with a run of the model; got no test vectors of "
            f"'{model.name}', expected the key test"
        )
        remedy = "add test: {vectors: FILE.npz}, or check the budget with mlftool build"
        problems.append(Problem("MLF0120", text, str(manifest.file), line, column, path, remedy))
    if problems:
        raise MlfError(problems)


def own_board(manifest: Manifest, target: str) -> str:
    """The label of the board that a user's target runs on, if it names one."""
    own = manifest.targets.get(target)
    return (own.board if own else None) or ""


def model_calls(manifest: Manifest, model: Model, labels: Labels, prefix: str = "") -> list[str]:
    """The calls for one model; the names of its targets begin with `prefix`."""
    calls = [
        call(
            "mlf_model",
            name=prefix + name,
            module_name=model.module_name,
            target=base_target(manifest, target),
            board=labels.absolute(own_board(manifest, target)),
            **source(model, labels, f":{prefix}"),
            tuning=labels(model.tuning) if model.tuning else None,
            backend_files=[labels(path) for path in model.backend_files],
            backend_deps=[labels.absolute(label) for label in model.backend_deps],
            title=model.name,
            **attributes(manifest, model, target, executor),
            **for_bazel(model, labels),
            **for_tests(model),
            **checks(manifest, model, target, labels),
        )
        for name, target, executor in variants(model)
    ]
    calls = [*quantised(manifest, model, labels, prefix), *calls]
    reports = [f":{prefix}{name}_report" for name in measured(manifest, model)]
    # `bazel run @models//keyword:report`; a board of the user's may have taken the name.
    if reports and "report" not in model.targets:
        common = for_bazel(model, labels)
        calls.append(call("mlf_summary", name=f"{prefix}report", reports=reports, **common))
    return calls


# The target that is an integer model made of a float one; no user's target has a dot.
QUANTISED = "quantized.model"


def source(model: Model, labels: Labels, package: str) -> dict[str, object]:
    """What mlf_model and mlf_module compile; `package` begins the labels of the model's targets."""
    if model.quantize:
        return {"model": f"{package}{QUANTISED}"}
    return given(model, labels)


def given(model: Model, labels: Labels) -> dict[str, object]:
    """The model's own files, and what is said of its inputs."""
    return {
        "model": labels(model.model),
        "input_shapes": shapes(model),
        "input_values": values(model),
        "data": [labels(path) for path in model.data_files],
    }


def quantised(manifest: Manifest, model: Model, labels: Labels, prefix: str) -> list[str]:
    """The call that makes integers of a float model, if it asks for that."""
    asked = model.quantize
    if asked is None:
        return []
    common = for_bazel(model, labels)
    bases = [base_target(manifest, target) for target in model.targets]
    rule = call(
        "mlf_quantize",
        name=prefix + QUANTISED,
        samples=labels(asked.data),
        target=cost_target(bases),
        metric=asked.metric,
        at_least=None if asked.at_least is None else repr(asked.at_least),
        flash_bytes=asked.flash,
        optimize=model.optimize,
        **given(model, labels),
        # Archives of several models are in packages of their own.
        **{**common, "visibility": [PUBLIC]},
    )
    return [rule]


def measured(manifest: Manifest, model: Model) -> list[str]:
    """The variants that something here can run, with vectors to run them on."""
    places = variants(model) if model.test else ()
    return [name for name, target, _ in places if base_target(manifest, target) in SIMULATED]


def shapes(model: Model) -> dict[str, str]:
    """The model's input shapes as mlf_compile takes them."""
    return {name: ",".join(map(str, shape)) for name, shape in model.input_shapes.items()}


def values(model: Model) -> dict[str, str]:
    """The model's input values as mlf_compile takes them."""
    return {name: ",".join(map(repr, given)) for name, given in model.input_values.items()}


def attributes(manifest: Manifest, model: Model, target: str, executor: str) -> dict[str, object]:
    """What the manifest says of the compiler, as mlf_compile takes it."""
    asked = executor_options(model, executor)
    if (goal := ram_goal(manifest, model, target)) is not None:
        asked["ram_budget"] = str(goal)
    found = {n: asked[n] for n, o in OPTIONS.items() if n in asked and asked[n] != o.default}
    # Of three values None is the default; the rules have -1, 0 and 1.
    three = {n: int(value) for n, value in found.items() if OPTIONS[n].three_valued}
    return {"executor": executor, **found, **three}


def for_bazel(model: Model, labels: Labels) -> dict[str, object]:
    """What the manifest says of all the model's targets."""
    return {
        "tags": model.tags,
        "exec_properties": dict(model.exec_properties),
        "visibility": [labels.absolute(label) for label in model.visibility or [PUBLIC]],
    }


def for_tests(model: Model) -> dict[str, object]:
    """What it says of the tests alone."""
    return {"size": model.size, "timeout": model.timeout}


def checks(manifest: Manifest, model: Model, target: str, labels: Labels) -> dict[str, object]:
    """What mlf_model is to check of a model on one target."""
    test = model.test
    found: dict[str, object] = {}
    if test:
        found["vectors"] = labels(test.vectors)
        for name in ("absolute", "relative"):
            value = getattr(test, name)
            found[name] = "" if value is None else repr(value).removesuffix(".0")
        for name in ("flash", "ram"):
            found[f"{name}_bytes"] = limit_of(manifest, model, target, name)
    return found


def archive_calls(
    manifest: Manifest, archive: Archive, labels: Labels, prefix: str = ""
) -> list[str]:
    """The calls for an archive of several models."""
    target = base_target(manifest, archive.target)
    models = [manifest.models[name] for name in archive.models]
    calls = [
        call(
            "mlf_module",
            name=f"{prefix}{model.name}_module",
            tags=model.tags,
            exec_properties=dict(model.exec_properties),
            module_name=model.module_name,
            target=target,
            **source(model, labels, f":{model.name}/" if prefix else f"//{model.name}:"),
            tuning=labels(model.tuning) if model.tuning else None,
            backend_files=[labels(path) for path in model.backend_files],
            **attributes(manifest, model, archive.target, executor),
        )
        for model, executor in zip(models, executors_of(manifest, archive), strict=True)
    ]
    modules = [f":{prefix}{model.name}_module" for model in models]
    name, out = f"{prefix}archive", f"{prefix}{archive.target}.tar"
    board = manifest.targets.get(archive.target) if has_budget(manifest, archive.target) else None
    calls += [
        call(
            "mlf_package",
            name=name,
            out=out,
            modules=modules,
            # What fits on the board, as far as the archive alone says it.
            max_constants_bytes=board.flash if board else None,
            max_workspace_bytes=board.ram if board else None,
            visibility=[PUBLIC],
        ),
        call(
            "mlf_cc_library",
            name=f"{prefix}{archive.target}",
            archive=f":{name}",
            target=target,
            deps=sorted({labels.absolute(x) for m in models for x in m.backend_deps}),
            visibility=[PUBLIC],
        ),
    ]
    return calls


def index(manifest: Manifest) -> str:
    """The hub's defs.bzl: lists of everything, for BUILD files that use all of it."""
    tests, reports, table = [], [], {}
    for model in manifest.models.values():
        table[model.name] = [name for name, _target, _executor in variants(model)]
        for name, target, _executor in variants(model):
            base = base_target(manifest, target)
            tests.append((f"//{model.name}:{name}", base, model.test is not None))
    archives = {a.name: [a.target] for a in manifest.archives.values()}
    reports = [label for label, base, tested in tests if tested and base in SIMULATED]
    return (
        '"""What the manifest holds, as labels of this repository."""\n\n'
        + constant("MODELS", "model -> its libraries, one per target and executor", table)
        + constant("ARCHIVES", "archive of several models -> its library", archives)
        + constant("TESTS", "tests and budget tests", [f"{label}_tests" for label in reports])
        + constant("REPORTS", "measurements", [f"{label}_report" for label in reports])
        + constant("FACTS", "figures to compare builds by", [f"{t[0]}.facts" for t in tests])
    )


# Where tests can run: this machine and the boards that QEMU simulates.
SIMULATED = frozenset(BOARDS) | {"host"}


def root(manifest: Manifest, rules: str) -> str:
    """The hub's own package: what all models need, by `bazel run @models//:report`. A model that
    not everybody may use, or that is tagged "manual", is not in it."""
    reports = [
        f"//{model.name}:{name}_report"
        for model in manifest.models.values()
        if set(model.visibility) <= {PUBLIC} and "manual" not in model.tags
        for name in measured(manifest, model)
    ]
    call_of_all = call("mlf_summary", name="report", reports=reports, visibility=[PUBLIC])
    summary = loaded(rules, [call_of_all]) + "\n" if reports else ""
    return HEADER + summary + 'exports_files(["defs.bzl"])\n'


def packages(manifest: Manifest, label: str, rules: str) -> dict[str, str]:
    """Path -> text of every file of the repository."""
    files = {"BUILD.bazel": root(manifest, rules), "defs.bzl": index(manifest)}
    labels = Labels(manifest, label)
    models = {m.name: model_calls(manifest, m, labels) for m in manifest.models.values()}
    archives = {a.name: archive_calls(manifest, a, labels) for a in manifest.archives.values()}
    for name, calls in (models | archives).items():
        files[f"{name}/BUILD.bazel"] = HEADER + loaded(rules, calls)
    return files


def main(arguments: Iterable[str]) -> int:
    """Exit code as the command line's; problems go to stderr in the usual form, and to stdout the
    files, other than the manifest, that the packages depend on."""
    file, label, rules, store, folder = arguments
    try:
        manifest = load(file)
        labels = Labels(manifest, label)
        check_boards(manifest, labels)
        check_budgets(manifest)
        check_files(manifest)
    except MlfError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    Path(store).mkdir(parents=True, exist_ok=True)
    for path, text in packages(manifest, label, rules).items():
        link = Path(folder, path)
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(keep(text.encode(), Path(store)))
    print(*build_files(manifest, labels), sep="\n")
    return 0


def keep(data: bytes, store: Path) -> Path:
    """The file in `store` that has these bytes; one that is there already is not touched."""
    file = store / hashlib.sha256(data).hexdigest()
    if not file.is_file() or file.read_bytes() != data:
        temporary = file.with_name(f"{file.name}.{os.getpid()}")
        temporary.write_bytes(data)
        temporary.replace(file)
    return file


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
