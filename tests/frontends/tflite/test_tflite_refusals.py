"""Files that are no models, and models that are not taken: one error with every reason, exit 2."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from batch import Job, run_jobs
from tfl_cases import FAMILIES, Case, flex, merged
from tfl_models import chain, convolution, dense, unary
from tfl_writer import Op, Sub, T, model

from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_module, plan_module
from mlftool.errors import BAD_INPUT, MlfError
from mlftool.frontends.models import TFLite, imported

MUTANTS = 400


def refused(data: bytes) -> MlfError:
    with pytest.raises(MlfError) as caught:
        imported(TFLite(data, "m.tflite"), "m")
    assert caught.value.exit_code == BAD_INPUT
    return caught.value


def test_all_reasons_at_once() -> None:
    """Those of operators that read what a refused one made, too, but none that follows from it."""
    problems = refused(chain(["EXP", "BITCAST", "SIN", "RESHAPE", "MyOperator", "FILL"])).problems
    assert [(p.code, p.path) for p in problems] == [
        ("MLF0301", "operator 1 BITCAST 't2'"),
        ("MLF0301", "operator 4 MyOperator 't5'"),
        ("MLF0302", "operator 5 FILL 't6'"),
    ]
    tensors = [floats("x", 1, 4), floats("w", 2, 4), floats("made", 2, 4), floats("y", 1, 2)]
    ops = [Op("BITCAST", (1,), (2,)), Op("FULLY_CONNECTED", (0, 2), (3,), "FullyConnectedOptions")]
    problems = refused(model(Sub(tensors, ops, (0, 1), (3,)))).problems
    assert [p.path for p in problems] == ["operator 0 BITCAST 'made'"]
    tensors = [T(f"t{k}", (4,), "float32") for k in range(4)]
    ops = [
        Op(kind, (0,), (k + 1,)) for k, kind in enumerate(("BITCAST", "BUCKETIZE", "MyOperator"))
    ]
    problems = refused(model(Sub(tensors, ops, (0,), (1, 2, 3)))).problems
    assert [p.path for p in problems] == [
        "operator 0 BITCAST 't1'",
        "operator 1 BUCKETIZE 't2'",
        "operator 2 MyOperator 't3'",
    ]


def test_complex_numbers_are_taken_apart_first() -> None:
    """No operator takes them for pairs of floats; neither do inputs, outputs and subgraphs."""
    spectra = [T(name, (1, 5), "complex64") for name in "fg"]
    rfft = Op("RFFT2D", (0, 1), (2,))
    n = T("n", (2,), "int32", data=[1, 8])
    tensors = [floats("x", 1, 8), n, *spectra, floats("pairs", 1, 5, 2)]
    last = T("axis", (1,), "int32", data=[-1])
    for kind, inputs, made in (
        ("MUL", (2, 2), 3), ("CONCATENATION", (2, 2), 3), ("NEG", (2,), 3), ("RESHAPE", (2,), 4),
        ("REVERSE_V2", (2, 5), 3), ("COMPLEX_ABS", (2,), 3), ("RESHAPE", (4,), 3),
    ):  # fmt: skip
        given = (0, 4) if inputs == (4,) else (0,)
        sub = Sub([*tensors, last], [rfft, Op(kind, inputs, (made,))], given, (made,))
        said = str(refused(model(sub))).lower()
        assert "complex64" in said or "not all float32" in said, kind
    said = refused(model(Sub(tensors, [rfft], (0,), (2,)))).problems
    assert [(p.path, p.message) for p in said] == [("output 'f'", "element type COMPLEX64")]
    assert "tf.abs" in said[0].help
    part = Sub([spectra[0], floats("y", 1, 5)], [Op("REAL", (0,), (1,))], (0,), (1,))
    assert "COMPLEX64" in str(refused(model(part)))
    pair = [floats("x", 1, 5, 2), T("c", (), "bool"), floats("y", 1, 5)]
    options = {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 1}
    whole = Sub(pair, [Op("IF", (1, 0), (2,), "IfOptions", options)], (0, 1), (2,))
    assert "COMPLEX64" in str(refused(model(whole, part)))


def test_extents_that_the_converter_did_not_know() -> None:
    """It writes 1 in their place. The help says how it knows them; not where it knew all."""
    ends = T("ends", (2,), "int32", data=[1, 8])
    zeros, ones = (T(n, (2,), "int32", data=[k, k]) for n, k in (("zeros", 0), ("ones", 1)))
    for signature in ((-1, -1), None):
        y = T("y", (1, 3), "float32", signature=signature)
        window = Op("STRIDED_SLICE", (0, 1, 2, 3), (4,), "StridedSliceOptions")
        view = Op("RESHAPE", (0,), (4,))
        for op in (window, view):
            sub = Sub([floats("x", 1, 8), zeros, ends, ones, y], [op], (0,), (4,))
            (problem,) = refused(model(sub)).problems
            assert ("batch_size=1" in problem.help) == (signature is not None)


def test_the_command_line_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "m.tflite"
    file.write_bytes(chain(["BITCAST"]))
    assert main(["compile", str(file), "-o", str(tmp_path / "m.tar")]) == BAD_INPUT
    said = capsys.readouterr().err
    assert f"{file}: error[MLF0301]: operator 0 BITCAST 't1': the operator is not supported" in said
    assert not (tmp_path / "m.tar").exists()


def floats(name: str, *shape: int) -> T:
    return T(name, shape, "float32")


def bytes_(name: str, *shape: int, **more: object) -> T:
    return T(name, shape, **{"scale": 0.1, "zero": 1, **more})  # type: ignore[arg-type]


PAIR = bytes_("x", 4), bytes_("y", 4)


def resized(kind: str) -> bytes:
    """An image without columns."""
    word = {"NearestNeighbor": "NEAREST_NEIGHBOR"}.get(kind, kind.upper())
    size = T("size", (2,), "int32", data=np.array([3, 3]))
    op = Op(f"RESIZE_{word}", (0, 1), (2,), f"Resize{kind}Options")
    tensors = [floats("x", 1, 2, 0, 1), size, floats("y", 1, 3, 3, 1)]
    return model(Sub(tensors, [op], (0,), (2,)))


def sliced(row: str) -> bytes:
    """Three of four, from a place whose type is not an index's."""
    begin, size = T("begin", (1,), row, data=[1]), T("size", (1,), "int32", data=[3])
    return one("SLICE", floats("x", 4), begin, size, floats("y", 3))


