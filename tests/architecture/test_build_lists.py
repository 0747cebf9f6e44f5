"""What BUILD files list is enough: the toolchain's sets of files for modules that rules run from
them, and for each room of tests what its tests import and name. Bazel would say the same, after
minutes and for one file at a time."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Callable, Iterator, Set
from pathlib import Path

import pytest
from build_lists import files_of, package, rooms
from shared import REPO

RULES = REPO / "rules/private"
TOOLS = "//rules/private/tools:"
# Calls of rules that run a module: where the part of the toolchain and the module stand among the
# arguments, and the part of a call that names none.
RUNS = {"run_mlftool": (1, 2, ""), "executable": (4, 1, "runtime")}
LEFT_OUT = {("executable", "mlftool")}
# Commands whose name is not the first word that the rule's function adds. `mlftool run` is not
# looked at: it compiles what is a model, which no rule gives it.
COMMANDS = {"compile.bzl": "compile"}
# Given by the rule itself: mlf_manifest_test, and mlf_analysis and mlf_diff_test.
GIVEN = {
    "console": ["//mlftool:manifest_files"],
    "tuner": [f"{TOOLS}{name}.py" for name in ("analyse", "differences", "forms", "package")],
}
# The worker runs both.
ALSO = {"compiler": ("rules.private.tools.worker", "rules.private.tools.package")}
# Where pytest finds modules beside the file that imports one (pyproject.toml).
SEARCHED = ("tests/support", "tests/codegen", "tests/frontends/tflite", "")


def called(tree: ast.AST, name: str) -> Iterator[ast.Call]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == name:
            yield node


def toolchain() -> dict[str, list[str]]:
    """Part of the toolchain -> its labels, from mlftool.bzl."""
    tree = ast.parse((RULES / "mlftool.bzl").read_text())
    tables = [node for node in ast.walk(tree) if isinstance(node, ast.Dict)]
    (attributes,) = (t for t in tables if any(list(called(v, "_set")) for v in t.values))
    pairs = zip(attributes.keys, attributes.values, strict=True)
    return {
        ast.literal_eval(key): [_label(node) for node in value.args[1:]]
        for key, value in pairs
        if key is not None and isinstance(value, ast.Call) and list(called(value, "_set"))
    }


def _label(node: ast.expr) -> str:
    text = node.right if isinstance(node, ast.BinOp) else node
    return (TOOLS if isinstance(node, ast.BinOp) else "") + str(ast.literal_eval(text))


def entries() -> set[tuple[str, str]]:
    """Part of the toolchain, and a module that a rule runs with it."""
    found = {(part, module) for part, modules in ALSO.items() for module in modules}
    for file in sorted(RULES.glob("*.bzl")):
        for function in ast.parse(file.read_text()).body:
            for name, (part_at, module_at, part) in RUNS.items():
                for call in called(function, name):
                    module = call.args[module_at]
                    if isinstance(module, ast.Constant) and (name, module.value) not in LEFT_OUT:
                        given = call.args[part_at:]
                        part = str(ast.literal_eval(given[0])) if given else part
                        found.add((part, _entry(str(module.value), function, file.name)))
    return found


def _entry(module: str, function: ast.AST, file: str) -> str:
    if module != "mlftool":
        return module
    adds = (
        ast.literal_eval(node.args[0])
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "add"
        and isinstance(node.args[0], ast.Constant)
    )
    return f"mlftool.cli.{COMMANDS.get(file) or next(adds)}"


@functools.cache
def imported(file: str) -> frozenset[str]:
    """The modules that a file imports when it runs, inside functions too."""
    found: set[str] = set()
    tree = ast.parse((REPO / file).read_text())
    tree.body = [n for n in tree.body if not (isinstance(n, ast.If) and _for_types(n.test))]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {str(node.module), *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(found)


def _for_types(condition: ast.expr) -> bool:
    return isinstance(condition, ast.Name) and condition.id == "TYPE_CHECKING"


@functools.cache
def find(module: str, *folders: str) -> str | None:
    """The file of a module of ours that is searched in folders; None for others and for names in
    one."""
    path = module.replace(".", "/")
    for folder in folders:
        for name in (f"{path}.py", f"{path}/__init__.py"):
            if (REPO / folder / name).is_file():
                return f"{folder}/{name}".lstrip("/")
    return None


def missing(starts: set[str], have: Set[str], find: Callable[..., str | None]) -> set[str]:
    """What is imported by `starts`, by what these import and so on, and is not in `have`."""
    wrong, reached, ahead = set(), set(), sorted(starts)
    while ahead:
        file = ahead.pop()
        if file in reached:
            continue
        reached.add(file)
        if file not in have:
            wrong.add(file)
        elif file != "mlftool/__init__.py":  # the package's own names are looked up when asked for
            beside = str(Path(file).parent)
            ahead += [f for name in imported(file) if (f := find(name, beside))]
    return wrong


@pytest.mark.parametrize("part", sorted(toolchain().keys() - {"python_files"}))
def test_a_part_of_the_toolchain_has_what_its_modules_import(part: str) -> None:
    have = files_of([*toolchain()[part], *GIVEN.get(part, ())])
    modules = {module for other, module in entries() if other == part}
    assert modules
    starts = {str(find(module, "")) for module in modules}
    if any(module.startswith("mlftool.cli.") for module in modules):
        starts |= {"mlftool/__main__.py", "mlftool/cli/__init__.py"}

    assert missing(starts, have, lambda name, _: find(name, "")) == set()


def test_a_file_that_is_left_out_is_missed() -> None:
    """Most of the compiler's files are found by walking, so the test above sees when one lacks."""
    have = files_of(toolchain()["compiler"])
    starts = {"mlftool/cli/__init__.py", "mlftool/cli/compile.py"}
    walked = [f for f in have if f in missing(starts, have - {f}, lambda name, _: find(name, ""))]
    assert len(walked) > 90


