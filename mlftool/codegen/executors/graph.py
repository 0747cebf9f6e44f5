"""The `graph` executor: packed functions, and a graph in JSON that says when they are called.

The JSON stays within what TVM's own C runtime reads (its buffers are fixed); a model that does not
fit is refused here, with the reason.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from mlftool.codegen.executor import Executor
from mlftool.codegen.external import offloaded
from mlftool.codegen.kernels import Argument, Constant, write_kernels
from mlftool.codegen.names import member_names
from mlftool.codegen.options import Options, refused
from mlftool.codegen.origin import origin
from mlftool.codegen.packed import (
    LIMIT,
    PackedStep,
    check_types,
    code_values,
    functions,
    pack,
    wrapped,
)
from mlftool.codegen.sources import SRC, OperatorFunction, Sources, Storage
from mlftool.codegen.templates import render
from mlftool.codegen.weights import place
from mlftool.errors import MlfError, Problem
from mlftool.ir import dtype
from mlftool.ir.graph import Array, Graph, TensorType
from mlftool.options import CompilerOptions
from mlftool.plan.program import Buffer, Program

FILE = "executor-config/graph/{}.graph"
MAX_TENSORS = 9  # of one node: TVM_CRT_MAX_ARGS - 1
MAX_RANK = 6  # TVM_CRT_MAX_NDIM
MAX_DTYPE = 8  # characters: TVM_CRT_MAX_STRLEN_DLTYPE - 2
ESCAPES = '\r\n\t\\"'  # the only types that the reader understands


@dataclass
class _Entry:
    """A tensor that the runtime keeps: its name, its type, and the address of its bytes."""

    name: str
    type: TensorType
    storage: int
    node: int
    index: int = 0


@dataclass
class _Table:
    """The graph under construction: nodes in order, and entries by storage or constant."""

    nodes: list[dict[str, Any]] = field(default_factory=list)
    entries: dict[str, _Entry] = field(default_factory=dict)
    sizes: list[int] = field(default_factory=list)  # bytes of each storage id
    bindings: dict[int, str] = field(default_factory=dict)
    params: dict[str, Array] = field(default_factory=dict)

    def storage(self, size: int, at: int | None = None) -> int:
        """A new storage id, or `at`, made large enough."""
        if at is None:
            self.sizes.append(size)
            return len(self.sizes) - 1
        self.sizes[at] = max(self.sizes[at], size)
        return at

    def argument(self, key: str, name: str, type_: TensorType) -> None:
        """A node for an input or a parameter."""
        storage = self.storage(type_.bytes)
        self.bindings[storage] = name
        self.entries[key] = _Entry(name, type_, storage, len(self.nodes))
        self.nodes.append({"op": "null", "name": name, "inputs": []})

    def reference(self, key: str) -> list[int]:
        entry = self.entries[key]
        return [entry.node, entry.index, 0]


def emit(program: Program, options: Options, interface: Graph) -> Sources:
    """C and JSON for `program`; `interface` has the inputs' and outputs' own names."""
    module = options.module
    check_types(program.graph)
    kernels = write_kernels(program, module)
    steps = pack(kernels, options.link_params)
    _refuse(module, _unwritten(program, steps))
    table = _table(program, steps, interface)
    _refuse(module, [*_too_large(table, steps), *_unreadable(table), *_unmade(program, table)])
    packed = functions(steps)
    linked = [c for c in kernels.constants if options.link_params or c.name in kernels.inner]
    weights = place(linked, module, options.weights)
    given = offloaded(wrapped(kernels.functions), options, first=2, packed=True)
    values = {
        "module": module,
        "devices": given.devices,
        "activates": True,
        "origin": origin(options, interface),
        "target": program.target.tvm,
        "weights": weights,
        "planned": False,
        "allocates": True,
        **code_values(program, kernels, steps, dict(options.backends)),
    }
    files = {
        f"{SRC}/{module}_lib0.c": render("graph_lib0.c.j2", **values),
        f"{SRC}/{module}_lib1.c": render("graph_lib1.c.j2", **values),
        FILE.format(module): graph_json(table, program),
        **given.files,
    }
    storages = tuple(
        Storage(k, size, table.bindings.get(k, "")) for k, size in enumerate(table.sizes)
    )
    return Sources(
        files,
        tuple(OperatorFunction(p.symbol, p.scratch_bytes) for p in packed),
        tuple(s.packed.symbol for s in steps),
        member_names((*interface.inputs, *interface.outputs)),
        kernels.constants_bytes,
        _workspace(program, table) + max((p.scratch_bytes for p in packed), default=0),
        params=table.params,
        packed=tuple(p.symbol for p in packed),
        storages=storages,
        data={**weights.files, **given.objects},
        headers=given.headers,
    )


AOT = "use --executor aot, which has no such limit"


def _refuse(module: str, problems: Iterable[str]) -> None:
    found = [Problem("MLF0304", f"module '{module}': {p}", help=AOT) for p in problems]
    if found:
        raise MlfError(found)


def _workspace(program: Program, table: _Table) -> int:
    """Bytes of the storages that are neither inputs nor parameters nor outputs."""
    outputs = {table.entries[program.storage(n)].storage for n in program.graph.outputs}
    outside = {*table.bindings, *outputs}
    return sum(size for k, size in enumerate(table.sizes) if k not in outside)


def _table(program: Program, steps: Sequence[PackedStep], interface: Graph) -> _Table:
    """Nodes in TVM's order: inputs, then each parameter before the first call that reads it."""
    graph, table = program.graph, _Table()
    for name, shown in zip(graph.inputs, interface.inputs, strict=True):
        table.argument(name, shown, graph.types[name])
    shared = _shared_storages(program.memory.buffers)
    given: dict[int, int] = {}  # a group of buffers -> its storage id
    used: dict[str, int] = {}
    for step in steps:
        reads = [a for a in step.tensors if a.operand.role != "out"]
        writes = [a for a in step.tensors if a.operand.role == "out"]
        for argument in reads:
            if argument.constant is not None and _key(argument) not in table.entries:
                name = _unused_param(table)
                table.params[name] = _plain(argument.constant)
                table.argument(_key(argument), name, _type(program, argument))
        symbol = step.packed.symbol
        used[symbol] = used.get(symbol, 0) + 1
        node = {
            "op": "tvm_op",
            "name": symbol if used[symbol] == 1 else f"{symbol}_call{used[symbol]}",
            "attrs": {
                "func_name": symbol,
                "flatten_data": "0",
                "num_inputs": str(len(reads)),
                "num_outputs": str(len(writes)),
            },
            "inputs": [table.reference(_key(a)) for a in reads],
        }
        for index, argument in enumerate(writes):
            key, type_ = _key(argument), _type(program, argument)
            buffer = program.memory.place.get(key)
            group = shared[buffer.name] if buffer else -1
            storage = table.storage(type_.bytes, given.get(group))
            if group >= 0:
                given[group] = storage
            table.entries[key] = _Entry(key, type_, storage, len(table.nodes), index)
        table.nodes.append(node)
    return table


