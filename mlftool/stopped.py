"""Ctrl-C while nothing is begun or all is done. Imports nothing that takes time."""

from __future__ import annotations

import os


def stopped(number: int, frame: object) -> None:
    """Ends the process at once: no file is open that needs to be closed."""
    try:
        os.write(2, b"mlftool: ended by SIGINT\n")
    finally:
        os._exit(128 + number)
