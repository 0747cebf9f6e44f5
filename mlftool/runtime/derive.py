"""A module's inputs and outputs for archives without our description: TVM's.

Order, names, types and sizes are put together from the C header, the metadata, the Relay text and
the graph. What they do not say is an error: an argument list that was guessed would crash.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mlftool.errors import MlfError, Problem
from mlftool.mlf import graph as graph_json
from mlftool.mlf import params
from mlftool.mlf.interface import Interface, Tensor, byte_size, checked_size, numpy_dtype
from mlftool.mlf.records import Argument, IoTensor, ModuleRecord
from mlftool.runtime.signature import (
    Parameter,
    linked_storage,
    network_of,
    packed_arguments,
    relay_main,
    sanitised,
    struct_members,
)
from mlftool.targets import TARGETS


def derive(record: ModuleRecord, file: str = "") -> Interface:
    """The interface of a model of TVM's. Raises MlfError with what nothing in the archive says."""
    try:
        if record.executor == "graph":
            return _of_graph(record, file)
        if header_name(record) is not None:
            return _of_header(record)
        if record.executor != "aot":
            raise ValueError(f"modules of the {record.executor} executor cannot be run")
        return _of_packed(record)
    except ValueError as error:
        raise MlfError(Problem("MLF0607", str(error), file, path=record.name)) from None


def header_name(record: ModuleRecord) -> str | None:
    """The C header, which exists for interface c only; TVM lower-cases its name."""
    names = (f"codegen/host/include/tvmgen_{n}.h" for n in (record.name, record.name.lower()))
    return next((n for n in names if n in record.files), None)


def target_of(record: ModuleRecord) -> str:
    """Our target that fits the first of TVM's, to choose a board by; else the host."""
    text = record.targets[0].text if record.targets else ""
    for target in TARGETS.values():
        core = f"-mcpu={target.name} "
        if text == target.tvm or (core in text + " " and target.name.startswith("cortex")):
            return target.name
    return "host"


def operator_interface(
    record: ModuleRecord, function: str, outputs: Sequence[str] = (), file: str = ""
) -> Interface:
    """A function of an operator archive; `outputs` are its last argument if none are named.

    Nothing in such an archive tells inputs from outputs.
    """
    arguments = record.memory.operators[function]
    names = [a.name for a in arguments]
    if not arguments or len(set(names)) != len(names):
        text = f"function '{function[:100]}' has no arguments, or two with the same name"
        raise MlfError(Problem("MLF0607", text, file, path=record.name))
    given = set(outputs) or {names[-1]}
    try:
        tensors = [_argument(a, i) for i, a in enumerate(arguments)]
    except ValueError as error:
        raise MlfError(Problem("MLF0607", str(error), file, path=record.name)) from None
    order = tuple(names.index(n) for n in names if n not in given)
    order += tuple(names.index(n) for n in names if n in given)
    return Interface(
        module=record.name,
        target=target_of(record),
        inputs=tuple(t for t in tensors if t.name not in given),
        outputs=tuple(t for t in tensors if t.name in given),
        workspace_bytes=0,
        constants_bytes=0,
        executor="",
        interface_api="packed",
        symbol=function,
        order=tuple(order.index(i) for i in range(len(names))),
    )


def _argument(a: Argument, index: int) -> Tensor:
    tensor = _tensor(a.name, f"arg{index}", a.dtype, a.shape)
    if tensor.size_bytes != a.size_bytes:
        text = f"argument '{a.name}' says {a.size_bytes} bytes for {a.dtype} {list(a.shape)}"
        raise ValueError(text)
    return tensor


def _tensor(name: str, c_name: str, dtype: str, shape: tuple[int, ...]) -> Tensor:
    type_ = numpy_dtype(dtype)
    return Tensor(name, c_name, type_, shape, checked_size(type_, shape))


def _sizes(record: ModuleRecord) -> tuple[int, int]:
    main = record.memory.main
    return sum(m.workspace_bytes for m in main), sum(m.constants_bytes for m in main)


def _of_graph(record: ModuleRecord, file: str) -> Interface:
    """Inputs are the arguments that neither .params nor the code gives, in the graph's order."""
    member = f"executor-config/graph/{record.name}.graph"
    if record.graph is None:
        raise ValueError(f"no graph; expected {member}")
    graph, data = graph_json.decode(record.graph, file, member)
    if why := graph_json.refusals(graph, data):
        raise ValueError(f"the graph cannot run: {'; '.join(why)}")
    if record.params is None:
        raise ValueError(f"no parameters; expected parameters/{record.name}.params, or .json")
    given = params.decode(record.params, file) if record.params else {}
    linked = linked_nodes(record, graph)
    arguments = [graph.nodes[i] for i in graph.arguments if i not in linked]
    inputs = [n for n in arguments if n.name not in given]
    names = _output_names(record, len(graph.heads))
    entries = graph.entries
    return Interface(
        record.name,
        target_of(record),
        tuple(
            _tensor(n.name, f"in{i}", entries[n.outputs[0]].dtype, entries[n.outputs[0]].shape)
            for i, n in enumerate(inputs)
        ),
        tuple(
            _tensor(name, f"out{i}", entries[e].dtype, entries[e].shape)
            for i, (name, e) in enumerate(zip(names, graph.heads, strict=True))
        ),
        *_sizes(record),
        executor="graph",
        interface_api="packed",
    )


