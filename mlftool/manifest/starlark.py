"""The text of BUILD files and of the .bzl files beside them, laid out as buildifier does."""

from __future__ import annotations

import json
from collections.abc import Sequence


def literal(value: object, indent: str = "    ") -> str:
    """`value` as Starlark, laid out as buildifier does."""
    if isinstance(value, str):
        return json.dumps(value)
    if isinstance(value, dict):
        rows = [f"{json.dumps(k)}: {literal(v, indent + '    ')}" for k, v in value.items()]
        return _block("{", rows, "}", indent)
    if isinstance(value, list | tuple):
        if len(value) == 1:
            return f"[{literal(value[0], indent)}]"
        return _block("[", [literal(item, indent + "    ") for item in value], "]", indent)
    return repr(value)


def _block(start: str, rows: list[str], end: str, indent: str) -> str:
    if not rows:
        return start + end
    return start + "".join(f"\n{indent}    {row}," for row in rows) + f"\n{indent}{end}"


def call(rule: str, **attributes: object) -> str:
    """One call of a rule; attributes without value are left out, in buildifier's order."""
    given = {k: v for k, v in attributes.items() if v not in (None, "", (), [], {})}
    order = sorted(given, key=lambda k: (k != "name", k != "size", k))
    return rule + "(" + "".join(f"\n    {k} = {literal(given[k])}," for k in order) + "\n)\n"


def loaded(rules: str, calls: Sequence[str]) -> str:
    """A load of every rule that is called, and the calls."""
    names = sorted({text.partition("(")[0] for text in calls})
    quoted = ", ".join(json.dumps(name) for name in names)
    return f'load("{rules}//rules:defs.bzl", {quoted})\n\n' + "\n".join(calls)


def constant(name: str, comment: str, value: object) -> str:
    """A documented constant; labels are resolved in this repository, wherever it is loaded."""
    text = literal(value, "")
    if isinstance(value, list):
        text = f"[str(Label(label)) for label in {text}]"
    return f"# {comment}\n{name} = {text}\n\n"
