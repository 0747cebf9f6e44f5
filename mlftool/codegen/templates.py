"""The templates of generated files: Jinja, in the folders of operators, kernels and this file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mlftool.ir.holes import filled

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
)

# Factors of 1 and addends of 0 are left out.
_TEMPLATES.filters["times"] = lambda n: "" if n == 1 else f" * {n}"
_TEMPLATES.filters["less"] = lambda n: "" if n == 0 else f" - {n}"


def render(template: str, **values: Any) -> str:
    """The template with `values`, and nothing else, filled in."""
    return filled(open_text(template, **values))


def open_text(template: str, **values: Any) -> str:
    """The same with the holes for numbers left open (ir/holes.py)."""
    return _TEMPLATES.get_template(template).render(**values)
