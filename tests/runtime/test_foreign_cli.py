"""`mlftool inspect` and `mlftool run` on archives that TVM made."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from tvm_archives import X, Y, graph_archive, operator_archive, packed_archive, struct_archive

from mlftool.cli import main
from mlftool.mlf import Bundle, write_tar

ARCHIVES = {
    "graph": graph_archive(5),
    "oldest": graph_archive(1),
    "packed": packed_archive(),
    "interface_c": struct_archive(),
    "operator": operator_archive(4),
}
SHOWN = {
    "graph": [
        "Model Library Format version 5",
        "module default: graph executor for c -keys=cpu -model=host",
        "graph: 2 calls of 2 functions, 2 inputs and parameters",
        "parameter p0: float32 1x4, 16 bytes",
        "kernel tvmgen_default_fused_add_nn_relu: workspace 16 bytes",
        "memory on device 1: workspace 48 bytes, constants 16, inputs and outputs 32",
    ],
    "oldest": [
        "Model Library Format version 1",
        "graph: 2 calls of 2 functions",
        "parameter p0: float32 1x4",
    ],
    "packed": ["input  x: float32, 16 bytes", "output output: float32, 16 bytes"],
    "interface_c": ["module default: aot executor", "input  x: float32, 16 bytes"],
    "operator": ["operator add for c -keys=cpu", "function add", "C: int8 4, 4 bytes"],
}


def tar(name: str, path: Path, bundle: Bundle | None = None) -> str:
    write_tar(bundle or ARCHIVES[name], path / f"{name}.tar")
    return str(path / f"{name}.tar")


@pytest.mark.parametrize("name", ARCHIVES)
def test_inspect(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["inspect", tar(name, tmp_path)]) == 0
    text = capsys.readouterr().out
    for line in SHOWN[name]:
        assert line in text
    assert main(["inspect", "--json", tar(name, tmp_path)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert data["files"].keys() == ARCHIVES[name].files.keys()
    if name == "graph":
        assert data["graphs"]["default"]["arguments"] == ["x", "p0"]
        assert data["params"]["default"]["p0"]["shape"] == [1, 4]


@pytest.mark.parametrize("name", ARCHIVES)
def test_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """In a process of its own, with guards round the tensors; two samples."""
    x = np.stack([X, 2 * X])
    y = np.stack([Y, np.maximum(2 * X + [[1, -2, 3, -4]], 0) * 2]).astype(np.float32)
    ones = np.ones((2, 4), np.int8)
    vectors = {"x": x, "output": y, "output0": y, "A": ones, "B": ones, "C": 2 * ones}
    np.savez(tmp_path / "v.npz", **vectors)
    given = ["--inputs", str(tmp_path / "v.npz"), "--expect", str(tmp_path / "v.npz")]
    assert main(["run", tar(name, tmp_path), *given, "--json"]) == 0, capsys.readouterr().err
    data = json.loads(capsys.readouterr().out)
    assert (data["samples"], data["elements"], data["passed"]) == (2, 8, True)


needs_boards = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="did not run: arm-none-eabi-gcc or qemu-system-arm is not installed",
)


@pytest.mark.sampled(4)
@needs_boards
@pytest.mark.parametrize("name", ARCHIVES)
def test_run_on_a_board(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TVM's archives on a simulated Cortex-M4, with our C runtime."""
    ones = np.ones(4, np.int8)
    np.savez(tmp_path / "v.npz", x=X, output=Y, output0=Y, A=ones, B=ones, C=2 * ones)
    given = ["--inputs", str(tmp_path / "v.npz"), "--expect", str(tmp_path / "v.npz")]
    status = main(["run", tar(name, tmp_path), *given, "--on", "cortex-m4", "--json"])
    assert status == 0, capsys.readouterr().err
    data = json.loads(capsys.readouterr().out)
    assert (data["passed"], data["elements"]) == (True, 4)
    assert data["instructions"] > 0


