"""Executors of a board: on the board, or on the host, which calls the board's operators."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from mlftool.errors import MlfError, did_you_mean
from mlftool.frozen import frozen
from mlftool.micro.errors import MicroInputError, RPCError
from mlftool.micro.packets import Tensor, TypeCode, Value
from mlftool.micro.session import Device, Function, Module, RemoteArray, Session, named_inputs
from mlftool.mlf.graph import NOP, Graph, Node, decode
from mlftool.mlf.params import decode as decode_params
from mlftool.moved import OfTvm
from mlftool.runtime.times import OF_TIMERS, Times


class _OnBoard(OfTvm):
    """What the modules of both executors have."""

    def __init__(self, module: Module) -> None:
        self.module = module

    def set_input(self, key: int | str | None = None, value: Any = None, **params: Any) -> None:
        """An input by name or position, or several by name."""
        for name, given in named_inputs(key, value, params).items():
            self.get_input(name).copyfrom(given)

    def get_input(self, key: int | str) -> RemoteArray:
        array: RemoteArray = self.module["get_input"](key)
        return array

    def run(self, **inputs: Any) -> None:
        self.set_input(**inputs)
        self.module["run"]()

    def get_output(self, index: int) -> RemoteArray:
        array: RemoteArray = self.module["get_output"](index)
        return array

    def get_num_inputs(self) -> int:
        return int(self.module["get_num_inputs"]())

    def get_num_outputs(self) -> int:
        return int(self.module["get_num_outputs"]())

    def get_input_index(self, name: str) -> int:
        return int(self.module["get_input_index"](name))

    def benchmark(
        self,
        device: object = None,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        end_to_end: bool = False,
        **inputs: Any,
    ) -> Times:
        """TVM's: seconds of an inference by the board's timer, `repeat` means of `number` each."""
        if end_to_end:
            text = "end_to_end is not for boards: their timers measure functions of theirs"
            raise MicroInputError(text, help="time set_input, run and get_output on this computer")
        self.set_input(**{n: value for n, value in inputs.items() if n not in OF_TIMERS})
        counts = {"number": number, "repeat": repeat, "min_repeat_ms": int(min_repeat_ms or 0)}
        return self.module.time_evaluator(func_name, device, **counts)()


class AotModule(_OnBoard):
    """TVM's AotModule, on a board."""

    def get_input_name(self, index: int) -> str:
        return str(self.module["get_input_name"](index))


class GraphModule(_OnBoard):
    """TVM's GraphModule, with the executor on the board."""

    def load_params(self, params: bytes) -> None:
        """Parameters as a .params file has them."""
        session = self.module.session
        given: Any = bytes(params)
        if len(given) + 64 > session.most_bytes:
            given = session.array(np.frombuffer(given, np.uint8))
        self.module["load_params"](given)


Module.aot_form, Module.graph_form = AotModule, GraphModule


def _read(text: str) -> Graph:
    """Raises RPCError for what is no graph."""
    what = "the graph JSON"
    try:
        graph = decode(text.encode(), member=what)[0]
        for entry in graph.entries:
            np.dtype(entry.dtype)
    except MlfError as error:
        raise RPCError(f"{error.problems[0].path}: {error.problems[0].message}") from None
    except TypeError as error:
        raise RPCError(f"{what}: {error}") from None
    return graph


