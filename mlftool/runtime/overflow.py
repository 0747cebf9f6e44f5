"""What a linker says of memories that are too small and of missing system calls, in our words."""

from __future__ import annotations

import re

# What newlib's printf, malloc and exit call, which the board or an operating system has.
_SYSTEM_CALL = re.compile(
    "_(close|exit|fini|fork|fstat|getpid|isatty|kill|link|lseek|open|read|sbrk|stat|times|unlink|"
    "wait|write)"
)
_UNDEFINED = re.compile(r"undefined reference to [`']([^`']+)'")
_OVERFLOW = re.compile(r"region [`']([\w.]+)'[:]? overflowed by (\d+) bytes")


def too_small(stderr: str, link_map: str) -> str:
    """Each memory with its size, the size needed and the difference; "" if all are large enough.

    `link_map` is what the linker wrote with -Map: its first table has the memories of the script.
    """
    over = {name: int(count) for name, count in _OVERFLOW.findall(stderr)}
    rows = re.findall(r"^(\w+) +0x[0-9a-f]+ +0x([0-9a-f]+)", link_map, re.M)
    has = {name: int(length, 16) for name, length in rows}
    return "; ".join(
        f"{name} is {has[name]:,} bytes, {has[name] + count:,} are needed: {count:,} too many"
        if name in has
        else f"{name} is {count:,} bytes too small"
        for name, count in over.items()
    )


def missing_calls(stderr: str) -> tuple[str, ...]:
    """The C library's system calls that a program lacks; none if it lacks anything else, too."""
    names = dict.fromkeys(_UNDEFINED.findall(stderr))
    return tuple(names) if all(map(_SYSTEM_CALL.fullmatch, names)) else ()
