"""Files of tests are left out if no template that they read has changed, and only then: however
they read it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from shared import HARNESS, REPO

LEAVES = re.compile(r"__file__\)\.resolve\(|(realpath|readlink)\(__file__")
# A compiler of two templates.
COMPILER = """
from pathlib import Path
from jinja2 import Environment, FileSystemLoader
_TEMPLATES = Environment(loader=FileSystemLoader([Path(__file__).parents[1] / "ops"]))
def render(name): return _TEMPLATES.get_template(name).render()
"""
HELPER = """
import functools
from mlftool.codegen.templates import render
@functools.cache
def made(): return render("a.j2")
"""
CONFTEST = """
import pytest
from mlftool.codegen.templates import render
@pytest.fixture(scope="session")
def built(): return render("a.j2")
"""
# b.j2, none, a header, and each way of reading a.j2, in this order: later ones find in memory what
# earlier ones have read.
TESTS = {
    "of_another": 'from mlftool.codegen.templates import render\ndef test_it(): render("b.j2")',
    "of_none": "def test_it(): pass",
    "of_a_header": """
import subprocess
from pathlib import Path
FOLDER = Path(__file__).parents[2] / "crt/include"
def test_it():
    source = '#include "mlf/a.h"'
    command = ["gcc", "-fsyntax-only", f"-I{FOLDER}", "-x", "c", "-"]
    subprocess.run(command, input=source, text=True, check=True)
""",
    "of_many": """
import pytest
@pytest.mark.parametrize("k", range(7))
def test_it(k): pass
""",
    "in_process": 'from mlftool.codegen.templates import render\ndef test_it(): render("a.j2")',
    "compiled_before": "def test_it():\n from mlftool.codegen.templates import render\n"
    ' render("a.j2")',
    "forked": """
import os
from mlftool.codegen.templates import render
def test_it():
    pid = os.fork()
    if not pid:
        render("a.j2")
        os._exit(0)
    os.waitpid(pid, 0)
""",
    "kept_by_a_function": "from helper import made\ndef test_it(): made()",
    "kept_by_a_function_before": "from helper import made\ndef test_it(): made()",
    "late_module": "def test_it():\n import late\n assert late.TEXT",
    "late_module_before": "def test_it():\n import late\n assert late.TEXT",
    "of_a_fixture": "def test_it(built): assert built",
    "of_a_fixture_before": "def test_it(built): assert built",
    "in_a_program": """
import subprocess
from pathlib import Path
FILE = Path(__file__).parents[2] / "mlftool/ops/a.j2"
def test_it(): subprocess.run(["cat", FILE], check=True)
""",
    "in_a_shell_through_a_link": """
import subprocess
from pathlib import Path
FOLDER = Path(__file__).parents[2] / "mlftool/ops"
def test_it(tmp_path):
    (tmp_path / "link").symlink_to(FOLDER)
    subprocess.run("cat < link/a.j2", shell=True, cwd=tmp_path, env={}, check=True)
