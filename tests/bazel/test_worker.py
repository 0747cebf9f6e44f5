"""What Bazel's persistent workers make, compared with what sandboxed processes make."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pytest
from nested import ROOT, Workspace, copy_tree, digests, make_workspace

pytestmark = pytest.mark.sampled(4, table="long builds")

WORKER = ("--strategy=MlfCompile=worker", "--strategy=MlfPackage=worker", "--worker_sandboxing",
          "--noexperimental_worker_multiplex")  # fmt: skip
MULTIPLEX = (*WORKER[:2], "--noworker_sandboxing", "--experimental_worker_multiplex")
JSON = ("--//rules/settings:worker=json", "--experimental_worker_allow_json_protocol")
SANDBOXED = ("--strategy=MlfCompile=sandboxed", "--strategy=MlfPackage=sandboxed")
OFF = ("--//rules/settings:worker=off", "--strategy=MlfCompile=worker,sandboxed")
ONE = "@models//gesture_int8:cortex-m4_archive"
SOME = (ONE, "@models//gesture_int8:host_archive", "@executors//gesture_graph:host_archive")


@dataclass
class Compiled:
    """What the compiler's actions of one build made, and how Bazel ran them."""

    files: dict[str, str]  # path without the configuration -> digest
    runners: set[str]

    @property
    def archives(self) -> dict[str, str]:
        """Of all files, which the compile also takes out of the archive, the archives alone."""
        return {path: digest for path, digest in self.files.items() if path.endswith(".tar")}


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Workspace]:
    """This repository with its examples."""
    folder = tmp_path_factory.mktemp("worker")
    made = make_workspace(folder, folder / "cache")
    copy_tree(ROOT / "examples", folder / "mlftool" / "examples")
    workspace = replace(made, folder=folder / "mlftool")
    yield workspace
    workspace.shutdown()


def compile_anew(workspace: Workspace, *arguments: str) -> Compiled:
    """A build that finds no archive, neither in its folders nor in the cache."""
    for archive in workspace.folder.glob("bazel-out/*-ST-*/bin/**/*.tar"):
        archive.unlink()
    shutil.rmtree(workspace.cache, ignore_errors=True)
    actions = workspace.build(*arguments)
    actions = [a for a in actions if a["mnemonic"] in ("MlfCompile", "MlfPackage")]
    files = {path.partition("/bin/")[2]: hash_ for path, hash_ in digests(actions).items()}
    return Compiled(files, {a["runner"] for a in actions})


def every_sixth(workspace: Workspace, targets: Sequence[str]) -> list[str]:
    """Others whenever a source of mlftool changes, the same until then."""
    state = hashlib.sha256()
    for source in sorted((workspace.folder / "mlftool").rglob("*.py")):
        state.update(source.read_bytes())
    order = lambda target: hashlib.sha256(state.digest() + target.encode()).digest()  # noqa: E731
    return sorted(targets, key=order)[: -(-len(targets) // 6)]


def test_examples_are_the_same_bytes_by_workers_and_in_sandboxes(workspace: Workspace) -> None:
    """A sixth of those that the compiler makes, and of those that are packed."""
    sample, count = [], 0
    for kind in ("mlf_compile", "mlf_package"):
        everywhere = f'kind("{kind}", @models//... + @executors//... + //examples/...)'
        talk = workspace.bazel("query", "--noshow_progress", everywhere)
        targets = [line for line in talk.splitlines() if line.startswith(("@", "//"))]
        sample += every_sixth(workspace, targets)
        count += len(targets)
    assert count > 30

    worker = compile_anew(workspace, *WORKER, *sample)
    sandboxed = compile_anew(workspace, *SANDBOXED, *sample)

    assert worker.runners == {"worker"}
    assert not sandboxed.runners & {"worker", "local", "disk cache hit"}
    assert len(sandboxed.archives) == len(sample)
    assert worker.files == sandboxed.files


def test_json_and_no_worker_at_all_make_the_same(workspace: Workspace) -> None:
    proto = compile_anew(workspace, *WORKER, *SOME)
    multiplex = compile_anew(workspace, *MULTIPLEX, *SOME)
    json = compile_anew(workspace, *WORKER, *JSON, *SOME)
    both = compile_anew(workspace, *MULTIPLEX, *JSON, *SOME)
    off = compile_anew(workspace, *OFF, *SOME)

    assert [c.runners for c in (proto, multiplex, json, both)] == [{"worker"}] * 4
    assert "worker" not in off.runners
    assert [c.files == off.files for c in (proto, multiplex, json, both)] == [True] * 4


def test_the_setting_knows_its_values(workspace: Workspace) -> None:
    talk = workspace.bazel("build", *workspace.options(), "--//rules/settings:worker=xml", ONE,
                           fails=True)  # fmt: skip
    assert (
        "//rules/settings:worker: error[MLF0414]: got 'xml', expected json or off or proto" in talk
    )


def test_a_bad_model_is_reported_and_the_worker_goes_on(workspace: Workspace) -> None:
    model = workspace.folder / "examples" / "models" / "gesture_int8.onnx"
    data = model.read_bytes()
    model.write_bytes(data[:100])
    talk = workspace.bazel("build", *workspace.options(), *WORKER, *SOME[:2], fails=True)
    model.write_bytes(data)

    errors = [line for line in talk.splitlines() if "error[" in line]
    assert errors
    assert {line.partition(" is ")[0] for line in errors} == {
        "examples/models/gesture_int8.onnx: error[MLF0202]:"
    }
    assert "Traceback" not in talk
    assert compile_anew(workspace, *WORKER, *SOME).runners == {"worker"}


def test_an_edit_of_the_compiler_reaches_its_workers(workspace: Workspace) -> None:
    before = compile_anew(workspace, *WORKER, *SOME[:2])
    source = workspace.folder / "mlftool" / "codegen" / "lib0.c.j2"
    text = source.read_text()
    source.write_text(text.replace("Generated by mlftool", "Made by mlftool"))
    after = compile_anew(workspace, *WORKER, *SOME[:2])
    sandboxed = compile_anew(workspace, *SANDBOXED, *SOME[:2])
    source.write_text(text)

    assert after.runners == {"worker"}
    assert after.files == sandboxed.files
    assert [before.archives[path] == after.archives[path] for path in after.archives] == [False] * 2