def test_who_edits_the_manifest_reader_compiles_no_model_again() -> None:
    assert "mlftool/manifest/reader.py" not in files_of(toolchain()["compiler"])
    assert not {f for f in files_of(toolchain()["runtime"]) if f.startswith("mlftool/ops/")}


@pytest.mark.parametrize("room", sorted(rooms()))
def test_a_room_has_what_its_tests_import(room: str) -> None:
    have = rooms()[room]
    starts = {f for f in have if f.startswith(f"tests/{room}/") and f.endswith(".py")}
    assert starts

    assert missing(starts, have, lambda name, beside: find(name, beside, *SEARCHED)) == set()


def test_rooms_run_in_one_process() -> None:
    """Helpers are modules without a package: two of one name, as conftest.py is, would be one."""
    helpers = Counter(
        Path(file).stem
        for room, files in rooms().items()
        for file in files
        if file.startswith(f"tests/{room}/") and file.endswith(".py")
    )
    taken = {name for name, count in helpers.items() if count > 1}
    starts = {file for files in rooms().values() for file in files if file.endswith(".py")}
    ours = {file for file in starts if file.startswith("tests/")}
    assert "conftest" in taken
    assert {(f, name) for f in ours for name in imported(f) & taken} == set()


def named(file: str) -> Iterator[str]:
    """Files of the repository that a file of Python names, as `REPO / "a" / "b"` or as "a/b"."""
    for node in ast.walk(ast.parse((REPO / file).read_text())):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            words = _joined(node)
            name = "/".join(words[1:]) if words[0] in ("REPO", "ROOT") else ""
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "/" in node.value:
            name = node.value.removeprefix("//").replace(":", "/")
        else:
            continue
        odd = len(name) > 100 or not name.isprintable() or ".." in name
        odd = odd or name.startswith(("/", ".git/"))  # of a clone, not of the repository
        if not odd and (REPO / name).is_file():
            yield name


def _joined(node: ast.expr) -> list[str]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
        return _joined(node.left) + _joined(node.right)
    return [str(node.value) if isinstance(node, ast.Constant) else getattr(node, "id", "\n")]


@pytest.mark.parametrize("room", sorted(rooms()))
def test_a_room_has_the_files_that_its_tests_name(room: str) -> None:
    have = rooms()[room]
    files = sorted(f for f in have if f.startswith(f"tests/{room}/") and f.endswith(".py"))

    assert {(file, name) for file in files for name in named(file) if name not in have} == set()


def test_what_is_missing_is_found() -> None:
    """Of a room without helpers, of tests that name a page, of a compiler without passes."""
    support = {f for f in rooms()["zoo"] if f.startswith("tests/support/")}
    starts = {f for f in rooms()["zoo"] if f.startswith("tests/zoo/") and f.endswith(".py")}
    looked = lambda name, beside: find(name, beside, *SEARCHED)  # noqa: E731
    assert "tests/support/batch.py" in missing(starts, rooms()["zoo"] - support, looked)
    assert "docs/migration.md" in set(named("tests/compat/test_migration_page.py"))
    without = {f for f in files_of(toolchain()["compiler"]) if "/passes/" not in f}
    assert missing({"mlftool/compile.py"}, without, lambda name, _: find(name, ""))


def test_files_of_packages_below_are_of_those() -> None:
    found = package("tests").glob(["**/*.py"], exclude=["**/test_*.py"])
    assert "support/programs.py" in found
    assert not [name for name in found if name.startswith("conformance/")]
    assert "tests/conformance/suite.py" in files_of(["//tests/conformance:files"])
