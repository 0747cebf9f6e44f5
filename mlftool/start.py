"""The console script: Ctrl-C ends it with one line, also while it imports its modules and exits.

It imports nothing that takes time. `signal` imports enum, which takes longer than all that is here;
Python's own `_signal` does not.
"""

from __future__ import annotations

import _signal

from mlftool.stopped import stopped


def main() -> int:
    """Run the command line. Returns its exit code."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # not of nohup
        _signal.signal(_signal.SIGINT, stopped)
    from mlftool.cli import main as command

    return command()
