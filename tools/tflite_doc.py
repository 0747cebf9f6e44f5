#!/usr/bin/env python3
"""Writes the table of operators in docs/tflite.md from the rules of the front end.

python3 tools/tflite_doc.py            write it
python3 tools/tflite_doc.py --check    exit 1 if the page is out of date
"""

from __future__ import annotations

import inspect
import re
import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from mlftool.frontends.tflite.lower import FAMILIES  # noqa: E402
from mlftool.frontends.tflite.site import RULES  # noqa: E402

PAGE = ROOT / "docs" / "tflite.md"
TABLE = r"(<!-- operators: tools/tflite_doc.py -->\n).*?(\n<!-- end -->)"


def table() -> str:
    """Operators by family, with what the rule says of itself."""
    rows = [f"{len(RULES)} operators are supported:", "", "| operators | remarks |", "|---|---|"]
    for family in FAMILIES:
        module = f"mlftool.frontends.tflite.{family}"
        mine = {kind: rule for kind, rule in sorted(RULES.items()) if rule.__module__ == module}
        said = {kind: inspect.getdoc(rule) or "" for kind, rule in mine.items()}
        plain = [f"`{kind}`" for kind, text in said.items() if not text]
        if plain:
            rows.append(f"| {', '.join(plain)} | |")
        texts = dict.fromkeys(text for text in said.values() if text)
        for text in texts:
            kinds = ", ".join(f"`{kind}`" for kind, other in said.items() if other == text)
            rows.append(f"| {kinds} | {' '.join(text.split())} |")
    return "\n".join(rows)


def page(text: str) -> str:
    """The page with its table written anew."""
    return re.sub(TABLE, lambda m: m[1] + table() + m[2], text, flags=re.DOTALL)


def main() -> int:
    text = PAGE.read_text(encoding="utf-8")
    if sys.argv[1:] == ["--check"]:
        stale = page(text) != text
        if stale:
            print("docs/tflite.md: out of date, run 'python3 tools/tflite_doc.py'")
        return int(stale)
    PAGE.write_text(page(text), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
