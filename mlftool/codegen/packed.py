"""Kernels as packed functions: TVM's calling convention, by which executors find them by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mlftool.codegen.external import PARAMETER
from mlftool.codegen.kernels import Argument, Function, Kernels, Step, unused
from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen
from mlftool.ir.dtype import DType
from mlftool.ir.graph import Graph, TensorType
from mlftool.plan.blocks import aligned
from mlftool.plan.program import Program

# DLPack's codes. Types that it lacks are passed as plain bytes.
_CODES = {"i": 0, "u": 1, "f": 2, "b": 1}
_BFLOAT = 4
ROLES = ("in", "const", "scratch", "out")

LIMIT = 118  # TVM_CRT_MAX_STRLEN_FUNCTION_NAME - 2: what TVM's readers of names take


@frozen
class Packed:
    """A packed function around one static kernel, with the constants that are linked into it.

    Its arguments are `tensors`, inputs before outputs, then the address of its scratch block if the
    caller has planned that memory. `passed` are the kernel's arguments, parameter by parameter.
    """

    symbol: str
    function: Function
    tensors: tuple[Argument, ...]  # as the first step that calls it has them
    scratch_bytes: int
    passed: tuple[Argument, ...]
    first: Step


@frozen
class PackedStep:
    """One call of a packed function with its tensors."""

    packed: Packed
    tensors: tuple[Argument, ...]
    step: Step


def pack(kernels: Kernels, link_params: bool) -> tuple[PackedStep, ...]:
    """The steps as calls of packed functions. Without `link_params` constants are arguments."""
    made: dict[tuple[str, ...], Packed] = {}
    steps = []
    for step in kernels.steps:
        by_role = {role: [a for a in step.arguments if a.operand.role == role] for role in ROLES}
        constants = by_role["const"]
        linked = [a.constant.name for a in constants if a.constant and link_params]
        reads = [a for a in step.arguments if a.operand.role in ("in", "const")]
        tensors = (*(by_role["in"] if link_params else reads), *by_role["out"])
        key = (step.function.symbol, *linked)
        if key not in made:
            symbol = unused(step.function.symbol, {p.symbol for p in made.values()})
            scratch = sum(aligned(a.operand.bytes) for a in by_role["scratch"])
            made[key] = Packed(symbol, step.function, tensors, scratch, step.arguments, step)
        steps.append(PackedStep(made[key], tensors, step))
    return tuple(steps)


def functions(steps: Sequence[PackedStep]) -> tuple[Packed, ...]:
    """Each function once, in the order of their names, as TVM lists them."""
    by_name = {s.packed.symbol: s.packed for s in steps}
    return tuple(by_name[name] for name in sorted(by_name))


def check_types(graph: Graph) -> None:
    """Raises MlfError if a tensor holds strings, which DLPack has no type for."""
    held = next((name for name, type_ in graph.types.items() if type_.dtype.kind == "s"), None)
    if held is not None:
        text = f"'{held}' holds strings, which packed functions do not take"
        help = "use --executor aot with --interface-api c, or --executor vm"
        raise MlfError(Problem("MLF0304", text, help=help))


def dl_type(dtype: DType) -> tuple[int, int]:
    """DLPack's code and bits."""
    if dtype.name == "bfloat16":
        return _BFLOAT, 16
    if dtype.kind == "b":
        return _CODES["b"], 1
    if (dtype.kind == "f" and dtype.bits < 16) or dtype.bits < 8:
        return _CODES["u"], 8
    return _CODES[dtype.kind], dtype.bits


_CODE_NAMES = {0: "kDLInt", 1: "kDLUInt", 2: "kDLFloat", _BFLOAT: "kDLBfloat"}


class Shapes:
    """Arrays of extents for C, equal ones once."""

    def __init__(self) -> None:
        self._names: dict[tuple[int, ...], str] = {}

    def describe(self, type_: TensorType) -> dict[str, Any]:
        """Rank, shape, code and bits as C says them."""
        code, bits = dl_type(type_.dtype)
        name = "NULL"
        if type_.shape:
            name = self._names.setdefault(type_.shape, f"shape_{len(self._names)}")
        return {"rank": len(type_.shape), "shape": name, "code": _CODE_NAMES[code], "bits": bits}

    @property
    def arrays(self) -> list[dict[str, Any]]:
        return [{"name": name, "extents": shape} for shape, name in self._names.items()]


def code_values(
    program: Program, kernels: Kernels, steps: Sequence[PackedStep], hooks: Mapping[str, str]
) -> dict[str, Any]:
    """The values for packed.j2: kernels under other names, and packed functions around them.
    `hooks` says by backend how the names of its device's functions begin."""
    return {
        "includes": kernels.includes,
        "kernels": [f.text for f in wrapped(kernels.functions)],
        "packed": [_function(program, p, hooks) for p in functions(steps)],
    }


def wrapped(functions: Sequence[Function]) -> list[Function]:
    """Kernels under their other names, also where bodies of subgraphs call them: the packed ones
    around them have their own."""
    return [f.renamed(_static) for f in functions]


def _bytes(program: Program, argument: Argument) -> int:
    if argument.constant is not None:
        return argument.constant.bytes
    return program.graph.types[argument.operand.value].bytes


def _static(symbol: str) -> str:
    """tvmgen_<module>_conv -> kernel_<module>_conv, since the packed function has the name."""
    return "kernel_" + symbol.removeprefix("tvmgen_")


def _function(program: Program, p: Packed, hooks: Mapping[str, str]) -> dict[str, Any]:
    tensors = [
        {"name": f"{a.operand.name}_data", "pointer": a.pointer, "bytes": _bytes(program, a)}
        for a in p.tensors
    ]
    names = {id(a): t["name"] for a, t in zip(p.tensors, tensors, strict=True)}

    def passed(a: Argument) -> str:
        if a.operand.role == "scratch":
            place = f"(scratch + {a.offset})" if a.offset else "scratch"
            return f"({a.pointer})(void *){place}"
        if id(a) in names:
            return str(names[id(a)])
        assert a.constant is not None
        return a.constant.name

    part = p.function.external
    member = part.member if part and part.device else ""
    return {
        "external": part is not None,
        "hooks": hooks[part.backend] if part and member else "",
        "member": member,
        "context": PARAMETER + member,
        "symbol": p.symbol,
        "kernel": _static(p.function.symbol),
        "comment": p.first.comment,
        "tensors": tensors,
        "checked": [t["name"] for t in tensors if t["bytes"]],
        "scratch_bytes": p.scratch_bytes,
        "passed": [passed(a) for a in p.passed] + [PARAMETER + member] * bool(member),
    }