PAIR_OF = floats("a", 4), floats("b", 4)
BY_NAN = T("p", (2,), "float32", data=[math.nan, 0])


def one(kind: str, *tensors: T) -> bytes:
    """An operator of all tensors but the last, which it makes; those without data are inputs."""
    *read, made = range(len(tensors))
    inputs = [k for k in read if tensors[k].data is None]
    return model(Sub(tensors, [Op(kind, read, [made])], inputs, [made]))


def contraction(kind: str, *tensors: T, **options: Any) -> bytes:
    """A layer whose options say nothing that counts here."""
    table = "Conv2DOptions" if kind == "CONV_2D" else "FullyConnectedOptions"
    op = Op(kind, (0, 1, 2), (3,), table, options)
    return model(Sub(tensors, [op], (0,), (3,)))


def convolved(x: T, y: T, bias: int = 0) -> bytes:
    """A pointwise layer of int16 in 2 channels."""
    w = bytes_("w", 2, 1, 1, 2, zero=0, data=np.ones((2, 1, 1, 2)))
    b = T("b", (2,), "int64", 0.01, data=[0, bias])
    return contraction("CONV_2D", x, w, b, y, Padding=1, StrideW=1, StrideH=1)


def connected(y: T, variable: bool = False) -> bytes:
    w = bytes_("w", 3, 4, zero=0, data=np.ones((3, 4)))
    b = T("b", (3,), "int32", 0.01, data=[0, 1, 2], variable=variable)
    return contraction("FULLY_CONNECTED", bytes_("x", 2, 4), w, b, y)


SHORTS: dict[str, Any] = {"type": "int16", "zero": 0}


# Operators of lines, how long those may be, their output's scale and zero point, and its type.
LONGEST = [
    ("SOFTMAX", 8191, 2.0**-8, -128, "int8"),
    ("SOFTMAX", 65535, 2.0**-15, 0, "int16"),
    ("LOG_SOFTMAX", 4095, 2.0**-4, 127, "int8"),
    ("L2_NORMALIZATION", 33025, 2.0**-7, 0, "int8"),
]


def line(kind: str, n: int, scale: float, zero: int, row: str) -> bytes:
    """A line of n elements."""
    x, y = ((name, 1, n) for name in "xy")
    table = {"SOFTMAX": "SoftmaxOptions"}.get(kind, "")
    more = {"Beta": 1.0} if table else {}
    given = bytes_(*x, type=row, zero=0)
    return unary(kind, given, bytes_(*y, type=row, scale=scale, zero=zero), table, **more)


