"""A newcomer's first hour with Bazel, from a model to sizes in a review: docs/first_hour.md.

MLFTOOL_WRITE_PAGES=1 writes today's session into the page, of which the test compares the words.
"""

from __future__ import annotations

import os
import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from nested import count, make_workspace, programs
from newcomer import matches_page, network, typed
from shell import Shell

SIZES = (
    'load("@mlftool//rules:defs.bzl", "mlf_diff_test")',
    'load("@models//:defs.bzl", "FACTS")',
    'mlf_diff_test(name = "diff", baseline = "facts.json", facts = FACTS)',
)
COMMANDS = (
    "mlftool init doorbell.onnx --workspace mlftool",
    "cd doorbell",
    "bazel test @models//...",
    "bazel run @models//doorbell:report",
    "bazel run @models//doorbell:cortex-m4.profile",
    "bazel build @models//doorbell:cortex-m4.report",
    "sed -i 's/cortex-m4/cortex-m44/' models.yaml",
    "bazel build @models//...",
    "sed -i 's/cortex-m44/cortex-m4/' models.yaml",
    "mkdir sizes",
    "touch sizes/facts.json",
    f"printf '%s\\n' {' '.join(map(shlex.quote, SIZES))} > sizes/BUILD.bazel",
    "bazel run //sizes:diff -- --update",
    "sed -i 's/^    test:/    executor: graph\\n&/' models.yaml",
    "bazel test //sizes:diff",
    "bazel run //sizes:diff -- --markdown",
)
WRONG = {"bazel build @models//...": 1, "bazel test //sizes:diff": 3}
# How long it took, and what else depends on the day; where in our rules Bazel was.
DAILY = re.compile(
    r"INFO: |Loading: |Analyzing: |Starting local Bazel|There were tests whose|Repository "
    r"|.*(?:/server/|Traceback \(|in <toplevel>|fail\(|fetch of repository)"
)


@pytest.fixture
def shell(tmp_path: Path, cache: Path) -> Iterator[Shell]:
    """In a folder with a model and mlftool's sources."""
    made = make_workspace(tmp_path, cache)
    network(tmp_path / "doorbell.onnx")
    bin_folder = programs(tmp_path, made)
    with (tmp_path / "bazelrc").open("a") as file:
        file.write("build --noshow_progress --curses=no --color=no\n")
    kept = {k: v for k, v in os.environ.items() if k in ("LANG", "LC_ALL")}
    path = f"{bin_folder}:{os.environ['PATH']}"
    shell = Shell(tmp_path, {**kept, "HOME": str(tmp_path), "PATH": path})
    yield shell
    count(tmp_path / "server")
    shell.typed("bazel shutdown")
    shell.close()


def lasting(said: str, home: Path) -> list[str]:
    """What does not depend on the machine and the day."""
    text = re.sub(r"-ST-[0-9a-f]+", "-ST-0123456789ab", said.replace(str(home), "/home/you"))
    lines = text.replace("(cached) ", "").splitlines()
    return [line.rstrip() for line in lines if line.strip() and not DAILY.match(line)]


@pytest.mark.sampled(4, table="long builds")
@pytest.mark.skipif(
    not all(map(shutil.which, ("arm-none-eabi-gcc", "qemu-system-arm", "bash"))),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
def test_from_a_model_to_sizes_in_a_review(tmp_path: Path, shell: Shell) -> None:
    seen: list[str] = []
    for command in COMMANDS:
        status, said = shell.typed(command, 600)
        assert status == WRONG.get(command, 0), said
        assert "Traceback" not in said or command in WRONG, said  # Bazel's own, of a mistake
        seen += [f"$ {command}", *lasting(said, tmp_path)]
    assert "did you mean 'cortex-m4'?" in "\n".join(seen)
    matches_page(1, seen)


def test_the_page_runs_what_the_test_runs() -> None:
    assert typed(1) == list(COMMANDS)
