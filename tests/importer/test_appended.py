"""Loops that append to a tensor, as a scripted torch.cat in a loop does, against onnxruntime."""

from __future__ import annotations

import re

import numpy as np
import pytest
from batch import Job, run_models
from onnx import parser
from oracle import assert_equals_onnxruntime

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError

HEAD = '<ir_version: 9, opset_import: ["": 17]>\n'
X = np.arange(12, dtype=np.float32).reshape(4, 3)
ANY = [{"x": X, "n": np.array(n)} for n in (0, 1, 4)]
FIXED = [{"x": X}]


def loop(body: str, first: str = "0,3", state: str = "n,3", n: str = "", more: str = "") -> str:
    """Rows of x, appended one by one to what `body` calls s; it gives s2, and `more`."""
    given = f"n = {n}" if n else ""
    values = ", ".join("7" for _ in range(int(np.prod(np.int64(first.split(","))))))
    scan, out = (", float[3] r", ", z") if more else ("", "")
    return f"""g (float[4,3] x{"" if n else ", int64 n"}) => (float[k,m] y)
    <float[{first}] first = {{{values}}}, bool t = {{1}}, int64[1] zero = {{0}}> {{
        {given}
        y{out} = Loop(n, t, first) <
            body = b (int64 i, bool c, float[{state}] s) => (bool go, float[p,q] s2{scan}) {{
                go = Identity(c)
                row = Gather <axis = 0> (x, i)
                part = Unsqueeze(row, zero)
                {more}
                {body}
            }}
        >
    }}"""


FOUR = "Constant <value_int = 4> ()"
SHORT = "s2 = Concat <axis = 0> (s, part)"
TWO = "less = Neg(part) s2 = Concat <axis = 0> (s, part, less)"
COPIED = "same = Cast <to = 1> (s) again = Identity(same) s2 = Concat <axis = 0> (again, part)"
COLUMN = "column = Transpose(part) s2 = Concat <axis = -1> (s, column)"
CASES = {
    "constant": (loop(SHORT, n=FOUR), {}, FIXED),
    "copied": (loop(COPIED, n=FOUR), {}, FIXED),
    "after_some": (loop(SHORT, "2,3", n=FOUR), {}, FIXED),
    "two_parts": (loop(TWO, n=FOUR), {}, FIXED),
    "columns": (loop(COLUMN, "3,1", "3,n", FOUR), {}, FIXED),
    "beside_a_scan": (loop(SHORT, n=FOUR, more="r = Neg(row)"), {}, FIXED),
    "any_number": (loop(SHORT), {"y": (4, 3)}, ANY),
    "any_number_after_some": (loop(SHORT, "2,3"), {"y": (6, 3)}, ANY),
    "any_number_of_two_parts": (loop(TWO), {"y": (8, 3)}, ANY),
    "any_number_of_columns": (loop(COLUMN, "3,1", "3,n"), {"y": (3, 5)}, ANY),
    "as_many_as_a_box_has": (
        loop(SHORT, n="Squeeze(least)").replace(
            "n = ",
            "yes = NonZero(x) count = Shape <start = 1> (yes) four = Constant <value_ints = [4]> ()"
            " least = Min(count, four) n = ",
        ),
        {},
        [{"x": X}, {"x": X * 0}, {"x": X * (X < 3)}],
    ),
}


@pytest.fixture(scope="module")
def jobs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Job]:
    return run_models(HEAD, CASES, tmp_path_factory.mktemp("appended"))


@pytest.mark.parametrize("name", CASES)
def test_equals_onnxruntime(name: str, jobs: dict[str, Job]) -> None:
    job = jobs[name]
    assert not job.failure, job.failure
    assert_equals_onnxruntime(job.model, job.feeds, job.results)


def test_the_remedy_names_the_models_own_output() -> None:
    model = parser.parse_model(HEAD + loop(SHORT))
    with pytest.raises(MlfError, match="the number of its iterations") as caught:
        compile_module(ModuleSpec(model, "m"))
    (help,) = {p.help for p in caught.value.problems}
    given = re.findall(r"--input-shape (\S+):", help)
    assert given == ["y"]
    compile_module(ModuleSpec(model, "m", input_shapes={"y": (9, 3)}))


def test_a_tensor_that_the_body_reads_stays_a_state() -> None:
    text = loop(SHORT, n=FOUR, more="r = ReduceSum <keepdims = 0> (s) ")
    with pytest.raises(MlfError, match="state 'first' changes from"):
        compile_module(
            ModuleSpec(parser.parse_model(HEAD + text.replace(", float[3] r", ", float r")), "m")
        )