def own_input() -> bytes:
    variable = T("y", (2,), "float32", variable=True)
    return model(Sub([variable], [Op("RELU", (0,), (0,))], (), (0,)))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (dense(np.random.default_rng(0), FusedActivationFunction=4), "fused activation TANH"),
        (dense(np.random.default_rng(0), WeightsFormat=1), "shuffled weights"),
        *(
            (one(kind, *PAIR_OF, T("y", (4,), row, 0.1)), "expected bool")
            for kind in ("EQUAL", "NOT_EQUAL", "LESS", "GREATER_EQUAL")
            for row in ("int32", "uint8")
        ),
        (unary("DEQUANTIZE", bytes_("x", 4), T("y", (4,), "int32")), "expected float32"),
        (unary("SQUEEZE", bytes_("x", 4, type="uint8"), bytes_("y", 4)), "int8 mixed with uint8"),
        *((sliced(row), "supported: int32, int64") for row in ("int16", "uint8", "float32")),
        (unary("RELU", T("x", (4,)), T("y", (4,))), "no single scale and zero point"),
        (unary("RELU", bytes_("x", 4, scale=-1.0), bytes_("y", 4)), "not a positive finite"),
        (unary("RELU", bytes_("x", 4, zero=300), bytes_("y", 4)), "a zero point outside of int8"),
        (unary("RELU", bytes_("x", 4), bytes_("y", 5)), "an output int8[5] for int8[4]"),
        (unary("RELU", T("x", (4,), "complex64"), floats("y", 4)), "element type COMPLEX64"),
        (unary("LOGISTIC", bytes_("x", 4), bytes_("y", 4)), "zero point 1; expected -128"),
        (unary("AVERAGE_POOL_2D", floats("x", 1, 4, 4, 2), floats("y", 1, 2, 2, 2)), "filter"),
        (
            unary(
                "AVERAGE_POOL_2D",
                floats("x", 1, 4, 4, 2),
                floats("y", 1, 2, 2, 2),
                "Pool2DOptions",
                FilterHeight=2,
                FilterWidth=2,
                StrideH=0,
                StrideW=1,
            ),
            "a stride of 0",
        ),
        (unary("QUANTIZE", T("x", (4,), "int64"), bytes_("y", 4)), "int64 to int8"),
        (unary("RESHAPE", floats("x", 4), floats("y", 5)), "an output float32[5]"),
        (unary("ASSIGN_VARIABLE", floats("x", 4), floats("y", 4)), "a handle that no VAR_HANDLE"),
        (unary("LEAKY_RELU", *PAIR, "LeakyReluOptions", Alpha=math.inf), "option alpha is inf"),
        (unary("SOFTMAX", *PAIR, "SoftmaxOptions", Beta=math.nan), "option beta is nan"),
        (unary("RELU", bytes_("x", 4), bytes_("y", 4, scale=1e-30)), "the factor 1e+29"),
        (unary("BROADCAST_TO", floats("x", 2, 3), floats("y", 3, 2)), "[2x3] to float32[3x2]"),
        (unary("RELU6", bytes_("x", 4, scale=1e-45), bytes_("y", 4)), "quotient is infinite"),
        (
            one("TRANSPOSE", floats("x", 2, 3), BY_NAN, floats("y", 3, 2)),
            "of float32; supported: int32, int64",
        ),
        (one("VAR_HANDLE", T("y", (), "resource")), "output 'y' is never computed"),
        (own_input(), "reads tensor 'y', which it makes"),
        (connected(bytes_("y", 3, 2)), "weights int8[3x4] for int8[2x4] and int8[3x2]"),
        (connected(T("y", (2, 3), "int64", 0.1)), "an output int64[2x3]; expected x's type"),
        (connected(bytes_("y", 2, 3), variable=True), "a constant value, although it is a var"),
        (
            convolved(bytes_("x", 9, 1, 4, 2, **SHORTS), bytes_("y", 1, 1, 4, 2, **SHORTS)),
            "an output of int16[1x1x4x2]; expected [9, 1, 4] along axes 0 to 2",
        ),
        (
            convolved(bytes_("x", 1, 1, 4, 2, **SHORTS), bytes_("y", 1, 1, 4, 2, **SHORTS), 2**46),
            "a bias beyond 46 bits",
        ),
        (
            convolved(bytes_("x", 1, 1, 4, 2, type="int16"), bytes_("y", 1, 1, 4, 2, **SHORTS)),
            "a zero point of int16; expected 0",
        ),
        (
            model(Sub([*PAIR], [Op("SUB", (0, 0), (1,), "DivOptions")], (0,), (1,))),
            "options of another operator, DivOptions",
        ),
        (one("NOT_EQUAL", floats("x", 4), floats("z", 4), floats("y", 4)), "expected bool"),
        (unary("L2_NORMALIZATION", *PAIR), "an output with scale and zero point (0.1"),
        *(
            (line(kind, most + 1, scale, zero, row), f"supported: up to {most}, whose sums fit 32")
            for kind, most, scale, zero, row in LONGEST
        ),
        (unary("MAXIMUM", bytes_("x", 4), bytes_("y", 4, type="int4")), "INT4, which only constan"),
        *(
            (resized(kind), "float32[1x2x0x1], of which nothing is made")
            for kind in ("NearestNeighbor", "Bilinear")
        ),
    ],
)  # fmt: skip
def test_what_is_said(data: bytes, said: str) -> None:
    assert said in str(refused(data))


