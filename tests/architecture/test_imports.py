"""Imports go one way (docs/DESIGN.md): what they are is read from the sources, not by importing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from shared import REPO

from mlftool.insight.operators import supports
from mlftool.ops import OPS

PACKAGE = REPO / "mlftool"
# What each part may import of mlftool, beside itself and `frozen`. Others fail the test.
ALLOWED = {
    "version": set(),
    "frozen": set(),
    "errors": set(),
    "signals": set(),
    "stopped": set(),
    "explain": {"errors", "width"},
    "moved": {"errors"},  # what names of TVM say that are not here
    "files": set(),
    "sizes": set(),
    "nibbles": set(),
    "ir": {"errors", "moved", "nibbles"},
    "onnx_rules": {"errors", "ir"},
    "regex": {"ir"},
    "ops": {"errors", "ir", "onnx_rules", "regex"},
    "importer": {"errors", "files", "ir", "onnx_rules", "ops"},
    "fixedpoint": {"errors", "ir", "ops"},
    "frontends": {"errors", "files", "ir", "ops", "importer", "fixedpoint"},
    "signs": {"ir", "ops"},
    "passes": {"errors", "ir", "ops", "signs"},
    "targets": {"errors", "ir", "ops", "sizes"},
    "plan": {"errors", "ir", "ops", "signs", "targets", "sizes"},
    "keywords": set(),
    "progress": set(),
    "backends": {"errors", "files", "ir", "keywords", "ops", "targets"},
    "proof": {"errors", "ir", "mlf", "ops", "plan"},
    "codegen": {
        *("errors", "files", "ir", "keywords", "mlf", "ops", "options", "plan", "targets"),
        "version",
    },
    "mlf": {"errors", "files", "nibbles", "version"},
    "runtime": {"errors", "files", "mlf", "moved", "progress", "sizes", "targets"},
    "options": {"errors", "targets", "version", "sizes"},
    "module": {"ir", "backends", "frontends", "options", "targets", "plan", "proof", "codegen"},
    "config": {"errors", "options"},
    "crash": {"errors", "limits", "mlf"},
    "limits": {"errors", "signals"},
    "minimise": {"importer"},
    "objects": {"errors", "codegen", "mlf", "runtime", "targets"},
    "describe": {
        *("errors", "ir", "ops", "codegen", "mlf", "module", "objects", "proof", "version"),
    },
    "compile": {
        *("errors", "ir", "ops", "importer", "passes", "targets", "plan", "codegen", "mlf"),
        *("backends", "frontends", "module", "describe", "crash", "limits", "minimise", "options"),
        *("progress", "proof"),
    },
    # Compiles and runs.
    "tune": {
        *("errors", "ir", "ops", "plan", "codegen", "mlf", "runtime", "targets"),
        *("module", "describe", "compile", "progress"),
    },
    "advice": {"errors", "ir", "ops", "module", "plan"},
    "backend": {"errors", "files", "ir", "mlf", "runtime", "targets", "module", "compile"},
    # Where a test can run decides which targets a model gets.
    "manifest": {"errors", "files", "keywords", "options", "runtime", "targets", "sizes"},
    "stamps": {"errors", "files", "frontends", "importer", "mlf"},
    "quantized": {
        *("errors", "files", "frontends", "manifest", "mlf", "quantize", "runtime", "stamps"),
    },
    "builder": {
        "advice",
        "errors",
        "compile",
        "describe",
        "crash",
        "files",
        "frontends",
        "limits",
        "importer",
        "manifest",
        "mlf",
        "progress",
        "quantized",
        "runtime",
        "signals",
        "stamps",
        "targets",
    },
    # Looks at what was compiled; only commands import it.
    "insight": {
        "sizes",
        *("errors", "files", "ir", "plan", "codegen", "mlf", "runtime", "targets", "module"),
        *("describe", "compile", "tune", "manifest", "builder", "advice", "importer", "ops"),
        *("frontends", "progress", "quantize", "table", "version", "width"),
    },
    # Makes float models integer ones, and says what it made of them.
    "quantize": {
        *("errors", "importer", "ir", "compile", "module", "progress", "runtime", "table"),
        *("targets", "width"),
    },
    # A new project, which must give what onnxruntime gives: commands only.
    "starter": {
        *("errors", "codegen", "compile", "frontends", "importer", "mlf", "module", "runtime"),
        *("quantize", "workspace"),
    },
    "table": {"errors", "width"},
    "width": set(),
    "workspace": {"errors", "version"},
    "api": {
        "backends",
        *("errors", "ir", "importer", "passes", "targets", "plan", "codegen", "mlf", "runtime"),
        *("files", "frontends", "module", "describe", "compile", "config", "moved"),
    },
    # Where TVM's scripts look for what api and runtime hold.
    "relay": {"api", "moved"},
    "micro": {"api", "errors", "mlf", "moved", "runtime", "target", "targets", "version"},
    "transform": {"api", "moved"},
    "target": {"api", "errors", "moved"},
    "contrib": {"api", "moved", "runtime"},
    "nd": {"moved", "runtime"},
    "report": {"errors", "mlf", "targets", "manifest", "runtime"},
}
FILES = sorted(PACKAGE.rglob("*.py"))


def part_of(module: str) -> str:
    return module.split(".")[1] if "." in module else ""


def module_of(file: Path) -> str:
    parts = file.relative_to(REPO).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


MODULES = {module_of(file): file for file in FILES}


def imports(file: Path) -> set[str]:
    """The modules of mlftool that a file names in an import, inside functions too."""
    return {m for m in every_import(file) if m.startswith("mlftool.")}


def every_import(file: Path) -> set[str]:
    """The same of all packages."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{file}: relative import"
            found.add(node.module or "")
            if node.module == "mlftool":
                found |= {f"mlftool.{a.name}" for a in node.names}
    return found


