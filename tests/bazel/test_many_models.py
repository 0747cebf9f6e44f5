"""Six models of one manifest for two targets: what is planned, and made again after an edit."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net
from nested import Workspace
from test_incremental import flip_one_byte

MODELS = [f"net{i:02d}" for i in range(6)]
TARGETS = ("host", "cortex-m4")
ARCHIVES = tuple(f"@many//{model}:{target}_archive" for model in MODELS for target in TARGETS)
RUNNERS = tuple(f"@many//{model}:{target}_runner" for model in MODELS for target in TARGETS)
# All archives, and the programs of one model, which is enough to see what becomes of its C.
EDITED = 5
SOME = (*ARCHIVES, *RUNNERS[2 * EDITED : 2 * EDITED + 2])
MODES = ("fastbuild", "opt", "dbg")


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


def write_models(folder: Path) -> None:
    """The models, and a package with their manifest."""
    folder.mkdir()
    lines = ["version: 1", f"defaults: {{targets: [{', '.join(TARGETS)}]}}", "models:"]
    for number, model in enumerate(MODELS):
        onnx.save(network(number), str(folder / f"{model}.onnx"))
        lines.append(f"  {model}: {{model: {model}.onnx}}")
    (folder / "models.yaml").write_text("\n".join(lines) + "\n")
    (folder / "BUILD.bazel").write_text('exports_files(glob(["*.onnx", "*.yaml"]))\n')


@pytest.fixture(scope="module")
def many(built: Workspace) -> Iterator[Path]:
    """The folder of the models, which have been built."""
    folder = built.folder / "many"
    write_models(folder)
    with built.manifest("many"):
        counts = Counter(action["mnemonic"] for action in built.build(*SOME))
        assert (counts["MlfCompile"], counts["MlfLink"]) == (len(ARCHIVES), 1)
        yield folder


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


@pytest.mark.usefixtures("many")
def test_three_modes_have_one_compile_for_a_model_and_a_target(built: Workspace) -> None:
    """test_shared.py counts what modes run, of models that have a target of their own each."""
    modes = [planned(built, mode) for mode in MODES]

    assert [len(paths) for paths in (modes[0], set().union(*modes))] == [len(ARCHIVES)] * 2


def test_a_comment_in_the_manifest_runs_nothing(built: Workspace, many: Path) -> None:
    built.build(*SOME)
    manifest = many / "models.yaml"
    text = manifest.read_text()
    manifest.write_text(text.replace("models:\n", "models:  # ours\n  # six\n"))

    actions = built.build(*SOME)

    manifest.write_text(text)
    assert [action["listedOutputs"] for action in actions] == []


def test_a_byte_of_one_model_makes_its_chain_again(built: Workspace, many: Path) -> None:
    built.build(*SOME)
    model = many / f"{MODELS[EDITED]}.onnx"
    before = model.read_bytes()
    flip_one_byte(model)

    actions = built.build(*SOME)

    model.write_bytes(before)
    outputs = [path for action in actions for path in action["listedOutputs"]]
    assert [path for path in outputs if f"many/{MODELS[EDITED]}/" not in path] == []
    counts = Counter(a["mnemonic"] for a in actions)
    assert (counts["MlfCompile"], counts["MlfLink"]) == (len(TARGETS), 1)
