"""tvmc's options on `mlftool compile`: those that are taken, and what is said of the others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlftool.cli import main
from mlftool.cli.tvmc_options import shapes_of
from mlftool.codegen.executors import EXECUTORS
from mlftool.manifest import known
from mlftool.mlf import read_tar

MODEL = Path(__file__).parents[2] / "examples" / "models" / "vibration_float32.onnx"


def interface(arguments: list[str], folder: Path) -> dict[str, Any]:
    """What the archive says of its module."""
    out = folder / "a.tar"
    assert main(["compile", str(MODEL), "-o", str(out), *arguments]) == 0
    files = read_tar(out).files
    (name,) = (n for n in files if "-config/" in n and n.endswith(".json"))
    return dict(json.loads(files[name]))


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ("--executor graph", {"executor": "graph", "interface_api": "packed"}),
        ("--executor=vm", {"executor": "vm", "interface_api": "c"}),
        ("--interface-api packed", {"interface_api": "packed", "unpacked_api": False}),
        (
            "--executor-aot-interface-api packed --executor-aot-unpacked-api 1",
            {"interface_api": "packed", "unpacked_api": True},
        ),
        (
            "--executor graph --executor-graph-link-params 1 --runtime-crt-system-lib 1",
            {"system_lib": True},
        ),
        ("--target=c --target-c-mcpu=cortex-m7", {"target": "cortex-m7"}),
        ("--target llvm --target-llvm-opt-level s", {"target": "host"}),
        ("--pass-config tir.usmp.use_workspace_io=true", {"workspace_io": True}),
        ("--pass-config tir.disable_vectorize=1 --disabled-pass AlterOpLayout,FuseOps -O0", {}),
        ("--executor-aot-constant-byte-alignment 16 --executor-aot-link-params 1", {}),
        ("-f mlf --model-format onnx --runtime crt", {}),
    ],
)
def test_what_is_taken(arguments: str, wanted: dict[str, object], tmp_path: Path) -> None:
    got = interface(arguments.split(), tmp_path)
    assert {key: got[key] for key in wanted} == wanted


def test_parameters_are_linked_or_not(tmp_path: Path) -> None:
    sizes = []
    for value in ("0", "1"):
        interface(["--executor=graph", f"--executor-graph-link-params={value}"], tmp_path)
        sizes.append(len(read_tar(tmp_path / "a.tar").files[f"parameters/{MODEL.stem}.params"]))
    assert sizes[0] > 1000
    assert sizes[1] == 32


def test_names_version_and_shapes(tmp_path: Path) -> None:
    given = ["--output-names", "anomaly", "--mlf-version", "4", "--module-name", "m"]
    assert interface([*given], tmp_path)["outputs"][0]["name"] == "anomaly"
    metadata = json.loads(read_tar(tmp_path / "a.tar").files["metadata.json"])
    assert (metadata["version"], metadata["model_name"]) == (4, "m")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("a:[1,2]", ["a:1,2"]),
        ("a:[1, 2] b:c:[3]", ["a:1,2", "b:c:3"]),
        (" a : [1,2] , b:[4]", ["a :1,2", "b:4"]),
    ],
)
def test_shapes_of_tvmc(text: str, wanted: list[str]) -> None:
    assert shapes_of(text) == wanted


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("--executor graph --executor-aot-link-params 1", "given, but not --executor aot"),
        ("--executor-graph-link-params 1", "given, but not --executor graph"),
        ("--executor vm --interface-api packed", "--interface-api is aot's; got --executor vm"),
        ("--interface-api c --executor-aot-interface-api packed", "and --interface-api c"),
        ("--executor-aot-unpacked-api 2", "'unpacked-api' is 2; expected True or False"),
        ("--executor-aot-unpacked-api 0", 'Either need interface_api == "packed"'),
        ("--executor-aot-link-params 0", "got link-params 0"),
        ("--executor-aot-constant-byte-alignment 64", "expected a power of two up to 16"),
        ("--target llvm --target-c-mcpu cortex-m4", "given, but not --target c"),
        ("--target ethos-n,c", "target 'ethos-n' is code for an Ethos-N processor"),
        ("--cross-compiler gcc", "--cross-compiler has no meaning here"),
        ("--tuning-records=x", "--tuning-records has no meaning here"),
        ("-f so", "'a.tar' cannot name a library"),
        ("-f elf", "invalid choice: 'elf'"),
        ("--model-format tflite", "--model-format is 'tflite', expected onnx"),
        ("--runtime cpp", "--runtime is 'cpp', expected crt"),
        ("--runtime rust", "no such runtime; got 'rust'"),
        ("--pass-config tir.nonsense=1", "PassContext has no option 'tir.nonsense'"),
        ("--pass-config tir.usmp.enable", "expected KEY=VALUE"),
        ("--disabled-pass Nonsense", "no pass with this name; got 'Nonsense'"),
        ("-O4", "--opt-level is '4', expected 0 to 3"),
        ("--mlf-version 8", "version 8; expected one of 1 to 7"),
        ("--input-shapes image:1,2", "--input-shapes: got 'image:1,2'"),
        ("--cc gcc", "compiler 'gcc' for target kind c"),
    ],
)
def test_what_is_refused(
    arguments: str, message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "a.tar"
    assert main(["compile", str(MODEL), "-o", str(out), *arguments.split()]) == 2
    assert message in capsys.readouterr().err
    assert not out.exists()


def test_every_mistake_is_told_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    given = (
        "--model-format tflite --runtime cpp --cross-compiler gcc --executor-graph-link-params 1"
    )
    assert main(["compile", str(MODEL), "-o", "a.tar", *given.split()]) == 2
    assert capsys.readouterr().err.count("error[") == 4


def test_manifests_know_the_same_executors() -> None:
    assert known.executors() == tuple(EXECUTORS)
