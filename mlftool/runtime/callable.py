"""Modules that take arrays by name, wherever their code comes from."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.mlf.interface import Interface, Tensor
from mlftool.runtime import notebook
from mlftool.runtime.executor import ExecutorModule, TimedModule, factory_of
from mlftool.runtime.host import Compiled
from mlftool.runtime.nd import check_device
from mlftool.runtime.times import Times, check_counts, measured
from mlftool.runtime.vectors import Array, load_vectors, regrouped


class CallableModule(TimedModule, ABC):
    """A module by its interface; `file` is named in messages."""

    def __init__(self, interface: Interface, file: str) -> None:
        super().__init__()
        self.interface = interface
        self._file = file

    @property
    def name(self) -> str:
        return self.interface.module

    @property
    def executor(self) -> str:
        """aot, graph or vm; "" for an operator."""
        return self.interface.executor

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """In call order: name, dtype, shape; scale and zero_point if it is quantised."""
        return self.interface.inputs

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        return self.interface.results

    def __getitem__(self, name: str) -> Callable[..., ExecutorModule]:
        """`module["default"](device)`, as of TVM's factories. Raises KeyError for other names."""
        return factory_of(lambda: self, name, self.name)

    @abstractmethod
    def compiled(self) -> Compiled:
        """What computes the outputs of one inference."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r}, executor={self.executor!r})"

    def _repr_html_(self) -> str:
        """For notebooks."""
        return notebook.html(repr(self), self.inputs, self.outputs)

    def run(
        self, inputs: Mapping[str, Any] | str | os.PathLike[str] | Array | Sequence[Any]
    ) -> dict[str, Array]:
        """One inference on this computer. Raises MlfError.

        `inputs` maps names of inputs to arrays; a model with one input takes its array alone, and
        files in numpy's format (.npz of all, .npy of one) are read. Neighbouring axes may be
        merged or split, so a flat array is taken, but not NHWC for NCHW. Where an archive tells
        sizes and no shapes, `inputs` has one axis; any array of as many elements is taken then.
        """
        return self.compiled()(self._fitting(inputs))

    def time_evaluator(
        self,
        func_name: str,
        dev: object = None,
        number: int = 10,
        repeat: int = 1,
        min_repeat_ms: float = 0,
        **_: object,
    ) -> Callable[..., Times]:
        """TVM's: a function that measures `run` on this computer, with the inputs that a
        GraphModule or AotModule of it has, or those that it is called with, in order. A run is
        called from Python, which takes about a microsecond. Raises MlfError."""
        check_device(dev)
        check_counts(number, repeat, min_repeat_ms)
        if func_name not in ("run", self.name):
            text = f"only 'run' is measured on this computer; got '{func_name}'"
            hint = "layers: mlftool profile, or LocalDebugModule.layer_times on a board"
            raise MlfError(Problem("MLF0400", text, self._file, path=self.name, help=hint))

        def evaluate(*inputs: Any) -> Times:
            names = [t.name for t in self.inputs]
            given = self._fitting(dict(zip(names, inputs, strict=False)) if inputs else self.placed)
            call = self.compiled().seconds
            return measured(lambda count: call(given, count), number, repeat, min_repeat_ms)

        return evaluate

    def _fitting(self, inputs: Any) -> dict[str, Array]:
        """The arrays of all forms that `run` takes, in their shapes. Raises MlfError."""
        given = self._by_name(inputs)
        for t in self.inputs:
            array = given.get(t.name)
            if array is not None:
                given[t.name] = regrouped(array, t.shape)
        if unknown := sorted(set(given) - {t.name for t in self.inputs}):
            text = f"no input with this name; got '{unknown[0][:100]}'"
            names = [t.name for t in self.inputs]
            hint = did_you_mean(unknown[0], names) if names else ""
            raise MlfError(Problem("MLF0601", text, self._file, path=self.name, help=hint))
        return given

    def reset(self) -> None:
        """Sets the state that the module keeps back to what it was before the first run."""
        self.compiled().reset()

    def _by_name(self, inputs: Any) -> dict[str, Array]:
        """The arrays of all forms that `run` takes."""
        if isinstance(inputs, (str, os.PathLike)):
            arrays = load_vectors(Path(inputs), self.inputs)
            return {t.name: arrays[t.name] for t in self.inputs if t.name in arrays}
        if not isinstance(inputs, Mapping):
            names = ", ".join(f"'{t.name}'" for t in self.inputs)
            if len(self.inputs) != 1 or inputs is None:
                text = f"run() got {type(inputs).__name__}, expected a mapping from input names "
                text += f"({names}) to arrays, or the path of an .npz file"
                raise MlfError(Problem("MLF0400", text, self._file, path=self.name))
            inputs = {self.inputs[0].name: inputs}
        paths = (str, os.PathLike)
        named = {t.name: t for t in self.inputs}
        return {
            str(n): load_vectors(Path(a), [named[n]])[n]
            if isinstance(a, paths) and n in named
            else np.asarray(a)
            for n, a in inputs.items()
        }
