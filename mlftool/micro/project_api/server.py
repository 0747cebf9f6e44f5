"""The server's side of the Project API: JSON-RPC over two file descriptors, a line each way.

It needs the standard library only, so that a project can have a copy. A `microtvm_api_server.py`
derives a class from `ProjectAPIHandler` and gives one to `main`; docs/projects.md has an example.
"""

from __future__ import annotations

import abc
import argparse
import base64
import json
import logging
import os
import re
import select
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

PROTOCOL_VERSION = 1
MOST_LINE = 1 << 26  # bytes of a request: more is refused unread

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, SERVER_ERROR = -32602, -32000

_METHODS = ("generate_project", "build", "flash", "open_transport")  # that take options
_TYPES: Mapping[str, type] = {"str": str, "int": int, "bool": bool}
_LOG = logging.getLogger("mlftool.micro.project_api")


class JSONRPCError(Exception):
    """A failure with its code on the wire."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data


class ServerError(Exception):
    """What a client tells by the class's name."""


class TransportClosedError(ServerError):
    """The line is not open, or its other end is gone."""


class IoTimeoutError(ServerError):
    """Nothing could be read or written in time."""


class UnsupportedTVMVersionError(ServerError):
    """This project cannot be driven by a client of that version."""


class ProjectError(ServerError):
    """What the user can mend: a compiler that is missing, an archive without a runtime."""


class InputError(ProjectError):
    """What was given is wrong: the archive, or the value of an option."""


@dataclass(frozen=True)
class ProjectOption:
    """An option; `required` and `optional` name the methods that read it, at least one of them."""

    name: str
    required: Sequence[str] | None = None
    optional: Sequence[str] | None = None
    type: str = "str"  # str, int or bool
    default: Any = None
    choices: Sequence[Any] | None = None
    help: str = ""

    def __post_init__(self) -> None:
        if not self.required and not self.optional:
            raise ValueError(f"option {self.name} is neither required nor optional")
        if self.type not in _TYPES:
            raise ValueError(f"option {self.name}: type is {self.type!r}")

    def to_json(self) -> dict[str, Any]:
        lists = {k: v and list(v) for k, v in vars(self).items() if k in _LISTS}
        return {**vars(self), **lists}

    def value(self, given: Any) -> Any:
        """What was given as this option's type. Raises JSONRPCError."""
        wanted = _TYPES[self.type]
        found = _from_text(given, self.type) if isinstance(given, str) else given
        if type(found) is not wanted:
            text = f"option {self.name}: got {given!r}, expected {self.type}"
            raise JSONRPCError(INVALID_PARAMS, text)
        if self.choices and found not in self.choices:
            known = ", ".join(map(str, self.choices))
            text = f"option {self.name}: got {given!r}, expected one of {known}"
            raise JSONRPCError(INVALID_PARAMS, text)
        return found


_LISTS = ("required", "optional", "choices")


def _from_text(text: str, kind: str) -> Any:
    """tvmc sends every value as text."""
    if kind == "bool":
        return {"true": True, "1": True, "false": False, "0": False}.get(text.lower(), text)
    if kind == "int" and re.fullmatch(r"[+-]?[0-9]{1,18}", text):
        return int(text)
    return text


@dataclass(frozen=True)
class ServerInfo:
    """What a client asks first. `model_library_format_path` is "" for a template."""

    platform_name: str
    is_template: bool
    model_library_format_path: str | Path
    project_options: Sequence[ProjectOption]

    def to_json(self) -> dict[str, Any]:
        return {
            "platform_name": self.platform_name,
            "is_template": self.is_template,
            "model_library_format_path": str(self.model_library_format_path),
            "project_options": [option.to_json() for option in self.project_options],
            "protocol_version": PROTOCOL_VERSION,
            # Not of TVM's: read_transport answers with what there is, up to n bytes.
            "reads_what_is_there": True,
        }


@dataclass(frozen=True)
class TransportTimeouts:
    """Seconds that a client waits; 0 is for ever."""

    session_start_retry_timeout_sec: float = 1.0
    session_start_timeout_sec: float = 10.0
    session_established_timeout_sec: float = 30.0


class ProjectAPIHandler(abc.ABC):
    """What a platform does. Options have the types that `ServerInfo` says; one without a value is
    left out. Exceptions become the protocol's errors, and the server goes on."""

    @abc.abstractmethod
    def server_info_query(self, tvm_version: str) -> ServerInfo: ...

    @abc.abstractmethod
    def generate_project(
        self,
        model_library_format_path: Path,
        standalone_crt_dir: Path,
        project_dir: Path,
        options: dict[str, Any],
    ) -> None: ...

    @abc.abstractmethod
    def build(self, options: dict[str, Any]) -> None: ...

    @abc.abstractmethod
    def flash(self, options: dict[str, Any]) -> None: ...

    @abc.abstractmethod
    def open_transport(self, options: dict[str, Any]) -> TransportTimeouts: ...

    @abc.abstractmethod
    def close_transport(self) -> None: ...

    @abc.abstractmethod
    def read_transport(self, n: int, timeout_sec: float | None) -> bytes:
        """One byte to n."""

    @abc.abstractmethod
    def write_transport(self, data: bytes, timeout_sec: float | None) -> None:
        """All of it."""


