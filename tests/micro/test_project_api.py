"""The Project API on its wire: requests made from the reference by hand, and servers that answer
what they should not."""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from mlftool.micro import IoTimeoutError, MicroError, TransportClosedError
from mlftool.micro.framing import Message, Type, Unframer, message_frame
from mlftool.micro.project import (
    GeneratedProject,
    NotATemplateProjectError,
    TemplateProject,
    TemplateProjectError,
    get_microtvm_template_projects,
)
from mlftool.micro.project_api.client import (
    ConnectionShutdownError,
    MalformedReplyError,
    MismatchedIdError,
    ProjectAPIServerNotFoundError,
    UnsupportedProtocolVersionError,
    instantiate_from_dir,
)

SCRIPT = "microtvm_api_server.py"
SERVER = Path(__file__).absolute().parents[2] / "mlftool/micro/project_api/server.py"

# An echo whose handler fails in every way.
ECHO = """
import server

OPTIONS = [
    server.ProjectOption("level", required=["build"], type="int", choices=[1, 2], help="how much"),
    server.ProjectOption("fast", optional=["build", "flash"], type="bool", default=False),
    server.ProjectOption("name", optional=["flash"]),
]


class Handler(server.ProjectAPIHandler):
    def __init__(self):
        self.line = bytearray()

    def server_info_query(self, tvm_version):
        return server.ServerInfo("echo", False, "/model.tar", OPTIONS)

    def generate_project(self, model_library_format_path, standalone_crt_dir, project_dir, options):
        raise server.UnsupportedTVMVersionError("too old")

    def build(self, options):
        assert options["level"] == 2, options
        assert options["fast"] is False, options
        assert "name" not in options

    def flash(self, options):
        raise KeyError("the board")

    def open_transport(self, options):
        return server.TransportTimeouts(1, 2, 3)

    def close_transport(self):
        pass

    def read_transport(self, n, timeout_sec):
        if not self.line:
            raise server.IoTimeoutError
        found, self.line = self.line[:n], self.line[n:]
        return bytes(found)

    def write_transport(self, data, timeout_sec):
        if data == b"close":
            raise server.TransportClosedError
        self.line += data


server.main(Handler())
"""


class Wire:
    """The client's side as the reference has it: lines of JSON over two descriptors."""

    def __init__(self, folder: Path) -> None:
        its_read, self.write = os.pipe()
        self.read, its_write = os.pipe()
        command = [sys.executable, folder / SCRIPT, "--read-fd", str(its_read)]
        command += ["--write-fd", str(its_write), "--debug"]
        descriptors = (its_read, its_write)
        self.process = subprocess.Popen(
            command, pass_fds=descriptors, cwd=folder, stderr=subprocess.PIPE
        )
        for fd in descriptors:
            os.close(fd)
        self.lines = os.fdopen(self.read, "rb")

    def send(self, line: bytes) -> dict[str, Any]:
        os.write(self.write, line)
        reply: dict[str, Any] = json.loads(self.lines.readline())
        assert reply["jsonrpc"] == "2.0"
        assert ("result" in reply) != ("error" in reply)
        return reply

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        request = {"jsonrpc": "2.0", "method": method, "params": params, "id": 7}
        reply = self.send(json.dumps(request).encode() + b"\n")
        assert reply["id"] == 7
        return reply


def project(folder: Path, text: str) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / SCRIPT).write_text(text)
    (folder / "server.py").write_bytes(SERVER.read_bytes())
    return folder


@pytest.fixture
def echo(tmp_path: Path) -> Iterator[Wire]:
    wire = Wire(project(tmp_path / "echo", ECHO))
    yield wire
    assert wire.call("close_transport")["result"] is None  # usable to the end
    os.close(wire.write)
    wire.lines.close()
    assert wire.process.wait(10) == 0
    assert wire.process.stderr is not None
    wire.process.stderr.close()


def test_the_wire_is_the_references(echo: Wire) -> None:
    info = echo.call("server_info_query", tvm_version="0.14.0")["result"]
    assert (info["platform_name"], info["protocol_version"]) == ("echo", 1)
    assert (info["is_template"], info["model_library_format_path"]) == (False, "/model.tar")
    keys = {"name", "choices", "default", "type", "required", "optional", "help"}
    assert all(set(option) == keys for option in info["project_options"])
    assert info["project_options"][0]["required"] == ["build"]
    timeouts = echo.call("open_transport", options={})["result"]["timeouts"]
    assert timeouts == {
        "session_start_retry_timeout_sec": 1,
        "session_start_timeout_sec": 2,
        "session_established_timeout_sec": 3,
    }
    # base85 of the reference: ff fd is |NQ, 13 cd is 6U_.
    assert echo.call("write_transport", data="|NQ", timeout_sec=None)["result"] is None
    assert echo.call("write_transport", data="6U_", timeout_sec=1)["result"] is None
    line = b'{"jsonrpc":"2.0","method":"read_transport","params":{"n":2,"timeout_sec":5},"id":7}\n'
    assert echo.send(line) == {"jsonrpc": "2.0", "id": 7, "result": {"data": "|NQ"}}
    assert echo.call("read_transport", n=9, timeout_sec=0.5)["result"] == {"data": "6U_"}


