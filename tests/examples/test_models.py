"""The committed example models are what their README says, and their vectors are onnxruntime's."""

import platform
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from quantise import to_int8
from vectors import answers

MODELS = Path(__file__).parents[2] / "examples" / "models"
NETWORKS = ("digits", "gesture", "vibration")
NAMES = sorted(f"{network}_{kind}" for network in NETWORKS for kind in ("float32", "int8"))
INT8 = [name for name in NAMES if name.endswith("int8")]
FLOAT32 = [name for name in NAMES if name.endswith("float32")]

# What a float32 graph must hold, so that the examples keep showing what users' graphs hold.
FEATURES = {
    "digits": {"Conv", "BatchNormalization", "Clip", "Add", "Relu", "MaxPool", "Gemm", "Softmax"}
    | {"GlobalAveragePool", "Flatten"},
    "vibration": {"Gemm", "BatchNormalization", "Relu"},
    "gesture": {"Conv", "BatchNormalization", "Relu", "Clip", "MaxPool", "GlobalAveragePool"}
    | {"Reshape", "Gemm", "Softmax"},
}
# The input's scale and zero point, as the scripts and the README state them.
INPUT_SCALE = {"digits": (1 / 16, 0), "gesture": (1 / 32, 0), "vibration": (1 / 16, -32)}


def load(name: str) -> tuple[onnx.ModelProto, NDArray[Any], NDArray[Any], dict[str, NDArray[Any]]]:
    """The model, its inputs and outputs [N, ...] without the batch of 1, and the vectors file."""
    model = onnx.load(MODELS / f"{name}.onnx")
    with np.load(MODELS / f"{name}.npz", allow_pickle=False) as file:
        arrays = dict(file)
    inputs, outputs = (arrays[v.name] for v in (model.graph.input[0], model.graph.output[0]))
    return model, inputs[:, 0], outputs[:, 0], arrays


def initialisers(model: onnx.ModelProto) -> dict[str, NDArray[Any]]:
    return {t.name: onnx.numpy_helper.to_array(t) for t in model.graph.initializer}


def test_the_six_models_are_there_and_nothing_else() -> None:
    expected = {f"{name}{suffix}" for name in NAMES for suffix in (".npz", ".onnx")}
    expected |= {f"digits_{kind}_few.npz" for kind in ("float32", "int8")}
    assert {p.name for p in MODELS.iterdir() if p.suffix in (".npz", ".onnx")} == expected


@pytest.mark.parametrize("kind", ["float32", "int8"])
def test_the_few_samples_for_simulators_are_the_first_of_all(kind: str) -> None:
    with (
        np.load(MODELS / f"digits_{kind}.npz") as every,
        np.load(MODELS / f"digits_{kind}_few.npz") as few,
    ):
        assert sorted(few) == sorted(every)
        for name in few:
            np.testing.assert_array_equal(few[name], every[name][:3])


@pytest.mark.parametrize("name", NAMES)
def test_model_is_strictly_valid_small_and_says_its_origin(name: str) -> None:
    path = MODELS / f"{name}.onnx"
    model = onnx.load(path)
    onnx.checker.check_model(model, full_check=True)
    onnx.shape_inference.infer_shapes(model, check_type=True, strict_mode=True, data_prop=True)
    (opset,) = model.opset_import
    assert opset.domain == ""
    assert 13 <= opset.version <= 18
    assert path.stat().st_size < 100_000
    assert f"examples/training/{name.split('_')[0]}.py" in model.doc_string
    assert model.graph.name == name


@pytest.mark.parametrize("name", NAMES)
def test_names_are_clean_and_every_node_has_its_own(name: str) -> None:
    graph = onnx.load(MODELS / f"{name}.onnx").graph
    names = [n.name for n in graph.node]
    assert len(set(names)) == len(names)
    values = [v for n in graph.node for v in (*n.input, *n.output)]
    odd = [v for v in (*names, *values) if not v or not v.replace(".", "_").isidentifier()]
    assert odd == []


@pytest.mark.parametrize("name", NAMES)
def test_vectors_hold_the_tensors_with_one_leading_axis(name: str) -> None:
    model, inputs, _, arrays = load(name)
    for value in (model.graph.input[0], model.graph.output[0]):
        tensor = value.type.tensor_type
        shape = tuple(d.dim_value for d in tensor.shape.dim)
        assert arrays[value.name].shape == (len(inputs), *shape)
        assert arrays[value.name].dtype == onnx.helper.tensor_dtype_to_np_dtype(tensor.elem_type)