def _unused_param(table: _Table) -> str:
    """p0, p1 ... in order of use, without those that are names of inputs."""
    taken = {*table.params, *table.bindings.values()}
    return next(f"p{k}" for k in range(len(taken) + 1) if f"p{k}" not in taken)


def _key(argument: Argument) -> str:
    """Storage of a tensor; for a constant, a name that no tensor has."""
    return f"\0{argument.constant.name}" if argument.constant else argument.storage


def _plain(constant: Constant) -> Array:
    """A parameter's array; kernels ignore its shape, so one that readers cannot take is flat."""
    return constant.array if constant.array.ndim <= MAX_RANK else constant.array.reshape(-1)


def _type(program: Program, argument: Argument) -> TensorType:
    if argument.constant is not None:
        array = _plain(argument.constant)
        return TensorType(dtype.of(array), array.shape)
    return program.graph.types[argument.storage]


def _shared_storages(buffers: Sequence[Buffer]) -> dict[str, int]:
    """Buffer -> group: the largest first, each in the first group that is free meanwhile."""
    groups: list[list[Buffer]] = []
    result: dict[str, int] = {}
    for b in sorted(buffers, key=lambda b: (-b.size_bytes, b.first_step, b.name)):
        free = (
            k
            for k, group in enumerate(groups)
            if all(o.last_step < b.first_step or b.last_step < o.first_step for o in group)
        )
        k = next(free, len(groups))
        if k == len(groups):
            groups.append([])
        groups[k].append(b)
        result[b.name] = k
    return result


