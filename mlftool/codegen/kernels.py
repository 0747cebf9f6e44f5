"""A Program's kernels as C functions, their constants, and the arguments of each call.

Every executor starts here, so that all of them run the same C and give the same bits.
"""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from mlftool.codegen.literals import initialiser
from mlftool.codegen.names import comment
from mlftool.codegen.notes import describe, describe_constant
from mlftool.codegen.templates import open_text
from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen, replace
from mlftool.ir import dtype
from mlftool.ir.external import Part
from mlftool.ir.graph import Array, TensorType
from mlftool.ir.holes import called, filled, whole
from mlftool.ir.lexemes import names_in
from mlftool.ir.rounding import Rounding
from mlftool.ops.base import Kernel, Operand
from mlftool.plan.blocks import aligned
from mlftool.plan.memory import scratch_name
from mlftool.plan.program import Call, Program, content_of

WIDTH = 100  # of a line with parameters
MOST_CODE_BYTES = 1 << 20  # of one node's function; the longest of real models has some 100 KB


@frozen
class Function:
    """One static C function; calls whose kernels render to the same text share it."""

    symbol: str
    code: str  # between its braces; functions that it calls are holes
    macs: int
    note: str = ""  # comment lines
    external: Part | None = None  # another file has it, and it returns a status
    parameters: tuple[str, ...] | None = None  # None: `code` has them, and braces

    @property
    def text(self) -> str:
        if self.external:
            return f"{self.note}{self.prototype};\n"
        return self.note + self.named(self.symbol)

    @property
    def prototype(self) -> str:
        """Of a function that another file has."""
        return f"int32_t {self.symbol}{self.code}"

    def named(self, symbol: str) -> str:
        """The definition under another name."""
        head, code = f"MLF_KERNEL void {symbol}", filled(self.code)
        if self.parameters is None:
            return f"{head}{code}\n"
        return f"{head}{_listed(self.parameters, len(head))} {{\n{code}}}\n"

    def renamed(self, name: Callable[[str], str]) -> Function:
        """With what `name` makes of its own symbol and of those that it calls."""
        code = filled(self.code, lambda hole: name(hole.text))
        return replace(self, symbol=name(self.symbol), code=code)


@frozen
class Constant:
    """An array of the module's read-only data; equal contents are stored once."""

    name: str
    ctype: str
    array: Array
    note: str = ""  # for a comment: the tensor it holds
    alignment: int = 16

    @property
    def elements(self) -> int:
        """Of the C array, which holds packed elements together and is never empty."""
        return max(1, dtype.stored(self.array).size)

    @property
    def bytes(self) -> int:
        return dtype.stored(self.array).nbytes

    @property
    def shape(self) -> str:
        return "x".join(map(str, self.array.shape))

    @property
    def title(self) -> str:
        """Its description, in a comment of one line."""
        size = f"{self.shape}, {self.bytes} bytes" if self.shape else f"{self.bytes} bytes"
        return f"{self.note}: {size}" if self.note else size

    @property
    def text(self) -> str:
        values = dtype.stored(self.array)
        return initialiser(values if values.size else np.zeros(1, values.dtype))


@frozen
class Argument:
    """One argument of a call: a constant, or a place in a storage."""

    operand: Operand
    constant: Constant | None = None
    storage: str = ""  # a tensor that owns its bytes, or "scratch of step N"
    offset: int = 0  # in the storage

    @property
    def pointer(self) -> str:
        """The C type of the parameter."""
        const = "const " if self.operand.role in ("in", "const") else ""
        return f"{const}{self.operand.ctype} *"


@frozen
class Step:
    """One call of one function."""

    function: Function
    arguments: tuple[Argument, ...]
    call: Call
    comment: str


@frozen
class Kernels:
    """Everything a Program computes, as C."""

    functions: tuple[Function, ...]
    constants: tuple[Constant, ...]
    includes: tuple[str, ...]
    steps: tuple[Step, ...]
    inner: frozenset[str]  # constants that functions of subgraphs name themselves

    @property
    def constants_bytes(self) -> int:
        return sum(c.bytes for c in self.constants)


def write_kernels(program: Program, module: str) -> Kernels:
    """The functions and constants of `program`, and its steps in order."""
    writer = Writer(program, module)
    steps = tuple(writer.step(k, call) for k, call in enumerate(program.calls))
    return writer.kernels(steps)


