"""onnxruntime, which is optional: sessions with one thread and no optimisation of their own."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, helper, load

from mlftool.errors import ENVIRONMENT, MlfError, Problem
from mlftool.ir.graph import Array
from mlftool.quantize.reference import imported, session_of


def onnxruntime() -> Any:
    """The package. Raises MlfError if it is not installed."""
    try:
        return imported()
    except ImportError:
        text = "quantising needs the package onnxruntime, which is not installed"
        help = "pip install 'mlftool[quantize]'"
        raise MlfError(Problem("MLF0700", text, help=help), ENVIRONMENT) from None


class Session:
    """A model that runs. One thread: sums have one order, so the same input gives the same bits."""

    def __init__(self, model: ModelProto, optimised: Path | None = None) -> None:
        level = onnxruntime().GraphOptimizationLevel

        def configure(options: Any) -> None:
            options.intra_op_num_threads = options.inter_op_num_threads = 1
            options.graph_optimization_level = level.ORT_DISABLE_ALL
            if optimised is not None:
                options.graph_optimization_level = level.ORT_ENABLE_BASIC
                options.optimized_model_filepath = str(optimised)

        self._session = session_of(model, configure)

    def __call__(self, names: Sequence[str], feeds: Mapping[str, Array]) -> dict[str, Array]:
        """The tensors `names`, which are outputs of the model."""
        made = self._session.run(list(names), dict(feeds))
        return dict(zip(names, made, strict=True))


def simplified(model: ModelProto, file: str) -> ModelProto:
    """The model with constants folded and normalisations in the weights, as far as onnxruntime's
    basic optimisations go; they write standard operators only. Raises MlfError."""
    onnxruntime()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        try:
            Session(model, path)
        except Exception as error:  # its exceptions have no common base
            text = f"onnxruntime cannot run it: {str(error).splitlines()[0][:200]}"
            raise MlfError(Problem("MLF0413", text, file)) from None
        return load(path)


def result_shapes(model: ModelProto, names: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """The shapes of outputs for inputs of zeros."""
    feeds = {}
    stored = {t.name for t in model.graph.initializer}
    for info in (i for i in model.graph.input if i.name not in stored):
        tensor = info.type.tensor_type
        shape = [d.dim_value for d in tensor.shape.dim]
        feeds[info.name] = np.zeros(shape, helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    return {name: array.shape for name, array in Session(model)(names, feeds).items()}
