"""The first lines of a command's help: what has to be given."""

from __future__ import annotations

import argparse
import textwrap
from typing import Any


class HelpFormatter(argparse.HelpFormatter):
    """argparse's, whose usage lists every option before the help lists them again: thirty lines
    of them say less than one that has the required ones."""

    def _format_usage(self, usage: Any, actions: Any, groups: Any, prefix: str | None) -> str:
        if prefix == "":  # the words before a subcommand
            return super()._format_usage(usage, actions, groups, prefix)
        positional = [a for a in actions if not a.option_strings]
        required = [a for a in actions if a.option_strings and a.required]
        options = argparse.Action([], "options", nargs="?", metavar="options")
        shown = [*required, options, *positional]
        words = super()._format_usage(usage, shown, (), prefix)
        line = " ".join(words.split())
        return textwrap.fill(line, self._width, subsequent_indent=" " * 4, **_WHOLE) + "\n\n"


_WHOLE: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
