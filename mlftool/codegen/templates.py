"""The templates of generated files: Jinja, in the folders of operators, kernels and this file."""

from __future__ import annotations

import os
import pickle
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jinja2
from jinja2 import BytecodeCache, Environment, FileSystemLoader, StrictUndefined
from jinja2.bccache import Bucket

from mlftool.files import default_cache, read_plain
from mlftool.ir.holes import filled


class _Compiled(BytecodeCache):
    """Templates that an earlier process compiled, in the user's cache: compiling them takes a
    quarter of `mlftool check`. What cannot be read or written there is done without.

    Jinja compares the digest of the template's source and the version of Python.
    """

    def _file(self, bucket: Bucket) -> Path:
        return default_cache() / "templates" / jinja2.__version__ / bucket.key

    def load_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError, EOFError, ValueError, pickle.UnpicklingError):
            bucket.bytecode_from_string(read_plain(self._file(bucket)))

    def dump_bytecode(self, bucket: Bucket) -> None:
        with suppress(OSError):
            file = self._file(bucket)
            file.parent.mkdir(parents=True, exist_ok=True)
            handle, name = tempfile.mkstemp(dir=file.parent)  # aside, as others read meanwhile
            try:
                with open(handle, "wb") as stream:
                    bucket.write_bytecode(stream)
                os.rename(name, file)
            finally:
                Path(name).unlink(missing_ok=True)


_PACKAGE = Path(__file__).parent.parent
_TEMPLATES = Environment(
    loader=FileSystemLoader(
        [
            *(_PACKAGE / "ops", _PACKAGE / "fixedpoint", _PACKAGE / "targets" / "kernels"),
            _PACKAGE / "codegen",
        ]
    ),
    undefined=StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
    auto_reload=False,
    bytecode_cache=_Compiled(),
)


def _operation(operator: str, neutral: int) -> Callable[[int | str], str]:
    """A filter for the right side of an operator: nothing where it has no effect. Numbers that are
    holes stay for `filled` to leave out, since layers that share a function may differ in them."""
    return lambda n: "" if type(n) is int and n == neutral else f" {operator} {n}"


_TEMPLATES.filters |= {
    "times": _operation("*", 1),
    "over": _operation("/", 1),
    "plus": _operation("+", 0),
    "less": _operation("-", 0),
}


def render(template: str, **values: Any) -> str:
    """The template with `values`, and nothing else, filled in."""
    return filled(open_text(template, **values))


def open_text(template: str, **values: Any) -> str:
    """The same with the holes for numbers left open (ir/holes.py)."""
    return _TEMPLATES.get_template(template).render(**values)
