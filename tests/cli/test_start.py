"""What the console script does around a command, so that it starts and ends quickly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# What an exit handler finds, after a command that ended in the given way.
RUN = """
import atexit, gc, os, sys
def told():
    print(gc.get_freeze_count() > 10_000, os.environ["OPENBLAS_NUM_THREADS"])
atexit.register(told)
from mlftool.start import main
sys.argv[1:] = {words}
sys.exit(main())
"""


@pytest.mark.parametrize("words", [["explain", "MLF0400"], ["--version"], ["no-such"]])
@pytest.mark.parametrize(("given", "threads"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_objects_are_frozen_at_the_end(
    words: list[str], given: dict[str, str], threads: str
) -> None:
    """Python then looks for no circles among them; numpy gets one thread unless told otherwise."""
    known = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    paths = os.pathsep.join(filter(None, [str(ROOT), *sys.path]))
    run = subprocess.run(
        [sys.executable, "-c", RUN.replace("{words}", repr(words))],
        env={**known, "PYTHONPATH": paths, **given},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout.splitlines()[-1:] == [f"True {threads}"], run.stderr
