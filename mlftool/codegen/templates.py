"""The templates of generated files: Jinja, in the folders of operators, kernels and this file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined

from mlftool.codegen.compiled import Compiled
from mlftool.ir.holes import filled
from mlftool.ir.loops import END, each

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
    bytecode_cache=Compiled(Path(__file__)),  # the filters are here
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
_TEMPLATES.globals |= {"each": each, "end": END}


def render(template: str, **values: Any) -> str:
    """The template with `values`, and nothing else, filled in."""
    return filled(open_text(template, **values))


def open_text(template: str, **values: Any) -> str:
    """The same with the holes for numbers left open (ir/holes.py)."""
    hidden = _TEMPLATES.globals.keys() & values.keys()
    assert not hidden, f"{template}: values hide what every template calls: {', '.join(hidden)}"
    return _TEMPLATES.get_template(template).render(**values)
