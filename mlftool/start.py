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
    import gc

    # Modules and graphs are no garbage: a search after each 700 objects is a tenth of the time.
    gc.set_threshold(100_000)

    from mlftool.cli import main as command

    return command()
