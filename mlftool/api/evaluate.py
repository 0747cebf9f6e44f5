"""`create_executor`: a model as a function of numpy arrays, through any executor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mlftool.api.debug import DebugModule
from mlftool.api.factory import build
from mlftool.api.module import Function, IRModule, as_module, weights_of
from mlftool.config import DEBUG, EXECUTOR_OPTIONS, Executor, Runtime
from mlftool.errors import ArgumentError, Problem, did_you_mean
from mlftool.runtime.executor import Runnable
from mlftool.runtime.nd import NDArray, array

KINDS = tuple(EXECUTOR_OPTIONS)


class Evaluator:
    """Call it with inputs in order, by name, or both. One output is an array, several a list."""

    def __init__(self, module: Runnable, weighted: Weighted | None = None) -> None:
        self.module, self._weighted = module, weighted

    def __repr__(self) -> str:
        return f"Evaluator({self.module!r})"

    def __call__(self, *arguments: Any, **named: Any) -> NDArray | list[NDArray]:
        """`**params` of from_onnx may be given, too; other values make the module anew."""
        tensors = self.module.inputs
        inputs = {t.name for t in tensors}
        weights = {n: v for n, v in named.items() if n not in inputs and self._has(n)}
        if weights:
            assert self._weighted is not None
            rest = {n: v for n, v in named.items() if n not in weights}
            return Evaluator(self._weighted.module(weights, self.module))(*arguments, **rest)
        if len(arguments) > len(tensors):
            text = f"{len(arguments)} inputs; expected {len(tensors)}"
            raise ArgumentError(Problem("MLF0601", text))
        given = {t.name: a for t, a in zip(tensors, arguments, strict=False)}
        for name, value in named.items():
            if name in given or all(name != t.name for t in tensors):
                text = f"input '{name}' is given twice" if name in given else f"no input '{name}'"
                help = did_you_mean(name, [t.name for t in tensors]) if tensors else ""
                raise ArgumentError(Problem("MLF0601", text, help=help))
            given[name] = value
        made = self.module.run({name: np.asarray(value) for name, value in given.items()})
        results = [array(made[t.name]) for t in self.module.outputs]
        return results[0] if len(results) == 1 else results

    def _has(self, name: str) -> bool:
        return self._weighted is not None and name in self._weighted.own


class Weighted:
    """A model's own weights, and how a module is made of it with others."""

    def __init__(
        self, mod: IRModule, make: Callable[[Mapping[str, Any]], Runnable], given: Mapping[str, Any]
    ) -> None:
        self._mod = mod
        self.own = {**weights_of(mod), **{n: np.asarray(v) for n, v in given.items()}}
        self._make, self._given = make, given

    @property
    def main(self) -> Function:
        return self._mod["main"]

    def module(self, weights: Mapping[str, Any], made: Runnable) -> Runnable:
        """`made`, if these weights are its own, else another one."""
        if all(np.array_equal(np.asarray(v), self.own[n]) for n, v in weights.items()):
            return made
        return self._make({**self._given, **weights})


class ModelExecutor:
    """What create_executor returns; `module` is what runs the model."""

    def __init__(self, module: Runnable, weighted: Weighted | None = None) -> None:
        self.module, self._weighted = module, weighted

    def __repr__(self) -> str:
        return f"ModelExecutor({self.module!r})"

    def evaluate(self, expr: Any = None) -> Evaluator:
        """The model as a function; `expr` is None or its main function, `mod["main"]`."""
        main = self._weighted.main if self._weighted and isinstance(expr, Function) else None
        if expr != main:
            raise ArgumentError(
                Problem("MLF0400", "only a module's main function can be evaluated")
            )
        return Evaluator(self.module, self._weighted)


def create_executor(
    kind: str = DEBUG,
    mod: Any = None,
    device: Any = None,
    target: Any = "host",
    params: Mapping[str, Any] | None = None,
) -> ModelExecutor:
    """A model, ready to run on this computer; every kind gives the same bits. Raises MlfError."""
    if kind not in KINDS:
        text = f"no such executor; got '{kind}'"
        raise ArgumentError(Problem("MLF0405", text, help=did_you_mean(kind, KINDS)))
    if mod is None:
        raise ArgumentError(Problem("MLF0400", "not a module; expected the result of from_onnx"))
    model = as_module("create_executor", mod)

    def make(weights: Mapping[str, Any]) -> Runnable:
        if kind == DEBUG:
            return DebugModule(model.bound(weights), target)
        runtime = Runtime("crt")
        loaded = build(
            model, target, executor=Executor(kind), runtime=runtime, params=weights
        ).load()
        return loaded.interpreter() if kind == "vm" else loaded

    given = dict(params or {})
    return ModelExecutor(make(given), Weighted(model, make, given))


__all__ = ["KINDS", "Evaluator", "ModelExecutor", "create_executor"]
