"""Firmware that a release of TVM made, as the reference describes it: a transport that answers by
the encoder of wire.py, with two tensors and one operator, y = x + p. It shares nothing with
mlftool.micro but the transport's methods."""

from __future__ import annotations

import math
import struct
from dataclasses import dataclass
from typing import Any

import wire

from mlftool.micro import Transport, TransportTimeouts
from mlftool.micro.errors import IoTimeoutError

INT, HANDLE, NULL, DEVICE, TENSOR, MODULE, FUNCTION, STR, BYTES = 0, 3, 4, 6, 7, 9, 10, 11, 12
BOOL = 15  # 0.18
# What runtime.RPCTimeEvaluator is called with, by release.
EVALUATOR = {
    "0.8": (MODULE, STR, *[INT] * 5, STR),
    "0.9": (MODULE, STR, *[INT] * 7, STR),
    "0.10": (MODULE, STR, *[INT] * 8, STR),
    "0.13": (MODULE, STR, *[INT] * 8, STR),
    "0.14": (MODULE, STR, *[INT] * 9, STR),
    "0.16": (MODULE, STR, *[INT] * 9, STR),
    "0.18": (MODULE, STR, *[INT] * 9, STR),
}
# A pointer of a 32-bit board, which gcc extends by its sign; the data are at the low half.
BASE = 0xFFFFFFFF80001000
GRAPH = """{"nodes": [{"op": "null", "name": "x", "inputs": []},
  {"op": "null", "name": "p0", "inputs": []},
  {"op": "tvm_op", "name": "tvmgen_default_add", "inputs": [[0, 0, 0], [1, 0, 0]],
   "attrs": {"func_name": "tvmgen_default_add", "num_inputs": "2", "num_outputs": "1",
   "flatten_data": "0"}}],
 "arg_nodes": [0, 1], "heads": [[2, 0, 0]], "node_row_ptr": [0, 1, 2, 3],
 "attrs": {"dltype": ["list_str", ["int8", "int8", "int8"]],
  "storage_id": ["list_int", [0, 1, 2]], "shape": ["list_shape", [[1, 4], [1, 4], [1, 4]]]}}"""


def text(value: str) -> bytes:
    return wire.little(len(value), 8) + value.encode()


def values(*pairs: tuple[int, bytes]) -> bytes:
    """A packed sequence of values that are bytes already."""
    codes = b"".join(wire.little(code, 4) for code, _ in pairs)
    return wire.little(len(pairs), 4) + codes + b"".join(data for _, data in pairs)


@dataclass(frozen=True)
class Place:
    """A tensor of the wire."""

    data: int
    shape: tuple[int, ...]
    offset: int = 0

    def encoded(self) -> bytes:
        head = struct.pack("<Qiii", self.data, 1, 0, len(self.shape)) + bytes([0, 8, 1, 0])
        return head + struct.pack(f"<{len(self.shape)}qQ", *self.shape, self.offset)


class Packet:
    """Reads a request's body."""

    def __init__(self, body: bytes) -> None:
        self.body = body

    def take(self, form: str) -> Any:
        size = struct.calcsize("<" + form)
        found = struct.unpack("<" + form, self.body[:size])
        self.body = self.body[size:]
        return found if len(found) > 1 else found[0]

    def tensor(self) -> Place:
        data, _, _, rank, _, _, _ = self.take("QiiiBBH")
        found = self.take(f"{rank}qQ")
        return Place(data, tuple(found[:-1]), found[-1])

    def sequence(self) -> list[tuple[int, Any]]:
        codes = [self.take("i") for _ in range(self.take("i"))]
        return [(code, self.value(code)) for code in codes]

    def value(self, code: int) -> Any:
        if code == NULL:
            return None
        if code == TENSOR:
            return self.tensor()
        if code in (STR, BYTES):
            size = self.take("Q")
            found, self.body = self.body[:size], self.body[size:]
            return found.decode() if code == STR else found
        return self.take("ii" if code == DEVICE else "q" if code == INT else "Q")


class RefusedError(Exception):
    """Text of an exception that the firmware answers."""


