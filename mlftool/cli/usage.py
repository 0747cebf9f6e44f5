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

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        """As argparse's, but lines that are indented are commands to copy, and paths stay whole."""
        filled = (
            line if line.startswith(" ") else textwrap.fill(line, width, **_WHOLE)
            for line in text.splitlines()
        )
        return textwrap.indent("\n".join(filled), indent)

    def _split_lines(self, text: str, width: int) -> list[str]:
        return textwrap.wrap(" ".join(text.split()), width, **_WHOLE)


_WHOLE: dict[str, Any] = {"break_long_words": False, "break_on_hyphens": False}
