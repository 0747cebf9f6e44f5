"""The compiler as a persistent worker, spoken to as Bazel speaks to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

from rules.private.tools.worker_protocol import (
    CODECS,
    JsonCodec,
    ProtoCodec,
    WorkRequest,
    WorkResponse,
)

ROOT = Path(os.path.abspath(__file__)).parents[2]


def request_bytes(protocol: str, **fields: Any) -> bytes:
    """A request as Bazel 4 writes it: no newline after JSON, and fields we do not read."""
    if protocol == "proto":
        message = ProtoCodec().encode(WorkRequest(**fields))
        # Field 2, an input: `path: "x"`; it lengthens the message.
        body = message[1 if message[0] < 0x80 else 2 :] + b"\x12\x03\x0a\x01x"
        return ProtoCodec().encode(WorkRequest.FromString(body))
    text = JsonCodec().encode(WorkRequest(**fields)).decode().strip()
    return (text[:-1] + ',"inputs":[{"path":"x","digest":"eA=="}]}').encode()


class Peer:
    """The other side of a worker."""

    def __init__(self, protocol: str) -> None:
        self.protocol = protocol
        command = ("-m", "rules.private.tools.worker", protocol, "--persistent_worker")
        self.worker = subprocess.Popen(
            [sys.executable, *command], cwd=ROOT,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip

    def send(self, *arguments: object, **fields: Any) -> None:
        self.write(request_bytes(self.protocol, arguments=list(map(str, arguments)), **fields))

    def write(self, data: bytes) -> None:
        assert self.worker.stdin
        self.worker.stdin.write(data)
        self.worker.stdin.flush()

    def receive(self) -> dict[str, Any]:
        """The next response, with every field."""
        stream = self.worker.stdout
        assert stream
        if self.protocol == "json":
            return {"wasCancelled": False, **json.loads(stream.readline())}
        length = shift = 0
        while True:
            byte = stream.read(1)[0]
            length, shift = length | (byte & 0x7F) << shift, shift + 7
            if byte < 0x80:
                break
        m = WorkResponse.FromString(stream.read(length))
        return {
            "exitCode": m.exit_code, "output": m.output,
            "requestId": m.request_id, "wasCancelled": m.was_cancelled,
        }  # fmt: skip

    def child(self) -> int:
        """The process of the one request under way."""
        path = Path(f"/proc/{self.worker.pid}/task/{self.worker.pid}/children")
        end = time.monotonic() + 20
        while not (children := path.read_text().split()):
            assert time.monotonic() < end
            time.sleep(0.01)
        return int(children[0])

    def end(self) -> tuple[int, str]:
        """Exit code and log of the worker after its input has ended."""
        _, log = self.worker.communicate(timeout=30)
        return self.worker.returncode, log.decode()


@pytest.fixture(params=sorted(CODECS))
def peer(request: pytest.FixtureRequest) -> Iterator[Peer]:
    one = Peer(request.param)
    yield one
    one.worker.kill()
    one.worker.communicate()


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    weights = helper.make_tensor("w", TensorProto.FLOAT, [4, 3], np.arange(12, dtype="f4"))
    graph = helper.make_graph(
        [helper.make_node("MatMul", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 4])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, 3])],
        [weights],
    )
    path = tmp_path_factory.mktemp("model") / "small.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]), path)
    return path


def test_many_requests_give_what_one_process_each_gives(
    peer: Peer, model: Path, tmp_path: Path
) -> None:
    for i in range(3):
        words = ("-o", tmp_path / f"{i}.tar", "--module-name", "m", "--only-declared")
        peer.send("compile", model, *words, request_id=i)
    answers = sorted((peer.receive() for _ in range(3)), key=lambda a: a["requestId"])
    params = tmp_path / "params"
    params.write_text(
        f"compile\n{model}\n-o\n{tmp_path / 'alone.tar'}\n--module-name\nm\n--only-declared\n"
    )
    command = [sys.executable, "-m", "rules.private.tools.worker", peer.protocol, f"@{params}"]
    subprocess.run(command, cwd=ROOT, check=True)

    assert [(a["requestId"], a["exitCode"], a["output"]) for a in answers] == [
        (i, 0, "") for i in range(3)
    ]
    alone = (tmp_path / "alone.tar").read_bytes()
    assert [(tmp_path / f"{i}.tar").read_bytes() == alone for i in range(3)] == [True] * 3
    assert peer.end() == (0, "")


def test_a_failed_request_is_told_in_one_line_and_forgotten(
    peer: Peer, model: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.onnx"
    bad.write_bytes(b"nothing")
    out = tmp_path / "out.tar"
    told = []
    for name, file in (("bad", bad), ("no such option", "--nothing"), ("good", model)):
        peer.send("compile", file, "-o", out)
        told.append((name, peer.receive()))

    assert [(name, a["exitCode"]) for name, a in told] == [
        ("bad", 2), ("no such option", 2), ("good", 0),
    ]  # fmt: skip
    assert told[0][1]["output"].startswith(f"{bad}: error[MLF0202]: ")
    assert told[1][1]["output"].startswith("mlftool: error[MLF0400]: ")
    assert out.exists()


def test_a_crash_ends_only_its_own_request(peer: Peer, model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "nobody_reads")
    peer.send("compile", model, "-o", tmp_path / "nobody_reads", request_id=1)
    child = peer.child()
    peer.send("compile", model, "-o", tmp_path / "out.tar", "--only-declared", request_id=2)
    second = peer.receive()
    os.kill(child, signal.SIGSEGV)
    first = peer.receive()

    assert (second["requestId"], second["exitCode"], second["output"]) == (2, 0, "")
    assert (first["requestId"], first["exitCode"]) == (1, 3)
    line = "mlftool: error[MLF0701]: the compiling process was ended by SIGSEGV\n"
    assert first["output"] == line


def test_a_cancelled_request_is_killed(peer: Peer, model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "nobody_reads")
    peer.send("compile", model, "-o", tmp_path / "nobody_reads", request_id=7)
    child = peer.child()
    peer.write(request_bytes(peer.protocol, request_id=7, cancel=True))
    answer = peer.receive()
    peer.write(request_bytes(peer.protocol, request_id=7, cancel=True))  # has ended: no answer
    peer.send("compile", model, "-o", tmp_path / "out.tar", request_id=8)

    assert (answer["requestId"], answer["wasCancelled"], answer["output"]) == (7, True, "")
    assert not Path(f"/proc/{child}").exists()
    assert peer.receive()["requestId"] == 8


def test_a_stopped_worker_takes_its_requests_along(peer: Peer, model: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "nobody_reads")
    peer.send("compile", model, "-o", tmp_path / "nobody_reads")
    child = peer.child()
    peer.worker.terminate()

    assert peer.end() == (128 + signal.SIGTERM, "")
    assert not Path(f"/proc/{child}").exists()


def test_paths_are_those_of_the_requests_own_folder(
    peer: Peer, model: Path, tmp_path: Path
) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "m.onnx").write_bytes(model.read_bytes())
        peer.send("compile", "m.onnx", "-o", "m.tar", sandbox_dir=str(tmp_path / name))
        assert peer.receive()["exitCode"] == 0

    archives = [(tmp_path / name / "m.tar").read_bytes() for name in ("one", "two")]
    assert archives[0] == archives[1]


@pytest.mark.parametrize(
    ("protocol", "data"),
    [
        ("proto", b"\xff\xff\xff\xff\xff\xff"),
        ("proto", b"\x80\x80\x80\x80\x80\x80"),
        ("proto", b"\x05ab"),
        ("proto", b"\x03\x0a\x01\xff"),
        ("json", b"hello"),
        ("json", b'{"arguments": [1]}'),
        ("json", b'{"arguments": '),
        ("json", b'{"a":' + b"[" * 100_000 + b"}"),
        ("json", b"\xff\xff"),
    ],
)
def test_malformed_input_ends_the_worker_with_one_line(protocol: str, data: bytes) -> None:
    peer = Peer(protocol)
    peer.write(data)

    code, log = peer.end()

    assert code == 2
    assert log.startswith("mlftool: error[MLF0407]: the persistent worker got ")
    assert log.count("\n") == 1
