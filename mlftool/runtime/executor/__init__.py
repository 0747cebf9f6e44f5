"""Modules of archives with the methods of TVM's GraphModule and AotModule."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.mlf import params as params_file
from mlftool.mlf.interface import Tensor
from mlftool.moved import OfTvm
from mlftool.runtime.nd import Device, NDArray, array, check_device
from mlftool.runtime.times import OF_TIMERS, Times, measured


class Runnable(Protocol):
    """What a module must be able to do: LoadedModule can."""

    @property
    def inputs(self) -> tuple[Tensor, ...]: ...

    @property
    def outputs(self) -> tuple[Tensor, ...]: ...

    def run(self, inputs: Mapping[str, Any]) -> Mapping[str, Any]: ...


class TimedModule(OfTvm):
    """A module whose runs this computer measures. `placed` is what they read: the inputs of the
    GraphModule or AotModule that was made of it last."""

    def __init__(self) -> None:
        self.placed: Mapping[str, Any] = {}


class ExecutorModule(OfTvm):
    """A module with a place for each input and output; `run` computes the outputs."""

    def __init__(self, module: Runnable | ExecutorModule) -> None:
        self.module: Runnable = module.module if isinstance(module, ExecutorModule) else module
        self._inputs = [array(np.zeros(t.shape, t.dtype)) for t in self.module.inputs]
        self._outputs: list[NDArray] = []
        if isinstance(self.module, TimedModule):
            self.module.placed = self._named()

    def set_input(self, key: int | str | None = None, value: Any = None, **more: Any) -> None:
        """An input by name or position, or several by name. Parameters that the module has may be
        given, too, with the values that they have. Raises MlfError."""
        named: dict[int | str, Any] = {name: given for name, given in more.items()}
        if key is not None:
            named[key] = value
        for name, given in named.items():
            if self._is_parameter(name, given):
                continue
            place = self._inputs[self._index(name)]
            data = np.asarray(given)
            if data.shape != place.shape or data.dtype != place.dtype:
                text = f"got {data.dtype}{list(data.shape)}, "
                text += f"expected {place.dtype}{list(place.shape)}"
                raise MlfError(Problem("MLF0602", text, path=f"input '{name}'"))
            place.copyfrom(data)

    def load_params(self, data: bytes) -> None:
        """Those of a .params file. Raises MlfError for values that are not the module's."""
        given: dict[str, Any] = dict(params_file.decode(bytes(data)))
        self.set_input(**given)

    def __getitem__(self, name: str) -> Callable[..., Any]:
        """A method by its name, as modules of TVM have their functions. Raises KeyError."""
        if name not in _FUNCTIONS:
            raise KeyError(name)
        function: Callable[..., Any] = getattr(self, name)
        return function

    def run(self, **inputs: Any) -> None:
        """One inference. Raises MlfError."""
        self.set_input(**inputs)
        made = self.module.run(self._named())
        self._outputs = [array(made[t.name]) for t in self.module.outputs]

    def benchmark(
        self,
        device: Device | None = None,
        func_name: str = "run",
        repeat: int = 5,
        number: int = 5,
        min_repeat_ms: float | None = None,
        end_to_end: bool = False,
        **inputs: Any,
    ) -> Times:
        """TVM's: seconds of an inference on this computer, `repeat` means of `number` each;
        `end_to_end` counts inputs and outputs, too. Raises MlfError."""
        known = {name: value for name, value in inputs.items() if name not in OF_TIMERS}
        self.set_input(**known)
        module: Any = self.module
        counts = (number, repeat, min_repeat_ms or 0)
        timed = module.time_evaluator(func_name, device, *counts)
        return measured(self._whole, *counts) if end_to_end else timed(*self._inputs)

    def _whole(self, number: int) -> float:
        """The seconds of so many inferences with inputs and outputs."""
        begin = time.perf_counter()
        for _ in range(number):
            self.run()
        return time.perf_counter() - begin

    def _named(self) -> dict[str, NDArray]:
        return dict(zip([t.name for t in self.module.inputs], self._inputs, strict=True))

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

    def _is_parameter(self, name: int | str, given: Any) -> bool:
        """Whether a parameter of this name has this value. Raises MlfError if it has another."""
        own: Mapping[Any, Any] = getattr(self.module, "params", {})
        if name not in own or self.get_input_index(str(name)) >= 0:
            return False
        if not np.array_equal(np.asarray(given), own[name], equal_nan=own[name].dtype.kind == "f"):
            text = "the module has another value for it, in its code"
            help = "give params to build, or drive the graph through mlftool.micro"
            raise MlfError(Problem("MLF0602", text, path=f"parameter '{name}'", help=help))
        return True

    def _index(self, key: int | str) -> int:
        names = [t.name for t in self.module.inputs]
        if isinstance(key, int) and 0 <= key < len(names):
            return key
        if key in names:
            return names.index(str(key))
        help = did_you_mean(str(key), names) if names else ""
        raise MlfError(Problem("MLF0601", f"the module has no input '{key}'", help=help))


_FUNCTIONS = (
    *("get_input", "get_input_index", "get_input_info", "get_input_name", "get_num_inputs"),
    *("get_num_outputs", "get_output", "load_params", "run", "set_input"),
)


def factory_of(
    module: Callable[[], Runnable], name: str, own: str
) -> Callable[..., ExecutorModule]:
    """`loaded["default"]`, or with the module's own name: called with a device, it gives the module
    for GraphModule or AotModule. Raises KeyError for other names."""
    if name not in ("default", own):
        raise KeyError(name)

    def create(*devices: Device | None) -> ExecutorModule:
        for given in devices:
            check_device(given)
        return ExecutorModule(module())

    return create


class GraphModule(ExecutorModule):
    """A module of the graph executor, on this computer or on the board of a session."""

    def __new__(cls, module: Any) -> Any:
        remote = getattr(module, "graph_form", None)
        return remote(module) if remote else super().__new__(cls)


class AotModule(ExecutorModule):
    """A module of the aot executor, on this computer or on the board of a session."""

    def __new__(cls, module: Any) -> Any:
        remote = getattr(module, "aot_form", None)
        return remote(module) if remote else super().__new__(cls)


def __getattr__(name: str) -> Any:
    if name == "aot_executor":  # TVM's place for AotModule
        return importlib.import_module(f"{__name__}.aot_executor")
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")


__all__ = ["AotModule", "ExecutorModule", "GraphModule", "Runnable", "factory_of"]
