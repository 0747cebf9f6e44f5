"""Bazel's shards of a test target: each test runs in one, and what tests share is made once."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from seeds import sources
from shards import Shard, dealt
from shared import HARNESS, REPO

BUILD = (REPO / "tests" / "BUILD.bazel").read_text()
# Every way in which tests share something. What is made and what is run goes to a log.
TESTS = """
import os, sys, pytest
NAMES = ["a", "b", "c"]
def log(text):
    with open(os.environ["LOG"], "a") as file: file.write(text + "\\n")
@pytest.fixture(autouse=True)
def ran(request): log("ran " + request.node.nodeid)
@pytest.fixture(scope="session", autouse=True)
def everywhere(): pass
@pytest.fixture(scope="module")
def built(): log("made built")
@pytest.fixture(scope="module", params=["x", "y"])
def machine(request): log("made machine " + request.param)
@pytest.fixture(scope="module")
def cases(selected): log("made cases " + "".join(n for n in NAMES if selected(n)))
def test_alone(): pass
@pytest.mark.parametrize("k", range(3))
def test_independent(k, tmp_path): pass
@pytest.mark.parametrize("k", range(2))
def test_of_what_was_built(k, built): pass
@pytest.mark.parametrize("k", range(2))
def test_on_a_machine(k, machine): pass
@pytest.mark.parametrize("name", NAMES)
def test_case(name, cases): pass
@pytest.mark.together("name")
@pytest.mark.parametrize("level", [0, 1])
@pytest.mark.parametrize("name", NAMES)
def test_cached(name, level): log("kept " + name)
@pytest.mark.sampled(3)
@pytest.mark.parametrize("k", range(7))
def test_large(k): pass
@pytest.mark.sampled(2, table="both")
def test_of_both(): pass
@pytest.mark.sampled(2)
@pytest.mark.parametrize("size", [0, 1])
@pytest.mark.parametrize("form", range(4))
@pytest.mark.together("form")
def test_forms(form, size): pass
@pytest.mark.slow
def test_slow(): pass
def test_what_is_started_has_no_shards(): assert "TEST_TOTAL_SHARDS" not in os.environ
"""
FILE = """
import os, pytest
from test_all import log, ran, everywhere
pytestmark = pytest.mark.sampled(2)
@pytest.fixture(scope="module")
def workspace(): pass
def test_one(workspace): pass
def test_two(workspace): pass
def test_three(): pass
@pytest.mark.sampled(2)
@pytest.mark.parametrize("k", range(2))
def test_own(k): pass
@pytest.mark.sampled(2, table="both")
def test_too(): pass
"""
INI = """[pytest]
addopts = -p no:cacheprovider -m 'not slow'
pythonpath = tests/support
markers =
    slow
    together
    sampled
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A folder of tests with this repository's conftest.py."""
    support = tmp_path / "tests" / "support"
    support.mkdir(parents=True)
    for name in HARNESS:
        shutil.copy(REPO / "tests" / name, tmp_path / "tests" / name)
    (tmp_path / "pytest.ini").write_text(INI)
    (tmp_path / "tests" / "test_all.py").write_text(TESTS)
    (tmp_path / "tests" / "test_file.py").write_text(FILE)
    return tmp_path


