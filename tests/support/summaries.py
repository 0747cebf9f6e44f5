"""The five lines with which `compile` ends, among what it says, and the one of a slow compile."""

import re
from collections.abc import Iterable

_LINE = re.compile(
    r".* -> .*: tvmgen_\w+_run for .*|  (layers|weights|workspace|inputs and outputs|state) .*"
    r"|mlftool: compiling .* for .* \.\.\."
)


def without_summary(lines: Iterable[str]) -> list[str]:
    return [line for line in lines if not _LINE.fullmatch(line)]