@needs_boards
def test_a_pool_that_is_too_small_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Metadata that understate what the code allocates."""
    archive = graph_archive(7)
    name = next(n for n in archive.files if b"TVMBackendAllocWorkspace(1" in archive.files[n])
    text = archive.text(name)
    assert "(uint64_t)16" in text
    files = {**archive.files, name: text.replace("(uint64_t)16", "(uint64_t)50000").encode()}
    np.savez(tmp_path / "v.npz", x=X)
    words = ["run", tar("g", tmp_path, Bundle(files)), "--inputs", str(tmp_path / "v.npz")]
    assert main([*words, "--on", "cortex-m4"]) == 1
    said = capsys.readouterr().err
    found = re.search(r"out of memory: asked for (\d+) bytes, left (\d+) of (\d+)", said)
    assert found, said
    asked, left, size = map(int, found.groups())
    assert asked == 50000 > size > left > 0


def test_boards_take_c_only(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = {**graph_archive(5).files, "codegen/host/src/default_lib2.cc": b""}
    np.savez(tmp_path / "v.npz", x=X)
    given = ["--inputs", str(tmp_path / "v.npz"), "--on", "cortex-m4"]
    assert main(["run", tar("graph", tmp_path, Bundle(files)), *given]) == 2
    assert "a simulated board runs C only; got codegen/host/src/default_lib2.cc" in (
        capsys.readouterr().err
    )


@needs_boards
@pytest.mark.parametrize("name", ["graph", "packed", "interface_c", "operator"])
def test_profile(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """TVM's archives do not say what their functions compute: their code is measured."""
    assert main(["profile", tar(name, tmp_path), "--on", "cortex-m4", "--json"]) == 0
    (whole,) = json.loads(capsys.readouterr().out)["profiles"]
    assert whole["totals"]["instructions"] > 0
    assert len(whole["missing"]) == 2
    assert sum(layer["code_bytes"] for layer in whole["layers"]) == whole["totals"]["code_bytes"]
    sources = b"".join(d for f, d in ARCHIVES[name].files.items() if f.endswith(".c")).decode()
    assert whole["layers"]
    assert all(layer["function"] in sources for layer in whole["layers"])
    unknown = {"weights_bytes": None, "macs": None, "cycles": None, "moved_bytes": None}
    assert unknown.items() <= whole["totals"].items()
    assert main(["profile", tar(name, tmp_path)]) == 2
    assert "choose with --on one of: cortex-m" in capsys.readouterr().err


@needs_boards
@pytest.mark.parametrize("name", ["graph", "packed", "interface_c"])
def test_size(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", tar(name, tmp_path), "--on", "cortex-m4", "--json"]) == 0
    (size,) = json.loads(capsys.readouterr().out)["sizes"]
    parts = {part["name"]: part for part in size["flash"]["parts"]}
    assert {p["name"] for p in parts["model default"]["parts"]} >= {"kernels"}
    assert ("C runtime" in parts) == (name != "interface_c")  # which calls none of it


SCRATCH = "the scratch of kernels, which TVM's kernels allocate as they run"


def test_memory_map_of_a_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The graph's storage ids are the plan; what kernels allocate is not in it."""
    file, picture = tar("graph", tmp_path), tmp_path / "m.svg"
    assert main(["memmap", file, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["maps"]
    (pool,) = found["pools"]
    assert pool["name"] == "storage of the graph executor"
    assert 0 < pool["lower_bound_bytes"] <= pool["size_bytes"]
    assert found["missing"] == [SCRATCH]
    assert main(["memmap", file, "--svg", str(picture)]) == 0
    assert picture.read_text().startswith("<svg")


@pytest.mark.parametrize("name", ["packed", "interface_c"])
def test_memory_map(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["memmap", tar(name, tmp_path), "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["maps"]
    assert found["pools"] is None
    assert [m.split(":")[0] for m in found["missing"]] == ["the plan"]
    assert found["workspace_bytes"] <= found["ram_bytes"]
    assert main(["memmap", tar(name, tmp_path), "--svg", str(tmp_path / "m.svg")]) == 2
    assert "has no plan to draw" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["oldest", "operator"])
def test_sizes_that_an_archive_does_not_tell(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They are not known, which is not 0."""
    file = tar(name, tmp_path)
    assert main(["memmap", file, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["maps"]
    assert (found["workspace_bytes"], found["ram_bytes"]) == (None, None)
    plan = {"oldest": SCRATCH, "operator": "the plan"}[name]
    assert [m.split(":")[0] for m in found["missing"]] == ["the workspace", plan]
    assert main(["memmap", file]) == 0
    assert " 0 B" not in capsys.readouterr().out
    assert main(["diff", file, file, "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["differences"]
    unknown = {"before": None, "after": None, "change": None}
    assert found["figures"]["workspace"] == found["figures"]["weights"] == unknown
    page = tmp_path / "page.html"
    assert main(["report", file, "-o", str(page)]) == 0
    assert "workspace and weights: the archive does not tell them" in page.read_text()


def test_what_only_our_archives_have(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The remedy is one that the user of such an archive can follow."""
    assert main(["verify", tar("graph", tmp_path)]) == 2
    err = capsys.readouterr().err
    assert "has no certificate\nhelp: only mlftool's archives have one" in err
    assert "compile" not in err


def test_names_and_strings_of_our_archives(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing is cut, numbers have their commas, and a string is not `bytes512`."""
    name = "encoder/blocks/0/attention/" + "n" * 40
    head = '<ir_version: 9, opset_import: ["": 17, "ai.onnx.ml": 3]> g (int64[1,5000] x) => '
    node = "ai.onnx.ml.LabelEncoder<keys_int64s=[0,1], values_strings=['no','yes']>(x)"
    text = f"{head}(string[1,5000] y) {{ y = {node} }}".replace("'", '"')
    model = onnx.parser.parse_model(text)
    model.graph.node[0].name = name
    onnx.save(model, tmp_path / "m.onnx")
    assert main(["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tar"), "-q"]) == 0
    capsys.readouterr()
    assert main(["inspect", str(tmp_path / "m.tar")]) == 0
    out = capsys.readouterr().out
    assert re.search(rf"^  {name}(/\S+)? +\w", out, re.M)
    assert re.search(r"^  output \w+: string\[64\] 1x5000, 320,000 bytes$", out, re.M)
