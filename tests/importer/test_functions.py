"""Models with functions of their own, as torch's exporter writes them: they give onnxruntime's
numbers, or every reason why they cannot be taken."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from builders import random_feeds
from onnx import TensorProto, numpy_helper, parser
from oracle import Array, onnxruntime_float

import mlftool.importer.calls
from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

HEAD = '<ir_version: 10, opset_import: ["": 18, "own": 1, "more": 1]>\n'
OWN = '<domain: "own", opset_import: ["": 18, "own": 1, "more": 1]>\n'
MODELS = {
    "one function inside another, called twice": f"""g (float[2,3] x) => (float[2,3] y)
        {{ t = own.Twice (x) y = own.Twice (t) }}
        {OWN} Twice (a) => (b) {{ c = own.Once (a) d = own.Once (c) b = Add (c, d) }}
        {OWN} Once (a) => (b) {{ c = Sin (a) b = Mul (c, a) }}""",
    "attributes with and without defaults": f"""g (float[2,3] x) => (float[2,3] y)
        {{ t = own.Slope <alpha = 0.5> (x) u = own.Slope (t) y = own.Free <axis = 0> (u) }}
        {OWN} Slope <alpha: float = 0.25> (a) => (b)
            {{ b = LeakyRelu <alpha: float = @alpha> (a) }}
        {OWN} Free <axis> (a) => (b) {{ b = Softmax <axis: int = @axis> (a) }}""",
    "an attribute that is left out and has no default": f"""g (float[2,3] x) => (float[2,3] y)
        {{ y = own.Free (x) }}
        {OWN} Free <axis> (a) => (b) {{ b = Softmax <axis: int = @axis> (a) }}""",
    "a branch that reads what surrounds it": f"""g (float[2,3] x, bool c) => (float[2,3] y)
        {{ y = own.Either <gain = 3.0> (x, c) }}
        {OWN} Either <gain: float = 1.0> (a, c) => (b) {{
            s = Sin (a)
            b = If (c) <
                then_branch = t () => (u) {{ u = own.Scaled <gain: float = @gain> (s) }},
                else_branch = e () => (v) {{ v = Neg (s) }}> }}
        {OWN} Scaled <gain: float> (a) => (b) {{
            k = Constant <value_float: float = @gain> () b = Mul (a, k) }}""",
    "a call in a loop": f"""g (float[3] x) => (float[3] y) <int64 n = {{3}}, bool on = {{1}}> {{
        y = Loop (n, on, x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] r)
            {{ d = Identity (c) r = own.Once (s) }}> }}
        {OWN} Once (a) => (b) {{ c = Sin (a) b = Add (c, a) }}""",
    "another opset than the model's": """g (float[2,3] x) => (float[2,3] y, float[2,1] z)
        { y = own.Old (x) z = ReduceSum <keepdims = 1> (x, one) }
        <domain: "own", opset_import: ["": 11]>
        Old (a) => (b) { s = ReduceSum <axes = [1], keepdims = 1> (a) c = Softmax <axis = 0> (a)
            d = Squeeze <axes = [1]> (s) e = Unsqueeze <axes = [1]> (d) b = Add (c, e) }""",
    "names that those of calls would be": f"""g (float[3] x) => (float[3] y, float[3] z)
        {{ y_c = Neg (x) y = own.Once (x) z = Exp (y_c) }}
        {OWN} Once (a) => (b) {{ c = Sin (a) b = Add (c, a) }}""",
    "outputs that are inputs, or one another": f"""g (float[3] x)
        => (float[3] p, float[3] q, float[3] r) {{ p, q, r = own.Same (x) }}
        {OWN} Same (a) => (a, b, b) {{ b = Sin (a) }}""",
    "an input and an output that are left out": f"""g (float[3] x) => (float[3] y)
        {{ , y = own.Limited (x) }}
        {OWN} Limited (a, low, high) => (b, c) {{ b = Sin (a) c = Clip (a, low, high) }}""",
}
MODELS["another opset than the model's"] = MODELS["another opset than the model's"].replace(
    "float[2,1] z)", "float[2,1] z) <int64[1] one = {1}>", 1
)


def old(x: Array) -> dict[str, Array]:
    """Before opset 13 all axes from `axis` on are one to Softmax."""
    total, powers = x.sum(axis=1, keepdims=True), np.exp(x)
    return {"y": powers / powers.sum() + total, "z": total}


# onnxruntime refuses these: a function has the model's opsets there, and an output once.
BY_NUMPY: Mapping[str, Callable[[Array], dict[str, Array]]] = {
    "another opset than the model's": old,
    "outputs that are inputs, or one another": lambda x: {"p": x, "q": np.sin(x), "r": np.sin(x)},
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    made = {}
    for name, text in MODELS.items():
        model = onnx.ModelProto.FromString(
            parser.parse_model(HEAD + text).SerializeToString().replace(b"y_c", b"y.c")
        )
        made[name] = Job(model, random_feeds(model, 2))
    run_jobs(list(made.values()), tmp_path_factory.mktemp("functions"))
    return made


@pytest.mark.parametrize("name", MODELS)
def test_gives_the_numbers_of_onnxruntime(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    assert isinstance(job.model, onnx.ModelProto)
    if name in BY_NUMPY:
        wanted = [BY_NUMPY[name](feed["x"]) for feed in job.feeds]
    else:
        wanted = onnxruntime_float(job.model, job.feeds)
    for got, want in zip(job.results, wanted, strict=True):
        for output, value in want.items():
            np.testing.assert_allclose(got[output], value, rtol=1e-6, atol=1e-6)


REFUSED = {
    "calls itself": (
        f"""g (float[3] x) => (float[3] y) {{ y = own.F (x) }}
        {OWN} F (a) => (b) {{ b = own.G (a) }}
        {OWN} G (a) => (b) {{ c = own.F (a) b = Neg (c) }}""",
        [r"MLF0302.*function 'own\.[FG]' calls itself"],
    ),
    "all reasons at once": (
        f"""g (float[3] x) => (float[3] y) {{ t = own.F (x) u = own.G (t, x, x) y = Nope (u) }}
        {OWN} F (a) => (b) {{ c = Nowhere (a) d = more.What (c) b = Add (d, missing) }}
        {OWN} G (a) => (b) {{ c = RandomNormalLike (a) b = Selu <alpha: float = @beta> (c) }}""",
        [
            r"function 'own\.F': node '2' \(Add\): input 'missing' is not defined",
            r"function 'own\.G': node '0' \(RandomNormalLike\): draws random numbers",
            r"function 'own\.G': node '1' \(Selu\): attribute 'alpha' is 'beta', which its",
            r"node '1' \(own\.G\): has 3 inputs and 1 outputs; its function has 1 and 1",
            r"node '2' \(Nope\): opset 18 has no such operator",
        ],
    ),
    "an opset that there is not": (
        """g (float[3] x) => (float[3] y) { y = own.F (x) }
        <domain: "own", opset_import: ["": 4611686018427387904]> F (a) => (b) { b = Neg (a) }""",
        [r"opset 4611686018427387904; expected"],
    ),
    "types that do not fit, by the names of calls": (
        f"""g (float[3] x) => (float[3] y) {{ [outer] y = own.F (x) }}
        {OWN} F (a) => (b) {{ [inner] b = MatMul (a, a2) a2 = Unsqueeze (a, a) }}""",
        [r"node 'outer/Unsqueeze_0' \(Unsqueeze\)"],
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    text, patterns = REFUSED[name]
    with pytest.raises(MlfError) as caught:
        compile_module(ModuleSpec(parser.parse_model(HEAD + text)))
    for pattern in patterns:
        assert caught.match(pattern)


def test_what_other_rules_take_is_not_said_to_be_missing() -> None:
    """One operator of a branch is not known; those about sequences and a call are."""
    text = f"""g (float[2,3] x, bool c) => (float[2,3] y) <int64 z = {{0}}> {{
        s = If (c) <
            then_branch = t () => (seq(float[2,3]) a) {{
                n = Nope (x) m = own.F (n) a = SequenceConstruct (m) }},
            else_branch = e () => (seq(float[2,3]) b) {{ b = SequenceConstruct (x) }}>
        y = SequenceAt (s, z) }}
        {OWN} F (a) => (b) {{ b = Neg (a) }}"""
    with pytest.raises(MlfError, match="no such operator") as caught:
        compile_module(ModuleSpec(parser.parse_model(HEAD + text)))
    assert str(caught.value).count("error[") == 1, caught.value


def test_functions_that_grow_without_bound_are_refused() -> None:
    """Each of sixty calls the next one twice: 2^60 nodes. It is refused before any is made."""
    steps = "\n".join(
        f"{OWN} F{k} (a) => (b) {{ c = own.F{k + 1} (a) b = own.F{k + 1} (c) }}" for k in range(60)
    )
    text = f"g (float[3] x) => (float[3] y) {{ y = own.F0 (x) }}\n{steps}\n"
    model = parser.parse_model(f"{HEAD}{text}{OWN} F60 (a) => (b) {{ b = Neg (a) }}")
    with pytest.raises(MlfError, match="expand to more than 200000 nodes"):
        compile_module(ModuleSpec(model))


def test_a_large_number_of_calls_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    text = f"""g (float[3] x) => (float[3] y) {{ t = own.F (x) y = own.F (t) }}
        {OWN} F (a) => (b) {{ c = Sin (a) b = Neg (c) }}"""
    monkeypatch.setattr(mlftool.importer.calls, "MOST_NODES", 3)
    with pytest.raises(MlfError, match="expand to more than 3 nodes"):
        compile_module(ModuleSpec(parser.parse_model(HEAD + text)))
    monkeypatch.setattr(mlftool.importer.calls, "MOST_NODES", 4)
    assert compile_module(ModuleSpec(parser.parse_model(HEAD + text)))


def test_external_data_of_a_function_are_read(tmp_path: Path) -> None:
    text = f"""g (float[3] x) => (float[3] y) {{ y = own.F (x) }}
        {OWN} F (a) => (b) {{ c = Constant <value = float[3] {{1, 2, 3}}> () b = Add (a, c) }}"""
    model = parser.parse_model(HEAD + text)
    (tensor,) = (a.t for a in model.functions[0].node[0].attribute)
    (tmp_path / "w.bin").write_bytes(numpy_helper.to_array(tensor).tobytes())
    for field in ("float_data", "raw_data"):
        tensor.ClearField(field)
    tensor.data_location = TensorProto.EXTERNAL
    entry = tensor.external_data.add()
    entry.key, entry.value = "location", "w.bin"
    path = tmp_path / "m.onnx"
    path.write_bytes(model.SerializeToString())
    assert compile_module(ModuleSpec(path))
    (tmp_path / "w.bin").unlink()
    with pytest.raises(MlfError, match=r"MLF0203.*w\.bin"):
        compile_module(ModuleSpec(path))


def test_a_comment_in_a_function_need_not_be_utf_8() -> None:
    text = f"""g (float[3] x) => (float[3] y) {{ y = own.F (x) }}
        {OWN} F (a) => (b) {{ b = Neg (a) }}"""
    model = parser.parse_model(HEAD + text)
    model.functions[0].node[0].doc_string = "caffee"
    data = model.SerializeToString().replace(b"caffee", b"caf\xc3\xa9"[:4] + b"\xa0e")
    assert compile_module(ModuleSpec(onnx.ModelProto.FromString(data)))
