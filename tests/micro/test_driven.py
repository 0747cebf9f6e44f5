"""A program on this computer, driven over pipes, a pseudo-terminal and a socket."""

from __future__ import annotations

import fcntl
import gc
import os
import select
import socket
import subprocess
import sys
import termios
import threading
import time
import tty
import types
from pathlib import Path

import numpy as np
import pytest
from firmware import FLOAT, INT8, Firmware

import mlftool
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.micro import (
    FdTransport,
    IoTimeoutError,
    MicroError,
    ProcessTransport,
    RPCError,
    SerialTransport,
    Session,
    SocketTransport,
    TransportClosedError,
    TransportTimeouts,
    create_aot_executor,
    create_graph_executor,
    create_local_aot_executor,
    create_local_debug_executor,
    create_local_graph_executor,
)
from mlftool.mlf import write_tar
from mlftool.mlf.params import decode


def inputs_of(model: Path, count: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    whole = model.stem.endswith("int8")
    shape = (count, 1, 1, 8, 8)
    data = rng.integers(-128, 128, shape, np.int8) if whole else rng.random(shape, np.float32)
    return list(data)


def expected(model: Path, tmp_path: Path, inputs: list[np.ndarray]) -> list[np.ndarray]:
    """The same model, run by mlftool on this computer."""
    path = tmp_path / "model.tar"
    write_tar(compile_modules([ModuleSpec(model, "m")]), path)
    module = mlftool.load(path).module()
    name, out = module.inputs[0].name, module.outputs[0].name
    return [np.asarray(module.run({name: x})[out]) for x in inputs]


def test_several_aot_modules_give_the_hosts_bits(aot_firmware: Firmware, tmp_path: Path) -> None:
    with Session(aot_firmware.transport()) as session:
        a, b = create_aot_executor(session, "a"), create_local_aot_executor(session, "b")
        assert (a.get_num_inputs(), a.get_num_outputs()) == (1, 1)
        assert a.get_input_index(a.get_input_name(0)) == 0
        for x, y, fa, fb in zip(
            inputs_of(INT8, 3),
            inputs_of(FLOAT, 3),
            expected(INT8, tmp_path, inputs_of(INT8, 3)),
            expected(FLOAT, tmp_path, inputs_of(FLOAT, 3)),
            strict=True,
        ):
            a.set_input(0, x)
            b.run(**{b.get_input_name(0): y})
            a.run()
            assert a.get_output(0).numpy().tobytes() == fa.tobytes()
            assert b.get_output(0).numpy().tobytes() == fb.tobytes()


@pytest.mark.parametrize("where", ["host", "debug", "board"])
def test_graphs_give_the_hosts_bits(where: str, graph_firmware: Firmware, tmp_path: Path) -> None:
    graph = graph_firmware.text("executor-config/graph/g.graph")
    params = graph_firmware.files["parameters/g.params"]
    inputs = inputs_of(FLOAT, 2)
    with Session(graph_firmware.transport()) as session:
        if where == "board":
            module = create_graph_executor(session, graph)
            module.load_params(params)
            assert len(graph) > session.most_bytes  # it went through memory
        else:
            make = {"host": create_local_graph_executor, "debug": create_local_debug_executor}
            module = make[where](graph, session.get_system_lib(), session.device)
            module.set_input(**decode(params))
        for x, result in zip(inputs, expected(FLOAT, tmp_path, inputs), strict=True):
            module.set_input(0, x)
            module.run()
            assert module.get_output(0).numpy().tobytes() == result.tobytes()
        if where == "debug":
            layers = module.layer_times(number=3)
            assert len(layers) == len(module.calls) > 1
            assert all(0 < layer.seconds < 1 for layer in layers)
            assert module.debug_get_output(layers[-1].name).numpy().size == 10


def test_times_are_the_boards(aot_firmware: Firmware) -> None:
    with Session(aot_firmware.transport()) as session:
        module = create_aot_executor(session, "a")
        times = module.benchmark(number=10, repeat=250)  # more than a packet holds
        assert len(times.results) == 250
        assert 0 < times.min <= times.mean <= times.max < 0.1
        image = np.zeros((1, 1, 8, 8), np.int8)
        assert len(module.benchmark(session.device, min_repeat_ms=None, image=image).results) == 5
        with pytest.raises(ValueError, match="number is 0, expected 1 or more"):
            module.benchmark(number=0)
        with pytest.raises(MicroError, match="end_to_end is not for boards"):
            module.benchmark(end_to_end=True)


def test_ten_thousand_calls_lose_nothing(aot_firmware: Firmware) -> None:
    with Session(aot_firmware.transport()) as session:
        echo = session.array(np.zeros(16, np.uint8))
        for i in range(5000):
            echo.copyfrom(np.full(16, i % 256, np.uint8))
            assert echo.numpy().tolist() == [i % 256] * 16


def test_a_megabyte_goes_there_and_back(aot_firmware: Firmware) -> None:
    data = np.random.default_rng(2).integers(0, 256, (1 << 20) + 13, np.uint8)
    data[1000:5000] = 0xFF
    with Session(aot_firmware.transport()) as session:
        assert (session.array(data).numpy() == data).all()


def test_unused_arrays_and_modules_are_freed(aot_firmware: Firmware) -> None:
    with Session(aot_firmware.transport()) as session:
        for _ in range(12):  # of 1 MiB each; the board has 4
            array = session.empty((1 << 18,))
            module = create_aot_executor(session, "a")
            assert array.shape == (1 << 18,)
            assert module.get_num_inputs() == 1
            del array, module
            gc.collect()


def test_out_of_memory_says_how_much(aot_firmware: Firmware) -> None:
    with Session(aot_firmware.transport()) as session:
        text = r"memory for float32\[4194304\].* \d+ bytes asked for, \d+ left"
        with pytest.raises(RPCError, match=text):
            session.empty((1 << 22,))
        assert session.array(np.arange(3)).numpy().tolist() == [0, 1, 2]


def test_errors_name_the_call(aot_firmware: Firmware) -> None:
    with Session(aot_firmware.transport()) as session:
        with pytest.raises(RPCError, match=r"no\.such: the board's firmware has no such function"):
            session.get_function("no.such")
        with pytest.raises(RPCError, match=r"none: the module has no such function"):
            session.get_system_lib()["none"]
        text = r"tvm\.aot_executor\.create: .*no function named tvmgen_nn_get_c_metadata"
        with pytest.raises(RPCError, match=text):
            create_aot_executor(session, "nn")
        module = create_aot_executor(session, "a")
        with pytest.raises(RPCError, match=r"get_input: error 0x702: no input named y"):
            module.get_input("y")
        with pytest.raises(RPCError, match=r"copy to int8\[1, 1, 8, 8\]: got int64\[3\]"):
            module.set_input(0, np.arange(3))
        with pytest.raises(RPCError, match=r"f: a dict cannot be sent"):
            session.call_function("f", 0, ({},))
        with pytest.raises(RPCError, match=r"f: \d+ bytes of arguments; a packet of this board"):
            session.call_function("f", 0, (bytes(5000),))


def test_a_session_begins_anew(aot_firmware: Firmware) -> None:
    """On the same line; and after the line was closed, with a new process."""
    line = aot_firmware.transport()
    for _ in range(2):
        with Session(line) as session:
            for _ in range(5):
                session.empty((3 << 20,), "uint8")  # most of its memory
                module = create_aot_executor(session, "a")
                module.run()
                session.reconnect()


def test_a_program_that_ends_is_named(aot_firmware: Firmware, tmp_path: Path) -> None:
    line = aot_firmware.transport()
    with Session(line) as session:
        assert line.process is not None
        line.process.kill()
        with pytest.raises(TransportClosedError, match=r"runtime.SystemLib: .*ended with status"):
            session.get_system_lib()
    with pytest.raises(TransportClosedError, match="has ended with status 1"):
        Session(ProcessTransport(["false"])).__enter__()
    with pytest.raises(MicroError, match="none cannot be started: No such file"):
        Session(ProcessTransport([tmp_path / "none"])).__enter__()


def test_a_program_that_says_nothing_ends_in_time() -> None:
    limits = TransportTimeouts(0.1, 0.3, 1)
    begin = time.monotonic()
    with pytest.raises(MicroError, match=r"handshake failed after 0\.3 s"):
        Session(ProcessTransport(["sleep", "60"]), timeout_override=limits).__enter__()
    assert time.monotonic() - begin < 5


def drive(session: Session) -> None:
    module = create_aot_executor(session, "a")
    module.set_input(0, np.zeros((1, 1, 8, 8), np.int8))
    module.run()
    assert module.get_output(0).numpy().shape == (1, 10)
    data = np.arange(100000, dtype=np.uint32) * 40503
    assert (session.array(data).numpy() == data).all()


def test_a_terminal_is_a_line(aot_firmware: Firmware) -> None:
    host, board = os.openpty()
    tty.setraw(host)
    with subprocess.Popen([aot_firmware.program, os.ttyname(board)]) as process:
        for _ in range(2):  # the second session finds a board that is running
            with Session(FdTransport(host, host)) as session:
                drive(session)
        process.kill()
    os.close(host)
    os.close(board)


class StandIn(types.ModuleType):
    """What SerialTransport takes of pyserial, on a terminal."""

    class SerialTimeoutException(OSError):  # noqa: N818 (pyserial's name)
        pass

    class Serial:
        timeout: float | None = None
        write_timeout: float | None = None

        def __init__(self, port: str, baudrate: int) -> None:
            self.fd = os.open(port, os.O_RDWR | os.O_NOCTTY)
            assert baudrate == 115200

        @property
        def in_waiting(self) -> int:
            return int.from_bytes(fcntl.ioctl(self.fd, termios.FIONREAD, bytes(4)), "little")

        def read(self, size: int) -> bytes:
            ready = select.select([self.fd], [], [], self.timeout)[0]
            return os.read(self.fd, size) if ready else b""

        def write(self, data: bytes) -> None:
            while data:
                if not select.select([], [self.fd], [], self.write_timeout)[1]:
                    raise StandIn.SerialTimeoutException
                data = data[os.write(self.fd, data[:256]) :]

        def close(self) -> None:
            os.close(self.fd)


def test_a_serial_port_is_a_line(aot_firmware: Firmware, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "serial", StandIn("serial"))
    host, board = os.openpty()
    tty.setraw(host)
    with subprocess.Popen([aot_firmware.program], stdin=host, stdout=host) as process:
        line = SerialTransport(os.ttyname(board))
        with Session(line) as session:
            drive(session)
        with pytest.raises(TransportClosedError, match="the line is not open"):
            line.read(1, 0.1)
        process.kill()
    line.open()
    with pytest.raises(IoTimeoutError, match=r"nothing to read within 0\.1 s"):
        line.read(1, 0.1)
    with pytest.raises(IoTimeoutError, match="were not written"):
        line.write(bytes(1 << 20), 0.1)
    line.close()
    os.close(host)
    os.close(board)


def test_a_serial_port_needs_pyserial(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "serial", None)
    with pytest.raises(MicroError, match="a serial port needs pyserial"):
        SerialTransport("/dev/none").open()


def test_a_socket_is_a_line(aot_firmware: Firmware) -> None:
    server = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = server.accept()
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with connection:
            subprocess.run([aot_firmware.program], stdin=connection, stdout=connection)

    thread = threading.Thread(target=serve)
    thread.start()
    with Session(SocketTransport("127.0.0.1", server.getsockname()[1])) as session:
        drive(session)
    thread.join(10)
    assert not thread.is_alive()
    server.close()
    with pytest.raises(MicroError, match=r"no connection to 127\.0\.0\.1:1"):
        SocketTransport("127.0.0.1", 1).open()


def test_driving_costs_less_than_a_millisecond(aot_firmware: Firmware) -> None:
    """The whole of an inference, less its run time: processor time, of both sides."""
    with Session(aot_firmware.transport()) as session:
        module = create_aot_executor(session, "a")
        x = np.zeros((1, 1, 8, 8), np.int8)
        best = 1.0
        for _ in range(200):
            begin = time.perf_counter()
            module.set_input(0, x)
            module.run()
            module.get_output(0).numpy()
            best = min(best, time.perf_counter() - begin)
        assert best - module.benchmark(number=20).min < 1e-3
