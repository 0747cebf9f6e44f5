"""Constants that say where elements are: kernels move one that leaves its axis to the nearest end,
so a model that has such a one is refused, as onnxruntime refuses to run it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import onnxruntime
import pytest
from builders import random_feeds
from onnx import ModelProto, parser

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError


@dataclass(frozen=True)
class Places:
    """A node with `{}` for constants, the least and the largest that it takes, and what its
    refusal says of one less and one more."""

    text: str
    least: int
    most: int
    said: str
    opset: int = 21

    def model(self, constant: int) -> ModelProto:
        head = f'<ir_version: 10, opset_import: ["": {self.opset}]>'
        return parser.parse_model(head + self.text.format(constant))


STEPS = "float[4,2,3] x, float[1,{0}0,3] w, float[1,{0}0,10] r"
PLACES = {
    "Gather": Places(
        """g (float[2,3] x) => (float[2,2] y) <int64[2] i = {{0, {}}}>
        {{ y = Gather <axis=1> (x, i) }}""",
        *(-3, 2, "indices on axis 1 of input 2x3"),
    ),
    "GatherElements": Places(
        """g (float[2,3] x) => (float[2,1] y) <int32[2,1] i = {{{}, 0}}>
        {{ y = GatherElements <axis=-1> (x, i) }}""",
        *(-3, 2, "indices on axis 1 of input 2x3"),
    ),
    "GatherND": Places(
        """g (float[2,3,4] x) => (float[2,1] y) <int64[2,1,2] i = {{0, 1, 0, {}}}>
        {{ y = GatherND <batch_dims=1> (x, i) }}""",
        *(-4, 3, "indices on axis 2 of input 2x3x4"),
    ),
    "ScatterND": Places(
        """g (float[2,3] x, float[1] u) => (float[2,3] y) <int64[1,2] i = {{{}, 0}}>
        {{ y = ScatterND (x, i, u) }}""",
        *(-2, 1, "indices on axis 0 of input 2x3"),
    ),
    "ScatterElements": Places(
        """g (float[2,3] x, float[1,1] u) => (float[2,3] y) <int64[1,1] i = {{{}}}>
        {{ y = ScatterElements <axis=1> (x, i, u) }}""",
        *(-3, 2, "indices on axis 1 of input 2x3"),
    ),
    "ReverseSequence": Places(
        """g (float[4,2] x) => (float[4,2] y) <int64[2] n = {{1, {}}}>
        {{ y = ReverseSequence (x, n) }}""",
        *(0, 4, "lengths"),
    ),
    "RNN": Places(
        f"g ({STEPS.format(1)}) => (float[4,1,2,10] y) <int32[2] n = {{{{1, {{}}}}}}>"
        "{{ y = RNN <hidden_size=10> (x, w, r, , n) }}",
        *(0, 4, "sequence_lens"),
    ),
    "GRU": Places(
        f"g ({STEPS.format(3)}) => (float[4,1,2,10] y) <int32[2] n = {{{{1, {{}}}}}}>"
        "{{ y = GRU <hidden_size=10> (x, w, r, , n) }}",
        *(0, 4, "sequence_lens"),
    ),
    "LSTM": Places(
        f"g ({STEPS.format(4)}) => (float[4,1,2,10] y) <int32[2] n = {{{{1, {{}}}}}}>"
        "{{ y = LSTM <hidden_size=10> (x, w, r, , n) }}",
        *(0, 4, "sequence_lens"),
    ),
    "RoiAlign": Places(
        """g (float[2,1,4,4] x) => (float[1,1,1,1] y) <float[1,4] r = {{0.0, 0.0, 3.0, 3.0}},
        int64[1] b = {{{}}}> {{ y = RoiAlign (x, r, b) }}""",
        *(0, 1, "batch_indices"),
    ),
    "MaxUnpool": Places(
        """g (float[1,1,2] x) => (float[1,1,4] y) <int64[1,1,2] i = {{0, {}}}>
        {{ y = MaxUnpool <kernel_shape=[2], strides=[2]> (x, i) }}""",
        *(0, 3, "indices"),
    ),
    "CumSum": Places(
        "g (float[2,3] x) => (float[2,3] y) <int64 a = {{{}}}> {{ y = CumSum (x, a) }}",
        *(-2, 1, "axis"),
    ),
    "TensorScatter": Places(
        """g (float[1,5,3] x, float[1,2,3] u) => (float[1,5,3] y) <int64[1] i = {{{}}}>
        {{ y = TensorScatter (x, u, i) }}""",
        *(0, 3, "write_indices", 24),
    ),
}


def refused(model: ModelProto) -> Sequence[str]:
    """What the compiler says of a model; nothing if it takes it."""
    try:
        compile_module(ModuleSpec(model, "m"))
    except MlfError as error:
        return [p.message for p in error.problems]
    return []


def onnxruntime_refuses(model: ModelProto) -> bool:
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        session = onnxruntime.InferenceSession(
            model.SerializeToString(), options, providers=["CPUExecutionProvider"]
        )
        session.run(None, random_feeds(model, 0, 1)[0])
    except Exception:
        return True
    return False


@pytest.mark.parametrize("name", PLACES)
def test_the_first_and_the_last_place_compile(name: str) -> None:
    places = PLACES[name]
    for constant in (places.least, places.most):
        model = places.model(constant)
        assert not onnxruntime_refuses(model)
        assert refused(model) == []


@pytest.mark.parametrize("name", PLACES)
def test_a_place_beyond_is_refused_with_its_number(name: str) -> None:
    places = PLACES[name]
    for constant in (places.least - 1, places.most + 1, np.iinfo(np.int32).max):
        model = places.model(constant)
        assert onnxruntime_refuses(model)
        (said,) = refused(model)
        assert f"{places.said} has {constant}; expected {places.least} ... {places.most}" in said