class Release(Transport):
    """The firmware's end of the line, and its memory."""

    def __init__(self, release: str, most: int = 512) -> None:
        self.release, self.most = release, most
        self.memory = bytearray(1 << 14)
        self.free = 64
        self.heard: list[str] = []  # what was called, in order
        self.names: list[str] = []  # of functions; a handle is the index
        self.waiting = b""
        self.session = 0
        self.parameter = self.allocate(4)
        self.memory[self.parameter - BASE : self.parameter - BASE + 4] = bytes([10, 20, 30, 40])
        self.input, self.output = self.allocate(4), self.allocate(4)

    def allocate(self, size: int) -> int:
        self.free += 64 + size
        return BASE + self.free - size

    # the line

    def timeouts(self) -> TransportTimeouts:
        return TransportTimeouts(0.05, 1, 1)

    def open(self) -> None:
        self.waiting = b"\xfe" + wire.encode(0, 2, b"")  # its Terminate at boot

    def close(self) -> None:
        pass

    def read(self, n: int, timeout_sec: float | None) -> bytes:
        if not self.waiting:
            raise IoTimeoutError("nothing")
        data, self.waiting = self.waiting[:n], self.waiting[n:]
        return data

    def write(self, data: bytes, timeout_sec: float | None) -> None:
        for said in wire.decode(data):
            if said.kind == 0:
                self.session = 0x6700 | said.session
                self.waiting += wire.encode(self.session, 1, b"\x01")
            elif said.kind == 0x10:
                assert said.session == self.session
                assert len(said.body) + 3 <= self.most
                self.answer(said.body)

    def answer(self, body: bytes) -> None:
        length, code = struct.unpack("<Qi", body[:12])
        assert length == len(body) - 8
        request = Packet(body[12:])
        if code == 1:
            return
        try:
            kind, made = self.asked(code, request)
        except RefusedError as error:
            kind, made = 5, values((STR, text(str(error))))
        assert request.body == b"", f"{len(request.body)} bytes more in a request of code {code}"
        packet = wire.little(len(made) + 4, 8) + wire.little(kind, 4) + made
        assert len(packet) + 3 <= self.most
        log = wire.encode(0, 3, b"a line between two frames")
        self.waiting += log + wire.encode(self.session, 0x10, packet)

    # requests

    def asked(self, code: int, request: Packet) -> tuple[int, bytes]:
        void = values((NULL, b""))
        if code == 3:
            handle = request.take("Q")
            return 4, self.called(self.names[handle & 0x7FFF], request.sequence())
        if code in (6, 7):
            place, size = request.tensor(), request.take("Q")
            at = place.data + place.offset - BASE
            if code == 6:
                return 8, bytes(self.memory[at : at + size])
            self.memory[at : at + size], request.body = request.body, b""
            return 4, void
        given = request.sequence()
        if code == 9:
            known = ("runtime.SystemLib", "tvm.rpc.server.ModuleGetFunction")
            known += ("runtime.RPCTimeEvaluator", "tvm.rpc.server.GetCRTMaxPacketSize")
            known += () if self.release == "0.8" else ("tvm.aot_executor.create",)
            return 4, values((HANDLE, self.function(given[0][1], known)))
        if code == 17:
            return 4, values((HANDLE, wire.little(self.allocate(math.prod(given[0][1].shape)), 8)))
        if code == 13:
            return 4, values((HANDLE, wire.little(self.allocate(given[1][1]), 8)))
        assert code in (10, 14, 15), code
        return 4, void

    def function(self, name: str, known: tuple[str, ...]) -> bytes:
        if name not in known:
            return bytes(8)
        if name not in self.names:
            self.names.append(name)
        return wire.little(0xFFFFFFFF80028000 | self.names.index(name), 8)

    def called(self, name: str, given: list[tuple[int, Any]]) -> bytes:
        self.heard.append(name)
        nothing = values((INT, wire.little(NULL, 8)), (NULL, b""))
        found = self.found(name, given)
        if found is None:
            return nothing
        kind, data = found
        if kind == TENSOR:
            return values((INT, wire.little(13, 8)), (TENSOR, data), (HANDLE, wire.little(77, 8)))
        wire_kind = HANDLE if kind in (MODULE, FUNCTION) else kind
        return values((INT, wire.little(kind, 8)), (wire_kind, data))

    def found(self, name: str, given: list[tuple[int, Any]]) -> tuple[int, bytes] | None:
        codes = tuple(code for code, _ in given)
        match name:
            case "runtime.SystemLib":
                return MODULE, wire.little(0xFFFFFFFF80008000, 8)
            case "tvm.aot_executor.create":
                assert codes == (MODULE, DEVICE, STR)
                return MODULE, wire.little(0x8001, 8)
            case "tvm.rpc.server.GetCRTMaxPacketSize":
                return INT, wire.little(self.most - 11, 8)
            case "tvm.rpc.server.ModuleGetFunction":
                return self.looked_up(given[0][1], given[1][1])
            case "runtime.RPCTimeEvaluator":
                if codes != EVALUATOR[self.release]:
                    raise RefusedError("fn, code=0x803" if len(codes) < 8 else "")
                self.timed, self.repeat = given[1][1], given[5][1]
                self.names.append("timed")
                return FUNCTION, wire.little(0xFFFF8001 << 16 | len(self.names) - 1, 8)
            case "timed":
                self.run(given)
                return BYTES, wire.little(8 * self.repeat, 8) + struct.pack(
                    "<d", 0.25
                ) * self.repeat
            case "_lookup_linked_param":
                return (HANDLE, wire.little(self.parameter, 8)) if given[0][1] == 1 else None
            case "get_input" | "get_output":
                where = self.input if name == "get_input" else self.output
                return TENSOR, Place(where, (1, 4)).encoded()
            case "get_num_inputs" if self.release == "0.18":
                return BOOL, wire.little(1, 8)
            case "get_num_inputs":
                return INT, wire.little(1, 8)
        assert name in ("tvmgen_default_add", "run")
        self.run(given)
        return None

    def looked_up(self, module: int, name: str) -> tuple[int, bytes] | None:
        executor: tuple[str, ...] = ("run", "get_input", "get_output", "get_num_inputs")
        library = ("tvmgen_default_add",)
        library += ("_lookup_linked_param",) if self.release == "0.8" else ()
        handle = self.function(name, executor if module == 0x8001 else library)
        return (FUNCTION, handle) if any(handle) else None

    def run(self, given: list[tuple[int, Any]]) -> None:
        places = [value for _, value in given]
        if not places:
            places = [Place(a, (1, 4)) for a in (self.input, self.parameter, self.output)]
        x, p, y = (place.data + place.offset - BASE for place in places)
        for i in range(4):
            self.memory[y + i] = (self.memory[x + i] + self.memory[p + i]) & 0xFF
