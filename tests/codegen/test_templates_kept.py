"""Templates that one process compiled are there for the next, and nothing depends on that."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from jinja2 import DictLoader, Environment, TemplateSyntaxError

from mlftool.codegen.templates import _Compiled


def rendered(text: str = "int a = {{ n }};") -> str:
    """As a new process does it: an environment that has compiled nothing yet."""
    found = Environment(loader=DictLoader({"t": text}), bytecode_cache=_Compiled())
    return found.get_template("t").render(n=7)


def test_a_template_is_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFTOOL_CACHE", str(tmp_path))
    assert rendered() == "int a = 7;"
    with monkeypatch.context() as patched:
        patched.setattr(Environment, "compile", lambda *_, **__: pytest.fail("compiled again"))
        assert rendered() == "int a = 7;"
    assert rendered("long a = {{ n }};") == "long a = 7;"  # of another source
    assert [p for p in tmp_path.rglob("*") if p.is_file() and len(p.name) != 40] == []


DAMAGES: dict[str, Callable[[Path], object]] = {
    "empty": lambda f: f.write_bytes(b""),
    "cut": lambda f: f.write_bytes(f.read_bytes()[:-40]),
    "cut in the digest": lambda f: f.write_bytes(f.read_bytes()[:30]),
    "foreign": lambda f: f.write_bytes(b"not a template" * 9),
    "a folder": lambda f: (f.unlink(), f.mkdir()),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_is_damaged_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
) -> None:
    monkeypatch.setenv("MLFTOOL_CACHE", str(tmp_path))
    rendered()
    (file,) = (p for p in tmp_path.rglob("*") if p.is_file())
    DAMAGES[damage](file)
    assert rendered() == "int a = 7;"


def test_no_cache_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFTOOL_CACHE", "/dev/null/no/folder")
    assert rendered() == "int a = 7;"
    with pytest.raises(TemplateSyntaxError):
        rendered("{{")
