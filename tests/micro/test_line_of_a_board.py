"""A simulated board's UART, at length: what benchmarks/rpc_line.py does by the thousand."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from firmware import INT8
from rpc_line import KINDS, Line, built, calls, copied, faults, overhead

from mlftool.micro import Session, TransportTimeouts
from mlftool.mlf.interface import Interface
from mlftool.runtime.boards import BOARDS

pytestmark = pytest.mark.sampled(4)


@pytest.fixture(scope="module")
def board() -> tuple[Interface, Line]:
    for program in ("arm-none-eabi-gcc", "qemu-system-arm"):
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")
    return built(INT8, BOARDS["cortex-m4"])


def test_calls_and_bytes_are_not_lost(board: tuple[Interface, Line]) -> None:
    assert calls(board[1], 60) == 60
    assert copied(board[1], 20_000, block=4096) == 20480


def test_a_board_that_waits_takes_no_processor(board: tuple[Interface, Line]) -> None:
    transport = board[1]
    with Session(transport, timeout_override=TransportTimeouts(5, 60, 60)):
        before = seconds_of(transport.process.pid)
        time.sleep(1)
        assert seconds_of(transport.process.pid) - before < 0.2  # one that asks takes them all


def seconds_of(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def test_faults_end_in_a_result_or_a_named_error(board: tuple[Interface, Line]) -> None:
    """Lost, doubled and flipped bytes, resets, and hosts that disappear, of each three."""
    outcomes = faults(board[1], board[0], 3 * len(KINDS), TransportTimeouts(1, 60, 1))
    assert sum(outcomes.values()) == 3 * len(KINDS)
    assert outcomes["right"] >= 3  # the hosts that disappeared
    assert outcomes.keys() <= {
        "right", "MicroSessionTimeoutError", "SessionTerminatedError", "TransportClosedError",
        "RPCError",
    }, outcomes  # fmt: skip
    assert outcomes["TransportClosedError"] >= 3  # the resets


def test_a_frame_is_one_write_and_a_pipe_costs_little() -> None:
    run, beside, writes = overhead(INT8, count=50)
    assert writes == 1
    assert run > 0
    assert min(beside) < 1  # millisecond; others are what else the computer does


HOST = """
import time
from mlftool.micro import QemuTransport

line = QemuTransport(["sh", "-c", "exec sleep 600"], "firmware.elf")
line.open()
print(line.process.pid, flush=True)
time.sleep(600)
"""


def test_a_simulator_does_not_outlive_a_killed_host() -> None:
    """A simulator does not end with its input; this one stands for it."""
    with subprocess.Popen([sys.executable, "-c", HOST], stdout=subprocess.PIPE, text=True) as host:
        assert host.stdout is not None
        simulator = Path("/proc") / host.stdout.readline().strip()
        assert (simulator / "stat").exists()
        host.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 60
    while runs(simulator) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not runs(simulator)


def runs(process: Path) -> bool:
    """Whether it is there, and not only waits for its parent to ask how it ended."""
    try:
        return (process / "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
