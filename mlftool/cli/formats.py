"""Problems for machines: SARIF 2.1.0, and the commands by which GitHub's log marks lines.

People read both in the end, so they have ten of a kind and a count, as text has; JSON has all.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from mlftool.errors import CODES, Problem, most

FORMATS = ("text", "json", "sarif", "github")


def sarif(problems: Iterable[Problem]) -> str:
    """One run of mlftool."""
    from mlftool import __version__

    found = most(problems)
    rules = [_rule(code) for code in dict.fromkeys(p.code for p in found)]
    driver = {"name": "mlftool", "version": __version__, "rules": rules}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "results": list(map(_result, found)),
    }
    schema = "https://json.schemastore.org/sarif-2.1.0.json"
    return json.dumps({"$schema": schema, "version": "2.1.0", "runs": [run]}, indent=2)


def _rule(code: str) -> dict[str, Any]:
    """With all that GitHub's code scanning wants of a rule."""
    help = f"`mlftool explain {code}` has the cause, an example and the remedy."
    texts = {"shortDescription": CODES[code], "fullDescription": CODES[code], "help": help}
    return {"id": code, **{key: {"text": text} for key, text in texts.items()}}


def listed(problems: Iterable[Problem]) -> str:
    """As JSON."""
    return json.dumps({"schema_version": 1, "problems": list(map(vars, problems))}, indent=2)


def checked(file: str, problems: Sequence[Problem], warnings: Sequence[Problem]) -> dict[str, Any]:
    """What `check` found, for JSON."""
    found = {"problems": problems, "warnings": warnings}
    listed = {kind: [vars(p) for p in of] for kind, of in found.items()}
    return {"file": file, "ok": not problems, **listed}


def counted(warnings: Sequence[Problem]) -> str:
    """What `check` says of a file without problems."""
    count = f", {len(warnings)} warning{'s' * (len(warnings) > 1)}" if warnings else ""
    return f"no problems{count}"


def _result(problem: Problem) -> dict[str, Any]:
    made: dict[str, Any] = {
        "ruleId": problem.code,
        "level": problem.severity,
        "message": {"text": _text(problem)},
    }
    if problem.file:
        place: dict[str, Any] = {"artifactLocation": {"uri": quote(problem.file)}}
        if problem.line:
            place["region"] = {"startLine": problem.line, "startColumn": max(1, problem.column)}
        made["locations"] = [{"physicalLocation": place}]
    return made


def github(problems: Iterable[Problem]) -> str:
    """A line for each problem."""
    return "\n".join(map(_command, most(problems)))


def _command(problem: Problem) -> str:
    given = {"file": problem.file, "line": problem.line, "col": problem.column}
    words = [f"{key}={_property(str(value))}" for key, value in given.items() if value]
    words.append(f"title={problem.code}")
    return f"::{problem.severity} {','.join(words)}::{_escaped(_text(problem))}"


def _text(problem: Problem) -> str:
    where = f"{problem.path}: " if problem.path else ""
    return f"{where}{problem.message}" + (f"; {problem.help}" if problem.help else "")


def _escaped(text: str) -> str:
    """GitHub's runner reads a command to the end of its line."""
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _escaped(text).replace(":", "%3A").replace(",", "%2C")