def check_parameters(record: ModuleRecord, interface: Interface, file: str) -> None:
    """Raises MlfError for a graph of which some argument is no input and has no value: the graph
    executor would compute with zeros."""
    if record.graph is None:
        return
    graph = graph_json.decode(record.graph, file, f"executor-config/graph/{record.name}.graph")[0]
    member = f"parameters/{record.name}.params"
    known = {t.name for t in interface.inputs}
    known |= set(params.decode(record.params, file, member) if record.params else ())
    lacking = [i for i in graph.arguments if graph.nodes[i].name not in known]
    if not lacking or not (lacking := sorted(set(lacking) - linked_nodes(record, graph))):
        return
    names = ", ".join(graph.nodes[i].name for i in lacking[:3])
    more = f" and {len(lacking) - 3} more" if len(lacking) > 3 else ""
    what = "has no value of" if record.params is not None else "is missing, with the values of"
    text = f"{member} {what} {names}{more}"
    hint = f"parameters/{record.name}.json is read, too" if record.params is None else ""
    raise MlfError(Problem("MLF0607", text, file, path=record.name, help=hint))


def linked_nodes(record: ModuleRecord, graph: graph_json.Graph) -> frozenset[int]:
    """The argument nodes whose data are C arrays of the module."""
    linked = linked_storage(data for n, data in record.sources.items() if not n.endswith(".o"))
    nodes = ((i, graph.entries[graph.nodes[i].outputs[0]]) for i in graph.arguments)
    return frozenset(i for i, entry in nodes if entry.storage_id in linked)


def _output_names(record: ModuleRecord, count: int) -> tuple[str, ...]:
    """TVM's names: those of the metadata if there is one, else output, or output0, output1 ..."""
    main = record.memory.main
    if count == 1 and main and main[0].outputs is not None and len(main[0].outputs) == 1:
        return (main[0].outputs[0].name,)
    return ("output",) if count == 1 else tuple(f"output{i}" for i in range(count))


def _of_header(record: ModuleRecord) -> Interface:
    """The order of the structures' members is that of the calls."""
    name = header_name(record)
    assert name is not None
    header = record.files[name].decode("utf-8", "replace")
    stem = f"tvmgen_{record.name.lower()}"

    def members(kind: str) -> tuple[str, ...]:
        return struct_members(header, f"{stem}_{kind}") or ()

    if not members("outputs") or f"{stem}_run(" not in header:
        raise ValueError(f"{name} declares no struct {stem}_outputs or no {stem}_run")
    main = relay_main((record.relay or b"").decode("utf-8", "replace"))
    sizes = record.memory.main[0] if record.memory.main else None
    typed = _typed(main.parameters if main else (), sizes.inputs if sizes else None)
    results = dict(zip(members("outputs"), main.results if main else (), strict=False))
    if main and len(main.results) != len(members("outputs")):
        results = {}
    outputs = _typed(results.values(), sizes.outputs if sizes else None, list(results))
    return Interface(
        record.name,
        target_of(record),
        tuple(_member(m, typed) for m in members("inputs")),
        tuple(_member(m, outputs) for m in members("outputs")),
        *_sizes(record),
        workspace_io=f"{stem}_map_inputs(" in header,
        pools=members("workspace_pools"),
        devices=members("devices"),
    )


def _typed(
    found: Iterable[Parameter], sizes: Sequence[IoTensor] | None, c_names: Sequence[str] = ()
) -> dict[str, Parameter]:
    """Types by C name: shapes from Relay where they agree with the metadata, else flat."""
    known = {c: p for c, p in zip(c_names, found, strict=False)} if c_names else {
        sanitised(p.name): p for p in found
    }  # fmt: skip
    for t in sizes or ():
        c_name = sanitised(t.name)
        dtype = numpy_dtype(t.dtype)
        shape = known[c_name].shape if c_name in known else ()
        if c_name not in known or byte_size(dtype, shape) != t.size_bytes:
            shape = (t.size_bytes // dtype.itemsize,)
        known[c_name] = Parameter(t.name, t.dtype, shape)
    return known


def _member(c_name: str, known: dict[str, Parameter]) -> Tensor:
    if c_name not in known:
        raise ValueError(
            f"the type of '{c_name}' is unknown: neither metadata nor Relay text has it"
        )
    p = known[c_name]
    return _tensor(p.name or c_name, c_name, p.dtype, p.shape)


def _of_packed(record: ModuleRecord) -> Interface:
    """From Relay's main function, if the C code reads as many arguments as it has."""
    main = relay_main((record.relay or b"").decode("utf-8", "replace"))
    if main is None:
        raise ValueError(
            "the module's tensors are unknown: no header, C metadata or Relay text describes them"
        )
    sizes = record.memory.main[0].inputs if record.memory.main else None
    names = None if sizes is None else {t.name for t in sizes}
    inputs = [p for p in main.parameters if names is None or p.name in names]
    count = len(inputs) + len(main.results)
    sources = [data for name, data in record.sources.items() if not name.endswith(".o")]
    ends = ("run", "run_model", "__tvm_main__")
    read = [
        packed_arguments(source.decode("utf-8", "replace"), function)
        for function in (*(f"tvmgen_{record.name}_{end}" for end in ends), "__tvm_main__")
        for source in sources
    ]
    if count not in read:
        text = f"Relay's main has {count} tensors; the C code does not read as many arguments"
        raise ValueError(text)
    outputs = zip(_output_names(record, len(main.results)), main.results, strict=True)
    return Interface(
        record.name,
        target_of(record),
        tuple(_tensor(p.name, f"in{i}", p.dtype, p.shape) for i, p in enumerate(inputs)),
        tuple(_tensor(n, f"out{i}", r.dtype, r.shape) for i, (n, r) in enumerate(outputs)),
        *_sizes(record),
        interface_api="packed",
        symbol=network_of(sources),
    )