class Writer:
    """Collects functions and constants while the steps are written."""

    def __init__(self, program: Program, module: str, path: str = "step") -> None:
        self.program, self.module, self.path = program, module, path
        self.functions: dict[str, Function] = {}
        # By type and digest of contents, and alignment.
        self.constants: dict[tuple[tuple[str, bytes], int], Constant] = {}
        self.includes: set[str] = {"mlf/kernel.h"}
        self.inner: set[str] = set()
        self.layers: dict[str, list[str]] = {}  # by the function that computes them

    def kernels(self, steps: tuple[Step, ...]) -> Kernels:
        """Everything that was written, with `steps` as the outermost steps."""
        return Kernels(
            tuple(replace(f, note=f.note + self._others(f)) for f in self.functions.values()),
            # Small ones side by side have no gaps between them.
            tuple(sorted(self.constants.values(), key=lambda c: -c.alignment)),
            tuple(sorted(self.includes)),
            steps,
            frozenset(self.inner),
        )

    def step(self, k: int, call: Call) -> Step:
        self.includes |= {*call.kernel.includes, *Rounding.of(call.node).includes}
        if any(operand.ctype == dtype.string.c for operand in call.kernel.operands):
            self.includes.add("mlf/text.h")
        parts = {key: self._part(k, key, call, part) for key, part in call.parts.items()}
        function = self._function(call, parts)
        return Step(function, self.addresses(k, call), call, self._describe(call))

    def addresses(self, k: int, call: Call) -> tuple[Argument, ...]:
        """The arguments of step `k`, parameter by parameter."""
        arguments, offset = [], 0
        for operand in call.kernel.operands:
            if not operand.local:
                arguments.append(self._argument(k, operand, offset))
                offset += aligned(operand.bytes) if operand.role == "scratch" else 0
        return tuple(arguments)

    def inside(self, k: int, key: str, part: Program) -> Writer:
        """A writer for a subgraph of step `k`, adding to the same functions and constants."""
        writer = Writer(part, self.module, f"{self.path}{k}_{key}_")
        writer.functions, writer.constants = self.functions, self.constants
        writer.includes, writer.inner, writer.layers = self.includes, self.inner, self.layers
        return writer

    def _part(self, k: int, key: str, call: Call, part: Program) -> str:
        """Writes the function of a subgraph; returns its symbol."""
        writer = self.inside(k, key, part)
        steps = [writer.step(i, c) for i, c in enumerate(part.calls)]
        graph = part.graph
        named = {name: f"in{i}" for i, name in enumerate(graph.inputs)}
        named |= {name: f"out{i}" for i, name in enumerate(graph.outputs)}
        lines = [
            {
                "symbol": s.function.symbol,
                "called": called(s.function.symbol),
                "arguments": expressions(part, s, named),
                "comment": s.comment,
            }
            for s in steps
        ]
        self.inner |= {a.constant.name for s in steps for a in s.arguments if a.constant}
        code = open_text(
            "part.c.j2", inputs=len(graph.inputs), outputs=len(graph.outputs), steps=lines
        )
        if code not in self.functions:
            op = call.node.op.rsplit(".", 1)[-1].lower()
            base = f"tvmgen_{self.module}_{op}_{key}"[:112]
            symbol = unused(base, {f.symbol for f in self.functions.values()})
            self.functions[code] = Function(symbol, code, sum(c.kernel.macs for c in part.calls))
        return called(self.functions[code].symbol)

    def _external(self, call: Call, part: Part) -> Function:
        parameters = [_parameter(o, overlap=False) for o in call.kernel.operands]
        code = f"({', '.join([*parameters, *(['void *context'] if part.device else [])])})"
        note = describe(self.program, call)
        made = Function(part.symbol, code, call.kernel.macs, note, external=part)
        return self.functions.setdefault(part.symbol, made)

    def _function(self, call: Call, parts: Mapping[str, str]) -> Function:
        kernel = call.kernel
        if kernel.external:
            return self._external(call, kernel.external)
        locals_ = [o for o in kernel.operands if o.local]
        passed = [o for o in kernel.operands if not o.local]
        types = {o.name: o.ctype for o in kernel.operands}
        arena = next((o.name for o in passed if o.planned), "0")
        body = body_of(kernel, parts, arena)
        body = filled(body, lambda hole: str(hole) if hole.kind == "s" else hole.text, types, 2)
        if len(body) > MOST_CODE_BYTES:
            text = f"needs {len(body)} bytes of C; supported: {MOST_CODE_BYTES} for one node"
            raise MlfError(Problem("MLF0302", f"node '{comment(call.node.name, 40)}': {text}"))
        overlap = bool(kernel.inplace or kernel.overlap)
        updated = {*kernel.updates, *kernel.updates.values()}
        parameters = tuple(_parameter(o, overlap or o.value in updated) for o in passed)
        head = "".join(
            f"  MLF_ALIGNED(8) {o.ctype} {o.name}[{o.bytes // dtype_bytes(o.ctype)}];\n"
            for o in locals_
        )
        # Extents of 0 leave a kernel without what it would have read.
        read = names_in(body)
        head += "".join(f"  (void){o.name};\n" for o in kernel.operands if o.name not in read)
        code = f"{head}{body}"
        key = f"({', '.join(parameters)}) {{\n{code}}}"
        if key not in self.functions:
            note, symbol = describe(self.program, call), self._symbol(call)
            made = Function(symbol, code, kernel.macs, note, parameters=parameters)
            self.functions[key] = made
        made = self.functions[key]
        self.layers.setdefault(made.symbol, []).append(comment(call.node.name, 40))
        return made

    def _others(self, function: Function) -> str:
        """A comment with the other layers that a function computes."""
        others = dict.fromkeys(self.layers.get(function.symbol, ())[1:])
        lines = textwrap.wrap(f"  also {', '.join(others)}", 96, subsequent_indent="    ")
        return "".join(f"// {line}\n" for line in lines) if others else ""

    def _symbol(self, call: Call) -> str:
        """tvmgen_<module>_<operators>, numbered where that is taken; model names play no part."""
        nodes = call.node.body or (call.node,)
        names = [re.sub(r"[^a-z0-9]+", "_", n.op.rsplit(".", 1)[-1].lower()) for n in nodes]
        base = f"tvmgen_{self.module}_" + ("fused_" if len(names) > 1 else "") + "_".join(names)
        # TVM cuts at 80 after its prefix; CRT readers take names of up to 118.
        base = base[: min(80 + len(self.module), 112)]
        return unused(base, {f.symbol for f in self.functions.values()})

    def _argument(self, k: int, operand: Operand, offset: int) -> Argument:
        if operand.role == "const":
            assert operand.array is not None
            note = describe_constant(self.program.graph, self.program.calls[k], operand)
            return Argument(operand, self._constant(k, operand, note))
        if operand.role == "scratch":
            return Argument(operand, storage=scratch_name(k), offset=offset)
        return Argument(operand, storage=self.program.storage(operand.value))

    def _constant(self, k: int, operand: Operand, note: str) -> Constant:
        """The constant that holds an operand's array; the first to need it names it."""
        array, role = operand.array, operand.name
        assert array is not None
        key = content_of(operand), operand.alignment
        if key not in self.constants:
            words = {"w": "weights", "b": "bias", "b_inner": "bias_inner"}
            name = f"{self.path}{k}_{words.get(role, role)}"
            self.constants[key] = Constant(name, operand.ctype, array, note, operand.alignment)
        return self.constants[key]

    def _describe(self, call: Call) -> str:
        graph = self.program.graph
        node = call.node

        def show(name: str) -> str:
            type_: TensorType = graph.types[name]
            return "x".join(map(str, type_.shape)) or "scalar"

        ins = ", ".join(show(i) for i in node.inputs if i and i not in graph.consts)
        ops = " + ".join(n.op.rsplit(".", 1)[-1] for n in node.body) or node.op.rsplit(".", 1)[-1]
        out = graph.types[node.result]
        return (
            f"{comment(node.name, 40)}: {comment(ops, 90)}, {ins} -> {show(node.result)} "
            f"{out.dtype} ({call.kernel.name})"
        )


