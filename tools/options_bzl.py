"""Writes rules/private/options.bzl: `python3 tools/options_bzl.py [--check]`.

Starlark cannot read Python. To be run after a change of the options, the executors or the cross
compilers; the pages that show them are written along with it, so that nothing else is to be done.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from mlftool.codegen.executors import EXECUTORS  # noqa: E402
from mlftool.manifest.starlark import literal  # noqa: E402
from mlftool.options import (  # noqa: E402
    FILES,
    OPTIONS,
    Choice,
    Need,
    Option,
    Several,
    Switch,
    Whole,
    Word,
)
from mlftool.runtime.toolchain import ALTERNATIVES, CROSS  # noqa: E402

FILE = ROOT / "rules" / "private" / "options.bzl"
LISTED = 64  # numbers; of more the compiler says which are allowed
PAGES = ("docs.py", "rules_doc.py")
HEADER = '''"""What mlftool knows and rules must know before it runs: options, executors, compilers.

Written by tools/options_bzl.py from mlftool/options.py, mlftool/codegen/executors and
mlftool/runtime/toolchain.py: edit those and run it.
"""

'''
EXECUTOR_TABLE = """# Executor -> how its C files end, by the interface; the first is its usual one.
EXECUTORS = {
"""
NEEDS = """# File -> as `needs` of an option.
FILES = {
"""
TABLE = """}

# Attribute -> its default, the executors that understand it (none: all), what `mlftool compile`
# calls it, its kind, what it needs of others (their values, and its own that need it; none: all),
# the value that the default stands for, and the values it may have (none: see its checks).
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
        case Whole(first, last) if last - first < LISTED:
            return "int", {"default": option.default, "values": list(range(first, last + 1))}
        case Whole():
            return "int", {"default": option.default}
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
    rows |= {"needs": list(map(need, option.needs)), "stands_for": option.meant(option.default)}
    rows["values"] = given.get("values", [])
    text = [f"        {name} = {literal(value, '        ')},\n" for name, value in rows.items()]
    return f"    {json.dumps(option.name)}: struct(\n{''.join(text)}    ),\n"


def need(of: Need) -> list[object]:
    """Yes and no are 1 and 0 where there are three values."""
    return [of.option, of.value, [] if of.when is None else [int(of.when)]]


def executors_text() -> str:
    docs = [f"`{name}` is {executor.doc}" for name, executor in EXECUTORS.items()]
    doc = f"How the module runs: {', '.join(docs)}. All give the same bits."
    rows = [
        f"    {json.dumps(name)}: {literal({i: list(f) for i, f in e.sources.items()}, '    ')},\n"
        for name, e in EXECUTORS.items()
    ]
    return f"EXECUTOR_DOC = {json.dumps(doc)}\n\n{EXECUTOR_TABLE}{''.join(rows)}}}\n\n"


def compilers_text() -> str:
    """What names of cross compilers begin with, and the constraints that choose among several."""
    others = ["usual", *dict.fromkeys(other.name for other in ALTERNATIVES)]
    lists = {"TOOLCHAINS": sorted(CROSS), "C_TOOLCHAINS": others}
    return "".join(f"{name} = {literal(words, '')}\n\n" for name, words in lists.items())


def text() -> str:
    """The whole file."""
    ordered = sorted(OPTIONS.values(), key=lambda option: option.name)
    files = [
        f"    {json.dumps(name)}: {literal(list(map(need, needs)), '    ')},\n"
        for name, needs in FILES.items()
    ]
    return (
        HEADER
        + executors_text()
        + compilers_text()
        + f"{NEEDS}{''.join(files)}}}\n\n"
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