def test_the_longest_lines(tmp_path: Path) -> None:
    """Sums of equal elements, the largest there are, under sanitizers."""
    jobs = []
    for k, (kind, most, scale, zero, row) in enumerate(LONGEST):
        file = tmp_path / f"{k}.tflite"
        file.write_bytes(line(kind, most, scale, zero, row))
        x = np.full((1, most), np.iinfo(row).min, row)
        jobs.append(Job(file, [{"x": x}], name=f"m{k}"))
    run_jobs(jobs, tmp_path)
    assert [job.failure for job in jobs] == [""] * len(jobs)
    shares, shorts, logarithms, units = (job.results[0]["y"].ravel() for job in jobs)
    assert set(shares) == {-128}  # 1 / 8191
    assert set(shorts) <= {0, 1}
    assert set(logarithms) <= {round(127 - 16 * math.log(4095)) + d for d in (-1, 0, 1)}
    assert set(units) == {-1}  # -128 / (128 * 33025^0.5), in 128ths


def test_a_factor_beyond_fixed_point(tmp_path: Path) -> None:
    """A layer's factor is computed with its kernel."""
    file = tmp_path / "m.tflite"
    file.write_bytes(dense(np.random.default_rng(0), scale=1e-30))
    with pytest.raises(MlfError, match=r"scales give the factor 3.3e.26; expected 0 to 2.31"):
        compile_module(ModuleSpec(file))
    file.write_bytes(convolved(*(bytes_(n, 1, 1, 4, 2, scale=s, **SHORTS) for n, s in HUGE)))
    with pytest.raises(MlfError, match=r"scales give the factor 20000; expected less than 2.14"):
        compile_module(ModuleSpec(file))


HUGE = ("x", 1.0), ("y", 5e-6)
IMAGE = (1, 4, 4, 2)
# Of each contraction the shapes of x, weights and y, its options and what its inputs are.
CONTRACTIONS: dict[str, tuple[Sequence[Sequence[int]], str, tuple[int, ...]]] = {
    "CONV_2D": ((IMAGE, (2, 1, 1, 2), IMAGE), "Conv2DOptions", (0, 1, 2)),
    "DEPTHWISE_CONV_2D": ((IMAGE, (1, 1, 1, 2), IMAGE), "DepthwiseConv2DOptions", (0, 1, 2)),
    "TRANSPOSE_CONV": ((IMAGE, (2, 1, 1, 2), IMAGE), "TransposeConvOptions", (4, 1, 0, 2)),
    "FULLY_CONNECTED": (((1, 4), (2, 4), (1, 2)), "FullyConnectedOptions", (0, 1, 2)),
    "BATCH_MATMUL": (((3, 4), (4, 2), (3, 2)), "BatchMatMulOptions", (0, 1)),
}


def layer(kind: str, weights: str, bias: str = "float32") -> bytes:
    """A contraction of floats whose constants have these types."""
    (x, w, y), table, places = CONTRACTIONS[kind]
    options = {"StrideW": 1, "StrideH": 1} if "CONV" in kind else {}
    tensors = [
        floats("x", *x),
        T("w", w, weights, data=np.ones(w), **({} if weights[0] == "f" else {"scale": 0.1})),
        T("b", (2,), bias, data=np.ones(2)),
        floats("y", *y),
        T("shape", (len(y),), "int32", data=np.array(y)),
    ]
    return model(Sub(tensors, [Op(kind, places, (3,), table, options)], (0,), (3,)))