@pytest.mark.parametrize("name", FLOAT32)
def test_float_graph_holds_the_features_it_is_there_to_show(name: str) -> None:
    model = onnx.load(MODELS / f"{name}.onnx")
    assert {n.op_type for n in model.graph.node} == FEATURES[name.split("_")[0]]


@pytest.mark.parametrize("name", INT8)
def test_int8_model_has_integer_borders_and_weights_per_channel(name: str) -> None:
    model, inputs, outputs, _ = load(name)
    values = initialisers(model)
    assert (inputs.dtype, outputs.dtype) == (np.int8, np.int8)
    types = {v.type.tensor_type.elem_type for v in (*model.graph.input, *model.graph.output)}
    assert types == {onnx.TensorProto.INT8}
    producers = {n.output[0]: n for n in model.graph.node}
    heavy = [n for n in model.graph.node if n.op_type in ("Conv", "Gemm")]
    assert len(heavy) >= 5
    for node in heavy:
        weight, bias = (producers[v] for v in node.input[1:])
        assert values[weight.input[0]].dtype == np.int8
        assert values[bias.input[0]].dtype == np.int32
        assert values[weight.input[1]].shape == (values[weight.input[0]].shape[0],)
    assert "BatchNormalization" not in {n.op_type for n in model.graph.node}


@pytest.mark.parametrize("network", NETWORKS)
def test_both_kinds_are_judged_on_the_same_samples(network: str) -> None:
    model, integers, _, _ = load(f"{network}_int8")
    _, floats, _, _ = load(f"{network}_float32")
    values = initialisers(model)
    name = model.graph.input[0].name
    scale = (float(values[f"{name}_scale"]), int(values[f"{name}_zero_point"]))
    assert scale == INPUT_SCALE[network]
    np.testing.assert_array_equal(to_int8(floats, scale), integers)


@pytest.mark.parametrize("name", INT8)
def test_int8_vectors_are_onnxruntimes_integers(name: str) -> None:
    # Without VNNI its kernels for x86 add products in 16 bits that saturate, so such a machine
    # gives other answers; see "U8S8" in onnxruntime's page on quantisation.
    if platform.machine() == "x86_64" and "vnni" not in Path("/proc/cpuinfo").read_text():
        pytest.skip("this processor has no VNNI: onnxruntime's int8 products may saturate")
    _, inputs, outputs, _ = load(name)
    np.testing.assert_array_equal(answers(MODELS / f"{name}.onnx", inputs), outputs)


@pytest.mark.parametrize("name", INT8)
def test_int8_vectors_are_what_the_float_simulation_of_the_integers_gives(name: str) -> None:
    _, inputs, outputs, _ = load(name)
    simulated = answers(MODELS / f"{name}.onnx", inputs, optimised=False)
    off = np.abs(simulated.astype(np.int32) - outputs)
    # Equal where they were made. Elsewhere floats may be summed in another order, and a value
    # next to a rounding tie may fall to the other side.
    assert off.max() <= 1
    assert np.mean(off > 0) < 1e-3


@pytest.mark.parametrize("name", FLOAT32)
@pytest.mark.parametrize("optimised", [True, False])
def test_float_vectors_are_onnxruntimes(name: str, optimised: bool) -> None:
    _, inputs, outputs, _ = load(name)
    computed = answers(MODELS / f"{name}.onnx", inputs, optimised=optimised)
    assert np.all(np.abs(computed - outputs) <= 1e-5 * np.maximum(1, np.abs(outputs)))


def accuracy(name: str) -> float:
    _, _, outputs, arrays = load(name)
    return float(np.mean(outputs.argmax(axis=1) == arrays["labels"]))


@pytest.mark.parametrize(("network", "samples"), [("digits", 360), ("gesture", 160)])
def test_classifiers_are_accurate_and_lose_nothing_by_int8(network: str, samples: int) -> None:
    assert len(load(f"{network}_int8")[1]) == samples
    floats, integers = accuracy(f"{network}_float32"), accuracy(f"{network}_int8")
    assert floats > 0.97
    assert integers > 0.97
    assert abs(floats - integers) <= 0.005


@pytest.mark.parametrize("name", ["vibration_float32", "vibration_int8"])
def test_autoencoder_tells_worn_bearings_from_sound_ones(name: str) -> None:
    _, inputs, outputs, arrays = load(name)
    error = ((inputs.astype(np.float64) - outputs) ** 2).sum(axis=1)
    worn, sound = error[arrays["faulty"]], error[~arrays["faulty"]]
    assert (len(worn), len(sound)) == (80, 160)
    # The area under the ROC curve is the chance that a worn window scores above a sound one.
    assert np.mean(worn[:, np.newaxis] > sound) > 0.98