def body_of(kernel: Kernel, parts: Mapping[str, str], arena: str) -> str:
    """What its function does, with the holes for numbers left open; `parts` are the symbols of its
    subgraphs, `arena` the parameter that these work in."""
    types = {o.name: o.ctype for o in kernel.operands}
    given = {**kernel.params, "types": types, "bodies": parts, "arena": arena}
    packed = {
        name: (how.form, [whole(extent) for extent in how.extents])
        for name, how in kernel.packed.items()
    }
    unpacked = open_text("unpacked.c.j2", packed=packed, types=types) if packed else ""
    return unpacked + open_text(kernel.template, **given)


def unused(base: str, taken: set[str]) -> str:
    """`base`, followed by the first free number if it is taken."""
    symbol, k = base, 1
    while symbol in taken:
        symbol, k = f"{base}_{k}", k + 1
    return symbol


def expressions(program: Program, step: Step, named: Mapping[str, str]) -> list[str]:
    """The arguments of a call, in C."""
    return [expression(program, a, named) for a in step.arguments]


def expression(program: Program, argument: Argument, named: Mapping[str, str]) -> str:
    """The C expression that passes `argument`: a constant's name, one of `named`, by storage, or
    an address in `workspace`."""
    cast = f"({argument.pointer})"
    if argument.constant is not None:
        return argument.constant.name
    if argument.storage in named:
        return f"{cast}{named[argument.storage]}"
    buffer = program.memory.place[argument.storage]
    pointer = pool_name(buffer.pool)
    return f"{cast}(void *)({pointer} + {buffer.offset_bytes + argument.offset})"


def pool_name(pool: str) -> str:
    """The C name of a pool's first byte, where kernels are called."""
    return f"{pool}_pool" if pool else "workspace"


def _listed(parameters: Sequence[str], before: int) -> str:
    """Parameters in brackets, in lines of their own if that of the name has no room for them."""
    *others, last = parameters or ("void",)
    pieces = [*(f"{one}," for one in others), f"{last})"]
    if before + len(" ".join(pieces)) + len("( {") <= WIDTH:
        return f"({' '.join(pieces)}"
    lines = [""]
    for piece in pieces:
        if len(f"    {lines[-1]} {piece} {{") > WIDTH:
            lines.append("")
        lines[-1] = f"{lines[-1]} {piece}".strip()
    return "\n    ".join(["(", *filter(None, lines)])


def _parameter(operand: Operand, overlap: bool) -> str:
    const = "const " if operand.role in ("in", "const") else ""
    restrict = "" if overlap and operand.role in ("in", "out") else "MLF_RESTRICT "
    return f"{const}{operand.ctype} *{restrict}{operand.name}"


def dtype_bytes(ctype: str) -> int:
    return next(d.bytes for d in dtype.DTYPES if d.c == ctype)