def checked_options(
    method: str, given: Mapping[str, Any], known: Sequence[ProjectOption]
) -> dict[str, Any]:
    """The options that `method` reads, each as its type. Clients send all options to all methods,
    with None or the default for those that the user left out. Raises JSONRPCError."""
    by_name = {option.name: option for option in known}
    if unknown := sorted(set(given) - set(by_name)):
        text = f"unknown option {unknown[0]}; expected some of {', '.join(by_name)}"
        raise JSONRPCError(INVALID_PARAMS, text)
    found = {}
    for name, option in by_name.items():
        value = given.get(name)
        value = option.default if value is None else value
        if value is not None:
            found[name] = option.value(value)
        elif method in (option.required or ()):
            raise JSONRPCError(INVALID_PARAMS, f"option {name} is required by {method}")
    return found


class ProjectAPIServer:
    """Answers requests, one after the other, until its input ends."""

    def __init__(self, read_file: BinaryIO, write_file: BinaryIO, handler: ProjectAPIHandler):
        self._read_file, self._write_file, self._handler = read_file, write_file, handler

    def serve_forever(self) -> None:
        while line := self._read_file.readline(MOST_LINE):
            if len(line) >= MOST_LINE and not line.endswith(b"\n"):
                while line and not line.endswith(b"\n"):
                    line = self._read_file.readline(MOST_LINE)
                line = b""
            elif not line.strip():
                continue
            reply = json.dumps(self.answer(line)) + "\n"
            self._write_file.write(reply.encode())
            self._write_file.flush()

    def answer(self, line: bytes) -> dict[str, Any]:
        """The reply to a line, whatever it holds."""
        number: Any = None
        try:
            request = _parsed(line)
            number = _id_of(request)
            reply = {"result": self._called(*_checked(request))}
        except JSONRPCError as error:
            told = {"code": error.code, "message": error.message, "data": error.data}
            reply = {"error": told}
        return {"jsonrpc": "2.0", "id": number, **reply}

    def _called(self, method: str, params: dict[str, Any]) -> Any:
        action = getattr(self, f"_{method}", None)
        if method not in _PARAMS or action is None:
            raise JSONRPCError(METHOD_NOT_FOUND, f"unknown method {method}")
        _check_params(method, params)
        try:
            return action(**params)
        except JSONRPCError:
            raise
        except (ServerError, OSError) as error:  # the user can mend these: no traceback in a log
            raise self._failed(type(error).__name__, str(error), logging.DEBUG) from error
        except Exception as error:
            told = f"{type(error).__name__}: {error}"
            raise self._failed(f"calling method {method}", told, logging.ERROR) from error

    def _failed(self, message: str, told: str, level: int) -> JSONRPCError:
        """`text` is not of TVM's: what an exception says, for a message of one line."""
        trace = traceback.format_exc()
        _LOG.log(level, "%s", trace)
        return JSONRPCError(SERVER_ERROR, message, {"traceback": trace, "text": told})

    def _options(self, method: str, given: dict[str, Any]) -> dict[str, Any]:
        known = self._handler.server_info_query("").project_options
        return checked_options(method, given, known)

    def _server_info_query(self, tvm_version: str) -> dict[str, Any]:
        return self._handler.server_info_query(tvm_version).to_json()

    def _generate_project(
        self,
        model_library_format_path: str,
        standalone_crt_dir: str,
        project_dir: str,
        options: dict[str, Any],
    ) -> None:
        self._handler.generate_project(
            Path(model_library_format_path),
            Path(standalone_crt_dir),
            Path(project_dir),
            self._options("generate_project", options),
        )

    def _build(self, options: dict[str, Any]) -> None:
        self._handler.build(self._options("build", options))

    def _flash(self, options: dict[str, Any]) -> None:
        self._handler.flash(self._options("flash", options))

    def _open_transport(self, options: dict[str, Any]) -> dict[str, Any]:
        timeouts = self._handler.open_transport(self._options("open_transport", options))
        return {"timeouts": vars(timeouts)}

    def _close_transport(self) -> None:
        self._handler.close_transport()

    def _read_transport(self, n: int, timeout_sec: float | None) -> dict[str, str]:
        if n <= 0:
            raise JSONRPCError(INVALID_PARAMS, f"n: got {n}, expected at least 1")
        data = self._handler.read_transport(n, timeout_sec)
        return {"data": base64.b85encode(data).decode("ascii")}

    def _write_transport(self, data: str, timeout_sec: float | None) -> None:
        try:
            raw = base64.b85decode(data.encode("ascii"))
        except ValueError as error:
            raise JSONRPCError(INVALID_PARAMS, f"data: not base85: {error}") from None
        self._handler.write_transport(raw, timeout_sec)


