"""The example accelerator: docs/accelerator.md says what it prints; its bits are our kernels'."""

from __future__ import annotations

import ctypes
import re
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from shared import REPO

import mlftool
from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import Bundle, write_tar

FOLDER = REPO / "examples" / "accelerator"
MODEL = REPO / "examples" / "models" / "vibration_int8.onnx"
SPEC = ModuleSpec(MODEL, "vibration", backends=("npu",), backend_files=(FOLDER / "backend.py",))
PAGE = (REPO / "docs" / "accelerator.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_command_of_the_page_prints_what_it_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = blocks("sh")[0].split()
    assert words[:3] == ["python3", "-m", "mlftool"]
    words[words.index("vibration.tar")] = str(tmp_path / "vibration.tar")
    words = [str(REPO / w) if w.startswith("examples/") else w for w in words]
    assert main([*words[3:], "--module-name", "vibration"]) == 0
    assert capsys.readouterr().out == blocks("text")[0]


# Runs the model on each sample, then without the hooks that open the device.
MAIN = f"""
#include <stddef.h>
#include "tvmgen_vibration.h"
int32_t run(void *x, void *y) {{
  struct tvmgen_vibration_inputs inputs = {{x}};
  struct tvmgen_vibration_outputs outputs = {{y}};
  {blocks("c")[0]}
  return status;
}}
"""


def built(bundle: Bundle, folder: Path) -> ctypes.CDLL:
    for name, data in bundle.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "main.c").write_text(MAIN)
    sources = [*map(str, sorted((folder / "codegen/host/src").glob("*.c"))), str(folder / "main.c")]
    flags = ["-std=c99", "-O1", "-Wall", "-Wextra", "-Werror", "-ffp-contract=off", "-fPIC"]
    command = ["gcc", *flags, "-shared", "-Wl,--no-undefined", str(FOLDER / "npu.c"), *sources]
    command += ["-I", str(FOLDER), "-I", str(folder / "codegen/host/include")]
    done = subprocess.run(
        [*command, "-o", str(folder / "all.so"), "-lm"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "all.so"))


def test_half_of_a_network_on_the_accelerator_has_the_same_bits(tmp_path: Path) -> None:
    library = built(compile_modules([SPEC]), tmp_path)
    vectors = np.load(MODEL.with_suffix(".npz"))
    for x, want in zip(vectors["levels"][:40], vectors["reconstruction"][:40], strict=True):
        given, made = np.ascontiguousarray(x), np.zeros_like(want)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (given, made)]
        assert library.run(*pointers) == 0
        np.testing.assert_array_equal(made, want)
    assert library.npu_commands() == 4 * 40


def test_the_manifest_of_the_page_is_the_examples(tmp_path: Path) -> None:
    """And it builds without Bazel: archives for the computer and the board, by every executor."""
    file = REPO / "examples" / "accelerated.yaml"
    lines = [line.strip() for line in file.read_text(encoding="utf-8").splitlines()]
    assert all(line.strip() in lines for line in blocks("yaml")[0].splitlines())
    assert main(["build", str(file), "-o", str(tmp_path / "out")]) == 0
    made = sorted((tmp_path / "out").rglob("*.tar"))
    assert len(made) == 8
    for path in made:
        (record,) = mlftool.load(path).modules
        names = [f.name for f in mlftool.load(path).module(record).record.memory.functions]
        assert sum("_npu_main_" in name for name in names) == 4, path


FORMS: list[dict[str, Any]] = [
    {},
    {"executor": "vm"},
    {"executor": "graph"},
    {"executor": "graph", "link_params": True, "system_lib": True},
    {"interface_api": "packed"},
    {"interface_api": "packed", "unpacked_api": True},
    {"interface_api": "packed", "system_lib": True},
    {"workspace_io": True},
    {"pools": ("fast=1KiB@.data",)},
    {"optimize": "size"},
]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", FORMS, ids=lambda f: "-".join(map(str, f.values())) or "c")
def test_every_executor_drives_it(form: dict[str, Any], tmp_path: Path) -> None:
    """The driver, which refuses what comes in another order, beside the module's own files."""
    spec = replace(SPEC, **form)
    files = {k: v for k, v in compile_modules([spec]).files.items() if k != "checksums.sha256"}
    files["codegen/host/src/vibration_lib9.c"] = (FOLDER / "npu.c").read_bytes()
    files["codegen/host/include/npu.h"] = (FOLDER / "npu.h").read_bytes()
    files |= {f"codegen/host/include/mlf/{h}": (REPO / "crt/include/mlf" / h).read_bytes()
              for h in ("kernel.h",)}  # fmt: skip
    write_tar(Bundle(files), tmp_path / "vibration.tar")
    module = mlftool.load(tmp_path / "vibration.tar").module()
    vectors = np.load(MODEL.with_suffix(".npz"))
    for x, want in zip(vectors["levels"][:5], vectors["reconstruction"][:5], strict=True):
        (made,) = module.run({module.inputs[0].name: x}).values()
        np.testing.assert_array_equal(made, want)


def test_the_device_refuses_what_is_not_open_or_not_inside(tmp_path: Path) -> None:
    library = built(compile_modules([SPEC]), tmp_path)
    data = (ctypes.c_int8 * 16)()
    assert library.npu_write(0, data, 16) == -1
    assert library.TVMDeviceNpuOpen(None) == -1  # before it is active
    assert library.TVMDeviceNpuActivate(None) == library.TVMDeviceNpuOpen(None) == 0
    assert library.npu_write(0, data, 16) == 0
    assert library.npu_write(2040, data, 16) == -1
    assert library.npu_read(data, 2**32 - 8, 16) == -1
    command = (ctypes.c_uint32 * 10)(0, 0, 0, 0, 0, 4000, 1, 0, 0, 0)
    assert library.npu_push(command) == 0
    assert library.npu_wait() == -1
