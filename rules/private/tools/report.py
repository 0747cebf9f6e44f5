"""`report ARGUMENTS OF mlftool run --report FILE`: measures; the reader of FILE judges."""

from __future__ import annotations

import contextlib
import io
import json
import sys
from pathlib import Path

from mlftool.cli import main as mlftool
from mlftool.errors import CHECK_FAILED

TIMES = ("microseconds", "microseconds_min")  # others in each build; mlf_benchmark measures them


def main(arguments: list[str]) -> int:
    """mlftool's exit code, except that results which are off are a finding and no failure."""
    report = Path(arguments[arguments.index("--report") + 1])
    # What it says is in the report too; a build of fifty reports has better things to show.
    with contextlib.redirect_stdout(io.StringIO()) as talk:
        code = mlftool(arguments)
    if code:
        print(talk.getvalue(), end="")
    if report.exists():
        found = {k: v for k, v in json.loads(report.read_text()).items() if k not in TIMES}
        report.write_text(json.dumps(found, indent=2) + "\n")
    return 0 if code == CHECK_FAILED and report.exists() else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
