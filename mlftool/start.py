"""The console script: Ctrl-C ends it with one line, also while it imports its modules and exits.

It imports nothing that takes time. `signal` imports enum, which takes longer than all that is here;
Python's own `_signal` does not.
"""

from __future__ import annotations

import _signal
import gc
import os

from mlftool.stopped import stopped


def main() -> int:
    """Run the command line. Returns its exit code."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # not of nohup
        _signal.signal(_signal.SIGINT, stopped)
    # What is imported stays, and what a compiler makes is rarely garbage in circles: to look for it
    # every 700 objects, as Python does, takes a twentieth of the time for a small model.
    gc.set_threshold(100_000)
    # numpy's OpenBLAS starts a thread for each processor, which spins before it sleeps: another
    # twentieth. mlftool has few large products of matrices.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from mlftool.cli import main as command

    try:
        return command()
    finally:
        # Python looks for circles once more while it exits, at a sixth of the time for a small
        # model. What is frozen it does not visit.
        gc.freeze()
