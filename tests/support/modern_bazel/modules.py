# ruff: noqa: E501 -- tables, and Starlark as buildifier lays it out.
"""MODULE.bazel, as a Starlark interpreter reads it: a module, what it depends on and what it uses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import starlark

GLOBALS = starlark.Globals.standard()
NAMES = {
    "archive_override", "bazel_dep", "git_override", "include", "inject_repo", "local_path_override",
    "module", "multiple_version_override", "override_repo", "register_execution_platforms",
    "register_toolchains", "single_version_override", "use_extension", "use_repo", "use_repo_rule",
}  # fmt: skip

# An extension's tags are functions of what use_extension returns; a repository rule is a function.
TEXT = """
def use_extension(extension_bzl_file, extension_name, dev_dependency = False, isolate = False):
    number = py_use(extension_bzl_file, extension_name, dev_dependency)

    def tag_function(kind):
        return lambda **given: py_tag(number, kind, given)

    return {kind: tag_function(kind) for kind in py_tag_names()} | {"": number}

def use_repo(extension_proxy, *names, **renamed):
    py_repos(extension_proxy[""], list(names), renamed)

def use_repo_rule(repo_rule_bzl_file, repo_rule_name):
    return lambda name, dev_dependency = False, **given: py_repo(
        repo_rule_bzl_file, repo_rule_name, name, dev_dependency, given,
    )

def module(name = "", version = "", compatibility_level = 0, repo_name = "", bazel_compatibility = []):
    py_module(name, version, bazel_compatibility)

def bazel_dep(name, version = "", max_compatibility_level = -1, repo_name = "", dev_dependency = False):
    py_dep(name, version, repo_name, dev_dependency)

def register_toolchains(*labels, dev_dependency = False):
    py_toolchains(list(labels), dev_dependency)

def local_path_override(module_name, path):
    py_override(module_name, path)
"""


@dataclass
class Use:
    """A use_extension: tags in the order they are written, and the repositories that are seen."""

    path: str
    name: str
    tags: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    repositories: dict[str, str] = field(default_factory=dict)  # apparent -> the extension's name
    ignored: bool = False


@dataclass
class RepositoryCall:
    """A repository that a module makes by use_repo_rule."""

    path: str
    rule: str
    name: str
    attributes: dict[str, Any]


@dataclass
class Declared:
    """What a MODULE.bazel says; of a module that is not the root, without what is for development."""

    folder: Path
    is_root: bool
    name: str = ""
    version: str = ""
    bazel_compatibility: list[str] = field(default_factory=list)
    deps: dict[str, str] = field(default_factory=dict)  # module -> its apparent name
    versions: dict[str, str] = field(default_factory=dict)
    every_use: list[Use] = field(default_factory=list)
    repositories: list[RepositoryCall] = field(default_factory=list)
    toolchains: list[str] = field(default_factory=list)
    overrides: dict[str, str] = field(default_factory=dict)

    @property
    def uses(self) -> list[Use]:
        return [use for use in self.every_use if not use.ignored]


def read_module(folder: Path, is_root: bool) -> Declared:
    """The module in a folder. Raises starlark.StarlarkError for what is no MODULE.bazel."""
    text = (folder / "MODULE.bazel").read_text()
    found = Declared(folder, is_root)
    functions = _module_calls(found) | _extension_calls(found, text)
    if re.search(r"^\s*load\(", text, re.MULTILINE):
        raise ValueError(f"{folder / 'MODULE.bazel'}: load() is not allowed in it")
    names = sorted(n for n in NAMES if re.search(rf"(?<![\w.\"]){n}\(", text))
    header = 'load("<bazel>", ' + ", ".join(f'"{n}"' for n in names) + "); "
    # What `mlf.manifest(...)` is there, is a dict's item here: a struct would need the tags' names.
    source = header + re.sub(r"^(\w+)\.(\w+)\(", r'\1["\2"](', text, flags=re.MULTILINE)
    rules = starlark.Dialect.standard()
    rules.enable_def = False
    rules.enable_lambda = False
    starlark.eval(
        starlark.Module(),
        starlark.parse(str(folder / "MODULE.bazel"), source, rules),
        GLOBALS,
        starlark.FileLoader(lambda _path: _language(functions)),
    )
    return found


def _language(functions: Mapping[str, Callable[..., Any]]) -> Any:
    """TEXT as a module that can be loaded, with the functions that it calls."""
    of = starlark.Module()
    for name, function in functions.items():
        of.add_callable(name, function)
    starlark.eval(of, starlark.parse("<bazel>", TEXT, starlark.Dialect.extended()), GLOBALS)
    return of.freeze()


def _module_calls(found: Declared) -> dict[str, Callable[..., Any]]:
    """What TEXT calls for the module itself and what it depends on."""

    def module(name: str, version: str, compatibility: list[str]) -> None:
        found.name, found.version, found.bazel_compatibility = name, version, compatibility

    def dep(name: str, version: str, apparent: str, dev: bool) -> None:
        if found.is_root or not dev:
            found.deps[name] = apparent or name
            found.versions[name] = version

    def toolchains(labels: list[str], dev: bool) -> None:
        found.toolchains += labels if found.is_root or not dev else []

    return {
        "py_dep": dep,
        "py_module": module,
        "py_override": found.overrides.__setitem__,
        "py_toolchains": toolchains,
    }


def _extension_calls(found: Declared, text: str) -> dict[str, Callable[..., Any]]:
    """What TEXT calls for extensions and repositories."""

    def use(path: str, name: str, dev: bool) -> int:
        found.every_use.append(Use(path, name, ignored=dev and not found.is_root))
        return len(found.every_use) - 1

    def repos(number: int, names: list[str], renamed: dict[str, str]) -> None:
        found.every_use[number].repositories |= {**{name: name for name in names}, **renamed}

    def repo(path: str, rule: str, name: str, dev: bool, given: dict[str, Any]) -> None:
        if found.is_root or not dev:
            found.repositories.append(RepositoryCall(path, rule, name, given))

    return {
        "py_repo": repo,
        "py_repos": repos,
        "py_tag": lambda number, kind, given: found.every_use[number].tags.append((kind, given)),
        "py_tag_names": lambda: sorted(set(re.findall(r"^\w+\.(\w+)\(", text, re.MULTILINE))),
        "py_use": use,
    }