def run(project: Path, shard: Shard | None, *arguments: str, seed: int | None = None) -> list[str]:
    """What a run of the project logged; with a seed, one of samples."""
    log = project / "log"
    log.write_text("")
    environment = {k: v for k, v in os.environ.items() if not k.startswith("TEST_")}
    environment |= {"LOG": str(log), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    environment["MLFTOOL_TEST_CASES"] = "all" if seed is None else "sampled"
    environment["MLFTOOL_RANDOM_SEED"] = str(seed)
    if shard:
        environment["TEST_TOTAL_SHARDS"] = str(shard.total)
        environment["TEST_SHARD_INDEX"] = str(shard.index)
        environment["TEST_SHARD_STATUS_FILE"] = str(project / f"status_{shard.index}")
    command = [sys.executable, "-m", "pytest", "tests", *arguments]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return log.read_text().splitlines()


@pytest.mark.parametrize("total", [3, 5])
def test_each_test_runs_in_exactly_one_shard(project: Path, total: int) -> None:
    whole = [line for line in run(project, None) if line.startswith("ran ")]
    assert len(whole) == len(set(whole)) == 42

    logs = [run(project, Shard(k, total)) for k in range(total)]

    assert Counter(x for log in logs for x in log if x.startswith("ran ")) == Counter(whole)
    made = [line for log in logs for line in log if line.startswith("made ")]
    # Once in all, whatever the number of shards.
    assert sorted(line for line in made if "cases" not in line) == [
        "made built",
        "made machine x",
        "made machine y",
    ]
    # What is cached is needed in one shard.
    kept = [{line for line in log if line.startswith("kept ")} for log in logs]
    assert sum(map(len, kept)) == 3
    # A case is made where it is looked at.
    assert sorted("".join(line.split()[2] for line in made if "cases" in line)) == list("abc")
    assert all((project / f"status_{k}").exists() for k in range(total))


def test_a_shard_has_its_part_of_what_was_asked_for(project: Path) -> None:
    logs = [run(project, Shard(k, 2), "-k", "independent") for k in range(2)]

    assert [len(log) for log in logs] == [2, 1]


def test_a_sample_is_a_part_that_changes(project: Path) -> None:
    """Tests that share something are in it together, and each is in the sample of some seed."""
    whole = {line for line in run(project, None) if line.startswith("ran ")}
    tables = ("test_large", "test_forms", "test_of_both", "test_file")
    small = {line for line in whole if not any(name in line for name in tables)}
    samples = [{*run(project, None, seed=seed)} & whole for seed in range(8)]
    shards = [{*run(project, Shard(k, 3), seed=0)} & whole for k in range(3)]

    assert all(
        len(sample) == len(small) + 3 + 4 + 2 + 1 + 1 and sample >= small for sample in samples
    )
    assert all(sum(f"[{k}-" in line for line in samples[0]) in (0, 2) for k in range(4))
    assert set.union(*samples) == whole
    assert set.union(*shards) == samples[0]
    assert sum(map(len, shards)) == len(samples[0])
    assert {*run(project, None, seed=0)} & whole == samples[0]


def test_bazel_runs_samples_unless_asked_for_all() -> None:
    lines = (REPO / ".bazelrc").read_text().splitlines()
    assert "test --test_env=MLFTOOL_TEST_CASES=sampled" in lines
    assert "test:all --test_env=MLFTOOL_TEST_CASES=all" in lines


def test_an_edit_of_the_compiler_takes_other_samples_but_for_templates() -> None:
    """After an edit of a template all that does not read it is left out (support/reads.py)."""
    paths = {path.relative_to(REPO).as_posix() for path in sources()}
    assert {"mlftool/compile.py", "mlftool/targets/kernels/dsp_small.py"} <= paths
    assert {"crt/include/tvm/runtime/crt/crt.h", "crt/src/runtime/crt/common/memory.c"} <= paths
    assert not any((REPO / p).match(name) for p in paths for name in ("*.j2", "mlf/*.h"))


@pytest.mark.parametrize("total", range(1, 9))
def test_shards_differ_by_a_unit_at_most(total: int) -> None:
    units = [*"aabcddde", *range(40)]

    places = dealt(units, total)

    counts = Counter(dict(zip(units, places, strict=True)).values())
    assert max(counts.values()) - min(counts[k] for k in range(total)) <= 1
    assert all(places[units.index(u)] == p for u, p in zip(units, places, strict=True))


def test_targets_with_shards_are_folders_of_tests() -> None:
    block = re.search(r"    shards = \{\n(.*?)\n    \},", BUILD, re.DOTALL)
    assert block
    counts = dict(re.findall(r'"(\w+)": (\d+),', block[1]))
    assert len(counts) >= 8
    for folder, count in counts.items():
        assert list((REPO / "tests" / folder).rglob("test_*.py")), folder
        assert int(count) > 1, folder


def test_no_target_runs_alone() -> None:
    """The other cores would idle meanwhile."""
    builds = [REPO / "tests" / "BUILD.bazel", *(REPO / "tests").glob("*/BUILD.bazel")]
    assert [path for path in builds if '"exclusive"' in path.read_text()] == []
