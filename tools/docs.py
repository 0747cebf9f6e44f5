"""Writes the generated parts of docs/, or with --check says which are out of date (exit 1).

Run it after adding a manifest key, an error code or a command: `python3 tools/docs.py`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

from mlftool.cli import GROUPED, parser_of  # noqa: E402
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

A command reports all problems in one run, at most ten of one kind and then their number. It exits
with 2 for bad input, 1 for a failed check or budget, 3 if something is missing on the machine and 4
for a bug in mlftool.

`mlftool explain MLFnnnn` prints the cause, an example and the remedy of a code. Every command but
`sbom`, whose formats are its own, takes `--format sarif`, `github` or `json`: `sarif` is for tools
that read SARIF 2.1.0, `github` for annotations in a GitHub workflow. Problems go to stderr; only
`mlftool check`, whose data they are, prints these forms to stdout (`--format sarif > found.sarif`).

"""


def errors_page() -> str:
    """The page of all codes, grouped by the area their first two digits name."""
    lines = []
    for area, title in AREAS.items():
        rows = [f"| `{c}` | {text} |" for c, text in sorted(CODES.items()) if c[3:5] == area]
        if rows:
            lines += [f"## {title}", "", "| code | meaning |", "|---|---|", *rows, ""]
    return ERRORS_TOP + BEGIN + "\n" + "\n".join(lines)


COMMANDS_TOP = """# Commands

`mlftool COMMAND --help` and `mlftool man COMMAND` describe the options of a command; `mlftool
completion SHELL` prints a script that completes them. Data go to stdout, messages to stderr. Exit
codes: 0 success; 1 a check, comparison or budget failed; 2 bad input; 3 something on this machine
is missing or full; 4 a bug in mlftool; 130 Ctrl-C, 129 SIGHUP, 143 SIGTERM. A command that exits
with 2, 3 or by a signal leaves its output file unchanged, even if only stdout is closed or full;
commands that write many files (`build`, `watch`, `extract`, `library`, `man --all`) keep the files
that were complete.

Every command takes `-q` (no progress, no warnings), `-v` (each step and its time) and
`--color auto|always|never`, before or after its name; `auto` uses no colours if NO_COLOR is set.
`--json` prints an object whose `schema_version` is 1; later versions only add keys.
[json.md](json.md) lists the keys of each command, [rules.md](rules.md) the rules of Bazel.

"""


# What a build uses in the place of a command. The others are for a person at a terminal.
RULES = {
    "bazel": ("mlf_manifest_test",),
    "bench": ("mlf_analysis", "mlf_benchmark"),
    "build": ("mlf_manifest_repository",),
    "check": ("mlf_analysis",),
    "compare": ("mlf_analysis",),
    "compile": ("mlf_compile", "mlf_package"),
    "diff": ("mlf_analysis", "mlf_diff_test"),
    "extract": ("mlf_cc_library", "mlf_project"),
    "graph": ("mlf_analysis",),
    "inspect": ("mlf_analysis",),
    "library": ("mlf_shared_library",),
    "memmap": ("mlf_analysis",),
    "micro": ("mlf_firmware", "mlf_firmware_test"),
    "ops": ("mlf_analysis",),
    "profile": ("mlf_analysis",),
    "quantize": ("mlf_quantize",),
    "report": ("mlf_analysis", "mlf_report"),
    "run": ("mlf_host_test", "mlf_device_test"),
    "runner": ("mlf_runner",),
    "sbom": ("mlf_analysis",),
    "size": ("mlf_analysis", "mlf_size_report"),
    "trace": ("mlf_analysis",),
    "tune": ("mlf_tune",),
    "verify": ("mlf_analysis",),
}


def commands_page() -> str:
    """The page of all commands, by what they are for."""
    lines = []
    for title, found in GROUPED.items():
        rows = [
            f"| `{name}` | {text} | {_has_json(name)} | {_rules(name)} |"
            for name, text in found.items()
        ]
        heads = ["| command | what it does | `--json` | Bazel rule |", "|---|---|---|---|"]
        lines += [f"## {title.capitalize()}", "", *heads, *rows, ""]
    return COMMANDS_TOP + BEGIN + "\n" + "\n".join(lines)


def _rules(command: str) -> str:
    return ", ".join(f"`{rule}`" for rule in RULES.get(command, ())) or "-"


def _has_json(command: str) -> str:
    return "yes" if "--json" in parser_of(command)._option_string_actions else "-"


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
    pages[ROOT / "docs" / "commands.md"] = commands_page()
    stale = [p for p, text in pages.items() if not p.is_file() or p.read_text("utf-8") != text]
    for page in stale:
        name = page.relative_to(ROOT)
        print(f"{name}: out of date, run 'python3 tools/docs.py'" if check else f"{name}: written")
        if not check:
            page.write_text(pages[page], encoding="utf-8")
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
