"""The vm executor: its bytecode word by word, in C, in Python, and on a board."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import parser

import mlftool
from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.errors import MlfError
from mlftool.mlf import Bundle, write_tar
from mlftool.mlf.bytecode import CONSTANT, INPUT, MAGIC, OUTPUT, address
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.load import LoadedModule
from mlftool.runtime.runner import run_on_board

HEAD = '<ir_version: 8, opset_import: ["": 17]>\n'
CHOICE = """g (float[2] x, bool c) => (float[2] y) {
    y = If (c) <
        then_branch = a () => (float[2] p) { p = Neg(x) },
        else_branch = b () => (float[2] q) { q = Exp(x) }
    >
}"""
# A branch, a loop with a state, a sequence out and an early end, and what is between them.
PROGRAM = """g (float[2,3] x, bool c, int64 n) => (float[2,3] y, float[4,2,3] s) {
    two = Constant <value = float {2.0}> ()
    t = If (c) <
        then_branch = a () => (float[2,3] p) { p = Mul(x, two) },
        else_branch = b () => (float[2,3] q) { e = Exp(x) q = Add(e, two) }
    >
    y, s = Loop (four, c, t) <
        body = l (int64 i, bool go, float[2,3] v) => (bool on, float[2,3] w, float[2,3] e) {
            on = Less(i, n)
            f = Cast <to = 1> (i)
            w = Add(v, f)
            e = Softmax(w)
        }
    >
}"""
BOARD = "cortex-m4"
needs_board = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)


def model(text: str) -> onnx.ModelProto:
    made = parser.parse_model(HEAD + text)
    if "four" in text:
        made.graph.initializer.append(onnx.numpy_helper.from_array(np.array(4), "four"))
    return made


def bundle(text: str, executor: str = "vm", target: str = "host") -> Bundle:
    return compile_modules([ModuleSpec(model(text), "m", target, executor)])


def loaded(archive: Bundle, folder: Path) -> LoadedModule:
    write_tar(archive, folder / "a.tar")
    return mlftool.load(folder / "a.tar").module()


def feeds() -> list[dict[str, np.ndarray]]:
    x = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
    return [
        {"x": x, "c": np.array(c), "n": np.array(n, np.int64)}
        for c in (True, False)
        for n in (-1, 0, 2, 9)
    ]


def same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> bool:
    return all(a[n].tobytes() == b[n].tobytes() and a[n].shape == b[n].shape for n in a | b)


def test_the_words_of_a_branch() -> None:
    words = np.frombuffer(bundle(CHOICE).files["executor-config/vm/m.vm"], "<u4").tolist()
    x, c, y = address(INPUT, 0), address(INPUT, 1), address(OUTPUT, 0)
    jump_unless, jump, call, halt = 3, 2, 1, 0
    assert words == [
        *(MAGIC, jump_unless, c, 10),
        *(call, 0, x, y, jump, 14),
        *(call, 1, x, y),
        halt,
    ]


def test_a_constant_is_an_address() -> None:
    text = (
        "g (float[2] x) => (float[2] y) { w = Constant <value = float[2] {1, 2}> () y = Mul(x, w) }"
    )
    words = np.frombuffer(bundle(text).files["executor-config/vm/m.vm"], "<u4").tolist()
    at = (address(INPUT, 0), address(CONSTANT, 0), address(OUTPUT, 0))
    assert words == [MAGIC, 1, 0, *at, 0]


def test_c_and_python_give_the_bits_of_aot(tmp_path: Path) -> None:
    aot = loaded(bundle(PROGRAM, "aot"), tmp_path)
    module = loaded(bundle(PROGRAM), tmp_path)
    interpreter = module.interpreter()
    names: set[str] = set()
    for feed in feeds():
        wanted = aot.run(feed)
        assert same(module.run(feed), wanted)
        assert same(interpreter.run(feed, lambda i: names.add(i.name)), wanted)
    assert names >= {"halt", "call", "jump", "jump_unless", "copy", "set", "add", "less", "scatter"}


@needs_board
def test_a_board_gives_the_bits_of_the_host(tmp_path: Path) -> None:
    archive = bundle(PROGRAM, target=BOARD)
    interface = read_interface(archive)
    elf = link_firmware(archive, interface, BOARDS[BOARD])
    result = run_on_board(elf, BOARDS[BOARD], interface, feeds())
    host = loaded(bundle(PROGRAM), tmp_path)
    for feed, got in zip(feeds(), result.outputs, strict=True):
        assert same(host.run(feed), dict(got))


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "no header of version 1"),
        ([MAGIC + 1, 0], "no header of version 1"),
        ([MAGIC, 99], "no instruction at word 1"),
        ([MAGIC, 2, 7], "no instruction at word 7"),
        ([MAGIC, 4, 0], "ends in the instruction at word 1"),
        ([MAGIC, 1, 9], "no function is called at word 1"),
        ([MAGIC, 4, address(INPUT, 0), address(INPUT, 0), 4], "cannot be written"),
        ([MAGIC, 4, address(OUTPUT, 0), address(CONSTANT, 5), 4], "cannot be read"),
        ([MAGIC, 5, address(OUTPUT, 0), 9], "9 bytes at address 0x20000000 cannot be written"),
        ([MAGIC, 5, 0xF0000000, 1], "cannot be written"),
    ],
)
def test_python_refuses_what_reaches_outside(
    words: list[int], message: str, tmp_path: Path
) -> None:
    archive = bundle(CHOICE)
    code = np.array(words, "<u4").tobytes()
    files = dict(archive.files) | {"executor-config/vm/m.vm": code}
    del files["checksums.sha256"]
    module = loaded(Bundle(files), tmp_path)
    with pytest.raises(MlfError) as caught:
        module.interpreter().run({"x": np.zeros(2, np.float32), "c": np.array(True)})
    assert message in str(caught.value)


def test_only_bytecode_is_interpreted(tmp_path: Path) -> None:
    with pytest.raises(MlfError, match="the aot module has no bytecode"):
        loaded(bundle(CHOICE, "aot"), tmp_path).interpreter()


def test_what_has_no_room_is_refused() -> None:
    inputs = [f"x{k}" for k in range(70)]
    typed = ", ".join(f"float[1] {name}" for name in inputs)
    text = f"g ({typed}) => (float[70] y) {{ y = Concat <axis = 0> ({', '.join(inputs)}) }}"
    with pytest.raises(MlfError) as caught:
        bundle(text)
    assert "takes 71 tensors; the vm executor 64" in str(caught.value)
    assert "--executor aot" in str(caught.value)


@pytest.mark.parametrize(
    "options",
    [
        {"interface_api": "packed"},
        {"unpacked_api": False},
        {"system_lib": True},
        {"link_params": False},
        {"workspace_io": True},
    ],
)
def test_options_of_other_executors_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(MlfError) as caught:
        compile_module(ModuleSpec(model(CHOICE), executor="vm", **options))
    assert "MLF0405" in str(caught.value)
