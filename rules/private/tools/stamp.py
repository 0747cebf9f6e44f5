"""`stamp STATUS.txt OUT.c`: version and commit as C, from the status of a workspace.

STATUS has a line for each key that `--workspace_status_command` printed and that begins with
STABLE_, and BUILD_EMBED_LABEL. What is not there is empty.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

# Symbol -> the key whose value it has.
KEYS = {"mlf_firmware_version": "BUILD_EMBED_LABEL", "mlf_firmware_commit": "STABLE_GIT_COMMIT"}


def source(status: str) -> str:
    """The C file."""
    values = dict(line.partition(" ")[::2] for line in status.splitlines())
    lines = ['#include "mlf_firmware.h"', ""]
    for symbol, key in KEYS.items():
        text = values.get(key, "").encode("ascii", "replace").decode()
        # JSON's spelling of ASCII text is C's, but for these two.
        literal = json.dumps(text).replace("?", "\\?").replace("\\u00", "\\x")
        lines.append(f"const char {symbol}[] = {literal};")
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    """Writes the file."""
    status, out = map(Path, arguments)
    out.write_text(source(status.read_text(encoding="utf-8", errors="replace")))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