""",
    "fails": "def test_it(): assert False",
}
OTHERS = {"of_another", "of_none", "of_many", "of_a_header"}


@dataclass
class Project:
    """Sources, of which each run has a sandbox of links."""

    folder: Path
    runs: int = 0
    shard: tuple[int, int] | None = None
    names: Sequence[str] = tuple(TESTS)

    def write(self, name: str, text: str) -> None:
        path = self.folder / "sources" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def ran(self, *options: str) -> set[str]:
        """The tests that a run ran."""
        self.runs += 1
        place = self.folder / f"sandbox/processwrapper-sandbox/{self.runs}/run/project"
        for path in (self.folder / "sources").rglob("*.*"):
            link = place / path.relative_to(self.folder / "sources")
            link.parent.mkdir(parents=True, exist_ok=True)
            link.symlink_to(path)
        environment = {k: v for k, v in os.environ.items() if not k.startswith("TEST_")}
        environment |= {
            "MLFTOOL_TEST_CACHE": str(self.folder / "kept"),
            "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1",
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONPATH": os.pathsep.join([str(place), os.environ.get("PYTHONPATH", "")]),
        }
        if self.shard:
            index, total = self.shard
            environment |= {"TEST_SHARD_INDEX": str(index), "TEST_TOTAL_SHARDS": str(total)}
        files = [f"tests/room/test_{name}.py" for name in self.names]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-v", *options, f"--basetemp={place}/tmp", *files],
            cwd=place, env=environment, capture_output=True, text=True,
        )  # fmt: skip
        assert done.returncode in (0, 1), done.stdout + done.stderr
        ends = (" PASSED", " FAILED")
        lines = [line for line in done.stdout.splitlines() if any(end in line for end in ends)]
        names = [line.partition(" ")[0].removeprefix("tests/room/test_") for line in lines]
        assert len(names) == len(set(names))
        return {name.replace(".py::test_it", "") for name in names}


@pytest.fixture
def project(tmp_path: Path) -> Project:
    made = Project(tmp_path)
    made.write("pytest.ini", "[pytest]\naddopts = -p no:cacheprovider\npythonpath = tests/support")
    made.write("mlftool/__init__.py", "")
    made.write("mlftool/codegen/__init__.py", "")
    made.write("mlftool/codegen/templates.py", COMPILER)
    made.write("mlftool/ops/a.j2", "a")
    made.write("mlftool/ops/b.j2", "b")
    made.write("crt/include/mlf/a.h", '#include "b.h"')
    made.write("crt/include/mlf/b.h", "")
    made.write("crt/include/mlf/c.h", "")
    made.write("tests/support/helper.py", HELPER)
    made.write("tests/support/late.py", 'from helper import render\nTEXT = render("a.j2")')
    made.write("tests/room/conftest.py", CONFTEST)
    for name, text in TESTS.items():
        made.write(f"tests/room/test_{name}.py", text)
    for name in HARNESS:
        shutil.copy(REPO / "tests" / name, made.folder / "sources" / "tests" / name)
    return made


@pytest.fixture
def whole(project: Project) -> set[str]:
    """What the first run ran: all."""
    first = project.ran()
    assert {name.partition("[")[0] for name in first} == set(TESTS)
    return first


def test_what_read_a_template_runs_again(project: Project, whole: set[str]) -> None:
    assert project.ran() == {"fails"}

    project.write("mlftool/ops/a.j2", "a, changed")
    assert project.ran() == {n for n in whole if n.partition("[")[0] not in OTHERS}
    assert project.ran() == {"fails"}

    project.write("mlftool/ops/b.j2", "b, changed")
    assert project.ran() == {"fails", "of_another"}

    project.write("crt/include/mlf/c.h", "int c;")
    assert project.ran() == {"fails"}
    project.write("crt/include/mlf/b.h", "int b;")
    assert project.ran() == {"fails", "of_a_header"}


CHANGES: dict[str, Callable[[Project], object]] = {
    "a new template": lambda p: p.write("mlftool/ops/c.j2", "c"),
    "a module": lambda p: p.write("mlftool/codegen/templates.py", f"{COMPILER}\n# changed"),
    "a test": lambda p: p.write("tests/room/test_of_none.py", "def test_it(): print()"),
    "a header of the runtime": lambda p: p.write("crt/include/tvm/a.h", "int a;"),
    "a template of something else": lambda p: p.write("rules/a.j2", "a"),
}


def test_all_run_again_when_anything_else_changes(project: Project, whole: set[str]) -> None:
    for name, change in CHANGES.items():
        change(project)
        assert project.ran() == whole, name


def test_what_a_run_did_not_come_to_is_not_left_out(project: Project) -> None:
    text = (
        'from mlftool.codegen.templates import render\ndef test_it(): assert render("b.j2") != "b"'
    )
    project.write("tests/room/test_fails.py", text)
    project.names = ("fails", "of_none")
    assert project.ran("-x") == {"fails"}
    project.write("mlftool/ops/b.j2", "b, changed")
    assert project.ran("-x") == {"fails", "of_none"}
    assert project.ran("-x") == set()


def test_all_run_where_nothing_is_kept_or_there_is_no_sandbox(
    project: Project, whole: set[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (project.folder / "kept").chmod(0o777)  # so others can write there
    assert project.ran() == whole
    (project.folder / "kept").chmod(0o700)
    sources = project.folder / "sources"
    template = sources / "mlftool/ops/a.j2"
    before = template.stat().st_ino
    environment = {
        **os.environ,
        "MLFTOOL_TEST_CACHE": str(project.folder / "kept"),
        "PYTHONPATH": os.pathsep.join([".", os.environ.get("PYTHONPATH", "")]),
    }
    options = ("-p", "no:cacheprovider", "tests/room/test_forked.py")
    command = [sys.executable, "-m", "pytest", *options]
    done = subprocess.run(command, cwd=sources, env=environment, capture_output=True, text=True)
    assert "1 passed" in done.stdout, done.stdout + done.stderr
    assert template.stat().st_ino == before


def test_each_test_is_of_the_same_shard_whatever_is_left_out(project: Project) -> None:
    total, firsts, seconds = 2, [], []
    for index in range(total):
        project.shard = (index, total)
        firsts.append(project.ran())
    project.write("mlftool/ops/a.j2", "a, changed")
    for index in range(total):
        project.shard = (index, total)
        seconds.append(project.ran())
    assert sum(map(len, firsts)) == len(set[str]().union(*firsts)) == len(TESTS) + 6
    for first, second in zip(firsts, seconds, strict=True):
        assert second == {name for name in first if name.partition("[")[0] not in OTHERS}


def test_a_sample_of_several_files_is_taken_anew(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it has of a file depends on the others; of one file alone it stays."""
    monkeypatch.setenv("MLFTOOL_TEST_CASES", "sampled")
    for name, mark in (("sampled", "sampled(1)"), ("shared", 'sampled(1, table="several")')):
        text = f"import pytest\n@pytest.mark.{mark}\ndef test_it(): pass"
        project.write(f"tests/room/test_{name}.py", text)
    project.names = ("of_none", "sampled", "shared")
    assert project.ran() == {"of_none", "sampled", "shared"}
    assert project.ran() == {"shared"}
    project.write("mlftool/ops/b.j2", "b, changed")
    assert project.ran() == {"shared"}


def test_who_looks_for_templates_stays_in_the_sandbox() -> None:
    """A file's real path is the source tree's, where no one sees what is read. The templates of
    projects are read there; they are none of a kernel."""
    files = [p for room in ("mlftool", "tests", "tools") for p in (REPO / room).rglob("*.py")]
    left = {p.relative_to(REPO).as_posix() for p in files if LEAVES.search(p.read_text())}
    assert left == {
        "mlftool/micro/project.py",
        "mlftool/micro/project_api/cmake_project.py",
        *(f"mlftool/micro/templates/{n}/microtvm_api_server.py" for n in ("cmake", "host", "qemu")),
        "tests/micro/test_projects.py",
    }
