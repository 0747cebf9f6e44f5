"""TVM's `tvm.micro.Session`: modules, functions and arrays of a board."""

from __future__ import annotations

import logging
import math
import struct
import time
from collections import deque
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from mlftool.micro.errors import MicroError, RPCError, SessionTerminatedError
from mlftool.micro.link import Link
from mlftool.micro.packets import (
    CPU,
    Code,
    Tensor,
    TypeCode,
    Value,
    answer_of,
    packet,
    result_of,
    sequence_bytes,
    tensor_bytes,
)
from mlftool.micro.transport import Transport, TransportTimeouts
from mlftool.moved import OfTvm
from mlftool.runtime.times import Times, check_counts

log = logging.getLogger("mlftool.micro")

_UNLIMITED = 1 << 16  # of a board that does not say how much a packet holds
_KEPT_LOGS = 100


class Session(OfTvm):
    """Drives a board over a transport:

        with Session(ProcessTransport(["./firmware"])) as session:
            module = create_aot_executor(session, "kws")
            module.set_input("x", samples)
            module.run()
            print(module.get_output(0).numpy())

    After a time-out or a reset of the board `reconnect` starts a new session; modules and arrays of
    the old one are gone. Errors are MicroError's subclasses, and name the call that failed.
    """

    def __init__(
        self,
        transport_context_manager: Transport,
        session_name: str = "micro-rpc",
        timeout_override: TransportTimeouts | None = None,
    ) -> None:
        self.transport = transport_context_manager
        self.name = session_name
        self.timeouts = timeout_override or self.transport.timeouts()
        self.device = Device(self)
        self.generation = 0  # counts sessions: what belongs to another one is stale
        self.logs: deque[str] = deque(maxlen=_KEPT_LOGS)  # the board's last lines
        self._link: Link | None = None
        self._unused: deque[tuple[int, Code, bytes]] = deque()  # what to free before the next call
        self._functions: dict[str, int] = {}
        self._most = 0
        self.timer_form: tuple[int, ...] | None = None  # of the board's time evaluator, once known

    def __enter__(self) -> Session:
        self.transport.open()
        self._link = Link(self.transport, self.timeouts, int(time.time()) & 0xFF, self._on_log)
        try:
            self.reconnect()
        except BaseException:
            self.transport.close()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        link, self._link = self._link, None
        try:
            if link is not None and link.session:
                link.send("Shutdown", packet(Code.SHUTDOWN))
        except MicroError:
            pass  # the board is gone, and so is what Shutdown would have freed
        finally:
            self.transport.close()

    def reconnect(self) -> None:
        """A new session on the same line. The board frees what the old one had."""
        link = self._require_link("reconnect")
        self.generation += 1
        self._unused.clear()
        self._functions.clear()
        self._most = 0
        self.timer_form = None
        link.start()

    def _on_log(self, text: str) -> None:
        self.logs.append(text)
        log.info("remote: %s", text)

    def _require_link(self, name: str) -> Link:
        if self._link is None:
            raise SessionTerminatedError(f"{name}: the session is not open")
        return self._link

    # calls

    def request(self, name: str, code: Code, body: bytes) -> tuple[int, Any]:
        """A request and its answer's code and reader; `name` is what errors call it. What the
        garbage collector found unused is freed before: it may run in the middle of a call."""
        link = self._require_link(name)
        while self._unused and link.session:
            generation, free_code, free_body = self._unused.popleft()
            if generation == self.generation:
                self._answer(link, "free", free_code, free_body)
        return self._answer(link, name, code, body)

    def _answer(self, link: Link, name: str, code: Code, body: bytes) -> tuple[int, Any]:
        answer_code, reader = answer_of(link.call(name, packet(code, body)))
        if answer_code == Code.EXCEPTION:
            values = reader.sequence()
            text = values[0].value if values and values[0].type == TypeCode.STR else "no text"
            text = f"{name}: Error caught from RPC call: {text}"
            hint = "the firmware's TVM_WORKSPACE_SIZE_BYTES, a project's workspace_size_bytes"
            raise RPCError(text, help=hint if "out of memory" in text else "")
        if answer_code not in (Code.RETURN, Code.COPY_ACK):
            raise RPCError(f"{name}: the board's answer has the unexpected code {answer_code}")
        return answer_code, reader

    def system_call(self, name: str, code: Code, values: list[Value]) -> Value:
        _, reader = self.request(name, code, sequence_bytes(values))
        values = reader.sequence()
        if len(values) != 1:
            raise RPCError(f"{name}: the board's answer has {len(values)} values, expected 1")
        return values[0]

    def free_later(self, generation: int, code: Code, values: list[Value]) -> None:
        self._unused.append((generation, code, sequence_bytes(values)))

    @property
    def most_bytes(self) -> int:
        """The longest packet, without its length field, that the board receives and sends."""
        if not self._most:
            function = self.find_function("tvm.rpc.server.GetCRTMaxPacketSize")
            self._most = int(function()) if function else _UNLIMITED
            if self._most < 64:
                raise RPCError(f"the board's packets hold only {self._most} bytes")
        return self._most

    def call_function(self, name: str, handle: int, arguments: tuple[Any, ...]) -> Any:
        values = [self._value(name, argument) for argument in arguments]
        body = struct.pack("<Q", handle) + sequence_bytes(values)
        if len(body) > 1024 and len(body) + 4 > self.most_bytes:
            text = f"{name}: {len(body) + 4} bytes of arguments"
            raise RPCError(f"{text}; a packet of this board holds {self.most_bytes}")
        _, reader = self.request(name, Code.CALL_FUNC, body)
        return self._object(name, result_of(reader.sequence()))

    def _value(self, name: str, given: Any) -> Value:
        if isinstance(given, (Module, Function, RemoteArray)):
            given.check(name)
            return given.as_value()
        match given:
            case None:
                return Value(TypeCode.NULL)
            case Value():
                return given
            case Device():
                return Value(TypeCode.DEVICE, CPU)
            case bool() | int() | np.integer():
                return Value(TypeCode.INT, int(given))
            case float() | np.floating():
                return Value(TypeCode.FLOAT, float(given))
            case str():
                return Value(TypeCode.STR, given)
            case bytes() | bytearray():
                return Value(TypeCode.BYTES, bytes(given))
        raise RPCError(f"{name}: a {type(given).__name__} cannot be sent to a board")

    def _object(self, name: str, value: Value) -> Any:
        match value.type:
            case TypeCode.MODULE:
                return Module(self, value.value, name)
            case TypeCode.FUNCTION:
                return Function(self, value.value, name)
            case TypeCode.NDARRAY:
                return RemoteArray(self, value.value)
            case TypeCode.HANDLE:
                return value
        return value.value

    # what the board has

    def find_function(self, name: str) -> Function | None:
        """A global function of the board, or None."""
        if name not in self._functions:
            value = self.system_call(name, Code.GET_GLOBAL_FUNC, [Value(TypeCode.STR, name)])
            self._functions[name] = value.value or 0
        handle = self._functions[name]
        return Function(self, handle, name) if handle else None

    def get_function(self, name: str) -> Function:
        """A global function of the board. Raises RPCError when there is none."""
        function = self.find_function(name)
        if function is None:
            raise RPCError(f"{name}: the board's firmware has no such function")
        return function

    def get_system_lib(self) -> Module:
        """The functions of the models in the firmware."""
        module: Module = self.get_function("runtime.SystemLib")()
        return module

    def empty(self, shape: tuple[int, ...], dtype: str = "float32") -> RemoteArray:
        """A new array in the board's memory, whose elements are undefined."""
        tensor = Tensor(0, tuple(int(n) for n in shape), str(np.dtype(dtype)))
        values = [Value(TypeCode.TENSOR, tensor), Value(TypeCode.NULL)]
        name = f"memory for {tensor.dtype}{list(tensor.shape)}"
        made = self.system_call(name, Code.DEV_ALLOC_DATA_WITH_SCOPE, values)
        return RemoteArray(self, Tensor(made.value, tensor.shape, tensor.dtype), is_owner=True)

    def array(self, value: npt.ArrayLike) -> RemoteArray:
        """A copy of an array in the board's memory."""
        data = np.asarray(value)
        made = self.empty(data.shape, str(data.dtype))
        made.copyfrom(data)
        return made

    def create_aot_executor(self, name: str = "default") -> Module:
        """The AOT executor of a module of the firmware, made on the board; AotModule drives it."""
        create = self.get_function("tvm.aot_executor.create")
        module: Module = create(self.get_system_lib(), self.device, name)
        return module

    def create_graph_executor(self, graph_json: str) -> Module:
        """The graph executor, made on the board; GraphModule drives it. A graph that does not fit a
        packet is put into the board's memory first, which needs firmware of mlftool's."""
        create = self.get_function("tvm.graph_executor.create")
        text: Any = graph_json
        if len(graph_json.encode()) + 128 > self.most_bytes:
            text = self.array(np.frombuffer(graph_json.encode(), np.uint8))
        module: Module = create(text, self.get_system_lib(), *CPU)
        return module


