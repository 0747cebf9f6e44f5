"""Bytes that are lost, doubled or flipped in either direction, boards that reset, hosts that
disappear: each ends in the right result or a named error in time, and the next session works.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from firmware import Firmware
from rpc_line import PATIENT, Line, Stays, wait

from mlftool.micro import (
    MicroError,
    Session,
    TransportTimeouts,
    create_aot_executor,
)

LIMITS = TransportTimeouts(0.05, 5, 0.05)
FAULTS = 1000
LINES = 4


def work(session: Session, x: np.ndarray) -> bytes:
    module = create_aot_executor(session, "a")
    module.set_input(0, x)
    module.run()
    return module.get_output(0).numpy().tobytes()


def damaged(firmware: Firmware, seed: int, count: int) -> Counter[str]:
    """How so much work ended on a line of its own, each time with a damaged byte."""
    rng = random.Random(seed)
    line = Line([str(firmware.program)])
    x = np.random.default_rng(3).integers(-128, 128, (1, 1, 8, 8), np.int8)
    outcomes: Counter[str] = Counter()
    with Session(line, timeout_override=LIMITS) as session:
        wait(session, PATIENT)  # only what is damaged should end by time, however busy we are
        right = work(session, x)
        for _ in range(count):
            wait(session, LIMITS)
            line.damage(rng, rng.choice(("lost", "doubled", "flipped")))
            begin = time.monotonic()
            try:
                assert work(session, x) == right
                outcomes["right"] += 1
            except MicroError as error:
                named = error.problems[0].message.partition(": ")[0]
                outcomes[type(error).__name__ if named else "nameless"] += 1
                line.after = {}
                wait(session, PATIENT)
                session.reconnect()
            assert time.monotonic() - begin < 10
            line.after = {}
        wait(session, PATIENT)
        assert work(session, x) == right
        assert line.process is not None
        assert line.process.poll() is None  # it never restarted
    return outcomes


def test_damaged_bytes_end_in_a_result_or_a_named_error(aot_firmware: Firmware) -> None:
    """On several lines at once: most of the time goes by until a limit is over."""
    with ThreadPoolExecutor(LINES) as pool:
        each = pool.map(lambda seed: damaged(aot_firmware, seed, FAULTS // LINES), range(LINES))
        outcomes = sum(each, Counter[str]())
    assert sum(outcomes.values()) == FAULTS
    assert outcomes["MicroSessionTimeoutError"] > FAULTS // 10, outcomes
    assert outcomes["RPCError"] < FAULTS // 20, outcomes
    assert outcomes["nameless"] == 0


def test_a_board_that_resets_is_named(aot_firmware: Firmware) -> None:
    """A watchdog ends the program in the middle of a call, and starts it again."""
    line = aot_firmware.transport()
    x = np.zeros((1, 1, 8, 8), np.int8)
    with Session(line, timeout_override=LIMITS) as session:
        right = work(session, x)
        for _ in range(10):
            assert line.process is not None
            line.process.kill()
            with pytest.raises(MicroError, match=r"\S+: .*(status -9|closed)"):
                work(session, x)
            line.open()
            session.reconnect()
            assert work(session, x) == right


@pytest.mark.parametrize("cut", [1, 2, 5, 8, 13, 40])
def test_a_host_that_disappears_leaves_a_board_that_works(cut: int, aot_firmware: Firmware) -> None:
    """It wrote only the first bytes of a frame, and holds memory and an executor."""
    line = aot_firmware.transport()
    x = np.zeros((1, 1, 8, 8), np.int8)

    with line:
        for _ in range(3):
            first = Session(Stays(line), timeout_override=LIMITS).__enter__()
            kept = first.empty((3 << 20,), "uint8")
            right = work(first, x)
            line.write((b"\xff\xfd\x40\x00\x00\x00" + b"\xff\xff" * 20)[:cut], 1)
            with Session(Stays(line), timeout_override=LIMITS) as second:
                assert second.empty((3 << 20,), "uint8").shape == kept.shape
                assert work(second, x) == right
