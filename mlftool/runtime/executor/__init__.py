"""Modules of archives with the methods of TVM's GraphModule and AotModule."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.mlf.interface import Tensor
from mlftool.runtime.nd import NDArray, array


class Runnable(Protocol):
    """What a module must be able to do: LoadedModule can."""

    @property
    def inputs(self) -> tuple[Tensor, ...]: ...

    @property
    def outputs(self) -> tuple[Tensor, ...]: ...

    def run(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]: ...


class ExecutorModule:
    """A module with a place for each input and output; `run` computes the outputs."""

    def __init__(self, module: Runnable | ExecutorModule) -> None:
        self.module: Runnable = module.module if isinstance(module, ExecutorModule) else module
        self._inputs = [array(np.zeros(t.shape, t.dtype)) for t in self.module.inputs]
        self._outputs: list[NDArray] = []

    def set_input(self, key: int | str | None = None, value: Any = None, **more: Any) -> None:
        """An input by name or position, or several by name. Raises MlfError."""
        named: dict[int | str, Any] = {name: given for name, given in more.items()}
        if key is not None:
            named[key] = value
        for name, given in named.items():
            place = self._inputs[self._index(name)]
            data = np.asarray(given)
            if data.shape != place.shape or data.dtype != place.dtype:
                text = f"got {data.dtype}{list(data.shape)}, "
                text += f"expected {place.dtype}{list(place.shape)}"
                raise MlfError(Problem("MLF0602", text, path=f"input '{name}'"))
            place.copyfrom(data)

    def run(self, **inputs: Any) -> None:
        """One inference. Raises MlfError."""
        self.set_input(**inputs)
        names = [t.name for t in self.module.inputs]
        made = self.module.run(dict(zip(names, self._inputs, strict=True)))
        self._outputs = [array(made[t.name]) for t in self.module.outputs]

    def get_input(self, key: int | str) -> NDArray:
        """The place of an input, which may be written."""
        return self._inputs[self._index(key)]

    def get_output(self, index: int, out: npt.NDArray[Any] | None = None) -> Any:
        if not self._outputs:
            raise MlfError(Problem("MLF0601", "the module has not run; call run() first"))
        result = self._outputs[index]
        return result if out is None else result.copyto(out)

    def get_num_inputs(self) -> int:
        return len(self._inputs)

    def get_num_outputs(self) -> int:
        return len(self.module.outputs)

    def get_input_index(self, name: str) -> int:
        """The position of an input; -1 for other names."""
        names = [t.name for t in self.module.inputs]
        return names.index(name) if name in names else -1

    def get_input_name(self, index: int) -> str:
        return self.module.inputs[index].name

    def get_input_info(self) -> tuple[dict[str, tuple[int, ...]], dict[str, str]]:
        """Shapes and types by name."""
        inputs = self.module.inputs
        return {t.name: t.shape for t in inputs}, {t.name: t.dtype.name for t in inputs}

    def _index(self, key: int | str) -> int:
        names = [t.name for t in self.module.inputs]
        if isinstance(key, int) and 0 <= key < len(names):
            return key
        if key in names:
            return names.index(str(key))
        help = did_you_mean(str(key), names) if names else ""
        raise MlfError(Problem("MLF0601", f"the module has no input '{key}'", help=help))


class GraphModule(ExecutorModule):
    """A module of the graph executor."""


class AotModule(ExecutorModule):
    """A module of the aot executor."""


__all__ = ["AotModule", "ExecutorModule", "GraphModule", "Runnable"]
