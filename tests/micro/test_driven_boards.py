"""Firmware of simulated boards, driven over their UART."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

import numpy as np
import pytest
from firmware import INT8, SMALL, build

import mlftool
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.micro import MicroError, Session, TransportTimeouts, create_aot_executor
from mlftool.mlf import write_tar
from mlftool.runtime.boards import BOARDS, Board
from mlftool.runtime.toolchain import compiler_of, simulator_of
from mlftool.targets import TARGETS

# Boards with 16 KiB of RAM have no room for the model.
SMALL_BOARDS = ("microbit", "sifive_e")
PATIENT = TransportTimeouts(5, 60, 60)  # a simulator that shares the processor with other tests


def need(board: Board) -> None:
    for program in (compiler_of(TARGETS[board.target]), simulator_of(board.simulator)):
        if shutil.which(program.name) is None:
            pytest.skip(program.install)


def expected(tmp_path: Path, image: np.ndarray) -> bytes:
    write_tar(compile_modules([ModuleSpec(INT8, "m")]), tmp_path / "m.tar")
    result = mlftool.load(tmp_path / "m.tar").module().run({"image": image})
    return np.asarray(result["probability"]).tobytes()


@pytest.mark.sampled(6)
@pytest.mark.parametrize(
    "target", ["cortex-m0", "cortex-m3", "cortex-m4", "cortex-m33", "cortex-m55", "rv32imc",
               "rv32imac", "rv64imac"]
)  # fmt: skip
def test_a_board_is_driven_over_its_uart(target: str, tmp_path: Path) -> None:
    board = BOARDS[target]
    need(board)
    is_small = board.name in SMALL_BOARDS
    spec = ModuleSpec(INT8, "d", interface_api="packed", system_lib=True, target=target)
    specs = [] if is_small else [spec]
    arena = 5000 if is_small else 1 << 21
    firmware = build(tmp_path, specs, board=board, limits=SMALL, arena=arena)
    line = firmware.transport()
    with Session(line, timeout_override=PATIENT) as session:
        data = np.tile(np.array([0xFF, 0xFD, 0xFE, 0, 1], np.uint8), 60)
        assert (session.array(data).numpy() == data).all()
        with pytest.raises(MicroError, match=r"\d+ bytes asked for, \d+ left"):
            session.empty((1 << 22,), "uint8")
        if not is_small:
            image = np.arange(-32, 32, dtype=np.int8).reshape(1, 1, 8, 8)
            module = create_aot_executor(session, "d")
            module.set_input("image", image)
            module.run()
            assert module.get_output(0).numpy().tobytes() == expected(tmp_path, image)
            assert 1e-6 < module.benchmark(number=1).mean < 1e-2
        session.reconnect()  # and the next session has all of its memory
        assert (session.array(data).numpy() == data).all()
    begin = time.monotonic()
    with Session(line, timeout_override=PATIENT) as session:  # and the next one after a reset
        assert session.most_bytes == 512 - 11
    assert time.monotonic() - begin < 60
