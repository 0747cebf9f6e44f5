"""What tests of the C runtime compile: parts by name, and the flags all of it is clean under."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).absolute().parents[2]
CRT = ROOT / "crt"
SOURCES = CRT / "src/runtime/crt"
HOST = CRT / "platform/host"

WARNINGS = (
    *("-std=c99", "-pedantic", "-Werror", "-Wall", "-Wextra", "-Wconversion", "-Wshadow"),
    *("-Wcast-align", "-Wundef", "-Wstrict-prototypes", "-Wvla"),
)
SANITIZE = ("-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
INCLUDES = (f"-I{CRT / 'include'}", f"-I{HOST}", f"-I{CRT / 'platform'}")


def part(name: str) -> list[str]:
    """The sources of one library, or of the host platform."""
    folder = HOST if name == "host" else SOURCES / name
    pattern = "tvm_platform.c" if name == "host" else "*.c"
    return sorted(str(path) for path in folder.glob(pattern))


def sources(test: str, *parts: str) -> list[str]:
    """Compiler arguments for a program: a test's file, parts of the runtime, where headers are."""
    return [*INCLUDES, str(ROOT / test), *(file for name in parts for file in part(name))]
