"""The client's side of the Project API: starts a `microtvm_api_server.py` and calls it."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import os
import select
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO

from mlftool.errors import BAD_INPUT, MlfError, Problem
from mlftool.micro.errors import IoTimeoutError, MicroError, TransportClosedError
from mlftool.micro.project_api.server import INVALID_PARAMS, MOST_LINE, PROTOCOL_VERSION

SERVER_PYTHON_FILENAME = "microtvm_api_server.py"
SERVER_LAUNCH_SCRIPT_FILENAME = (
    "launch_microtvm_api_server.bat" if os.name == "nt" else "launch_microtvm_api_server.sh"
)
_SLACK = 30.0  # seconds that a server may need beside a line's own time-out
_LOG = logging.getLogger("mlftool.micro")


class ProjectAPIErrorBase(MicroError):  # noqa: N818 - TVM's name
    """The base of the others."""


class ConnectionShutdownError(ProjectAPIErrorBase):
    """The server has ended, or was ended."""


class MalformedReplyError(ProjectAPIErrorBase):
    """The server's reply is not the protocol's."""


class MismatchedIdError(ProjectAPIErrorBase):
    """The server replied to another request."""


class ProjectAPIServerNotFoundError(ProjectAPIErrorBase):
    """The folder has no server: nothing of the machine's is missing, so it is bad input."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        names = f"{SERVER_LAUNCH_SCRIPT_FILENAME} nor {SERVER_PYTHON_FILENAME}"
        text = f"is not a generated project: it has neither {names}"
        hint = "give a project of mlftool micro create, or a template"
        MlfError.__init__(self, Problem("MLF0501", text, os.fspath(folder), help=hint))


class UnsupportedProtocolVersionError(ProjectAPIErrorBase):
    """The server speaks another version of the protocol."""


class ProjectAPIError(ProjectAPIErrorBase):
    """The server refused a call, with its code and text."""

    def __init__(self, method: str, code: int, message: str, told: str = "") -> None:
        is_input = message == "InputError"
        words = (method, "" if is_input else message, told)
        super().__init__(": ".join(filter(None, words)))
        self.method, self.code, self.message = method, code, message
        if is_input or code == INVALID_PARAMS:
            self.exit_code = BAD_INPUT


# Of a server's errors those that a session knows.
_LINE_ERRORS: Mapping[str, type[MicroError]] = {
    "IoTimeoutError": IoTimeoutError,
    "TransportClosedError": TransportClosedError,
}


