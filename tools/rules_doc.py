"""Writes docs/rules.md from the docstrings of the rules: `python3 tools/rules_doc.py [--check]`.

Starlark is close enough to Python that the .bzl files run here, with stand-ins for what Bazel
provides; each only remembers what it was told. So the page cannot say what the rules do not.
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

ROOT = Path(__file__).absolute().parent.parent
PAGE = ROOT / "docs" / "rules.md"
BAZELRC = ROOT / ".bazelrc"
CONFIGS_INTRODUCTION = """## Boards as configurations

`mlf_firmware` always builds for its own platform. To build another target for a board, such as a
model's library, name its platform; `.bazelrc` of this repository has short forms. In a workspace
of your own such a line is

```
build:mps2_an386 --platforms=@mlftool//rules/platforms:mps2_an386
```
"""
MISTAKES_INTRODUCTION = """## What Bazel reports itself

For mistakes in attributes, platforms and manifests, the rules print a message with the label, the
attribute, its value and the remedy. It follows `Error in fail:`, below the traceback that Bazel
prints of every `fail`, in rules, macros and repositories alike. Newer Bazels can leave the
traceback out (`stack_trace = False`), but Bazel 4 refuses a call with that argument, and a .bzl
file cannot tell which of both loads it. Bazel itself reports these mistakes, before a rule runs:

| message | meaning |
|---|---|
"""
MISTAKES = {
    "`Target //x:y_platform was referenced as a platform`, or `no such target '//x:y_platform'`":
        "`board` names `//x:y`, which is not an `mlf_board` or does not exist. For a target above "
        "in the same BUILD file the rules report this themselves.",
    "`missing input file '//x:y.onnx'`":
        "A file that an attribute names does not exist. Files of a manifest are checked when the "
        "manifest is read.",
    "`no such package 'x': BUILD file not found`": "The same for a folder.",
    "`target '//x:y.onnx' is not visible`, or `not declared in package`":
        'The package of a manifest\'s file does not export it: `exports_files(["y.onnx"])`.',
    "`is incompatible and cannot be built`":
        "A library for another processor was asked for by name: see `mlf_model`.",
    "`Config value 'x' is not defined in any .rc file`":
        "A board's configuration needs a line in your own `.bazelrc`, see above.",
    "``undefined reference to `main'``":
        "Neither `srcs` nor `deps` of an `mlf_firmware` contain a `main`.",
    "``multiple definition of `mlf_module_x_in_two_libraries_set_module_name'``":
        "A `cc_binary` links two libraries with a module `x`; set `module_name` of one of them.",
    "`No matching toolchains found for types @bazel_tools//tools/cpp:toolchain_type`":
        "`--platforms` names a platform without a C toolchain: add a constraint value such as "
        "`@mlftool//rules/platforms:cpu_cortex-m4` to it, or register a toolchain of your own. "
        "For the platform of an `mlf_firmware` the rules report this themselves.",
    "`no matching toolchains found for types @mlftool//rules/toolchains:mlftool_type`":
        "`mlf_register_toolchains()` is not called.",
    "`link or target filename contains space`":
        "Bazel 4 cannot put a file with a space in its path into runfiles. Rename the file, or put "
        "`build --nobuild_runfile_links` into `.bazelrc`: sandboxed tests then run.",
    "`bazel does not currently work properly from paths containing spaces`":
        "The workspace's own path has a space. Move it; Bazel follows a link to the same path.",
    "`Client cwd '/x/ü' is not inside workspace`":
        "Bazel 4 cannot work in a folder whose path has letters beyond ASCII. Move the workspace.",
    "`no such target '//:x/y.onnx'`, or `no such package 'x'`, of a file of a manifest":
        "A BUILD file was added or removed above it, and Bazel before 7.1 finds packages again "
        "only when the manifest changes: run `bazel sync --only=models_manifest`, or edit "
        "a comment.",
    "`no targets found beneath ''`":
        "`cquery` and `aquery` of Bazel 4 know no `@models//...`; ask for `@models//keyword:all`.",
    "`Not a regular file: .../models.yaml`":
        "`mlf_manifest_repository(manifest = ...)` names a file that is not there.",
}  # fmt: skip
SETTINGS = ROOT / "rules" / "settings" / "BUILD.bazel"
SETTING = r'^((?:# .*\n)+)\w+\(\n    name = "(\w+)",\n    build_setting_default = "(.*)",\n\)'
SETTINGS_INTRODUCTION = """
For the whole build, on the command line or as a line of `.bazelrc`:

