"""Weights in a file: the bits of weights in C, for every executor and compiler, and quickly."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tracemalloc
from pathlib import Path

import families
import numpy as np
import onnx
import pytest
from batch import WARNINGS
from builders import Net, random_feeds
from forms import FORMS
from shared import REPO

from mlftool.codegen import weights
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import Bundle, write_tar
from mlftool.mlf.archive import read
from mlftool.runtime.interface import read_interface
from mlftool.runtime.library import library_files
from mlftool.runtime.load import load
from mlftool.runtime.toolchain import CROSS
from mlftool.targets import CFLAGS

FILE = "codegen/host/include/tvmgen_m.weights"
SOURCE = "codegen/host/src/m_lib1.c"
RISCV = "riscv64-unknown-elf"


def mixed() -> onnx.ModelProto:
    """Constants of 4, 8 and 2 bytes for each element, large and small, one of them used twice."""
    net = Net()
    x = net.input("x", np.float32, (4, 64))
    w = net.const(families.weights(64, 64) / 8, np.float32)
    y = net.node("MatMul", net.node("MatMul", x, w), w)
    y = net.node("Add", y, net.const(families.weights(1, 64), np.float32))
    table = net.const(np.arange(4096).reshape(64, 64), np.float16)
    rows = net.node("Gather", table, net.const([3, 60, 1, 2], np.int64))
    y = net.node("Add", y, net.node("Cast", rows, to=onnx.TensorProto.FLOAT))
    late = net.node("Cast", y, to=onnx.TensorProto.DOUBLE)
    return net.model(
        net.node("MatMul", late, net.const(families.weights(64, 32) / 3, np.float64)), y
    )


def compiled(form: str, mode: str, target: str = "host") -> Bundle:
    spec = ModuleSpec(mixed(), "m", target, weights=mode, **FORMS[form])
    return compile_modules([spec])


RISCV = "riscv64-unknown-elf"


@pytest.mark.parametrize("form", FORMS)
def test_the_bits_are_those_of_text(form: str, tmp_path: Path) -> None:
    (feed,) = random_feeds(mixed(), 3, 1)
    found = {}
    for mode in ("text", "binary"):
        bundle = compiled(form, mode)
        # Without link_params the graph executor has its constants in the .params file.
        assert (FILE in bundle.files) == (mode == "binary" and form != "graph")
        write_tar(bundle, tmp_path / "m.tar")
        outputs = load(tmp_path / "m.tar", cache_dir=tmp_path).module().run(feed)
        found[mode] = [o.tobytes() for o in outputs.values()]
    assert found["binary"] == found["text"]


@pytest.mark.parametrize("form", FORMS)
def test_equal_constants_are_stored_once(form: str) -> None:
    """Two layers have initializers of their own with the same values."""

    def stored(second: float) -> int:
        net = Net()
        x = net.input("x", np.float32, (4, 64))
        w = families.weights(64, 64)
        y = net.node("MatMul", x, net.const(w, np.float32))
        y = net.node("MatMul", y, net.const(w * second, np.float32))
        spec = ModuleSpec(net.model(y), "m", "host", weights="text", **FORMS[form])
        return read_interface(compile_modules([spec]), "m").constants_bytes

    assert stored(2.0) - stored(1.0) == 64 * 64 * 4


def test_little_is_text_and_much_is_filed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert FILE not in compiled("struct", "auto").files
    monkeypatch.setattr(weights, "BIG_MODULE", 30_000)
    bundle = compiled("struct", "auto")
    data = bundle.files[FILE]
    # In the order in which the kernel reads them.
    first = np.frombuffer(data[:16384], "<f4")
    assert sorted(first.tolist()) == sorted((families.weights(64, 64) / 8).reshape(-1).tolist())
    assert len(data) == 4 * 64 * 64 + 8 * 64 * 32  # and not the 256 bytes that are added
    assert "[64] = {" in bundle.text(SOURCE)


def test_the_source_changes_with_the_file() -> None:
    """Bazel and Make look at sources and headers only."""
    other = mixed()
    tensor = other.graph.initializer[0]
    data = bytearray(tensor.raw_data)
    data[100] ^= 1
    tensor.raw_data = bytes(data)
    bundles = [compile_modules([ModuleSpec(m, "m", weights="binary")]) for m in (mixed(), other)]
    assert bundles[0].files[FILE] != bundles[1].files[FILE]
    assert bundles[0].files[SOURCE] != bundles[1].files[SOURCE]


def test_objects_hold_the_weights() -> None:
    files = compile_modules([ModuleSpec(mixed(), "m", "llvm", weights="binary")]).files
    assert FILE not in files
    first = compiled("struct", "binary").files[FILE][:16384]
    assert first in files["codegen/host/lib/m_lib1.o"]


@pytest.mark.parametrize(
    "command",
    [
        *(("gcc", *CFLAGS, "-O2", flag) for flag in ("-fPIC", "-fno-pic", "-m32")),
        ("g++", "-x", "c++", "-std=c++17"),
        ("clang", *CFLAGS, "-O2"),
        ("clang", *CFLAGS, "--target=riscv32-unknown-elf"),
        ("arm-none-eabi-gcc", *CFLAGS, "-mcpu=cortex-m4", "-mthumb"),
        (CROSS[RISCV].name, *CROSS[RISCV].flags, *CFLAGS, "-march=rv32imac", "-mabi=ilp32"),
    ],
    ids=" ".join,
)  # fmt: skip
def test_compilers_take_it_without_a_warning(command: tuple[str, ...], tmp_path: Path) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"did not run: {command[0]} is not installed")
    flags = ("-msse2", "-mfpmath=sse") if "-m32" in command else ()
    bundle = compiled("struct", "binary", "c")
    _unpack(bundle, tmp_path)
    run = subprocess.run(
        [*command, *flags, *WARNINGS, "-Icodegen/host/include", "-c", SOURCE, "-o", "m.o"],
        cwd=tmp_path, capture_output=True, text=True,
    )  # fmt: skip
    if "stdio.h" in run.stderr or "string.h" in run.stderr:
        pytest.skip(f"did not run: {command[0]} has no C library for this machine")
    assert (run.returncode, run.stderr) == (0, "")
    assert bundle.files[FILE][:16384] in (tmp_path / "m.o").read_bytes()


@pytest.mark.parametrize(
    ("flags", "words"),
    [
        (("-U__ELF__",), "else compile the model with --weights text"),
        (("-U__BYTE_ORDER__", "-D__BYTE_ORDER__=4321"), "compile the model with --weights text"),
        (("-DMLF_WEIGHTS=",), "name the section alone: -DMLF_WEIGHTS_SECTION"),
    ],
    ids=["no-elf", "big-endian", "section"],
)
def test_what_cannot_work_says_what_would(
    flags: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    _unpack(compiled("struct", "binary"), tmp_path)
    command = ["gcc", *CFLAGS, "-w", *flags, "-Icodegen/host/include", "-c", SOURCE]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert run.returncode != 0
    assert words in run.stderr


def test_a_section_can_be_named(tmp_path: Path) -> None:
    _unpack(compiled("struct", "binary"), tmp_path)
    section = '-DMLF_WEIGHTS_SECTION=".slow_flash"'
    command = ["gcc", *CFLAGS, section, "-Icodegen/host/include", "-c", SOURCE, "-o", "m.o"]
    subprocess.run(command, cwd=tmp_path, check=True)
    table = subprocess.run(["readelf", "-SW", tmp_path / "m.o"], capture_output=True, text=True)
    assert "] .slow_flash " in table.stdout
    assert ".rodata.tvmgen_m" not in table.stdout


def test_parameters_of_a_graph_are_filed_for_programs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mlftool.runtime.packed.BIG", 1000)
    bundle = compiled("graph", "auto")
    (record,) = read(bundle).modules
    library = library_files(bundle)
    assert library["include"]["tvmgen_m.params"] == (record.params or b"") + b"\0"
    assert len(library["src"]["m_graph.c"]) < 10_000
    write_tar(bundle, tmp_path / "m.tar")
    (feed,) = random_feeds(mixed(), 3, 1)
    outputs = load(tmp_path / "m.tar", cache_dir=tmp_path).module().run(feed)
    assert all(np.any(o) for o in outputs.values())


BARS = """
import json, resource, sys, time
from mlftool.cli import main
from mlftool.mlf import read_tar
from mlftool.runtime.host import build_runner
from mlftool.runtime.interface import read_interface
from pathlib import Path
archive = Path("big.tar")
started = time.monotonic()
assert main(["compile", "big.onnx", "-o", str(archive)]) == 0
bundle = read_tar(archive)
program = build_runner(bundle, read_interface(bundle), Path("cache"))
own = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
peak = max(own, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
seconds = time.monotonic() - started
print(json.dumps([seconds, peak * 1024, program.stat().st_size]))
"""


def test_a_hundred_megabytes_become_a_program(tmp_path: Path) -> None:
    """Issue 6's bars: a minute and 1.5 GB."""
    net = Net()
    x = net.input("x", np.float32, (1, 1024))
    rng = np.random.default_rng(0)
    for _ in range(25):
        w = net.const(rng.standard_normal((1024, 1024), np.float32) / 32, np.float32)
        x = net.node("Relu", net.node("MatMul", x, w))
    onnx.save(net.model(x), tmp_path / "big.onnx")
    packages = os.pathsep.join([str(REPO), *filter(None, sys.path)])
    run = subprocess.run(
        [sys.executable, "-c", BARS], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": packages},
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    seconds, peak, size = json.loads(run.stdout)
    assert seconds < 60
    assert peak < 1.5e9
    assert size > 25 * 4 * 1024 * 1024


def test_an_int8_matrix_is_never_one_of_int64() -> None:
    """What kernels need to know of weights is summed up in pieces."""
    size = 2000 * 8192
    net = Net()
    x = net.input("x", np.int8, (1, 8192))
    zero = np.zeros((), np.int8)
    w = np.random.default_rng(0).integers(-127, 128, (8192, 2000), np.int8)
    y = net.node("MatMul", net.dq(x, 0.02, zero), net.dq(net.const(w), 1e-4, zero))
    model = net.model(net.q(y, 0.02, zero))
    del w
    tracemalloc.start()
    try:
        bundle = compile_modules([ModuleSpec(model, "m", "host")])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(bundle.files[FILE]) >= size
    assert peak < 12 * size


def _unpack(bundle: Bundle, folder: Path) -> None:
    for name, data in bundle.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
