"""Every operator of onnxruntime's and of the ML domain whose floats are another type: no schema of
the onnx package says which types those take, so their own rules must."""

from __future__ import annotations

import pytest
from mutant_seeds import seeds
from onnx import ModelProto, TensorProto
from swap import forget_types, infos_of, retype, weights_of

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

DOMAINS = {"com.microsoft", "ai.onnx.ml", "ai.onnx.preview.training"}
FLOAT = TensorProto.FLOAT


def of_each() -> dict[str, ModelProto]:
    """Operator -> the smallest model that has it."""
    found: dict[str, ModelProto] = {}
    for made in sorted(seeds(), key=ModelProto.ByteSize, reverse=True):
        found |= {n.op_type: made for n in made.graph.node if n.domain in DOMAINS}
    return found


@pytest.mark.parametrize("new", [TensorProto.INT32, TensorProto.BOOL, TensorProto.BFLOAT16])
def test_other_types_than_floats_are_no_bugs(new: int) -> None:
    bugs, models = {}, of_each()
    assert {"GroupQueryAttention", "Attention", "FusedConv", "TreeEnsembleRegressor"} <= {*models}
    for op, made in models.items():
        copy = ModelProto()
        copy.CopyFrom(made)
        for info in infos_of(copy.graph):
            if info.type.tensor_type.elem_type == FLOAT:
                info.type.tensor_type.elem_type = new
        for weight in weights_of(copy.graph):
            if weight.data_type == FLOAT:
                retype(weight, new)
        forget_types(copy)
        try:
            compile_module(ModuleSpec(copy, "m"))
        except MlfError as error:
            if "MLF0900" in str(error):
                bugs[op] = str(error)
    assert not bugs