@pytest.mark.parametrize("kind", CONTRACTIONS)
def test_weights_that_are_quantised_while_the_model_runs(kind: str) -> None:
    """Dynamic range: the integers would be taken for the weights."""
    assert imported(TFLite(layer(kind, "float32")), "m")
    said = str(refused(layer(kind, "int8")))
    assert "float32 with weights of int8, quantised while it runs (dynamic range)" in said
    assert "representative_dataset" in said
    for wrong in ("int16", "int32", "float16"):
        assert "float32 with a tensor" in str(refused(layer(kind, wrong)))
    if kind != "BATCH_MATMUL":
        assert "float32 with a tensor" in str(refused(layer(kind, "float32", "int32")))


def test_misplaced_tensors() -> None:
    x, y = floats("x", 4), floats("y", 4)
    early = model(Sub([x, y], [Op("EXP", (1,), (1,))], (0,), (1,)))
    assert "'y', which nothing has made" in str(refused(early))
    twice = model(Sub([x, y], [Op("EXP", (0,), (1,)), Op("SIN", (0,), (1,))], (0,), (1,)))
    assert "makes tensor 'y', which exists already" in str(refused(twice))
    never = model(Sub([x, y], [], (0,), (1,)))
    assert "output 'y' is never computed" in str(refused(never))


def test_a_subgraph_that_calls_itself() -> None:
    options = {"ThenSubgraphIndex": 1, "ElseSubgraphIndex": 1}
    op = Op("IF", (0, 0, 1), (2,), "IfOptions", options)
    one = Sub([T("f", (1,), "bool"), floats("x", 4), floats("y", 4)], [op], (0, 1), (2,))
    problems = refused(model(one, one)).problems
    assert "subgraphs that call each other in a circle" in str(problems[0])


def test_subgraphs_that_call_others_again_and_again() -> None:
    """2^20 calls if somebody followed them all."""

    def level(k: int) -> Sub:
        options = {"ThenSubgraphIndex": k + 1, "ElseSubgraphIndex": k + 1}
        op = Op("IF", (0, 0, 1), (2,), "IfOptions", options)
        tensors = [T("f", (1,), "bool"), floats("x", 4), floats("y", 4)]
        return Sub(tensors, [op], (0, 1), (2,))

    last = Sub([T("f", (1,), "bool"), floats("x", 4)], [], (0, 1), (1,))
    assert "calls of subgraphs" in str(refused(model(*map(level, range(20)), last)))


def built() -> list[bytes]:
    rng = np.random.default_rng(7)
    conv = convolution(rng, depthwise=False, activation=1, same=True)[0]
    return [dense(rng), conv, chain(["EXP", "SIN", "ABS"])]