class Device:
    """The board's CPU."""

    device_type, device_id = CPU

    def __init__(self, session: Session) -> None:
        self.session = session

    def __repr__(self) -> str:
        return f"remote[{self.session.name}]:cpu(0)"


class _Remote:
    """Something of one session."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.generation = session.generation

    def check(self, name: str) -> None:
        """Raises SessionTerminatedError when its session is over."""
        if self.generation != self.session.generation:
            raise SessionTerminatedError(f"{name}: it belongs to a session that has ended")

    def _free_later(self, code: Code, values: list[Value]) -> None:
        self.session.free_later(self.generation, code, values)


class Function(_Remote):
    """A function of the board. Results are numbers, text, bytes, None, arrays and modules."""

    def __init__(self, session: Session, handle: int, name: str) -> None:
        super().__init__(session)
        self.handle = handle
        self.name = name

    def as_value(self) -> Value:
        return Value(TypeCode.FUNCTION, self.handle)

    def __call__(self, *arguments: Any) -> Any:
        self.check(self.name)
        return self.session.call_function(self.name, self.handle, arguments)


class Module(_Remote):
    """A module of the board: the system library, or an executor, which ends with this object."""

    # What TVM's AotModule and GraphModule make of it; executors.py says so.
    aot_form: ClassVar[type[Any] | None] = None
    graph_form: ClassVar[type[Any] | None] = None

    def __init__(self, session: Session, handle: int, name: str) -> None:
        super().__init__(session)
        self.handle = handle
        self.name = name
        self._found: dict[str, Function | None] = {}

    def __del__(self) -> None:
        values = [Value(TypeCode.HANDLE, self.handle), Value(TypeCode.INT, TypeCode.MODULE)]
        self._free_later(Code.FREE_HANDLE, values)

    def as_value(self) -> Value:
        return Value(TypeCode.MODULE, self.handle)

    def find_function(self, name: str) -> Function | None:
        self.check(name)
        if name not in self._found:
            lookup = self.session.get_function("tvm.rpc.server.ModuleGetFunction")
            found = lookup(self, name, 0)
            if found is not None:
                found.name = name
            self._found[name] = found
        return self._found[name]

    def get_function(self, name: str) -> Function:
        """Raises RPCError when there is none."""
        function = self.find_function(name)
        if function is None:
            raise RPCError(f"{name}: the module has no such function")
        return function

    __getitem__ = get_function

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: int = 0,
        **_: object,
    ) -> TimeEvaluator:
        """Measures a function of this module on the board, with the board's timer. Raises
        MlfError."""
        check_counts(number, repeat, min_repeat_ms)
        return TimeEvaluator(self, func_name, number, repeat, min_repeat_ms)


class TimeEvaluator:
    """Calls measure; see Module.time_evaluator."""

    def __init__(
        self, module: Module, name: str, number: int, repeat: int, min_repeat_ms: int
    ) -> None:
        self.module = module
        self.name = name
        self.number = number
        self.repeat = repeat
        self.min_repeat_ms = min_repeat_ms

    def __call__(self, *arguments: Any) -> Times:
        """`repeat` times, each the mean of `number` calls. A packet holds a few hundred times, so
        more are asked for in turns."""
        session = self.module.session
        at_once = min(self.repeat, max(1, (session.most_bytes - 64) // 8), 100)
        seconds: list[float] = []
        while len(seconds) < self.repeat:
            count = min(at_once, self.repeat - len(seconds))
            data = self._evaluator(count)(*arguments)
            if not isinstance(data, bytes) or len(data) != 8 * count:
                raise RPCError(f"{self.name}: the board's times are not {count} numbers")
            seconds += struct.unpack(f"<{count}d", data)
        return Times(tuple(seconds))

    def _evaluator(self, repeat: int) -> Function:
        """The board's function that measures. Firmware takes the arguments of its own release only.
        Raises RPCError, with what the board says to the newest form."""
        session = self.module.session
        make = session.get_function("runtime.RPCTimeEvaluator")
        first: RPCError | None = None
        for form in _FORMS if session.timer_form is None else (session.timer_form,):
            numbers = (*CPU, self.number, repeat, self.min_repeat_ms, *form)
            try:
                evaluate: Function = make(self.module, self.name, *numbers, "")
            except RPCError as error:
                first = first or error
            else:
                session.timer_form = form
                return evaluate
        assert first is not None
        raise first


# What a time evaluator is told after min_repeat_ms: limit_zero_time_iterations,
# cooldown_interval_ms, repeats_to_cooldown and cache_flush_bytes in TVM 0.14 and later; the first
# three in 0.10 to 0.13, the second and third in 0.9, nothing in 0.8.
_FORMS = ((100, 0, 1, 0), (100, 0, 1), (0, 1), ())


class RemoteArray(_Remote):
    """An array in the board's memory."""

    def __init__(self, session: Session, tensor: Tensor, is_owner: bool = False) -> None:
        super().__init__(session)
        self.tensor = tensor
        self.is_owner = is_owner  # of memory that this session allocated

    def __del__(self) -> None:
        if self.is_owner:
            device = Value(TypeCode.DEVICE, CPU)
            values = [device, Value(TypeCode.HANDLE, self.tensor.data)]
            self._free_later(Code.DEV_FREE_DATA, values)
        elif self.tensor.handle:
            values = [Value(TypeCode.HANDLE, self.tensor.handle)]
            values.append(Value(TypeCode.INT, TypeCode.NDARRAY))
            self._free_later(Code.FREE_HANDLE, values)

    def as_value(self) -> Value:
        return Value(TypeCode.TENSOR, self.tensor)

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    @property
    def dtype(self) -> str:
        return self.tensor.dtype

    def view(self, shape: tuple[int, ...], dtype: str) -> RemoteArray:
        """The first elements of the same memory by another shape; it is this object's."""
        made = RemoteArray(self.session, Tensor(self.tensor.data, tuple(shape), dtype))
        made.__dict__["_memory"] = self
        return made

    def _blocks(self) -> list[tuple[int, int]]:
        """Where the parts of it begin and end that fit a packet."""
        most = self.session.most_bytes - 44 - 8 * len(self.shape)
        size = self.tensor.nbytes
        return [(at, min(at + most, size)) for at in range(0, size, most)]

    def _part(self, at: int, end: int) -> bytes:
        t = self.tensor
        part = Tensor(t.data, t.shape, t.dtype, t.byte_offset + at)
        return tensor_bytes(part) + struct.pack("<Q", end - at)

    def copyfrom(self, source: npt.ArrayLike) -> RemoteArray:
        """Raises RPCError for another shape."""
        name = f"copy to {self.dtype}{list(self.shape)}"
        self.check(name)
        data = np.asarray(source)
        if data.size != math.prod(self.shape):
            raise RPCError(f"{name}: got {data.dtype}{list(data.shape)}")
        order = np.dtype(self.dtype).newbyteorder("<")
        raw = np.ascontiguousarray(data, order).tobytes()
        for at, end in self._blocks():
            body = self._part(at, end) + raw[at:end]
            self.session.request(name, Code.COPY_TO_REMOTE, body)
        return self

    def numpy(self) -> npt.NDArray[Any]:
        """A copy on this computer."""
        name = f"copy from {self.dtype}{list(self.shape)}"
        self.check(name)
        raw = bytearray()
        for at, end in self._blocks():
            code, reader = self.session.request(name, Code.COPY_FROM_REMOTE, self._part(at, end))
            if code != Code.COPY_ACK or len(reader.left) != end - at:
                raise RPCError(f"{name}: got {len(reader.left)} bytes, expected {end - at}")
            raw += reader.left
        order = np.dtype(self.dtype).newbyteorder("<")
        return np.frombuffer(bytes(raw), order).reshape(self.shape).astype(self.dtype)

    asnumpy = numpy

    def copyto(self, target: Any) -> Any:
        if isinstance(target, np.ndarray):
            target[...] = self.numpy()
            return target
        return self.numpy()

    def __array__(self, dtype: Any = None, copy: Any = None) -> npt.NDArray[Any]:
        return self.numpy() if dtype is None else self.numpy().astype(dtype)


def named_inputs(key: Any, value: Any, more: Mapping[str, Any]) -> dict[int | str, Any]:
    """The arguments of set_input as one mapping."""
    named: dict[int | str, Any] = {}
    named.update(more)
    if key is not None:
        named[key] = value
    return named
