"""Reference vectors: what onnxruntime answers to given inputs, one sample at a time."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray


def answers(model: Path, samples: NDArray[Any], *, optimised: bool = True) -> NDArray[Any]:
    """The model's output [N, ...] for `samples` [N, ...]: one thread, default optimisations."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    if not optimised:
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    name = session.get_inputs()[0].name
    return np.concatenate([session.run(None, {name: s[np.newaxis]})[0] for s in samples])


def settled(model: Path, samples: NDArray[Any]) -> NDArray[np.bool_]:
    """Samples [N] whose answer no rounding tie decides: with and without optimisations the same.

    A tie is a matter of which float the scales were multiplied in, so it proves nothing about a
    compiler; a reference must not hang on it.
    """
    same = answers(model, samples) == answers(model, samples, optimised=False)
    return same.reshape(len(samples), -1).all(axis=1)


def write_vectors(model: Path, samples: NDArray[Any], **more: NDArray[Any]) -> NDArray[Any]:
    """Writes `<model>.npz` beside `<model>.onnx`; returns the outputs.

    The arrays are keyed by the model's own input and output name. Each has one axis more than the
    tensor, [N, 1, ...]: N samples, each of the tensor's own shape with its batch of 1.
    """
    session = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"])
    outputs = answers(model, samples)
    tensors = {session.get_inputs()[0].name: samples, session.get_outputs()[0].name: outputs}
    batches = {name: values[:, np.newaxis] for name, values in tensors.items()}
    np.savez_compressed(model.with_suffix(".npz"), **batches, **more)
    return outputs


def write_few(model: Path, count: int = 3) -> None:
    """Writes `<model>_few.npz`, the first of the samples in `<model>.npz`, for slow simulators."""
    with np.load(model.with_suffix(".npz"), allow_pickle=False) as file:
        few = {name: values[:count] for name, values in file.items()}
    np.savez_compressed(model.with_name(f"{model.stem}_few.npz"), **few)


def report(model: Path, *figures: str) -> None:
    """One line about a finished model on standard output."""
    sizes = [f"{model.with_suffix(s).stat().st_size} bytes {s}" for s in (".onnx", ".npz")]
    print(f"{model.stem}: {', '.join((*figures, *sizes))}")