class ProjectAPIClient:
    """One server. A method raises `ProjectAPIError` for what the server refuses, and the server
    goes on; after any other error it is gone."""

    def __init__(
        self,
        read_file: BinaryIO,
        write_file: BinaryIO,
        process: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self._read_file, self._write_file, self._process = read_file, write_file, process
        self._next_id = 1
        self._buffer = bytearray()

    @property
    def is_shutdown(self) -> bool:
        return self._read_file.closed

    def shutdown(self) -> None:
        """Closes the pipes, upon which a server ends; one that does not is ended."""
        for file in (self._write_file, self._read_file):
            with contextlib.suppress(OSError):
                file.close()
        process, self._process = self._process, None
        if process is not None:
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _call(self, method: str, limit: float | None = None, **params: Any) -> Any:
        if self.is_shutdown:
            raise ConnectionShutdownError(f"{method}: the server has been shut down")
        number, self._next_id = self._next_id, self._next_id + 1
        request = {"jsonrpc": "2.0", "method": method, "params": params, "id": number}
        try:
            data = json.dumps(request).encode() + b"\n"
            while data:
                data = data[os.write(self._write_file.fileno(), data) :]
            reply = self._reply(method, limit)
            return _result(method, number, reply)
        except ProjectAPIError:
            raise
        except OSError as error:
            self.shutdown()
            raise ConnectionShutdownError(f"{method}: {error.strerror}") from None
        except ProjectAPIErrorBase:
            self.shutdown()
            raise

    def _reply(self, method: str, limit: float | None) -> bytes:
        """The next line. Raises ConnectionShutdownError when it does not come in time."""
        end = None if limit is None else time.monotonic() + limit
        searched = 0
        while (at := self._buffer.find(b"\n", searched)) < 0:
            searched = len(self._buffer)
            left = None if end is None else max(0.0, end - time.monotonic())
            if not select.select([self._read_file], [], [], left)[0]:
                raise ConnectionShutdownError(f"{method}: no reply within {limit:g} s")
            data = os.read(self._read_file.fileno(), 1 << 16)
            if not data:
                raise ConnectionShutdownError(f"{method}: the server has ended")
            self._buffer += data
            if len(self._buffer) > MOST_LINE:
                raise MalformedReplyError(f"{method}: a reply of more than {MOST_LINE} bytes")
        line = bytes(self._buffer[:at])
        del self._buffer[: at + 1]
        return line

    def server_info_query(self, tvm_version: str) -> dict[str, Any]:
        info = self._call("server_info_query", _SLACK, tvm_version=tvm_version)
        found = info.get("protocol_version") if isinstance(info, dict) else None
        if found != PROTOCOL_VERSION:
            self.shutdown()
            text = f"the server's protocol is version {found}, expected {PROTOCOL_VERSION}"
            raise UnsupportedProtocolVersionError(text)
        return dict(info)

    def generate_project(
        self,
        model_library_format_path: str | os.PathLike[str],
        standalone_crt_dir: str | os.PathLike[str],
        project_dir: str | os.PathLike[str],
        options: Mapping[str, Any] | None = None,
    ) -> None:
        self._call(
            "generate_project",
            model_library_format_path=os.fspath(model_library_format_path),
            standalone_crt_dir=os.fspath(standalone_crt_dir),
            project_dir=os.fspath(project_dir),
            options=dict(options or {}),
        )

    def build(self, options: Mapping[str, Any] | None = None) -> None:
        self._call("build", options=dict(options or {}))

    def flash(self, options: Mapping[str, Any] | None = None) -> None:
        self._call("flash", options=dict(options or {}))

    def open_transport(self, options: Mapping[str, Any] | None = None) -> dict[str, Any]:
        """The seconds that the platform says a session should wait."""
        reply = self._call("open_transport", options=dict(options or {}))
        return dict(reply["timeouts"])

    def close_transport(self) -> None:
        self._call("close_transport", _SLACK)

    def read_transport(self, n: int, timeout_sec: float | None) -> bytes:
        limit = None if timeout_sec is None else timeout_sec + _SLACK
        reply = self._call("read_transport", limit, n=n, timeout_sec=timeout_sec)
        try:
            return base64.b85decode(reply["data"])
        except (ValueError, KeyError, TypeError):
            raise MalformedReplyError("read_transport: the data are not base85") from None

    def write_transport(self, data: bytes, timeout_sec: float | None) -> None:
        limit = None if timeout_sec is None else timeout_sec + _SLACK
        text = base64.b85encode(data).decode("ascii")
        self._call("write_transport", limit, data=text, timeout_sec=timeout_sec)


def _result(method: str, number: int, line: bytes) -> Any:
    try:
        reply = json.loads(line)
    except (ValueError, RecursionError):
        raise MalformedReplyError(f"{method}: the reply is not JSON") from None
    if not isinstance(reply, dict) or reply.get("jsonrpc") != "2.0":
        raise MalformedReplyError(f"{method}: the reply is not JSON-RPC 2.0")
    error = reply.get("error")
    # A server that could not read the id of a request answers with null.
    if reply.get("id") != number and not (reply.get("id") is None and error):
        raise MismatchedIdError(f"{method}: the reply is to request {reply.get('id')}")
    if error is not None:
        raise _error(method, error)
    if "result" not in reply:
        raise MalformedReplyError(f"{method}: the reply has no result")
    return reply["result"]


def _error(method: str, error: Any) -> MicroError:
    if not isinstance(error, dict):
        return MalformedReplyError(f"{method}: the error is not an object")
    message = str(error.get("message", ""))
    data = error.get("data")
    data = data if isinstance(data, dict) else {}
    last = str(data.get("traceback", "")).strip().rpartition("\n")[2]  # of a server of TVM's
    told = str(data.get("text", "" if last == message else last))
    if message in _LINE_ERRORS:
        return _LINE_ERRORS[message](": ".join(filter(None, (method, message, data.get("text")))))
    code = error.get("code")
    return ProjectAPIError(method, code if isinstance(code, int) else 0, message, told)


def instantiate_from_dir(
    project_dir: str | os.PathLike[str], debug: bool = False
) -> ProjectAPIClient:
    """Starts the server of a folder. Raises ProjectAPIServerNotFoundError."""
    folder = Path(os.path.realpath(project_dir))  # of a link in a circle, too
    script, launcher = folder / SERVER_PYTHON_FILENAME, folder / SERVER_LAUNCH_SCRIPT_FILENAME
    if os.path.isfile(launcher):  # no error for a name that is too long
        command = [str(launcher), str(script)]
    elif os.path.isfile(script):
        command = [sys.executable, str(script)]
    else:
        raise ProjectAPIServerNotFoundError(project_dir)
    its_read, our_write = os.pipe()
    our_read, its_write = os.pipe()
    command += ["--read-fd", str(its_read), "--write-fd", str(its_write)]
    try:
        process = subprocess.Popen(
            [*command, *(["--debug"] if debug else [])], pass_fds=(its_read, its_write), cwd=folder
        )
    except OSError as error:
        os.close(our_read)
        os.close(our_write)
        text = f"{command[0]} cannot be started: {error.strerror}"
        raise ConnectionShutdownError(text) from None
    finally:
        os.close(its_read)
        os.close(its_write)
    return ProjectAPIClient(
        os.fdopen(our_read, "rb", buffering=0), os.fdopen(our_write, "wb", buffering=0), process
    )
