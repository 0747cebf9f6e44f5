"""Makes the networks of the teams: `python make_models.py`.

They are small and not trained: what they are for is their number. Each has vectors by onnxruntime.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

HERE = Path(__file__).parent
# Team -> model -> channels and length of its input, filters (0: dense layers only), outputs.
TEAMS = {
    "audio": {
        "keyword": (1, 32, 4, 4),
        "wake_word": (1, 24, 3, 2),
        "noise_level": (1, 16, 0, 1),
        "siren": (1, 24, 2, 2),
        "speaker_count": (2, 16, 3, 3),
    },
    "motion": {
        "gesture": (3, 16, 3, 5),
        "step_counter": (3, 12, 2, 2),
        "fall": (3, 12, 0, 2),
        "tap": (3, 8, 0, 3),
        "posture": (3, 8, 2, 4),
    },
    "power": {
        "battery": (2, 8, 0, 1),
        "load_shift": (2, 12, 2, 3),
        "arc_fault": (1, 32, 3, 2),
        "meter": (1, 12, 0, 4),
        "solar": (2, 8, 0, 2),
    },
    "sensors": {
        "presence": (2, 12, 2, 2),
        "air_quality": (3, 8, 0, 3),
        "leak": (1, 16, 0, 2),
        "door": (3, 8, 2, 2),
        "soil": (2, 8, 0, 3),
    },
}
SAMPLES = 3


def weights(rng: np.random.Generator, name: str, *shape: int) -> TensorProto:
    """Of a size with which no layer saturates."""
    values = rng.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape)
    return numpy_helper.from_array(values.astype(np.float32), name)


def network(
    rng: np.random.Generator, name: str, channels: int, length: int, filters: int, outputs: int
) -> onnx.ModelProto:
    """(Conv, Relu,) Flatten, Gemm, Relu, Gemm, Sigmoid."""
    constants = []
    nodes = []
    last, features = "x", channels * length
    if filters:
        constants.append(weights(rng, "conv_w", filters, channels, 3))
        constants.append(weights(rng, "conv_b", filters))
        nodes += [
            helper.make_node("Conv", [last, "conv_w", "conv_b"], ["conv"], strides=[2]),
            helper.make_node("Relu", ["conv"], ["filtered"]),
        ]
        last, features = "filtered", filters * ((length - 3) // 2 + 1)
    constants += [weights(rng, "hidden_w", 6, features), weights(rng, "hidden_b", 6)]
    constants += [weights(rng, "out_w", outputs, 6), weights(rng, "out_b", outputs)]
    nodes += [
        helper.make_node("Flatten", [last], ["flat"]),
        helper.make_node("Gemm", ["flat", "hidden_w", "hidden_b"], ["hidden"], transB=1),
        helper.make_node("Relu", ["hidden"], ["active"]),
        helper.make_node("Gemm", ["active", "out_w", "out_b"], ["scores"], transB=1),
        helper.make_node("Sigmoid", ["scores"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        name,
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, channels, length])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, outputs])],
        constants,
    )
    opset = helper.make_opsetid("", 13)
    model = helper.make_model(graph, opset_imports=[opset], ir_version=8, producer_name="mlftool")
    onnx.checker.check_model(model, full_check=True)
    return model


def made() -> Iterator[tuple[Path, bytes, dict[str, np.ndarray]]]:
    """Each model's place without extension, its bytes and its vectors."""
    for team, models in TEAMS.items():
        for seed, (name, shape) in enumerate(models.items()):
            rng = np.random.default_rng([seed, *team.encode()])
            data = network(rng, name, *shape).SerializeToString()
            session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
            inputs = rng.normal(0, 1, (SAMPLES, 1, *shape[:2])).astype(np.float32)
            outputs = np.stack([np.asarray(session.run(["y"], {"x": x})[0]) for x in inputs])
            yield HERE / f"team_{team}" / name, data, {"x": inputs, "y": outputs}


def main() -> None:
    for place, data, vectors in made():
        place.parent.mkdir(exist_ok=True)
        place.with_suffix(".onnx").write_bytes(data)
        np.savez(place.with_suffix(".npz"), allow_pickle=False, **vectors)


if __name__ == "__main__":
    main()
