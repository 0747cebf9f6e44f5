"""What each layer of a compiled module is, and the bytes that are its own."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mlftool.codegen.kernels import Kernels, Step, write_kernels
from mlftool.frozen import frozen
from mlftool.ir.dtype import DType, stored
from mlftool.module import Module
from mlftool.plan.program import Call, Program
from mlftool.targets import Target


@frozen
class Layer:
    """One step of a module.

    `name` is the ONNX node's; `op` has all operators that are fused into it. `constants` are
    weights, biases and multipliers in flash, by name, in bytes; several layers may have one of the
    same content. `moved_bytes` counts each tensor and constant that it reads or writes once.
    `least` is the number of instructions that its multiplications alone need on this core. None is
    what an archive does not tell.
    """

    step: int
    name: str
    op: str
    kernel: str
    function: str
    macs: int | None
    constants: Mapping[str, int] | None
    moved_bytes: int | None = None
    least: float | None = None

    @property
    def weights_bytes(self) -> int | None:
        return None if self.constants is None else sum(self.constants.values())


def layers(module: Module) -> tuple[Layer, ...]:
    """The steps of a module in the order in which they run."""
    kernels = write_kernels(module.program, module.spec.module_name)
    return tuple(_layer(module.program, kernels, k) for k in range(len(kernels.steps)))


def _layer(program: Program, kernels: Kernels, k: int) -> Layer:
    step = kernels.steps[k]
    call = step.call
    return Layer(
        k,
        call.node.name,
        " + ".join(n.op for n in call.node.body) or call.node.op,
        call.kernel.name,
        step.function.symbol,
        call.kernel.macs,
        dict(_constants(kernels, step, k)),
        _moved(program, call),
        call.kernel.macs * least(program.target, _multiplied(program, call)),
    )


def _constants(kernels: Kernels, step: Step, k: int) -> Iterator[tuple[str, int]]:
    """Name and bytes of those that a step is passed, and of those that its subgraphs name."""
    for argument in step.arguments:
        if argument.constant is not None:
            yield argument.constant.name, argument.constant.bytes
    for constant in kernels.constants:
        if constant.name in kernels.inner and constant.name.startswith(f"step{k}_"):
            yield constant.name, constant.bytes


def _moved(program: Program, call: Call) -> int:
    tensors = {o.value for o in call.kernel.operands if o.role in ("in", "out")}
    arrays = [o.array for o in call.kernel.operands if o.role == "const" and o.array is not None]
    types = program.graph.types
    return sum(types[t].bytes for t in tensors) + sum(stored(a).nbytes for a in arrays)


def _multiplied(program: Program, call: Call) -> DType | None:
    """The type of what a layer multiplies with its weights."""
    read = next((name for name in call.node.inputs if name), "")
    return program.graph.types[read].dtype if read else None


def least(target: Target, dtype: DType | None) -> float:
    """Instructions per multiplication of this type, if there were no others."""
    features = target.features
    if dtype is not None and dtype.kind in "iu":
        if "mve" in features and dtype.bits <= 32:  # a vector has 128 bits
            return max(dtype.bits, 8) / 128
        if "dsp" in features and dtype.bits <= 16:
            return 1 / 2
        return 1 if target.name.startswith("cortex") and "narrow" not in features else 2  # by MLA
    if {"mve", "flushed"} <= features:
        return 1 / 4
    return 1 if "fused" in features else 2
