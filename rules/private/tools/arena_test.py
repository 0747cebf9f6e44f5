"""`arena_test LESS.elf ENOUGH.elf ARGUMENTS OF mlftool run`: a reported arena, and a byte less."""

from __future__ import annotations

import contextlib
import io
import sys

from mlftool.cli import main as mlftool
from mlftool.errors import CHECK_FAILED

REFUSAL = "bytes is too small"


def main(arguments: list[str]) -> int:
    """0 when the reported arena is enough and one byte less is refused."""
    less, enough, *run = arguments
    print("with the arena that is reported:", flush=True)
    if code := mlftool([*run, "--runner", enough]):
        return code
    print("with one byte less:", flush=True)
    talk = io.StringIO()
    with contextlib.redirect_stderr(talk), contextlib.redirect_stdout(talk):
        code = mlftool([*run, "--runner", less])
    print(talk.getvalue(), end="")
    if code == CHECK_FAILED and REFUSAL in talk.getvalue():
        print("refused, as it should be")
        return 0
    print("the module ran: the arena that is reported is larger than it need be")
    return CHECK_FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