```
build --@mlftool//rules/settings:copts=-O3
```
"""
HEADER = """# The Bazel rules

<!-- Written by tools/rules_doc.py from the .bzl files; edit those and run it again. -->

[tutorial.md](tutorial.md) has a first project, [migration_genrules.md](migration_genrules.md)
replaces genrules, [COMPATIBILITY.md](../COMPATIBILITY.md) lists versions of Bazel.

Load everything from one file, except what a `WORKSPACE` calls:

```starlark
load("@mlftool//rules:defs.bzl", "mlf_model")
load("@mlftool//rules:repositories.bzl", "mlf_dependencies")  # in WORKSPACE
```
"""


class Told:
    """A stand-in for a rule, provider or attribute: its kind and what it was given."""

    def __init__(self, kind: str, **given: Any) -> None:
        self.kind, self.given = kind, given

    def __call__(self, *_args: Any, **_kwargs: Any) -> Told:
        return self


class Attributes:
    """`attr`: attr.string(default = "x") becomes Told("string", default = "x")."""

    def __getattr__(self, kind: str) -> Callable[..., Told]:
        return lambda **given: Told(kind, **given)


class Anything:
    """A stand-in for Bazel's other globals: any attribute, any call of it, and nothing in it."""

    def __getattr__(self, _name: str) -> Anything:
        return self

    def __call__(self, *_args: Any, **_kwargs: Any) -> Anything:
        return self

    def __iter__(self) -> Iterator[Any]:
        return iter(())


