"""Six models for two targets, from a workspace outside: what is made, shared and made again."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net
from nested import Workspace, digests, make_workspace
from test_incremental import flip_one_byte

MODELS = [f"net{i:02d}" for i in range(6)]
TARGETS = ("host", "cortex-m4")
ARCHIVES = tuple(f"@models//{model}:{target}_archive" for model in MODELS for target in TARGETS)
RUNNERS = tuple(f"@models//{model}:{target}_runner" for model in MODELS for target in TARGETS)
# All archives, and the programs of one model: each mode and folder compiles the C for itself, and
# one model's is enough to see what becomes of it.
EDITED = 5
SOME = (*ARCHIVES, *RUNNERS[2 * EDITED : 2 * EDITED + 2])
MODES = ("fastbuild", "opt", "dbg")
WORKER = ("--strategy=MlfCompile=worker", "--worker_sandboxing")
SANDBOXED = ("--strategy=MlfCompile=sandboxed",)


def network(number: int) -> onnx.ModelProto:
    """Two dense layers, the first on integers in every other network; no two are of one size."""
    rng = np.random.default_rng(number)
    net, width = Net(), 6 + number
    x = net.input("x", np.float32, (1, 4 + number))
    weights = rng.normal(size=(4 + number, width)).astype(np.float32)
    if number % 2:
        zero = np.int8(0)
        x = net.dq(net.q(x, 0.05, zero), 0.05, zero)
        whole = net.const(np.clip(weights * 50, -127, 127).astype(np.int8))
        scaled = net.node("DequantizeLinear", whole, net.const(0.02, np.float32), net.const(zero))
    else:
        scaled = net.const(weights)
    x = net.node("Relu", net.node("MatMul", x, scaled))
    last = net.const(rng.normal(size=(width, 3)).astype(np.float32))
    return net.model(net.node("Softmax", net.node("MatMul", x, last), axis=-1))


def make(folder: Path, cache: Path) -> Workspace:
    """A workspace of its own, which names the rules' and has the models."""
    made = make_workspace(folder, cache)
    shutil.rmtree(made.folder / "models")
    (made.folder / "models").mkdir()
    lines = ["version: 1", f"defaults: {{targets: [{', '.join(TARGETS)}]}}", "models:"]
    for number, model in enumerate(MODELS):
        onnx.save(network(number), str(made.folder / "models" / f"{model}.onnx"))
        lines.append(f"  {model}: {{model: models/{model}.onnx}}")
    (made.folder / "models.yaml").write_text("\n".join(lines) + "\n")
    (made.folder / "BUILD.bazel").write_text(
        'exports_files(["models.yaml"] + glob(["models/*"]))\n'
    )
    return made


@pytest.fixture(scope="module")
def caches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("many_cache")


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory, caches: Path) -> Iterator[Workspace]:
    made = make(tmp_path_factory.mktemp("many"), caches)
    yield made
    made.shutdown()


def compiled(actions: list[dict[str, Any]]) -> dict[str, str]:
    """Path -> digest of all that compiling the models made."""
    return digests([a for a in actions if a["mnemonic"] == "MlfCompile"])


def planned(workspace: Workspace, mode: str) -> set[str]:
    """The first outputs of the compile actions that all programs need, in a mode."""
    # By their names: of another repository aquery knows no wildcards.
    query = f"mnemonic('MlfCompile', deps(set({' '.join(RUNNERS)})))"
    arguments = (
        "--include_commandline=false",
        *workspace.options(),
        f"--compilation_mode={mode}",
        query,
    )
    return set(re.findall(r"^  Outputs: \[(.*)\]$", workspace.bazel("aquery", *arguments), re.M))


@pytest.fixture(scope="module")
def sandboxed(many: Workspace) -> list[dict[str, Any]]:
    """The actions of the first build there is, from no cache: a process for each compile."""
    return many.build(f"--compilation_mode={MODES[0]}", *SANDBOXED, *SOME)


def test_three_modes_have_one_compile_for_a_model_and_a_target(
    many: Workspace, sandboxed: list[dict[str, Any]]
) -> None:
    modes = [planned(many, mode) for mode in MODES]
    later = [many.build(f"--compilation_mode={m}", *SANDBOXED, *SOME) for m in MODES[1:]]

    assert [len(paths) for paths in (modes[0], set().union(*modes))] == [len(ARCHIVES)] * 2
    counts = [Counter(action["mnemonic"] for action in actions) for actions in (sandboxed, *later)]
    assert [count["MlfCompile"] for count in counts] == [len(ARCHIVES), 0, 0]
    assert min(count["CppCompile"] for count in counts) > len(TARGETS)


def test_another_folder_takes_everything_from_the_cache(
    many: Workspace, sandboxed: list[dict[str, Any]], caches: Path, tmp_path: Path
) -> None:
    other = make(tmp_path / "a" / "longer" / "path", caches)

    actions = other.build(*SOME)
    other.shutdown()

    assert [a["listedOutputs"] for a in actions if not a.get("remoteCacheHit")] == []
    assert compiled(actions) == compiled(sandboxed)


def test_a_comment_in_the_manifest_runs_nothing(many: Workspace) -> None:
    many.build(*SOME)
    manifest = many.folder / "models.yaml"
    text = manifest.read_text()
    manifest.write_text(text.replace("models:\n", "models:  # ours\n  # six\n"))

    actions = many.build(*SOME)

    manifest.write_text(text)
    assert [action["listedOutputs"] for action in actions] == []


def test_a_byte_of_one_model_makes_its_chain_again(many: Workspace) -> None:
    many.build(*SOME)
    model = many.folder / "models" / f"{MODELS[EDITED]}.onnx"
    before = model.read_bytes()
    flip_one_byte(model)

    actions = many.build(*SOME)

    model.write_bytes(before)
    outputs = [path for action in actions for path in action["listedOutputs"]]
    assert [path for path in outputs if f"models/{MODELS[EDITED]}/" not in path] == []
    counts = Counter(a["mnemonic"] for a in actions)
    assert (counts["MlfCompile"], counts["MlfLink"]) == (len(TARGETS), 1)


def test_workers_make_the_bytes_of_sandboxes(
    many: Workspace, sandboxed: list[dict[str, Any]], caches: Path
) -> None:
    """They find nothing of what sandboxes made, in no folder and no cache."""
    many.bazel("clean")
    shutil.rmtree(caches)

    actions = many.build(*WORKER, *ARCHIVES)

    made = compiled(actions)
    assert made == compiled(sandboxed)
    assert len([path for path in made if path.endswith(".tar")]) == len(ARCHIVES)
    kinds = [
        {a["runner"] for a in run if a["mnemonic"] == "MlfCompile"} for run in (sandboxed, actions)
    ]
    assert kinds[1] == {"worker"}
    assert not kinds[0] & {"worker", "local", "disk cache hit"}