MALFORMED = {
    b"\n no\n": (-32700, None),
    b"{\n": (-32700, None),
    b'{"jsonrpc": "2.0"\xff}\n': (-32700, None),
    b"[" * 100_000 + b"\n": (-32700, None),
    b"[1]\n": (-32600, None),
    b"7\n": (-32600, None),
    b'{"method":"build","params":{},"id":1}\n': (-32600, 1),
    b'{"jsonrpc":"1.0","method":"build","params":{},"id":1}\n': (-32600, 1),
    b'{"jsonrpc":"2.0","method":"a b","params":{},"id":1}\n': (-32600, 1),
    b'{"jsonrpc":"2.0","method":3,"params":{},"id":1}\n': (-32600, 1),
    b'{"jsonrpc":"2.0","method":"build","params":[1],"id":1}\n': (-32600, 1),
    b'{"jsonrpc":"2.0","method":"build","params":{},"id":1.5}\n': (-32600, None),
    b'{"jsonrpc":"2.0","method":"build","params":{},"id":true}\n': (-32600, None),
    b'{"jsonrpc":"2.0","method":"serve_forever","params":{},"id":"x"}\n': (-32601, "x"),
    b'{"jsonrpc":"2.0","method":"build","params":{},"id":1}\n': (-32602, 1),
    b'{"jsonrpc":"2.0","method":"close_transport","params":{"a":1},"id":1}\n': (-32602, 1),
}


@pytest.mark.parametrize("line", MALFORMED, ids=lambda line: repr(line)[:40])
def test_a_malformed_line_is_the_protocols_error(line: bytes, echo: Wire) -> None:
    reply = echo.send(line)
    assert (reply["error"]["code"], reply["id"]) == MALFORMED[line]
    assert reply["error"]["message"]


@pytest.mark.parametrize(
    ("method", "params", "said"),
    [
        ("read_transport", {"n": "2", "timeout_sec": 1}, "n: got str, expected int"),
        ("read_transport", {"n": True, "timeout_sec": 1}, "n: got bool"),
        ("read_transport", {"n": 0, "timeout_sec": 1}, "n: got 0"),
        ("read_transport", {"n": 2, "timeout_sec": "x"}, "expected int or float or null"),
        ("write_transport", {"data": "'''", "timeout_sec": 1}, "not base85"),
        ("write_transport", {"data": "\u00e9", "timeout_sec": 1}, "not base85"),
        ("build", {"options": []}, "options: got list"),
        ("build", {"options": {"levle": 2}}, "unknown option levle; expected some of level, fast"),
        ("build", {"options": {}}, "option level is required by build"),
        ("build", {"options": {"level": "many"}}, "level: got 'many', expected int"),
        ("build", {"options": {"level": 3}}, "level: got 3, expected one of 1, 2"),
        ("build", {"options": {"level": 2, "fast": "maybe"}}, "fast: got 'maybe', expected bool"),
        ("build", {"options": {"level": 2, "fast": 1}}, "fast: got 1, expected bool"),
    ],
)
def test_wrong_parameters_are_named(
    method: str, params: dict[str, Any], said: str, echo: Wire
) -> None:
    error = echo.call(method, **params)["error"]
    assert error["code"] == -32602
    assert said in error["message"]


def test_options_come_as_tvmc_sends_them(echo: Wire) -> None:
    """All of them to every call, as text; "false" is false."""
    options = {"level": "2", "fast": "false", "name": None}
    assert echo.call("build", options=options)["result"] is None


def test_exceptions_are_told_by_their_names(echo: Wire) -> None:
    error = echo.call("flash", options={})["error"]
    assert (error["code"], error["message"]) == (-32000, "calling method flash")
    assert "KeyError: 'the board'" in error["data"]["traceback"]
    paths = dict.fromkeys(("model_library_format_path", "standalone_crt_dir", "project_dir"), "/x")
    options = {"level": 1}
    error = echo.call("generate_project", **paths, options=options)["error"]
    assert (error["code"], error["message"]) == (-32000, "UnsupportedTVMVersionError")
    error = echo.call("read_transport", n=1, timeout_sec=0)["error"]
    assert (error["code"], error["message"]) == (-32000, "IoTimeoutError")


