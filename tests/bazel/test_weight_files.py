"""Weights that the assembler reads from a file: Bazel sees only sources and headers change."""

from __future__ import annotations

from collections import Counter

from nested import ROOT, Workspace
from test_incremental import flip_one_byte

TARGETS = ("@models//filed:host_runner", "@models//filed:cortex-m4_runner")


def images(workspace: Workspace) -> dict[str, bytes]:
    folder = workspace.folder / "bazel-out"
    found = [*folder.glob("*/bin/external/models/filed/*_firmware*")]
    return {p.name: p.read_bytes() for p in found if p.suffix in ("", ".elf")}


def filed_weights(workspace: Workspace) -> bytes:
    pattern = "*/bin/external/models/filed/*.files/include/tvmgen_filed.weights"
    return next((workspace.folder / "bazel-out").glob(pattern)).read_bytes()


def test_a_changed_weight_reaches_every_program(built: Workspace) -> None:
    manifest, model = built.folder / "models.yaml", built.folder / "models" / "filed.onnx"
    model.write_bytes((ROOT / "examples" / "models" / "gesture_float32.onnx").read_bytes())
    text = manifest.read_text()
    manifest.write_text(text + "  filed: {model: models/filed.onnx, weights: binary}\n")

    built.build(*TARGETS)
    before, weights = images(built), filed_weights(built)
    flip_one_byte(model)
    actions = built.build(*TARGETS)

    after = images(built)
    assert len(before) == 2
    assert all(after[name] != before[name] for name in before)
    assert filed_weights(built) != weights
    assert Counter(a["mnemonic"] for a in actions)["CppCompile"] >= 2
    manifest.write_text(text)
    model.unlink()