@pytest.mark.parametrize("file", FILES, ids=lambda f: module_of(f))
def test_imports_go_one_way(file: Path) -> None:
    part = part_of(module_of(file))
    if part in ("", "__main__", "cli", "start"):
        return  # the top: may import anything, and nothing may import it
    assert part in ALLOWED, f"{part} has no place in the order of imports yet"
    allowed = ALLOWED[part] | {part, "frozen"}
    strangers = {m for m in imports(file) if part_of(m) not in allowed}
    assert not strangers, f"{module_of(file)} imports {sorted(strangers)}"


def test_the_order_has_no_cycle() -> None:
    done: set[str] = set()
    while ready := {p for p, below in ALLOWED.items() if p not in done and below <= done}:
        done |= ready
    assert done == set(ALLOWED)


def imported_modules(file: Path) -> set[str]:
    """The files that a file imports, inside functions and for type checkers too, as modules."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
        elif isinstance(node, ast.ImportFrom):
            inner = {f"{node.module}.{a.name}" for a in node.names}
            found |= {m if m in MODULES else str(node.module) for m in inner}
    return found & MODULES.keys()


def in_circles(graph: Mapping[str, set[str]]) -> set[str]:
    """The nodes that reach themselves, or that stand between such nodes."""
    left = dict(graph)
    while done := {m for m, below in left.items() if not below & left.keys()}:
        left = {m: below for m, below in left.items() if m not in done}
    while done := left.keys() - {n for below in left.values() for n in below}:
        left = {m: below for m, below in left.items() if m not in done}
    return set(left)


def test_circles_are_found() -> None:
    assert in_circles({"a": {"b"}, "b": {"c"}, "c": set()}) == set()
    assert in_circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": set()}) == {"b", "c"}
    assert in_circles({"a": {"a"}}) == {"a"}


def test_imports_in_functions_and_for_type_checkers_count(tmp_path: Path) -> None:
    file = tmp_path / "file.py"
    file.write_text(
        "from typing import TYPE_CHECKING\n"
        "if TYPE_CHECKING:\n    from mlftool.frontends import load\n"
        "def f():\n    import mlftool.stamps\n    from mlftool.importer.onnx import import_model\n"
    )
    wanted = {"mlftool.frontends.load", "mlftool.stamps", "mlftool.importer.onnx"}
    assert imported_modules(file) == wanted


def test_no_file_imports_itself_by_way_of_others() -> None:
    graph = {module: imported_modules(file) for module, file in MODULES.items()}
    assert not in_circles(graph)


@pytest.mark.parametrize("module", ["mlftool.manifest", "mlftool.targets", "mlftool.errors"])
def test_light_modules_stay_light(module: str) -> None:
    """Bazel's repository rule runs the manifest with the system's Python: no numpy, no onnx."""
    code = (
        "import sys\n"
        "for name in ('numpy', 'onnx', 'jinja2', 'google'): sys.modules[name] = None\n"
        f"import {module}\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_a_model_is_checked_without_what_reads_manifests() -> None:
    """`mlftool check MODEL` answers in under a second: of half a second of imports each counts."""
    code = "import sys, mlftool.cli.check\nprint({'yaml', 'mlftool.manifest'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True)
    assert done.stdout.strip() == "set()", done.stdout + done.stderr


def test_running_archives_never_loads_the_compiler() -> None:
    modules = ", ".join(module_of(f) for f in FILES if part_of(module_of(f)) in ("mlf", "runtime"))
    code = (
        f"import sys, {modules}\n"
        "print([m for m in sys.modules if m.startswith(('mlftool.ir', 'mlftool.compile'))])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stdout + done.stderr


def test_operators_stay_cheap_to_own() -> None:
    """An operator must not cost more than this; if it does, the families need mending first.

    The importer counts, too, and what rules share: facts of operators move from its tables to their
    records in `ops`. The integer form of an operator that has one is an operator, too. What a
    message advises, importer/remedies.py, is of no operator, nor is what onnx's own evaluator does
    wrong, ops/folded.py. A line of each is what its kernel does, from which plan/prices.py
    estimates instructions, another one what is known of values at run time, from which extents have
    bounds, and another one what must hold of declared shapes.
    """

    def lines(room: str, pattern: str) -> int:
        return sum(len(p.read_text().splitlines()) for p in (PACKAGE / room).rglob(pattern))

    written = sum(lines(room, "*.py") for room in ("ops", "importer", "onnx_rules"))
    written -= lines("importer", "remedies.py") + lines("ops", "folded.py")
    integer = sum(name.startswith("mlf.QLinear") for name in OPS)
    assert written <= 59.5 * (len(supports()) + integer)
    assert lines("ops", "*.j2") <= 2500


def test_frozen_classes_are_quickly_defined() -> None:
    """`dataclass(frozen=True)` compiles six methods; mlftool/frozen.py does without."""
    slow = {f for f in FILES if re.search(r"^@dataclass\(.*frozen", f.read_text(), re.MULTILINE)}
    ordered = {PACKAGE / "insight/source_map.py"}
    copied = {PACKAGE / "micro/project_api" / f for f in ("server.py", "cmake_project.py")}
    assert slow == ordered | copied  # projects have copies, which import nothing of ours


def test_one_place_imports_onnxruntime() -> None:
    """The one that tells it first to report nothing over the network."""
    named = {f for f in FILES for m in every_import(f) if m.split(".")[0] == "onnxruntime"}
    assert named == {PACKAGE / "quantize/reference.py"}
