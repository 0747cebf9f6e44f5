"""The example accelerator: docs/accelerator.md says what it prints; its bits are our kernels'."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import numpy as np
import pytest
from shared import REPO

from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import Bundle

FOLDER = REPO / "examples" / "accelerator"
MODEL = REPO / "examples" / "models" / "vibration_int8.onnx"
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
    spec = ModuleSpec(MODEL, "vibration", backends=("npu",), backend_files=(FOLDER / "backend.py",))
    library = built(compile_modules([spec]), tmp_path)
    vectors = np.load(MODEL.with_suffix(".npz"))
    for x, want in zip(vectors["levels"][:40], vectors["reconstruction"][:40], strict=True):
        given, made = np.ascontiguousarray(x), np.zeros_like(want)
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (given, made)]
        assert library.run(*pointers) == 0
        np.testing.assert_array_equal(made, want)
    assert library.npu_commands() == 4 * 40


def test_the_device_refuses_what_is_not_open_or_not_inside(tmp_path: Path) -> None:
    spec = ModuleSpec(MODEL, "vibration", backends=("npu",), backend_files=(FOLDER / "backend.py",))
    library = built(compile_modules([spec]), tmp_path)
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
