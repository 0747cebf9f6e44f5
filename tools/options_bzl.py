"""Writes rules/private/options.bzl: `python3 tools/options_bzl.py [--check]`.

Starlark cannot read mlftool/options.py. To be run after a change of the options; the pages that
show them are written along with it, so that nothing else is to be done.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from mlftool.manifest.bazel import literal  # noqa: E402
from mlftool.options import OPTIONS, Choice, Option, Several, Switch, Whole, Word  # noqa: E402

FILE = ROOT / "rules" / "private" / "options.bzl"
PAGES = ("docs.py", "rules_doc.py")
HEADER = '''"""What can be asked of the compiler, as attributes.

Written from mlftool/options.py by tools/options_bzl.py: edit that and run this.
"""

'''
TABLE = """}

# Attribute -> its default, the executors that understand it (none: all), what `mlftool compile`
# calls it, its kind and the values it may have (none: see its checks).
OPTIONS = {
"""


def attribute(option: Option) -> tuple[str, dict[str, object]]:
    """The kind of attribute and what it is made with; of three values, -1 is the default."""
    match option.kind:
        case Choice(values=values):
            none = [""] if option.default is None else []
            return "string", {"default": option.default or "", "values": [*none, *values]}
        case Switch() if option.three_valued:
            return "int", {"default": -1, "values": [-1, 0, 1]}
        case Switch():
            return "bool", {"default": option.default}
        case Whole(first, last):
            return "int", {"default": option.default, "values": list(range(first, last + 1))}
        case Word():
            return "string", {"default": option.default}
        case Several():
            return "string_list", {}


def attribute_text(option: Option) -> str:
    kind, given = attribute(option)
    doc = option.doc
    if option.three_valued:
        doc += f" 1 is yes, 0 is no; default: {option.default_text}."
    rows = [
        f"        {name} = {literal(value, '        ')},\n"
        for name, value in {**given, "doc": doc}.items()
        if value not in ("", False)
    ]
    return f"    {json.dumps(option.name)}: attr.{kind}(\n{''.join(rows)}    ),\n"


def about_text(option: Option) -> str:
    kind, given = attribute(option)
    default = given.get("default", [])
    # TVM's switches take a value.
    flag = option.flag + ("=1" if kind == "bool" and option.of_tvm else "")
    rows = {"default": default, "executors": list(option.executors), "flag": flag, "kind": kind}
    rows["values"] = given.get("values", [])
    text = [f"        {name} = {literal(value, '        ')},\n" for name, value in rows.items()]
    return f"    {json.dumps(option.name)}: struct(\n{''.join(text)}    ),\n"


def text() -> str:
    """The whole file."""
    ordered = sorted(OPTIONS.values(), key=lambda option: option.name)
    return (
        HEADER
        + "OPTION_ATTRS = {\n"
        + "".join(map(attribute_text, ordered))
        + TABLE
        + "".join(map(about_text, ordered))
        + "}\n"
    )


def main(arguments: list[str]) -> int:
    """Writes the file and the pages, or with --check says whether the file is what it would be."""
    if "--check" in arguments:
        return 0 if FILE.read_text() == text() else 1
    FILE.write_text(text())
    for page in PAGES:
        subprocess.run([sys.executable, ROOT / "tools" / page], check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
