"""Firmware of TVM's releases, driven by our host, and ours, driven by hosts of those releases: what
differs between them on the wire. The other side is always an encoder of the tests' own."""

from __future__ import annotations

import numpy as np
import pytest
import wire
from firmware import Firmware
from release import BOOL, EVALUATOR, GRAPH, INT, MODULE, STR, Release, text, values

from mlftool.micro import (
    RPCError,
    Session,
    create_aot_executor,
    create_local_debug_executor,
    create_local_graph_executor,
)
from mlftool.mlf import params

X = np.array([[1, 2, 3, -4]], np.int8)
P = np.array([[10, 20, 30, 40]], np.int8)


@pytest.mark.parametrize("most", [512, 2048, 8192])
@pytest.mark.parametrize("release", EVALUATOR)
def test_a_graph_on_firmware_of_a_release(release: str, most: int) -> None:
    """Releases differ in what their time evaluator takes; 0.8 has parameters in the firmware."""
    line = Release(release, most)
    with Session(line) as session:
        module = create_local_debug_executor(GRAPH, session.get_system_lib(), session.device)
        if release != "0.8":
            module.load_params(params.encode({"p0": P}))
        module.run(x=X)
        assert module.get_output(0).numpy().tolist() == (X + P).tolist()
        (layer,) = module.layer_times(number=3)
        assert layer.seconds == 0.25
        tries = line.heard.count("runtime.RPCTimeEvaluator")
        assert (
            session.get_system_lib()
            .time_evaluator("tvmgen_default_add", repeat=40)(*module.calls[0][2])
            .results
            == (0.25,) * 40
        )
        assert line.heard.count("runtime.RPCTimeEvaluator") == tries + 1  # the form is known now
        big = np.arange(3000, dtype=np.int16).astype(np.int8)
        assert (session.array(big).numpy() == big).all()


@pytest.mark.parametrize("release", [r for r in EVALUATOR if r != "0.8"])
def test_the_aot_executor_of_a_release(release: str) -> None:
    with Session(Release(release)) as session:
        module = create_aot_executor(session)
        assert module.get_num_inputs() == 1
        module.set_input("x", X)
        module.run()
        assert module.get_output(0).numpy().tolist() == (X + P).tolist()
        assert module.benchmark(number=2, repeat=3).results == (0.25,) * 3


def test_what_a_release_lacks_is_named() -> None:
    with Session(Release("0.8")) as session:
        with pytest.raises(RPCError, match=r"aot_executor\.create: the board's firmware has no"):
            create_aot_executor(session)
        module = create_local_graph_executor(GRAPH, session.get_system_lib())
        with pytest.raises(AttributeError, match=r"'benchmark'.*docs/migration\.md"):
            module.benchmark()
        with pytest.raises(RPCError, match="no such input: p1"):
            module.load_params(params.encode({"p1": P}))


def test_an_error_of_the_board_is_not_taken_for_a_form(aot_firmware: Firmware) -> None:
    with (
        Session(aot_firmware.transport()) as session,
        pytest.raises(RPCError, match="no function named nosuch"),
    ):
        session.get_system_lib().time_evaluator("nosuch")()


@pytest.mark.parametrize("release", EVALUATOR)
def test_our_firmware_answers_hosts_of_a_release(release: str, aot_firmware: Firmware) -> None:
    """A host's session, encoded by hand: it looks up the executor's `run` and measures it."""
    line = aot_firmware.transport()

    def ask(session: int, kind: int, body: bytes) -> wire.Said:
        line.write(wire.encode(session, kind, body), 5)
        heard = b""
        while True:
            heard += line.read(1 << 16, 5)
            try:
                said = [s for s in wire.decode(heard) if s.kind not in (2, 3)]
            except (ValueError, IndexError):
                continue
            if said:
                return said[-1]

    def request(code: int, body: bytes) -> bytes:
        packet = wire.little(len(body) + 4, 8) + wire.little(code, 4) + body
        answer = ask(number, 0x10, packet).body
        assert answer[8:12] == wire.little(4, 4), answer
        return answer[12:]

    def function(name: str) -> bytes:
        return request(9, values((STR, text(name))))[-8:]

    def call(name: str, *given: tuple[int, bytes]) -> bytes:
        return request(3, function(name) + values(*given))

    with line:
        number = ask(0x43, 0, b"\x01").session
        library = call("runtime.SystemLib")[-8:]
        device = (6, wire.little(1, 4) + bytes(4))
        create = ((MODULE, library), device, (STR, text("a")))
        module = call("tvm.aot_executor.create", *create)[-8:]
        query = (BOOL if release == "0.18" else INT, wire.little(1, 8))
        found = ((MODULE, module), (STR, text("get_num_inputs")), query)
        get = call("tvm.rpc.server.ModuleGetFunction", *found)[-8:]
        assert request(3, get + values())[-8:] == wire.little(1, 8)
        names = iter([module, text("run"), text("")])
        numbers = iter([1, 0, 3, 2, 0, *([100] if len(EVALUATOR[release]) > 10 else []), 0, 1, 0])
        evaluator = [
            (kind, wire.little(next(numbers), 8) if kind == INT else next(names))
            for kind in EVALUATOR[release]
        ]
        measure = call("runtime.RPCTimeEvaluator", *evaluator)[-8:]
        answer = request(3, measure + values())
        seconds = np.frombuffer(answer[-16:], "<f8")
        assert answer[-24:-16] == wire.little(16, 8)  # two results
        assert ((seconds > 0) & (seconds < 1)).all()