# the client


def test_the_client_raises_what_a_session_knows(tmp_path: Path) -> None:
    client = instantiate_from_dir(project(tmp_path / "echo", ECHO))
    with pytest.raises(IoTimeoutError, match="read_transport"):
        client.read_transport(1, 0.1)
    with pytest.raises(TransportClosedError, match="write_transport"):
        client.write_transport(b"close", 1)
    with pytest.raises(MicroError, match="flash: calling method flash: KeyError: 'the board'"):
        client.flash({})
    with pytest.raises(MicroError, match="option level is required by build"):
        client.build({})
    client.write_transport(bytes(range(256)), 1)
    assert client.read_transport(1000, 1) == bytes(range(256))
    client.shutdown()
    with pytest.raises(ConnectionShutdownError, match="build: the server has been shut down"):
        client.build({})


def test_folders_without_a_server_and_of_the_wrong_kind(tmp_path: Path) -> None:
    with pytest.raises(ProjectAPIServerNotFoundError, match=f"neither .* nor {SCRIPT}"):
        instantiate_from_dir(tmp_path)
    with pytest.raises(TemplateProjectError):
        GeneratedProject.from_directory(get_microtvm_template_projects("crt"))
    with pytest.raises(NotATemplateProjectError):
        TemplateProject.from_directory(project(tmp_path / "echo", ECHO))
    with pytest.raises(MicroError, match="no template 'zephyr' comes with mlftool"):
        get_microtvm_template_projects("zephyr")
    with pytest.raises(MicroError, match="unknown project option 'levle'"):
        GeneratedProject.from_directory(tmp_path / "echo", {"levle": 1})


def test_a_launch_script_is_preferred(tmp_path: Path) -> None:
    folder = project(tmp_path / "echo", ECHO)
    launcher = folder / "launch_microtvm_api_server.sh"
    launcher.write_text(f'#!/bin/sh\ntouch launched\nexec {sys.executable} "$@"\n')
    launcher.chmod(0o755)
    client = instantiate_from_dir(folder, debug=True)
    assert client.server_info_query("0.14.0")["platform_name"] == "echo"
    client.shutdown()
    assert (folder / "launched").exists()


BAD = """
import json, os, sys
args = sys.argv
lines = os.fdopen(int(args[args.index("--read-fd") + 1]), "rb")
out = int(args[args.index("--write-fd") + 1])
for line in lines:
    request = json.loads(line)
    os.write(out, {reply} + b"\\n")
"""
INFO = '{"platform_name": "x", "is_template": False, "project_options": [], "protocol_version": 2}'
REPLIES = {
    "b'no'": MalformedReplyError,
    "b'[]'": MalformedReplyError,
    "b'{}'": MalformedReplyError,
    """b'{"jsonrpc": "2.0", "id": 1}'""": MalformedReplyError,
    """b'{"jsonrpc": "2.0", "id": 1, "error": 3}'""": MalformedReplyError,
    """b'{"jsonrpc": "2.0", "id": 2, "result": {}}'""": MismatchedIdError,
    f"""json.dumps({{"jsonrpc": "2.0", "id": 1, "result": {INFO}}}).encode()""": (
        UnsupportedProtocolVersionError
    ),
    "sys.exit(0)": ConnectionShutdownError,
}


@pytest.mark.parametrize("reply", REPLIES)
def test_a_server_that_answers_nonsense_is_named(reply: str, tmp_path: Path) -> None:
    client = instantiate_from_dir(project(tmp_path / "bad", BAD.replace("{reply}", reply)))
    with pytest.raises(REPLIES[reply]):
        client.server_info_query("0.14.0")
    assert client.is_shutdown


def test_a_line_that_gives_all_or_nothing_is_asked_for_what_comes() -> None:
    """As templates of TVM's read: never for more than is on its way, and few reads for a frame."""
    for body in (b"", b"\xff" * 40, bytes(range(256)) * 4):
        frame = message_frame(Message(0x6743, Type.NORMAL, body))
        unframer, left, reads, found = Unframer(), b"noise" + frame, 0, []
        while left:
            count = unframer.needed()
            assert 1 <= count <= len(left)
            found += unframer.feed(left[:count])
            left, reads = left[count:], reads + 1
        assert [bytes(payload)[3:] for payload in found] == [body]
        assert reads < 60


def test_base85_is_pythons() -> None:
    assert base64.b85encode(bytes.fromhex("fffd")) == b"|NQ"
    assert base64.b85encode(bytes.fromhex("13cd")) == b"6U_"
