"""If, Loop and Scan through real C, against onnxruntime: every form, nested, with captures."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import Job, run_jobs
from onnx import TensorProto, parser
from oracle import Array, onnxruntime_float, relative_error

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

HEAD = '<ir_version: 9, opset_import: ["": 17]>\n'
GATES = "".join(
    f"xw{g} = MatMul(xx, w{g}) hr{g} = MatMul(hh, r{g}) sum{g} = Add(xw{g}, hr{g})\n"
    for g in "ifgo"
)
LSTM_BODY = f"""body = step (float[4] h, float[4] c, float[3] x)
    => (float[4] h2, float[4] c2, float[4] y) {{
    xx = Unsqueeze(x, zero)
    hh = Unsqueeze(h, zero)
    {GATES}
    fs = Sigmoid(sumf)
    kept = Mul(fs, c)
    is = Sigmoid(sumi)
    gt = Tanh(sumg)
    new = Mul(is, gt)
    cc = Add(kept, new)
    os = Sigmoid(sumo)
    ct = Tanh(cc)
    hn = Mul(os, ct)
    h2 = Squeeze(hn, zero)
    c2 = Squeeze(cc, zero)
    y = Identity(h2)
}}"""


def weights(name: str, rows: int) -> str:
    values = ", ".join(f"{np.sin(ord(name[1]) * k):.3f}" for k in range(4 * rows))
    return f"float[{rows},4] {name} = {{{values}}}"


MODELS = {
    "if_nested": """g (float[2,3] x, bool a, bool b) => (float[2,3] y) {
        y = If (a) <
            then_branch = t () => (float[2,3] ty) {
                ty = If (b) <
                    then_branch = tt () => (float[2,3] p) { p = Neg(x) },
                    else_branch = te () => (float[2,3] q) { r = Mul(x, x) q = Add(r, x) }
                >
            },
            else_branch = e () => (float[2,3] z) { z = Identity(x) }
        >
    }""",
    "if_two_outputs_and_constants": """g (float[3] x, bool a) => (float[3] y, int64[2] n) {
        y, n = If (a) <
            then_branch = t () => (float[3] p, int64[2] m)
                { p = Relu(x) m = Constant <value = int64[2] {1, 2}> () },
            else_branch = e () => (float[3] q, int64[2] k)
                { q = Constant <value = float[3] {1, 2, 3}> ()
                  k = Constant <value = int64[2] {3, 4}> () }
        >
    }""",
    "if_chosen_at_compile_time": """g (float[3] x) => (float[3] y) {
        c = Constant <value = bool {1}> ()
        y = If (c) <
            then_branch = t () => (float[3] p) { r = Neg(x) p = Exp(r) },
            else_branch = e () => (float[3] q) { q = Identity(x) }
        >
    }""",
    "loop_for": """g (float[2,3] x, int64 count) => (float[2,3] y) {
        t = Constant <value = bool {1}> ()
        y = Loop (count, t, x) <body = b (int64 i, bool c, float[2,3] s) => (bool d, float[2,3] n) {
            f = Cast <to = 1> (i)
            g1 = Add(s, f)
            n = Mul(g1, x)
            d = Identity(c)
        }>
    }""",
    "loop_while": """g (float x, float limit) => (float y) {
        t = Constant <value = bool {1}> ()
        y = Loop (, t, x) <body = b (int64 i, bool c, float s) => (bool d, float n) {
            n = Add(s, s)
            d = Less(n, limit)
        }>
    }""",
    "loop_scans_in_a_loop": """g (float[2] x) => (float[2] y, float[3,2] all) {
        three = Constant <value = int64 {3}> ()
        two = Constant <value = int64 {2}> ()
        t = Constant <value = bool {1}> ()
        y, all = Loop (three, t, x) <
            body = b (int64 i, bool c, float[2] s) => (bool d, float[2] n, float[2] o) {
                n = Loop (two, t, s) <
                    body = bb (int64 j, bool cc, float[2] u) => (bool dd, float[2] v) {
                        ij = Add(i, j)
                        fij = Cast <to = 1> (ij)
                        w1 = Mul(u, x)
                        v = Add(w1, fij)
                        dd = Identity(cc)
                    }>
                o = Neg(n)
                d = Identity(c)
            }>
    }""",
    "scan_backwards": """g (float[2] h, float[5,2] x) => (float[2] y, float[5,2] all) {
        y, all = Scan <num_scan_inputs = 1, scan_input_directions = [1],
                       scan_output_directions = [1],
            body = b (float[2] s, float[2] e) => (float[2] n, float[2] o)
                { n = Add(s, e) o = Mul(n, e) }> (h, x)
    }""",
    "scan_other_axes": """g (float[2] h, float[2,5] x) => (float[2] y, float[2,5] all) {
        y, all = Scan <num_scan_inputs = 1, scan_input_axes = [1], scan_output_axes = [1],
            body = b (float[2] s, float[2] e) => (float[2] n, float[2] o)
                { n = Add(s, e) o = Mul(n, e) }> (h, x)
    }""",
    "lstm_as_scan": f"""g (float[4] h0, float[4] c0, float[7,3] x)
        => (float[4] h, float[4] c, float[7,4] all)
        <{", ".join(weights(f"w{g}", 3) + ", " + weights(f"r{g}", 4) for g in "ifgo")},
         int64[1] zero = {{0}}> {{
        h, c, all = Scan <num_scan_inputs = 1, {LSTM_BODY}> (h0, c0, x)
    }}""",
}
OPSET_8 = HEAD.replace("17", "8").replace("ir_version: 9", "ir_version: 3")
OLD_MODELS = {
    "scan_of_batches": """g (float[3,2] h, float[3,4,2] x, float[3,4] w)
        => (float[3,2] y, float[3,4,2] all, float[3,4] twice) {
        y, all, twice = Scan <num_scan_inputs = 2, directions = [1, 0],
            body = b (float[2] s, float[2] e, float f)
            => (float[2] t, float[2] o, float p) { t = Add(s, e) o = Mul(t, f) p = Add(f, f) }>
            ("", h, x, w) }""",
}
INPUTS: dict[str, dict[str, list[Any]]] = {
    "if_nested": {"a": [True, True, False], "b": [True, False, True]},
    "if_two_outputs_and_constants": {"a": [True, False]},
    "loop_for": {"count": [0, 1, 4]},
    "loop_while": {"x": [1.0, 3.0], "limit": [100.0, 2.0]},
}


def feeds(name: str, model: onnx.ModelProto) -> list[dict[str, Array]]:
    given = INPUTS.get(name, {})
    count = max([len(v) for v in given.values()], default=2)
    random = np.random.default_rng(len(name))
    result = []
    for k in range(count):
        sample = {}
        for info in model.graph.input:
            type_ = info.type.tensor_type
            shape = [d.dim_value for d in type_.shape.dim]
            value = given[info.name][k] if info.name in given else random.normal(0, 1, shape)
            dtype = onnx.helper.tensor_dtype_to_np_dtype(type_.elem_type)
            sample[info.name] = np.asarray(value, dtype).reshape(shape)
        result.append(sample)
    return result


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    models = {name: parser.parse_model(HEAD + text) for name, text in MODELS.items()}
    models |= {name: parser.parse_model(OPSET_8 + text) for name, text in OLD_MODELS.items()}
    made = {name: Job(model, feeds(name, model)) for name, model in models.items()}
    made |= {f"{name} by vm": Job(j.model, j.feeds, executor="vm") for name, j in made.items()}
    run_jobs(list(made.values()), tmp_path_factory.mktemp("control"))
    return made


@pytest.mark.parametrize("name", [*MODELS, *OLD_MODELS])
def test_equals_onnxruntime(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    by_vm = jobs[f"{name} by vm"]
    assert not by_vm.failure, by_vm.failure
    assert by_vm.output == job.output
    wanted = onnxruntime_float(job.model, job.feeds)
    for want, got in zip(wanted, job.results, strict=True):
        for key, value in want.items():
            assert got[key].dtype == value.dtype
            assert got[key].shape == value.shape
            assert relative_error(got[key], value) <= 1e-5, key


BAD = {
    "a state that grows": (
        """g (float[1] x, int64 n) => (float[m] y) { t = Constant <value = bool {1}> ()
        y = Loop (n, t, x) <body = b (int64 i, bool c, float[k] s) => (bool d, float[l] o)
            { o = Concat <axis = 0> (s, s) d = Identity(c) }> }""",
        "state 'x' changes from float32[1] to float32[2]",
    ),
    "scan outputs of unknown length": (
        """g (float[1] x, int64 n) => (float[1] y, float[m,1] z) {
        t = Constant <value = bool {1}> ()
        y, z = Loop (n, t, x) <body = b (int64 i, bool c, float[1] s)
            => (bool d, float[1] o, float[1] p)
            { o = Neg(s) p = Abs(s) d = Identity(c) }> }""",
        "is not known before run time",
    ),
    "branches of two types": (
        """g (float[1] x, bool a) => (float[1] y) { y = If (a) <
            then_branch = t () => (float[1] p) { p = Neg(x) },
            else_branch = e () => (int64[1] q) { q = Cast <to = 7> (x) }> }""",
        "output 0 is float32[1] of one branch and int64[1] of the other",
    ),
    "an operator that nobody has, inside": (
        """g (float[1] x, bool a) => (float[1] y) { y = If (a) <
            then_branch = t () => (float[1] p) { p = Nonsense(x) },
            else_branch = e () => (float[1] q) { q = Neg(x) }> }""",
        "then_branch: node '0' (Nonsense)",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_what_cannot_be_planned_is_named(name: str) -> None:
    text, message = BAD[name]
    with pytest.raises(MlfError) as caught:
        compile_module(ModuleSpec(parser.parse_model(HEAD + text)))
    assert message in str(caught.value)


@pytest.mark.parametrize("row", ["int4", "uint4"])
def test_stacks_of_packed_elements(row: str, tmp_path: Path) -> None:
    """A step is half as many bytes as elements. onnxruntime has no such Loop."""
    text = f"""g (float[4] x, float[3,4] z) => (float[3,4] s, float[3,4] u) <int64 m = {{3}}> {{
        c = Cast <to={TensorProto.DataType.Value(row.upper())}> (z)
        p = Loop (m, "") <body = b (int64 i, bool on) => (bool d, {row}[4] e)
            {{ d = Identity (on) n = Cast <to=1> (i) t = Add (x, n)
            e = Cast <to={TensorProto.DataType.Value(row.upper())}> (t) }}>
        q = Scan <num_scan_inputs=1, scan_input_directions=[1], body =
            b ({row}[4] f) => ({row}[4] h) {{ h = Identity (f) }}> (c)
        s = Cast <to=1> (p) u = Cast <to=1> (q) }}"""
    x, z = np.arange(4.0, dtype=np.float32), np.arange(12.0, dtype=np.float32).reshape(3, 4) % 7
    job = Job(parser.parse_model(HEAD.replace("17", "21") + text), ({"x": x, "z": z},))
    run_jobs([job], tmp_path)
    assert not job.failure, job.failure
    np.testing.assert_array_equal(job.results[0]["s"], x + np.arange(3.0)[:, None])
    np.testing.assert_array_equal(job.results[0]["u"], z[::-1])
