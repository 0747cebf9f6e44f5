"""Writes the generated parts of docs/, or with --check says which are out of date (exit 1).

Run it after adding a manifest key or an error code: `python3 tools/docs.py`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from mlftool.errors import CODES  # noqa: E402
from mlftool.manifest.reference import key_reference  # noqa: E402

BEGIN = "<!-- Below here tools/docs.py writes. -->\n"

AREAS = {
    "01": "The manifest",
    "02": "The model file",
    "03": "Operators",
    "04": "Flags and targets",
    "05": "Archives",
    "06": "Running and checking",
    "07": "The machine mlftool runs on",
    "09": "Bugs of mlftool",
}

ERRORS_TOP = """# Error codes

Every error is one line, followed by at most one line of help:

```
FILE:LINE:COL: error[MLFnnnn]: KEY.PATH: what is wrong; got X, expected Y
help: what to do
```

A command prints every problem it finds in one run, and exits with 2 for bad input, 1 for a failed
check or budget, 3 if something is missing on the machine and 4 for a bug in mlftool.

`mlftool explain MLFnnnn` says more of a code: the cause, an example and the remedy. `mlftool check
--format sarif` and `--format github` print problems for code review: the former for tools that read
SARIF 2.1.0, the latter so that a workflow on GitHub marks the lines.

"""


def errors_page() -> str:
    """The page of all codes, grouped by the area their first two digits name."""
    lines = []
    for area, title in AREAS.items():
        rows = [f"| `{c}` | {text} |" for c, text in sorted(CODES.items()) if c[3:5] == area]
        if rows:
            lines += [f"## {title}", "", "| code | meaning |", "|---|---|", *rows, ""]
    return ERRORS_TOP + BEGIN + "\n" + "\n".join(lines)


def manifest_page(current: str) -> str:
    """The page about manifests with its reference renewed; what is written by hand stays."""
    by_hand, found, _ = current.partition(BEGIN)
    assert found, "docs/manifest.md lost the line that ends its hand-written part"
    return by_hand + BEGIN + "\n" + key_reference()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--check", action="store_true", help="write nothing, exit 1 on a difference"
    )
    check = parser.parse_args().check
    manifest, errors = ROOT / "docs" / "manifest.md", ROOT / "docs" / "errors.md"
    pages = {manifest: manifest_page(manifest.read_text(encoding="utf-8")), errors: errors_page()}
    stale = [p for p, text in pages.items() if not p.is_file() or p.read_text("utf-8") != text]
    for page in stale:
        name = page.relative_to(ROOT)
        print(f"{name}: out of date, run 'python3 tools/docs.py'" if check else f"{name}: written")
        if not check:
            page.write_text(pages[page], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
