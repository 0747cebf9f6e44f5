"""The messages between Bazel and a persistent worker, as protobuf or JSON.

Both carry the same messages, `blaze.worker.WorkRequest` and `WorkResponse`: protobuf with the
length before each message, JSON as objects one after the other (Bazel 4 puts no newline between).
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Protocol

from google.protobuf import descriptor_pb2, descriptor_pool, json_format, message_factory
from google.protobuf.message import DecodeError

from mlftool.errors import MlfError, Problem

# Numbers and names are Bazel's worker_protocol.proto's. Fields we have no use for, such as the list
# of inputs, are left out: readers of both encodings skip what they do not know.
_FIELDS = {
    "WorkRequest": {
        "arguments": (1, "STRING", "REPEATED"),
        "request_id": (3, "INT32", "OPTIONAL"),
        "cancel": (4, "BOOL", "OPTIONAL"),
        "sandbox_dir": (6, "STRING", "OPTIONAL"),
    },
    "WorkResponse": {
        "exit_code": (1, "INT32", "OPTIONAL"),
        "output": (2, "STRING", "OPTIONAL"),
        "request_id": (3, "INT32", "OPTIONAL"),
        "was_cancelled": (4, "BOOL", "OPTIONAL"),
    },
}
# A request lists its inputs, some hundred bytes each; no build has a million of them.
_MOST_BYTES = 256 << 20


def _messages() -> dict[str, Any]:
    """Message name -> class, made from _FIELDS."""
    field = descriptor_pb2.FieldDescriptorProto
    file = descriptor_pb2.FileDescriptorProto(
        name="mlftool/worker_protocol.proto", package="blaze.worker", syntax="proto3"
    )
    for name, fields in _FIELDS.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind, label) in fields.items():
            message.field.add(
                name=field_name, number=number,
                type=getattr(field, f"TYPE_{kind}"), label=getattr(field, f"LABEL_{label}"),
            )  # fmt: skip
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"blaze.worker.{name}"))
        for name in _FIELDS
    }


_MESSAGES = _messages()
# `Any`, because these classes exist at run time only.
WorkRequest: Any = _MESSAGES["WorkRequest"]
WorkResponse: Any = _MESSAGES["WorkResponse"]


class Codec(Protocol):
    """Bytes as they arrive -> requests; a response -> bytes."""

    def feed(self, data: bytes) -> Iterator[Any]:
        """The requests that `data` completes. Raises MlfError for what is none."""

    def close(self) -> None:
        """The input ended. Raises MlfError in the middle of a request."""

    def encode(self, response: Any) -> bytes: ...


def _malformed(what: str) -> MlfError:
    return MlfError(Problem("MLF0407", f"the persistent worker got {what} instead of a request"))


def _varint(value: int) -> bytes:
    """Seven bits per byte, lowest first; the top bit says that more follow."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


class ProtoCodec:
    """Protobuf messages, each after its length."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Any]:
        self._rest += data
        while (message := self._next()) is not None:
            try:
                yield WorkRequest.FromString(message)
            except DecodeError:
                raise _malformed("bytes that are not a protobuf message") from None

    def _next(self) -> bytes | None:
        """The first message of the rest, taken off it; None while it is incomplete."""
        length = 0
        for at, byte in enumerate(self._rest[:5]):
            length |= (byte & 0x7F) << (7 * at)
            if length > _MOST_BYTES:
                break
            if byte < 0x80:
                end = at + 1 + length
                if len(self._rest) < end:
                    return None
                message, self._rest = self._rest[at + 1 : end], self._rest[end:]
                return message
        if length > _MOST_BYTES or len(self._rest) >= 5:
            raise _malformed(f"a length of over {_MOST_BYTES >> 20} MiB")
        return None

    def close(self) -> None:
        if self._rest:
            raise _malformed("a part")

    def encode(self, response: Any) -> bytes:
        message: bytes = response.SerializeToString()
        return _varint(len(message)) + message


class JsonCodec:
    """JSON objects, with or without white space between them."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> Iterator[Any]:
        self._rest += data
        # An object can only end where a brace does; long requests arrive in many pieces.
        while self._rest and (message := self._next() if b"}" in data else None) is not None:
            try:
                yield json_format.ParseDict(message, WorkRequest(), ignore_unknown_fields=True)
            except json_format.ParseError:
                raise _malformed("JSON that does not follow the protocol") from None

    def _next(self) -> object | None:
        """The first object of the rest, taken off it; None while it is incomplete."""
        try:
            text = self._rest.decode().lstrip()
        except UnicodeDecodeError as error:
            if error.reason == "unexpected end of data":
                return None
            raise _malformed("text that is not UTF-8") from None
        if text and not text.startswith("{"):
            raise _malformed("text that is not a JSON object")
        try:
            message, end = json.JSONDecoder().raw_decode(text)
        except RecursionError:
            raise _malformed("JSON nested too deep") from None
        except ValueError:
            if len(self._rest) > _MOST_BYTES:
                raise _malformed(f"over {_MOST_BYTES >> 20} MiB without a whole object") from None
            return None
        self._rest = text[end:].encode()
        return message  # type: ignore[no-any-return]

    def close(self) -> None:
        if self._rest.strip():
            raise _malformed("a part, or text that is not JSON")

    def encode(self, response: Any) -> bytes:
        # Bazel 4 waits for five characters before it looks at them, so not `{}` for a success; and
        # it refuses unknown fields, so no word of cancelling unless it has asked for that.
        zeros = {"exitCode": 0, "output": "", "requestId": 0}
        message = {**zeros, **json_format.MessageToDict(response)}
        return json.dumps(message, separators=(",", ":")).encode() + b"\n"


CODECS: dict[str, type[Codec]] = {"proto": ProtoCodec, "json": JsonCodec}