def _too_large(table: _Table, steps: Sequence[PackedStep]) -> Iterator[str]:
    """Problems where the runtime's tables are too small."""
    for step in steps:
        count = len(step.tensors)
        if count > MAX_TENSORS:
            text = f"takes and gives {count} tensors, parameters included"
            yield f"{step.step.call.node.label} {text}; the graph executor takes {MAX_TENSORS}"
    if len(table.sizes) > len(table.nodes):
        text = f"{len(table.sizes)} storage ids for {len(table.nodes)} nodes"
        yield f"{text}; the graph executor has one for each node"
    if table.params and table.nodes[0]["name"] in table.params:
        yield "the model has no inputs; the graph executor loads no parameter as its first tensor"


def _unwritten(program: Program, steps: Sequence[PackedStep]) -> Iterator[str]:
    """Tensors without elements, which calls read and none stores."""
    made = {_key(a) for s in steps for a in s.tensors if a.operand.role == "out"}
    made |= {*program.graph.inputs}
    read = [a for s in steps for a in s.tensors if a.operand.role != "out" and not a.constant]
    for key in dict.fromkeys(_key(a) for a in read):
        if key not in made:
            yield f"tensor '{key}' has no elements; the graph executor has tensors of some"


def _unmade(program: Program, table: _Table) -> Iterator[str]:
    """Outputs that no call stores."""
    for name in program.graph.outputs:
        if program.storage(name) not in table.entries:
            text = f"output '{name}' is {program.graph.types[name]}, which has no elements"
            yield f"{text}; the graph executor has outputs of some"


def _unreadable(table: _Table) -> Iterator[str]:
    """Names, types and shapes that do not fit the buffers of the JSON reader."""
    for entry in table.entries.values():
        shown = f"tensor '{entry.name.removeprefix(chr(0))}'"
        if len(entry.type.shape) > MAX_RANK and entry.storage in table.bindings:
            rank = len(entry.type.shape)
            yield f"{shown} has {rank} dimensions; the graph executor takes {MAX_RANK}"
        if len(str(entry.type.dtype)) > MAX_DTYPE:
            yield f"{shown} is {entry.type.dtype}; the graph executor has no such type"
    for node in table.nodes:
        name = str(node["name"])
        if len(name.encode("utf-8", "surrogatepass")) > LIMIT:
            yield f"name '{name}' has over {LIMIT} bytes, which the graph executor cannot read"
        if any(ord(c) < 32 and c not in ESCAPES for c in name):
            yield f"name '{name}' holds a control character that the graph executor cannot read"


def graph_json(table: _Table, program: Program) -> str:
    """The graph as executor-config/graph/<module>.graph has it, a line for each node."""
    entries = sorted(table.entries.values(), key=lambda e: (e.node, e.index))
    shapes = [list(_shape(e.type)) for e in entries]
    counts = [sum(e.node == k for e in entries) for k in range(len(table.nodes))]
    heads = [table.reference(program.storage(n)) for n in program.graph.outputs]
    null = [k for k, node in enumerate(table.nodes) if node["op"] == "null"]
    attrs = {
        "dltype": ["list_str", [str(e.type.dtype) for e in entries]],
        "device_index": ["list_int", [1] * len(entries)],
        "storage_id": ["list_int", [e.storage for e in entries]],
        "shape": ["list_shape", shapes],
    }
    rows = [0]
    for count in counts:
        rows.append(rows[-1] + count)
    nodes = ",\n".join("    " + _json(node) for node in table.nodes)
    lines = ",\n".join(f"    {_json(key)}: {_json(value)}" for key, value in attrs.items())
    return (
        f'{{\n  "nodes": [\n{nodes}\n  ],\n  "arg_nodes": {_json(null)},\n'
        f'  "heads": {_json(heads)},\n  "attrs": {{\n{lines}\n  }},\n'
        f'  "node_row_ptr": {_json(rows)}\n}}\n'
    )


def _shape(type_: TensorType) -> tuple[int, ...]:
    """Only inner tensors can have too many dimensions here, and their shapes are never read."""
    return type_.shape if len(type_.shape) <= MAX_RANK else (type_.elements,)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _options(module: str, asked: CompilerOptions) -> Options:
    """Its functions are always packed."""
    if asked.interface_api not in (None, "packed") or asked.unpacked_api:
        raise refused(
            "the graph executor calls packed functions by name; got another interface or "
            "unpacked-api 1",
            "leave both out, or use --executor aot",
        )
    return Options(module, "packed", False, bool(asked.link_params), asked.system_lib)


EXECUTOR = Executor(
    "TVM's graph executor over packed functions",
    {"packed": ("lib0", "lib1", "graph")},
    _options,
    emit,
    FILE.format,
)
