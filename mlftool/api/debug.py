"""The debug executor: runs a model node by node and keeps every tensor.

Nothing is fused, and each node calls the C kernel that the other executors would call for it, so
the results are the same bits. Tensors keep the names of the ONNX model where they still exist.
"""

from __future__ import annotations

import ctypes
import json
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from mlftool.api.module import IRModule
from mlftool.api.target import the_target
from mlftool.codegen.debug import DebugStep, debug_c
from mlftool.codegen.names import member_names
from mlftool.compile import compile_module
from mlftool.config import PassContext
from mlftool.files import default_cache
from mlftool.frozen import frozen
from mlftool.ir import dtype
from mlftool.ir.graph import Array, Graph
from mlftool.mlf import make_folder, write_atomically
from mlftool.mlf.interface import Tensor
from mlftool.mlf.runtime_tree import headers_of
from mlftool.module import ModuleSpec
from mlftool.runtime import notebook, toolchain
from mlftool.runtime.cache import build_once, key_of
from mlftool.runtime.host import machine_flags
from mlftool.runtime.vectors import one_sample, save_npz
from mlftool.targets import CFLAGS

FUSIONS = ("fuse_chains", "tabulate", "fuse_prologues", "fuse_epilogues")
_ALIGNMENT = 64
_INCLUDE = "codegen/host/include"


@frozen
class NodeRun:
    """A node that has just run, and its outputs."""

    name: str
    op: str
    kernel: str
    outputs: Mapping[str, Array]


class DebugModule:
    """A model that runs step by step. `tensors` holds everything the last run computed."""

    def __init__(self, mod: IRModule, target: Any = "host", name: str = "debug") -> None:
        context = PassContext.current()
        where = the_target(target)
        spec = ModuleSpec(
            mod.model,
            name,
            where.name,
            interface_api="c",
            input_shapes=mod.shapes,
            opt_level=context.opt_level,
            disabled_pass=(*FUSIONS, *context.disabled),
            output_names=mod.output_names,
        )
        compiled = compile_module(spec)
        self.imported, self.program = compiled.imported, compiled.program
        self.name = name
        self.inputs = _tensors(self.imported, self.imported.inputs)
        self.outputs = _tensors(self.imported, self.imported.outputs)
        text, weights, self.steps = debug_c(self.program, name)
        self._library = ctypes.CDLL(str(_build(text, weights, machine_flags(where.name), name)))
        self._buffers: dict[str, Array] = {}
        self.tensors: dict[str, Array] = {}

    def __repr__(self) -> str:
        return f"DebugModule({self.name!r}, {len(self.steps)} steps)"

    def _repr_html_(self) -> str:
        """For notebooks."""
        return notebook.html(repr(self), self.inputs, self.outputs)

    def run(self, inputs: Mapping[str, Array]) -> dict[str, Array]:
        """One inference; the outputs by name. Raises MlfError for inputs that do not fit."""
        for _ in self.walk(inputs):
            pass
        made = zip(self.imported.outputs, self.program.graph.outputs, strict=True)
        return {shown: self.tensors[name] for shown, name in made}

    def walk(self, inputs: Mapping[str, Array]) -> Iterator[NodeRun]:
        """The same, stopping after each node."""
        sample = one_sample(inputs, self.inputs, self.name)
        graph = self.program.graph
        self.tensors, self._buffers = {}, {}
        for t, name in zip(self.inputs, graph.inputs, strict=True):
            self._store(name, sample[t.name])
        steps = {id(s.node): s for s in self.steps}
        for node in graph.nodes:
            step = steps.get(id(node))
            if step is not None:
                self._call(step)
            made = {out: self._load(out) for out in node.outputs if out}
            self.tensors |= made
            yield NodeRun(node.name, node.op, step.kernel if step else "view", made)

    def dump(self, folder: str | os.PathLike[str], name: str = "tensors") -> Path:
        """The last run's tensors as FOLDER/NAME.npz, and FOLDER/NAME.json with the nodes in order.

        Returns the .npz; raises MlfError if it cannot be written.
        """
        path = Path(folder) / f"{name}.npz"
        make_folder(path.parent)
        save_npz(path, self.tensors)
        nodes = [
            {
                "name": node.name,
                "op": node.op,
                "inputs": [i for i in node.inputs if i],
                "outputs": {o: str(self.program.graph.types[o]) for o in node.outputs if o},
            }
            for node in self.program.graph.nodes
        ]
        write_atomically(path.with_suffix(".json"), (json.dumps(nodes, indent=1) + "\n").encode())
        return path

    def _call(self, step: DebugStep) -> None:
        pointers = [
            self._buffer(name, scratch).ctypes.data + offset
            for name, offset, scratch in step.storages
        ]
        function: Callable[..., Any] = getattr(self._library, step.name)
        function((ctypes.c_void_p * max(1, len(pointers)))(*pointers))

    def _buffer(self, name: str, scratch: int = 0) -> Array:
        if name not in self._buffers:
            size = scratch or self.program.graph.types[name].bytes
            raw = np.zeros(size + _ALIGNMENT, np.uint8)
            start = -raw.ctypes.data % _ALIGNMENT
            self._buffers[name] = raw[start : start + size]
        return self._buffers[name]

    def _store(self, name: str, value: Array) -> None:
        data = dtype.stored(np.ascontiguousarray(value)).tobytes()
        self._buffer(name)[:] = np.frombuffer(data, np.uint8)
        self.tensors[name] = value

    def _load(self, name: str) -> Array:
        t = self.program.graph.types[name]
        if name in self.program.graph.consts:
            return self.program.graph.consts[name]
        storage = self.program.storage(name)
        if storage in self.program.graph.consts:
            return self.program.graph.consts[storage].reshape(t.shape)
        return dtype.restored(self._buffer(storage).tobytes(), t.dtype, t.shape).copy()


def _tensors(graph: Graph, names: tuple[str, ...]) -> tuple[Tensor, ...]:
    members = member_names((*graph.inputs, *graph.outputs))
    types = {n: graph.types[n] for n in names}
    return tuple(Tensor(n, members[n], t.dtype.numpy, t.shape, t.bytes) for n, t in types.items())


def _build(text: str, weights: Mapping[str, bytes], machine: tuple[str, ...], name: str) -> Path:
    command = toolchain.find(toolchain.CC)
    flags = (*machine, *CFLAGS, "-O2", "-fPIC", "-shared", f"-I{_INCLUDE}")
    files = {"steps.c": text.encode(), **weights, **headers_of([text.encode()])}
    key = key_of((toolchain.identity(command), *flags), files)
    library = f"lib{key}.so"

    def build(work: Path) -> None:
        arguments = (*flags, "steps.c", "-o", library, "-lm")
        toolchain.compile_c(command, arguments, work, f"module '{name}'")

    return build_once(default_cache(), key, files, build, [library]) / library
