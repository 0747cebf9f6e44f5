"""Identifiers and comments made from names we do not trust."""

from __future__ import annotations

import re
from collections.abc import Iterable

# C99, C++20 and the macros of headers that generated code includes.
RESERVED = frozenset(
    [
        "alignas",
        "alignof",
        "and",
        "and_eq",
        "asm",
        "atomic_cancel",
        "atomic_commit",
        "atomic_noexcept",
        "auto",
        "bitand",
        "bitor",
        "bool",
        "break",
        "case",
        "catch",
        "char",
        "char8_t",
        "char16_t",
        "char32_t",
        "class",
        "compl",
        "concept",
        "const",
        "consteval",
        "constexpr",
        "constinit",
        "const_cast",
        "continue",
        "co_await",
        "co_return",
        "co_yield",
        "decltype",
        "default",
        "delete",
        "do",
        "double",
        "dynamic_cast",
        "else",
        "enum",
        "explicit",
        "export",
        "extern",
        "false",
        "float",
        "for",
        "friend",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "mutable",
        "namespace",
        "new",
        "noexcept",
        "not",
        "not_eq",
        "nullptr",
        "operator",
        "or",
        "or_eq",
        "private",
        "protected",
        "public",
        "reflexpr",
        "register",
        "reinterpret_cast",
        "requires",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "static_assert",
        "static_cast",
        "struct",
        "switch",
        "synchronized",
        "template",
        "this",
        "thread_local",
        "throw",
        "true",
        "try",
        "typedef",
        "typeid",
        "typename",
        "union",
        "unsigned",
        "using",
        "virtual",
        "void",
        "volatile",
        "wchar_t",
        "while",
        "xor",
        "xor_eq",
        "_Bool",
        "_Complex",
        "_Imaginary",
        "NULL",
        "NAN",
        "INFINITY",
        "errno",
        "linux",
        "unix",
        "main",
        "inputs",
        "outputs",
        "workspace",
        "global_workspace",
    ]
)


def sanitise(name: str) -> str:
    """TVM's rule: every character that is not an ASCII letter or digit becomes `_`."""
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def member_names(names: Iterable[str]) -> dict[str, str]:
    """A C identifier for each tensor name, different from the others even in upper case."""
    result: dict[str, str] = {}
    taken: set[str] = set()
    for name in names:
        base = sanitise(name)[:64] or "_"
        if base[0].isdigit() or base in RESERVED:
            base = "_" + base if base[0].isdigit() else base + "_"
        c_name, k = base, 1
        while c_name.upper() in taken:
            c_name = f"{base}_{k}"
            k += 1
        taken.add(c_name.upper())
        result[name] = c_name
    return result


def comment(text: str, limit: int = 72) -> str:
    """`text` as it may appear inside a C comment: no way out of it, one line, bounded."""
    safe = re.sub(r"[^A-Za-z0-9 _.,:;()\[\]<>=+-]", "_", text)
    return safe if len(safe) <= limit else safe[: limit - 3] + "..."