def run_bzl(label: str, loaded: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The globals of a .bzl file of ours after it ran; of another repository's, anything."""
    if label in loaded:
        return loaded[label]
    package, _, name = label[2:].partition(":")
    names: dict[str, Any] = {
        "attr": Attributes(),
        "aspect": lambda **given: Told("aspect", **given),
        "rule": lambda **given: Told("rule", **given),
        "repository_rule": lambda **given: Told("repository rule", **given),
        "provider": lambda **given: Told("provider", **given),
        "Label": str,
        "struct": SimpleNamespace,
        "config": Anything(),
        "native": Anything(),
        "transition": Told("transition"),
    }

    def load(source: str, *same: str, **renamed: str) -> None:
        if source.startswith("@") and source not in loaded:
            names.update({new: Anything() for new in (*same, *renamed)})
            return
        full = source if source.startswith(("//", "@")) else f"//{package}{source}"
        other = run_bzl(full, loaded)
        names.update({new: other[old] for new, old in {**{s: s for s in same}, **renamed}.items()})

    names["load"] = load
    path = ROOT / package / name
    exec(compile(path.read_text(), str(path), "exec"), names)
    loaded[label] = names
    return names


def cell(text: str) -> str:
    """Text for one cell of a table."""
    return " ".join(text.split()).replace("|", "\\|")


def default(about: Told) -> str:
    """How an attribute's default is written."""
    if about.given.get("mandatory"):
        return "required"
    value = about.given.get("default")
    return "" if value is None else f"`{value!r}`".replace("'", '"')


def rule_text(name: str, rule: Told) -> str:
    """A rule: its doc and its attributes."""
    rows = ["| attribute | type | default | |", "|---|---|---|---|"]
    for attribute, about in sorted(rule.given.get("attrs", {}).items()):
        if attribute.startswith("_"):
            continue
        values = about.given.get("values")
        one_of = f" One of: {', '.join(f'`{v}`' for v in values)}." if values else ""
        text = cell(about.given.get("doc", "") + one_of)
        rows.append(f"| `{attribute}` | {about.kind} | {default(about)} | {text} |")
    table = "\n".join(rows) if len(rows) > 2 else ""
    return f"### {name}\n\n{inspect.cleandoc(rule.given['doc'])}\n\n{table}\n"


def provider_text(name: str, provider: Told) -> str:
    """A provider: its doc and its fields."""
    rows = ["| field | |", "|---|---|"]
    rows += [f"| `{field}` | {cell(text)} |" for field, text in provider.given["fields"].items()]
    return f"### {name}\n\n{provider.given['doc']}\n\n" + "\n".join(rows) + "\n"


def wrapped_rule(macro: Callable[..., Any]) -> Told | None:
    """The rule that a macro is a wrapper of and that its docstring begins with, if it does."""
    found = re.match(r"`(_\w+)` ", macro.__doc__ or "")
    return macro.__globals__[found[1]] if found else None


def macro_text(name: str, macro: Callable[..., Any]) -> str:
    """A macro: its docstring, the Args section as a table with the defaults of the signature."""
    if rule := wrapped_rule(macro):
        return rule_text(name, rule)
    body, _, arguments = inspect.cleandoc(macro.__doc__ or "").partition("\nArgs:\n")
    rows = ["| argument | default | |", "|---|---|---|"]
    signature = inspect.signature(macro).parameters
    for argument, text in re.findall(
        r"^  (\*{0,2}\w+): ((?:.|\n(?!  \S))*)", arguments, re.MULTILINE
    ):
        value = signature[argument.lstrip("*")]
        shown = "required" if value.default is value.empty else f"`{value.default!r}`"
        if argument.startswith("*"):
            shown = ""
        rows.append(f"| `{argument}` | {shown.replace(chr(39), chr(34))} | {cell(text)} |")
    table = "\n".join(rows) + "\n" if len(rows) > 2 else ""
    return f"### {name}\n\n{body.strip()}\n\n{table}"


def section(title: str, names: dict[str, Any]) -> str:
    """Every public name, in alphabetical order."""
    parts = [f"## {title}\n"]
    for name, value in sorted(names.items()):
        if not isinstance(value, Told):
            parts.append(macro_text(name, value))
        elif value.kind == "provider":
            parts.append(provider_text(name, value))
        else:
            parts.append(rule_text(name, value))
    return "\n".join(parts)


def settings_text() -> str:
    """The build settings of //rules/settings: what stands above each in its BUILD file."""
    rows = ["| setting | default | |", "|---|---|---|"]
    for comment, name, value in re.findall(SETTING, SETTINGS.read_text(), re.MULTILINE):
        text = cell(comment.replace("# ", ""))
        rows.append(f"| `--@mlftool//rules/settings:{name}` | `{value or chr(34) * 2}` | {text} |")
    return "\n".join(["## Settings", SETTINGS_INTRODUCTION, *rows]) + "\n"


def configs_text() -> str:
    """The boards that .bazelrc has a name for."""
    found = re.findall(r"^build:(\w+) --platforms=//(\S+)$", BAZELRC.read_text(), re.MULTILINE)
    rows = [f"| `--config={name}` | `@mlftool//{platform}` |" for name, platform in found]
    return "\n".join([CONFIGS_INTRODUCTION, "| option | platform |", "|---|---|", *rows]) + "\n"


def mistakes_text() -> str:
    """The messages that are not ours."""
    rows = [f"| {said} | {about} |\n" for said, about in MISTAKES.items()]
    return MISTAKES_INTRODUCTION + "".join(rows)


def page() -> str:
    """The whole page."""
    loaded: dict[str, dict[str, Any]] = {}
    defs = run_bzl("//rules:defs.bzl", loaded)
    workspace = run_bzl("//rules:repositories.bzl", loaded)
    rules = {n: v for n, v in defs.items() if n.startswith("mlf")}
    providers = {n: v for n, v in defs.items() if n.startswith("Mlf")}
    repositories = {n: v for n, v in workspace.items() if n.startswith("mlf_")}
    return "\n".join(
        [
            HEADER,
            inspect.cleandoc(defs["__doc__"]).partition("\n\n")[2] + "\n",
            section("In a WORKSPACE", repositories),
            section("Rules and macros", rules),
            section("Providers", providers),
            settings_text(),
            configs_text(),
            mistakes_text(),
        ]
    )


def main(arguments: list[str]) -> int:
    """Writes the page, or with --check says whether it is what would be written."""
    text = page()
    if "--check" in arguments:
        return 0 if PAGE.read_text() == text else 1
    PAGE.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
