"""What Bazel gives the action that compiles a model is closed: all that those files import is among
them, wherever the import stands. A file that is missing breaks every model of every workspace."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from shared import REPO
from test_imports import imports

PACKAGE = REPO / "mlftool"


def compiler_files() -> set[Path]:
    """The filegroup of mlftool/BUILD.bazel, read as the Python that it also is."""
    text = (PACKAGE / "BUILD.bazel").read_text()
    group = re.search(
        r'filegroup\(\s*name = "compiler_files",\s*srcs = (.*?),\n\)', text, re.DOTALL
    )
    assert group
    tree = ast.parse(group[1], mode="eval").body
    assert isinstance(tree, ast.BinOp)
    assert isinstance(tree.left, ast.Call)
    left_out = ast.literal_eval(tree.left.keywords[0].value)
    patterns = [re.compile(_pattern(p)) for p in left_out]
    names = {p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py")}
    found = {n for n in names if not any(p.fullmatch(n) for p in patterns)}
    return {PACKAGE / n for n in found | set(ast.literal_eval(tree.right))}


def _pattern(glob: str) -> str:
    parts = re.split(r"(\*\*/|\*\*|\*)", glob)
    regex = {"**/": "(.*/)?", "**": ".*", "*": "[^/]*"}
    return "".join(regex.get(part) or re.escape(part) for part in parts)


def file_of(module: str) -> Path | None:
    """The file of a module; None for a name that an import takes out of one."""
    path = REPO.joinpath(*module.split("."))
    return next((f for f in (path.with_suffix(".py"), path / "__init__.py") if f.is_file()), None)


def test_what_compiles_has_all_it_imports() -> None:
    files = compiler_files()
    assert PACKAGE / "manifest" / "reader.py" not in files
    # The worker runs the command `compile`; the package's own names are looked up when asked for.
    reached, ahead = {PACKAGE / "__init__.py"}, [PACKAGE / "cli" / "compile.py"]
    ahead += [PACKAGE / "cli" / "__init__.py", PACKAGE / "crash.py"]
    while ahead:
        file = ahead.pop()
        if file in reached:
            continue
        reached.add(file)
        assert file in files, f"{file.relative_to(REPO)} is imported and no file of the compiler"
        ahead += [f for m in imports(file) if (f := file_of(m)) is not None]
    assert len(reached) > 90