def spoilt() -> Iterator[tuple[str, bytes]]:
    """Damaged copies: cut off, with words that point elsewhere, with lengths that are huge."""
    dice = random.Random(3)
    for k, whole in enumerate(built()):
        for n in range(0, len(whole), max(1, len(whole) // 40)):
            yield f"cut {k} {n}", whole[:n]
        for n in range(MUTANTS // 3):
            data = bytearray(whole)
            at = dice.randrange(8, len(data) - 4)
            word = dice.choice((0, 1, 0x7FFFFFFF, 0xFFFFFFFF, len(data), dice.randrange(2**32)))
            data[at : at + 4] = word.to_bytes(4, "little")
            yield f"word {k} {n} at {at}", bytes(data)


def test_damaged_files_are_refused_or_taken_whole() -> None:
    """Never another exception, and at least 100 of them refused."""
    count, codes = 0, set()
    for name, data in spoilt():
        try:
            imported(TFLite(data), "m")
        except MlfError as error:
            codes.add((error.exit_code, name if error.exit_code != BAD_INPUT else ""))
            count += 1
        except Exception as error:
            raise AssertionError(f"{name}: {type(error).__name__}: {error}") from error
    assert codes == {(BAD_INPUT, "")}
    assert count >= 100


@pytest.mark.parametrize(
    "change",
    [
        lambda d: b"",
        lambda d: d[:8],
        lambda d: b"PK\x03\x04" + b"TFL3" + bytes(100),
        lambda d: d[:4] + b"TFL3" + b"\xff" * (len(d) - 8),
        lambda d: bytes(4) + b"TFL3" + bytes(64),
    ],
)
def test_what_is_no_model(change: Callable[[bytes], bytes]) -> None:
    data = change(built()[0])
    assert "is not a TensorFlow Lite model" in str(refused(data))


@pytest.mark.parametrize(
    ("name", "data", "said"),
    [
        ("m.tflite", b"", "is not a TensorFlow Lite model: it is empty"),
        (
            "m.tflite",
            b"version https",
            "is not a TensorFlow Lite model: its bytes 4 to 7 are not TFL3",
        ),
        ("m.tflite", b"\x08\x01", "is not a TensorFlow Lite model: its bytes 4 to 7 are not TFL3"),
        ("m.onnx", b"", "is not an ONNX model: it is empty"),
        ("m.onnx", b"\0\0\0\0TFL3", "is not a TensorFlow Lite model: "),
    ],
)
@pytest.mark.parametrize("command", ["compile", "check", "profile"])
def test_the_name_says_what_a_file_is_not(
    command: str,
    name: str,
    data: bytes,
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without the mark of a format, its suffix is what the user meant."""
    (tmp_path / name).write_bytes(data)
    more = ["-o", str(tmp_path / "m.tar")] if command == "compile" else []
    assert main([command, str(tmp_path / name), *more]) == BAD_INPUT
    assert f"{name}: error[MLF0202]: {said}" in capsys.readouterr().err
    assert not (tmp_path / "m.tar").exists()


def test_another_version() -> None:
    x, y = floats("x", 4), floats("y", 4)
    data = model(Sub([x, y], [Op("EXP", (0,), (1,))], (0,), (1,)), version=2)
    assert "version 2 of the format; expected 3" in str(refused(data))


def test_constants_of_another_size() -> None:
    tensors = [floats("x", 4), T("c", (4,), "float32", bytes=b"12345"), floats("y", 4)]
    data = model(Sub(tensors, [Op("MAXIMUM", (0, 1), (2,))], (0,), (2,)))
    assert "tensor 'c' float32[4] has 5 bytes; expected 16" in str(refused(data))


@pytest.mark.parametrize(
    ("kind", "options"),
    [("SignalDelay", {"delay_length": 3}), ("SignalFramer", {"frame_size": 2, "frame_step": 1})],
)
def test_signals_of_no_axes(kind: str, options: dict[str, int]) -> None:
    made = (T("y", (), "int16"), *((T("valid", (), "bool"),) if kind == "SignalFramer" else ()))
    outputs = tuple(range(1, 1 + len(made)))
    op = Op(kind, (0,), outputs, "", {}, flex(**options))
    (problem,) = refused(model(Sub([T("x", (), "int16"), *made], [op], (0,), outputs))).problems
    assert problem.code == "MLF0302"


def first_cases() -> Iterator[Case]:
    """One case of each operator in each type of its first tensor."""
    for name in ("elements", "moves", "states", "sums"):
        import_module(f"tfl_case_{name}")
    rng, seen = np.random.default_rng(3), set()
    for case in (c for family in FAMILIES.values() for c in family(rng)):
        key = case.kind, next((t.type for t in case.inputs if t), "")
        if key not in seen:
            seen.add(key)
            yield case


def planned(data: bytes) -> int:
    """The exit code of the compiler."""
    try:
        plan_module(ModuleSpec(TFLite(data), "m"))
    except MlfError as error:
        return error.exit_code
    return 0


def test_outputs_that_an_operator_does_not_have() -> None:
    """One output more: refused, never a tensor without a value."""
    for case in first_cases():
        refused(merged([replace(case, outputs=[*case.outputs, T("", (3,), "float32")])]))


@pytest.mark.parametrize(("given", "made"), [(1e20, 1e-20), (1e-45, 3e38)])
def test_scales_that_no_multiplier_gives(given: float, made: float) -> None:
    """Compiled or refused, wherever the factor is computed: by a rule, a pass or a kernel."""

    def scaled(t: T | None, scale: float) -> T | None:
        plain = t is None or t.scale is None
        return t if plain else replace(t, scale=np.full(np.shape(t.scale), scale))

    for case in first_cases():
        ends = [scaled(t, given) for t in case.inputs], [scaled(t, made) for t in case.outputs]
        odd = replace(case, inputs=ends[0], outputs=ends[1])
        assert planned(merged([odd])) in (0, BAD_INPUT), str(case)
