"""--update-golden writes what tests recorded anew; read the difference before you commit it."""

import gc
import math
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from typing import Any

import kept
import pytest
import reads
import samples
from shards import Shard, dealt, names_of, of_environment, unit_of


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite what tests recorded")


def pytest_pycollect_makemodule(module_path: Path) -> None:
    """Hypothesis draws the same examples in every run, however slow the machine is; others where
    MLF_FUZZ is set. Only files that use it import it, which takes a while."""
    if "from hypothesis" in module_path.read_text():
        from hypothesis import settings

        again = "MLF_FUZZ" not in os.environ
        settings.register_profile("tests", settings.get_profile("ci"), derandomize=again)
        settings.load_profile("tests")


@pytest.fixture(scope="session", autouse=True)
def cache_of_builds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where mlftool keeps what it builds: never the user's cache."""
    path = kept.builds() or tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MLFTOOL_CACHE", str(path))
        for name, value in kept.compiler_cache().items():
            patch.setenv(name, value)
        yield path
    kept.forget_old()


@pytest.fixture(scope="session", autouse=True)
def no_progress() -> Iterator[None]:
    """Commands that run in this process tell a log nothing of what takes long, since on a busy
    machine anything may, and tests compare all lines. Other processes get -q."""
    with pytest.MonkeyPatch.context() as patch:
        with suppress(ImportError):  # tests of these tests have no mlftool, or a part of one
            patch.setattr("mlftool.cli.terminal.LATER_S", math.inf)
        yield


@pytest.fixture(scope="module")
def selected(request: pytest.FixtureRequest) -> Callable[[str], bool]:
    """Whether a case of this file, by its name, is needed by the tests that were chosen.

    Files compile all their cases as one program; with `-k` only those that somebody looks at.
    """
    names: set[str] = set()
    for item in request.session.items:
        if item.path != request.path or "selected" not in getattr(item, "fixturenames", ()):
            continue
        if not hasattr(item, "callspec"):  # a test of no case in particular may look at any
            return lambda _: True
        names |= names_of(item)
    return names.__contains__


SHARD = pytest.StashKey[Shard]()
READS = pytest.StashKey[reads.Reads]()
ENDED = (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED)


def pytest_configure(config: pytest.Config) -> None:
    """Without the files whose tests passed when all that they read was what it is."""
    shard = of_environment()
    if shard is not None:
        config.stash[SHARD] = shard
    found = reads.of_run(config.invocation_params.args, shard)
    if found is not None and config.args == found.files:
        config.stash[READS] = found
        config.pluginmanager.register(found)
        config.args[:] = found.left


def pytest_report_header(config: pytest.Config) -> list[str]:
    found = config.stash.get(READS, None)
    return [found.summary()] if found else []


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of the tests that -k and -m leave, and of large tables a sample, those of this shard."""
    shard, found = config.stash.get(SHARD, None), config.stash.get(READS, None)
    if samples.wanted():
        others = samples.left_out(items, [unit_of(item) for item in items])
        if found:
            found.run_again(samples.with_others(items))
        config.hook.pytest_deselected(items=list(others))
        items[:] = [item for item in items if item not in others]
    if shard is None or not items:
        return
    units = [unit_of(item) for item in items]
    whole = found.units([item.path for item in items], units) if found else units
    places = dict(zip(whole, dealt(whole, shard.total), strict=True))
    mine = [item for item, unit in zip(items, units, strict=True) if places[unit] == shard.index]
    elsewhere = [i for i, unit in zip(items, units, strict=True) if places[unit] != shard.index]
    config.hook.pytest_deselected(items=elsewhere)
    items[:] = mine


def pytest_collection_finish() -> None:
    """What is imported and collected stays to the end: looking through it for garbage, again and
    again, takes 6 % of a run."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(400_000, 20, 100)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A shard with no test passes; all of them together have some. So does a run without files."""
    _without_hypothesis(session.config)
    found = session.config.stash.get(READS, None)
    none = exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED
    if none and (SHARD in session.config.stash or (found and not found.left)):
        session.exitstatus = pytest.ExitCode.OK
    ended = not (session.shouldfail or session.shouldstop)  # as -x does
    if ended and found and (none or exitstatus in ENDED):
        found.keep()


def _without_hypothesis(config: pytest.Config) -> None:
    """Its plugin imports it to say nothing of the examples that no test has drawn."""
    plugins = config.pluginmanager
    if "hypothesis" not in sys.modules and plugins.has_plugin("hypothesispytest"):
        plugins.unregister(name="hypothesispytest")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What the run cost, which does not depend on what else the machine does."""
    own, programs = (getrusage(who) for who in (RUSAGE_SELF, RUSAGE_CHILDREN))
    used = [u.ru_utime + u.ru_stime for u in (own, programs)]
    terminalreporter.line(f"processor seconds: {used[0]:.1f} here, {used[1]:.1f} in programs")


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport() -> Iterator[None]:
    """A test without the program it needs fails where Bazel runs it: bazelw installs them all."""
    made: Any = yield
    report = made.get_result()
    if report.skipped and "TEST_TMPDIR" in os.environ and isinstance(report.longrepr, tuple):
        reason = report.longrepr[2]
        if "not installed" in reason or "apt-get install" in reason:
            report.outcome = "failed"
            report.longrepr = f"{reason}: bazelw should have done that"
