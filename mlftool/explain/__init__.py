"""What each error code means at length: `mlftool explain CODE`, which needs no network.

`mlftool.errors.CODES` has one sentence for each; here are the cause, an example and the remedy.
"""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.errors import CODES, MlfError, Problem, did_you_mean
from mlftool.explain import devices, manifests, models
from mlftool.explain.text import Explanation
from mlftool.width import filled

EXPLANATIONS: Mapping[str, Explanation] = {
    **manifests.EXPLANATIONS,
    **models.EXPLANATIONS,
    **devices.EXPLANATIONS,
}


def code_of(word: str) -> str:
    """The code that a user means: `MLF0301`, `mlf0301` or `301`. Raises MlfError."""
    digits = word.upper().removeprefix("MLF")
    code = f"MLF{digits.zfill(4)}" if digits.isdecimal() and digits.isascii() else word.upper()
    if code not in CODES:
        text = f"no such error code; got '{word}', expected a code such as MLF0301"
        raise MlfError(Problem("MLF0400", text, help=_near(code)))
    return code


def _near(code: str) -> str:
    help = did_you_mean(code, CODES)
    return help if help.startswith("did you mean") else "mlftool explain lists all codes"


def text(code: str) -> str:
    """The page of a code for a terminal."""
    found = EXPLANATIONS[code]
    example = "\n".join(f"    {line}".rstrip() for line in found.example.splitlines())
    return "\n\n".join(
        [
            filled(f"{code}: {CODES[code]}"),
            filled(found.cause),
            f"Example:\n\n{example}",
            filled(f"Remedy: {found.remedy}"),
        ]
    )


def to_json(code: str) -> dict[str, str]:
    """The same for scripts."""
    found = EXPLANATIONS[code]
    return {
        "code": code,
        "meaning": CODES[code],
        "cause": found.cause,
        "example": found.example,
        "remedy": found.remedy,
    }
