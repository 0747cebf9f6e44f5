"""A Program as bytecode of the vm executor; docs/vm.md describes the instructions.

Tensors stay where the memory plan puts them. A subgraph's workspace is inside its parent's, as for
aot, but If, Loop and Scan are jumps, and their counters and next states have their own memory after
the planned workspace.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlftool.codegen.kernels import Argument, Constant, Function, Step, Writer
from mlftool.frozen import frozen
from mlftool.ir.graph import Graph
from mlftool.mlf.bytecode import (
    CONSTANT,
    INPUT,
    MAGIC,
    MAX_NUMBER,
    NAMES,
    OUTPUT,
    VERSION,
    WORKSPACE,
    address,
    decode,
    split,
)
from mlftool.ops import Trait, is_a
from mlftool.plan.blocks import aligned
from mlftool.plan.program import Call, Program

FOREVER = (1 << 63) - 1


@frozen
class VmFunction:
    """A kernel as the interpreter calls it: its parameters, and the bytes of each."""

    symbol: str
    kernel: Function
    arguments: tuple[Argument, ...]
    bytes: tuple[int, ...]

    @property
    def writes(self) -> tuple[bool, ...]:
        return tuple(a.operand.role in ("out", "scratch") for a in self.arguments)


@dataclass
class Code:
    """Bytecode under construction."""

    words: list[int] = field(default_factory=lambda: [MAGIC])
    functions: dict[tuple[str, tuple[int, ...]], VmFunction] = field(default_factory=dict)
    constants: dict[str, tuple[int, Constant]] = field(default_factory=dict)
    workspace_bytes: int = 0
    symbols: list[str] = field(default_factory=list)  # of each step of the outermost program

    def emit(self, name: str, *operands: int) -> int:
        """Appends an instruction; returns where its last word is."""
        self.words += [NAMES.index(name), *(w & 0xFFFFFFFF for w in operands)]
        return len(self.words) - 1

    def land(self, *jumps: int) -> None:
        """Lets jumps whose last word is at `jumps` go to the next instruction."""
        for at in jumps:
            self.words[at] = len(self.words)

    def memory(self, size: int) -> int:
        """The address of new bytes after the workspace."""
        at = self.workspace_bytes
        self.workspace_bytes += aligned(size)
        return address(WORKSPACE, at)

    def constant(self, constant: Constant) -> int:
        number, _ = self.constants.setdefault(constant.name, (len(self.constants), constant))
        return address(CONSTANT, number)


def listing(code: Code) -> list[str]:
    """The words as C, an instruction on each line, with its place and meaning."""
    functions = list(code.functions.values())
    parameters = [len(f.arguments) for f in functions]
    lines, at = [f"{code.words[0]:#x}U, /* version {VERSION} */"], 1
    while at < len(code.words):
        step = decode(code.words, at, parameters)
        text = step.name.replace("_", " ")
        if step.name == "call":
            text += f" {functions[step.operands[0]].kernel.symbol}"
        words = (f"{w:#x}U" if w > MAX_NUMBER else f"{w}U" for w in code.words[at : step.end])
        lines.append(f"{', '.join(words)}, /* {at}: {text} */")
        at = step.end
    return lines


@frozen
class _Frame:
    """A Program being written: where its workspace starts and where tensors from outside are."""

    program: Program
    base: int
    named: Mapping[str, int]  # storage -> address

    def at(self, code: Code, argument: Argument) -> int:
        if argument.constant is not None:
            return code.constant(argument.constant)
        if argument.storage in self.named:
            return self.named[argument.storage]
        place = self.program.memory.place[argument.storage]
        return address(WORKSPACE, self.base + place.offset_bytes + argument.offset)


def write_code(program: Program, writer: Writer) -> Code:
    """The whole program; `writer` collects its kernels."""
    code = Code(workspace_bytes=aligned(program.memory.size_bytes))
    graph = program.graph
    named = {name: address(INPUT, k) for k, name in enumerate(graph.inputs)}
    named |= {name: address(OUTPUT, k) for k, name in enumerate(graph.outputs)}
    code.symbols = _write(code, _Frame(program, 0, named), writer)
    code.emit("halt")
    return code


def _write(code: Code, frame: _Frame, writer: Writer) -> list[str]:
    """The instructions of a program; returns what computes each step."""
    symbols = []
    for k, call in enumerate(frame.program.calls):
        if write := next((w for trait, w in _CONTROL.items() if is_a(call.node, trait)), None):
            write(_Control(code, frame, writer, k, call))
            symbols.append(f"tvmgen_{writer.module}_vm")
        else:
            step = writer.step(k, call)
            function = _function(code, frame.program, step)
            code.emit("call", function, *(frame.at(code, a) for a in step.arguments))
            symbols.append(step.function.symbol)
    return symbols


def _function(code: Code, program: Program, step: Step) -> int:
    sizes = tuple(_bytes(program, a) for a in step.arguments)
    key = (step.function.symbol, sizes)
    if key not in code.functions:
        symbol = f"call_{len(code.functions)}"
        code.functions[key] = VmFunction(symbol, step.function, step.arguments, sizes)
    return list(code.functions).index(key)


def _bytes(program: Program, argument: Argument) -> int:
    if argument.constant is not None:
        return argument.constant.bytes
    if argument.operand.role == "scratch":
        return argument.operand.bytes
    return program.graph.types[argument.operand.value].bytes


class _Control:
    """One If, Loop or Scan: addresses of what it reads and writes."""

    def __init__(self, code: Code, frame: _Frame, writer: Writer, k: int, call: Call) -> None:
        self.code, self.frame, self.writer, self.k, self.call = code, frame, writer, k, call
        # The control kernel itself is not written: its parameters give the addresses.
        step = writer.addresses(k, call)
        self.arguments = {a.operand.name: a for a in step}
        self.reads = [self._input(name) for name in call.node.inputs]
        self.writes = [self.address(a) for a in step if a.operand.role == "out"]
        arena = next((a for a in step if a.operand.planned), None)
        self.arena = split(self.address(arena))[1] if arena else 0

    def address(self, argument: Argument) -> int:
        return self.frame.at(self.code, argument)

    def _input(self, name: str) -> int:
        """Where an input is; -1 if the model leaves it out."""
        if not name:
            return -1
        found = next(
            (
                a
                for a in self.arguments.values()
                if a.operand.value == name and a.operand.role != "out"
            ),
            None,
        )
        assert found is not None, name
        return self.address(found)

    def part(self, key: str, inputs: Sequence[int], outputs: Sequence[int]) -> None:
        """The instructions of a subgraph, its inputs and outputs at these addresses."""
        program = self.call.parts[key]
        graph: Graph = program.graph
        named = dict(zip(graph.inputs, inputs, strict=True))
        named |= dict(zip(graph.outputs, outputs, strict=True))
        inner = self.writer.inside(self.k, key, program)
        _write(self.code, _Frame(program, self.arena, named), inner)

    def bytes(self, name: str) -> int:
        return self.frame.program.graph.types[name].bytes


def _if(c: _Control) -> None:
    past = c.code.emit("jump_unless", c.reads[0], 0)
    c.part("then_branch", c.reads[1:], c.writes)
    end = c.code.emit("jump", 0)
    c.code.land(past)
    c.part("else_branch", c.reads[1:], c.writes)
    c.code.land(end)


def _loop(c: _Control) -> None:
    """
        state = initial; k = 0
    top:
        leave unless k < count; leave unless goes_on
        body(k, goes_on, state, captures) -> goes_on', state', elements
        state = state'; output[k] = elements; k += 1; goes_on = goes_on'
        to top
    """
    code, node = c.code, c.call.node
    scans = node.attrs.get("mlf.scans", 0)
    counts = node.attrs.get("mlf.counts", 0)
    states = len(node.outputs) - scans - counts
    body = c.call.parts["body"].graph
    k, zero, limit, less = code.memory(8), code.memory(8), code.memory(8), code.memory(1)
    goes_on, following = code.memory(1), code.memory(1)
    types = c.frame.program.graph.types
    lengths = (types[n].shape[0] for n in node.outputs[states : states + scans])
    most = min(lengths, default=FOREVER)
    code.emit("set", limit, most, most >> 32)
    code.emit("set", zero, 0, 0)
    _first(c, goes_on, zero, k)
    finals = c.writes[:states]
    sizes = [c.bytes(n) for n in node.outputs[:states]]
    for to, start, size in zip(finals, c.reads[2:], sizes, strict=False):
        code.emit("copy", to, start, size)
    boxes = c.writes[states : states + scans]
    if counts:
        for box, name in zip(boxes, node.outputs[states:], strict=False):
            code.emit("zero", box, c.bytes(name))
    top = len(code.words)
    leaves = []
    if c.reads[0] >= 0:
        code.emit("less", less, k, c.reads[0])
        leaves.append(code.emit("jump_unless", less, 0))
    code.emit("less", less, k, limit)
    leaves.append(code.emit("jump_unless", less, 0))
    leaves.append(code.emit("jump_unless", goes_on, 0))
    nexts = [code.memory(size) for size in sizes]
    elements = [code.memory(body.types[n].bytes) for n in body.outputs[1 + states :]]
    c.part("body", [k, goes_on, *finals, *c.reads[2 + states :]], [following, *nexts, *elements])
    for to, made, size in zip(finals, nexts, sizes, strict=True):
        code.emit("copy", to, made, size)
    _put(c, boxes, elements, node.outputs[states:], k)
    code.emit("add", k, 1)
    code.emit("copy", goes_on, following, 1)
    code.emit("jump", top)
    code.land(*leaves)
    if counts:
        code.emit("narrow", c.writes[-1], k)


def _first(c: _Control, goes_on: int, zero: int, k: int) -> None:
    """k = 0, and whether there is a first time."""
    c.code.emit("set", k, 1, 0)
    if c.reads[1] >= 0:
        c.code.emit("copy", goes_on, c.reads[1], 1)
    else:
        c.code.emit("less", goes_on, zero, k)  # 0 < 1: true
    c.code.emit("set", k, 0, 0)


def _put(
    c: _Control, boxes: Sequence[int], elements: Sequence[int], names: Sequence[str], k: int
) -> None:
    """output[k] = elements, of the outputs in `names` whose memory is `boxes`."""
    types = c.frame.program.graph.types
    for box, element, name in zip(boxes, elements, names, strict=False):
        count = types[name].shape[0]
        c.code.emit("scatter", box, element, c.bytes(name) // max(1, count), k, count, 0)


def _scan(c: _Control) -> None:
    code, node = c.code, c.call.node
    types = c.frame.program.graph.types
    states, sequences = node.attrs["mlf.states"], node.attrs["num_scan_inputs"]
    read = node.inputs[states : states + sequences]
    length = types[read[0]].shape[0]
    scans = node.outputs[states:]
    backwards = node.attrs["scan_input_directions"] or [0] * sequences
    outwards = node.attrs["scan_output_directions"] or [0] * len(scans)
    k, limit, less = code.memory(8), code.memory(8), code.memory(1)
    code.emit("set", k, 0, 0)
    code.emit("set", limit, length, 0)
    finals, sizes = c.writes[:states], [c.bytes(n) for n in node.outputs[:states]]
    for to, start, size in zip(finals, c.reads, sizes, strict=False):
        code.emit("copy", to, start, size)
    top = len(code.words)
    code.emit("less", less, k, limit)
    leave = code.emit("jump_unless", less, 0)
    elements = []
    for name, start, back in zip(read, c.reads[states:], backwards, strict=False):
        size = types[name].bytes // max(1, length)
        elements.append(code.memory(size))
        code.emit("gather", elements[-1], start, size, k, length, back)
    nexts = [code.memory(size) for size in sizes]
    made = [code.memory(types[n].bytes // max(1, length)) for n in scans]
    captures = c.reads[states + sequences :]
    c.part("body", [*finals, *elements, *captures], [*nexts, *made])
    for to, following, size in zip(finals, nexts, sizes, strict=True):
        code.emit("copy", to, following, size)
    for name, box, element, back in zip(scans, c.writes[states:], made, outwards, strict=True):
        code.emit("scatter", box, element, types[name].bytes // max(1, length), k, length, back)
    code.emit("add", k, 1)
    code.emit("jump", top)
    code.land(leave)


_CONTROL = {Trait.BRANCH: _if, Trait.LOOP: _loop, Trait.SCAN: _scan}
