"""Builds by real remote caches and a real remote execution service, counted in execution logs."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import onnx
import pytest
from servers import MissingError, Service, execution, nginx

sys.path.insert(0, os.path.abspath(Path(__file__).parents[1] / "bazel"))
from nested import Workspace, digests, make_workspace

pytestmark = pytest.mark.sampled(4)

# A model's whole chain for the host and for a board: compile, unpack, C compile, link.
CHAIN = ("@models//gesture_int8:host_runner", "@models//gesture_int8:cortex-m4_runner")
KINDS = {"MlfCompile", "MlfRunner", "CppCompile", "MlfLink"}
PACKAGE = """load("@mlftool//rules:defs.bzl", "mlf_compile")
mlf_compile(name = "declared", model = "split.onnx", data = ["split.data"])
genrule(name = "peek", outs = ["seen"], cmd = "cat split/split.data > $@")
"""


@pytest.fixture(scope="module")
def checkouts(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Workspace, Workspace]]:
    """The same files at two paths; each with an output base of its own and no disk cache."""
    folder = tmp_path_factory.mktemp("checkouts")
    pair = tuple(make_workspace(folder / name, Path()) for name in ("one", "another_checkout"))
    yield pair[0], pair[1]
    for workspace in pair:
        workspace.shutdown()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    try:
        with execution(tmp_path_factory.mktemp("service") / "buildgrid") as service:
            yield service
    except MissingError as error:
        pytest.skip(str(error))


def build_anew(workspace: Workspace, remote: Sequence[str], *targets: str) -> list[dict[str, Any]]:
    """The actions of a build that finds nothing done in its own folders."""
    workspace.bazel("clean")
    return workspace.build("--disk_cache=", *remote, *targets)


def assert_all_hits(actions: list[dict[str, Any]], first: list[dict[str, Any]]) -> None:
    """Every action came from the cache, and made what the first checkout made."""
    missed = [action["listedOutputs"] for action in actions if not action.get("remoteCacheHit")]
    assert missed == []
    assert {action["mnemonic"] for action in actions} >= KINDS
    assert digests(actions) == digests(first)


@pytest.fixture(scope="module")
def http_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[str]]:
    try:
        with nginx(tmp_path_factory.mktemp("http") / "nginx") as address:
            yield [f"--remote_cache={address}"]
    except MissingError as error:
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def local(checkouts: tuple[Workspace, Workspace], http_cache: list[str]) -> list[dict[str, Any]]:
    """The actions of the chain, done in the first checkout and given to the HTTP cache."""
    return build_anew(checkouts[0], http_cache, *CHAIN)


def test_nginx_is_a_cache(
    checkouts: tuple[Workspace, Workspace], local: list[dict[str, Any]], http_cache: list[str]
) -> None:
    second = build_anew(checkouts[1], http_cache, *CHAIN)

    assert Counter(bool(a.get("remoteCacheHit")) for a in local)[False] > 20
    assert_all_hits(second, local)


def test_buildgrid_is_a_cache(checkouts: tuple[Workspace, Workspace], service: Service) -> None:
    options = service.cache_options()
    first = build_anew(checkouts[1], options, CHAIN[1])
    second = build_anew(checkouts[0], options, CHAIN[1])

    assert Counter(bool(a.get("remoteCacheHit")) for a in first)[False] > 10
    assert_all_hits(second, first)


def test_the_whole_chain_runs_remotely(
    checkouts: tuple[Workspace, Workspace], local: list[dict[str, Any]], service: Service
) -> None:
    """No action runs here, and what they make is what they made here."""
    options = [*service.execution_options(), "--noremote_accept_cached", "--spawn_strategy=remote"]
    actions = build_anew(checkouts[1], options, *CHAIN)

    assert {action["runner"] for action in actions} == {"remote"}
    assert {action["mnemonic"] for action in actions} >= KINDS
    assert digests(actions) == digests(local)


def test_undeclared_inputs_fail_remotely(
    checkouts: tuple[Workspace, Workspace], service: Service
) -> None:
    workspace = checkouts[0]
    package = workspace.folder / "split"
    package.mkdir()
    model = onnx.load(str(workspace.folder / "models" / "vibration_int8.onnx"))
    onnx.save_model(
        model, str(package / "split.onnx"), save_as_external_data=True, location="split.data",
        size_threshold=0,
    )  # fmt: skip
    (package / "BUILD.bazel").write_text(PACKAGE)
    options = [*service.execution_options(), "--spawn_strategy=remote"]

    actions = build_anew(workspace, [*options, "--noremote_accept_cached"], "//split:declared")
    peek = ["--disk_cache=", "//split:peek"]
    talk = workspace.bazel("build", *workspace.options(), *options, *peek, fails=True)
    # The same action finds the file where nothing is kept from it.
    local = [*service.cache_options(), "--spawn_strategy=local"]
    workspace.bazel("build", *workspace.options(), *local, *peek)

    # Nothing is left of a build before, so the compiler's own modules are made, too.
    done = sorted((a["mnemonic"], a["runner"]) for a in actions)
    assert [name for name, _ in done] == ["MlfBytecode", "MlfCompile"]
    assert {runner for _, runner in done} == {"remote"}
    assert "cat: split/split.data: No such file or directory" in talk
