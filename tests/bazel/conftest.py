"""A built copy of examples/external_workspace, shared by the tests of this folder."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import kept
import pytest
from nested import EVERYTHING, SERVERS, Workspace, digests, make_workspace, one_at_a_time


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The disk cache that all workspaces share, those of other shards, too."""
    return kept.actions() or tmp_path_factory.mktemp("disk_cache")


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory, cache: Path) -> Iterator[Workspace]:
    """The workspace after a first full build."""
    workspace = make_workspace(tmp_path_factory.mktemp("first"), cache)
    workspace.bazel("build", "--nobuild", *workspace.options(), *EVERYTHING)
    with one_at_a_time(cache):
        first = workspace.build(*EVERYTHING)
    # What the other tests count must be there to be counted.
    assert {"MlfCompile", "MlfRunner", "CppCompile", "MlfLink"} <= {a["mnemonic"] for a in first}
    workspace.first = digests(first)
    yield workspace
    workspace.shutdown()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What tools/suite_seconds.py adds to the processor seconds of the run itself."""
    terminalreporter.line(f"processor seconds: {sum(SERVERS):.1f} in servers")