class LocalGraphModule(OfTvm):
    """TVM's graph executor on the host: operators run on the board, one call each."""

    def __init__(self, graph_json: str, lib: Module) -> None:
        self.graph = _read(graph_json)
        self.lib = lib
        nodes = self.graph.nodes
        self.inputs = {nodes[n].name: nodes[n].outputs[0] for n in self.graph.arguments}
        self._pool = self._allocate()
        self._arrays = [self._pool[e.storage_id].view(e.shape, e.dtype) for e in self.graph.entries]
        self.calls = tuple(
            (node, self._function(node), self._arguments(node))
            for node in nodes
            if node.function not in ("", NOP)
        )

    def _allocate(self) -> dict[int, RemoteArray]:
        """One block per storage. Archives of TVM 0.8 have their parameters in the firmware."""
        session = self.lib.session
        sizes: dict[int, int] = {}
        for e in self.graph.entries:
            size = math.prod(e.shape) * np.dtype(e.dtype).itemsize
            sizes[e.storage_id] = max(sizes.get(e.storage_id, 0), size)
        linked = self.lib.find_function("_lookup_linked_param")
        pool: dict[int, RemoteArray] = {}
        for s, size in sorted(sizes.items()):
            found = linked(s) if linked is not None else None
            if isinstance(found, Value) and found.type == TypeCode.HANDLE and found.value:
                pool[s] = RemoteArray(session, Tensor(found.value, (size,), "uint8"))
            else:
                pool[s] = session.empty((-(-size // 4),), "float32")
        return pool

    def _function(self, node: Node) -> Function:
        return self.lib.get_function(node.function)

    def _arguments(self, node: Node) -> tuple[RemoteArray, ...]:
        return tuple(self._arrays[e] for e in (*node.inputs, *node.outputs))

    def _input(self, key: int | str) -> int:
        inputs = self.inputs
        if isinstance(key, str) and key in inputs:
            return inputs[key]
        if isinstance(key, int) and 0 <= key < len(inputs):
            return tuple(inputs.values())[key]
        raise RPCError(f"no such input: {key}", help=did_you_mean(str(key), inputs))

    def set_input(self, key: int | str | None = None, value: Any = None, **params: Any) -> None:
        """An input or parameter by name or position, or several by name."""
        for name, given in named_inputs(key, value, params).items():
            self.get_input(name).copyfrom(given)

    def load_params(self, data: bytes) -> None:
        """Those of a .params file, whose names are inputs of the graph."""
        given: dict[str, Any] = dict(decode_params(bytes(data)))
        self.set_input(**given)

    def get_input(self, key: int | str) -> RemoteArray:
        return self._arrays[self._input(key)]

    def get_input_index(self, name: str) -> int:
        return list(self.inputs).index(name) if name in self.inputs else -1

    def get_num_inputs(self) -> int:
        return len(self.inputs)

    def get_num_outputs(self) -> int:
        return len(self.graph.heads)

    def get_output(self, index: int) -> RemoteArray:
        if not 0 <= index < len(self.graph.heads):
            raise RPCError(f"no such output: {index}; there are {len(self.graph.heads)}")
        return self._arrays[self.graph.heads[index]]

    def run(self, **inputs: Any) -> None:
        self.set_input(**inputs)
        for _, function, arguments in self.calls:
            function(*arguments)


@frozen
class LayerTime:
    """What a layer takes on the board."""

    name: str
    function: str
    seconds: float


class LocalDebugModule(LocalGraphModule):
    """The same, with each layer's time and result."""

    def layer_times(self, number: int = 10, repeat: int = 1) -> tuple[LayerTime, ...]:
        """Runs the model layer by layer; each is measured by the board's timer."""
        rows = []
        for node, _, arguments in self.calls:
            times = self.lib.time_evaluator(node.function, number=number, repeat=repeat)(*arguments)
            rows.append(LayerTime(node.name, node.function, times.mean))
        return tuple(rows)

    def debug_get_output(self, node: int | str) -> RemoteArray:
        """The first result of a layer, as it is when the model has run: its memory may be another
        layer's by then."""
        layers = [n for n in self.graph.nodes if n.function]
        names = {n.name: n for n in layers}
        found = names.get(node) if isinstance(node, str) else None
        if isinstance(node, int) and 0 <= node < len(layers):
            found = layers[node]
        if found is None:
            raise RPCError(f"no such layer: {node}", help=did_you_mean(str(node), names))
        return self._arrays[found.outputs[0]]


def create_local_graph_executor(
    graph_json_str: str, mod: Module, device: Device | None = None
) -> LocalGraphModule:
    """TVM's function: the graph executor on the host, for a board's system library."""
    return LocalGraphModule(graph_json_str, mod)


def create_local_debug_executor(
    graph_json_str: str, mod: Module, device: Device | None = None, dump_root: object = None
) -> LocalDebugModule:
    """TVM's function: the same, with `layer_times` and `debug_get_output`."""
    return LocalDebugModule(graph_json_str, mod)


def create_aot_executor(session: Session, name: str = "default") -> AotModule:
    """The AOT executor on the board, for the module `name` of its firmware."""
    return AotModule(session.create_aot_executor(name))


def create_graph_executor(session: Session, graph_json_str: str) -> GraphModule:
    """The graph executor on the board, for the graph of its firmware's system library."""
    return GraphModule(session.create_graph_executor(graph_json_str))


create_local_aot_executor = create_aot_executor
