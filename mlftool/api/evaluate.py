"""`create_executor`: a model as a function of numpy arrays, through any executor."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlftool.api.debug import DebugModule
from mlftool.api.factory import build
from mlftool.api.module import as_module
from mlftool.config import DEBUG, EXECUTOR_OPTIONS, Executor, Runtime
from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.runtime.executor import Runnable
from mlftool.runtime.nd import NDArray, array

KINDS = tuple(EXECUTOR_OPTIONS)


class Evaluator:
    """Call it with inputs in order, by name, or both. One output is an array, several a list."""

    def __init__(self, module: Runnable) -> None:
        self.module = module

    def __call__(self, *arguments: Any, **named: Any) -> NDArray | list[NDArray]:
        tensors = self.module.inputs
        if len(arguments) > len(tensors):
            text = f"{len(arguments)} inputs; expected {len(tensors)}"
            raise MlfError(Problem("MLF0601", text))
        given = {t.name: a for t, a in zip(tensors, arguments, strict=False)}
        for name, value in named.items():
            if name in given or all(name != t.name for t in tensors):
                text = f"input '{name}' is given twice" if name in given else f"no input '{name}'"
                help = did_you_mean(name, [t.name for t in tensors]) if tensors else ""
                raise MlfError(Problem("MLF0601", text, help=help))
            given[name] = value
        made = self.module.run({name: np.asarray(value) for name, value in given.items()})
        results = [array(made[t.name]) for t in self.module.outputs]
        return results[0] if len(results) == 1 else results


class ModelExecutor:
    """What create_executor returns; `module` is what runs the model."""

    def __init__(self, module: Runnable) -> None:
        self.module = module

    def evaluate(self, expr: Any = None) -> Evaluator:
        if expr is not None:
            raise MlfError(Problem("MLF0400", "only a module's main function can be evaluated"))
        return Evaluator(self.module)


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
        raise MlfError(Problem("MLF0405", text, help=did_you_mean(kind, KINDS)))
    if mod is None:
        raise MlfError(Problem("MLF0400", "not a module; expected the result of from_onnx"))
    mod = as_module("create_executor", mod)
    if kind == DEBUG:
        return ModelExecutor(DebugModule(mod.bound(params), target))
    factory = build(mod, target, executor=Executor(kind), runtime=Runtime("crt"), params=params)
    loaded = factory.load()
    return ModelExecutor(loaded.interpreter() if kind == "vm" else loaded)


__all__ = ["KINDS", "Evaluator", "ModelExecutor", "create_executor"]