_SECONDS = (int, float, type(None))
_PARAMS: Mapping[str, Mapping[str, tuple[type, ...]]] = {
    "server_info_query": {"tvm_version": (str,)},
    "generate_project": {
        "model_library_format_path": (str,),
        "standalone_crt_dir": (str,),
        "project_dir": (str,),
        "options": (dict,),
    },
    "build": {"options": (dict,)},
    "flash": {"options": (dict,)},
    "open_transport": {"options": (dict,)},
    "close_transport": {},
    "read_transport": {"n": (int,), "timeout_sec": _SECONDS},
    "write_transport": {"data": (str,), "timeout_sec": _SECONDS},
}


def _parsed(line: bytes) -> dict[str, Any]:
    if not line:
        raise JSONRPCError(INVALID_REQUEST, f"a request of more than {MOST_LINE} bytes")
    try:
        request = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise JSONRPCError(PARSE_ERROR, f"the line is not JSON: {error}") from None
    if not isinstance(request, dict):
        raise JSONRPCError(INVALID_REQUEST, "the request is not an object")
    return request


def _id_of(request: Mapping[str, Any]) -> Any:
    number = request.get("id")
    if isinstance(number, bool) or not isinstance(number, (str, int, type(None))):
        raise JSONRPCError(INVALID_REQUEST, "id is not a string, a whole number or null")
    return number


def _checked(request: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    if request.get("jsonrpc") != "2.0":
        raise JSONRPCError(INVALID_REQUEST, "jsonrpc is not '2.0'")
    method, params = request.get("method"), request.get("params", {})
    if not isinstance(method, str) or not re.fullmatch(r"[a-zA-Z0-9_]+", method):
        raise JSONRPCError(INVALID_REQUEST, "method is not a word")
    if not isinstance(params, dict):
        raise JSONRPCError(INVALID_REQUEST, "params is not an object")
    return method, params


def _check_params(method: str, params: Mapping[str, Any]) -> None:
    wanted = _PARAMS[method]
    if wrong := sorted(set(params) ^ set(wanted)):
        what = "an unknown parameter" if wrong[0] in params else "a missing parameter"
        raise JSONRPCError(INVALID_PARAMS, f"{method}: {what}: {wrong[0]}")
    for name, types in wanted.items():
        value = params[name]
        if not isinstance(value, types) or isinstance(value, bool):
            names = " or ".join("null" if t is type(None) else t.__name__ for t in types)
            text = f"{method}: {name}: got {type(value).__name__}, expected {names}"
            raise JSONRPCError(INVALID_PARAMS, text)


def read_with_timeout(fd: int, n: int, timeout_sec: float | None) -> bytes:
    """What there is, one byte to n. Raises IoTimeoutError, TransportClosedError."""
    if not select.select([fd], [], [], timeout_sec)[0]:
        raise IoTimeoutError
    try:
        data = os.read(fd, n)
    except OSError as error:
        raise TransportClosedError(str(error)) from None
    if not data:
        raise TransportClosedError("the line has ended")
    return data


def write_with_timeout(fd: int, data: bytes, timeout_sec: float | None) -> None:
    """All of it, by a descriptor that does not block. Raises IoTimeoutError,
    TransportClosedError."""
    end = None if timeout_sec is None else time.monotonic() + timeout_sec
    while data:
        left = None if end is None else max(0.0, end - time.monotonic())
        if not select.select([], [fd], [], left)[1]:
            raise IoTimeoutError
        try:
            data = data[os.write(fd, data) :]
        except BlockingIOError:
            continue
        except OSError as error:
            raise TransportClosedError(str(error)) from None


def main(handler: ProjectAPIHandler, argv: Sequence[str] | None = None) -> None:
    """Serves as a client asks on the command line, until it closes the descriptor."""
    parser = argparse.ArgumentParser(description="A Project API server; a client starts it.")
    parser.add_argument("--read-fd", type=int, required=True, help="requests come here")
    parser.add_argument("--write-fd", type=int, required=True, help="replies go there")
    parser.add_argument("--debug", action="store_true", help="log more")
    args = parser.parse_args(argv)
    logging.basicConfig(level=logging.DEBUG if args.debug else logging.WARNING)
    with os.fdopen(args.read_fd, "rb") as reading, os.fdopen(args.write_fd, "wb") as writing:
        try:
            ProjectAPIServer(reading, writing, handler).serve_forever()
        except BrokenPipeError:
            _LOG.info("the client is gone")
        finally:
            handler.close_transport()
