"""Errors against a reference, with everything floats can hold."""

from __future__ import annotations

import math

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlftool.runtime.compare import accuracy, compare
from mlftool.runtime.distance import distance

INF, NAN = np.inf, np.nan


def one(got: object, reference: object, dtype: str, **tolerance: float) -> tuple[int, float, float]:
    pair = [[{"y": np.array(v, dtype)}] for v in (got, reference)]
    c = compare(*pair, **tolerance)
    return c.mismatches, c.max_abs_error, c.max_rel_error


def exactly(got: object, reference: object, dtype: str) -> tuple[int, float, float]:
    return one(got, reference, dtype, absolute=0)


@pytest.mark.parametrize(
    ("got", "reference", "mismatches", "error", "relative"),
    [
        ([1.0, 2.0], [1.0, 2.0], 0, 0, 0),
        ([1.0, 2.5], [1.0, 2.0], 1, 0.5, 0.25),
        ([0.0], [-0.0], 0, 0, 0),
        ([NAN], [NAN], 0, 0, 0),
        ([NAN], [1.0], 1, INF, INF),
        ([1.0], [NAN], 1, INF, INF),
        ([INF, -INF], [INF, -INF], 0, 0, 0),
        ([INF], [-INF], 1, INF, INF),
        ([1.0], [INF], 1, INF, INF),
        ([0.5], [0.0], 1, 0.5, 0),
        ([], [], 0, 0, 0),
    ],
)
def test_exact_comparison(
    got: list[float], reference: list[float], mismatches: int, error: float, relative: float
) -> None:
    assert exactly(got, reference, "float32") == (mismatches, error, relative)


@pytest.mark.parametrize(
    ("got", "reference", "tolerance", "mismatches"),
    [
        (1.5, 1.0, {"absolute": 0.5}, 0),
        (1.5, 1.0, {"absolute": 0.49}, 1),
        (110.0, 100.0, {"relative": 0.1}, 0),
        (111.0, 100.0, {"relative": 0.1}, 1),
        (111.0, 100.0, {"relative": 0.125, "absolute": 0.0}, 0),
        (120.0, 100.0, {"relative": 0.125, "absolute": 7.5}, 0),  # the sum of the two
        (120.5, 100.0, {"relative": 0.125, "absolute": 7.5}, 1),
        (0.1, 0.0, {"relative": 0.5}, 1),
        (1.0, INF, {"relative": 0.5}, 1),
        (NAN, 1.0, {"absolute": 1e30}, 1),
        (INF, 1.0, {"absolute": 1e30}, 1),
    ],
)
def test_tolerances(
    got: float, reference: float, tolerance: dict[str, float], mismatches: int
) -> None:
    assert one([got], [reference], "float64", **tolerance)[0] == mismatches


_EXACT = [0.0, -0.0, 1.0, -1.0, 1.25, 1.5, 2.0, -2.0, 8.0, 9.0, 100.0, INF, -INF, NAN]


@given(
    st.lists(st.tuples(st.sampled_from(_EXACT), st.sampled_from(_EXACT)), min_size=1),
    st.sampled_from([0.0, 0.25, 0.5, 1.0, 8.0]),
    st.sampled_from([0.0, 0.125, 0.25, 1.0, 2.0]),
)
def test_tolerances_mean_what_they_mean_in_numpy(
    pairs: list[tuple[float, float]], absolute: float, relative: float
) -> None:
    got, reference = np.array(pairs).T
    close = np.isclose(got, reference, rtol=relative, atol=absolute, equal_nan=True)
    mismatches, _, _ = one(got, reference, "float64", absolute=absolute, relative=relative)
    assert mismatches == int((~close).sum())


@pytest.mark.parametrize(
    ("dtype", "passes", "fails"),
    [
        ("float32", 6e-8, 1e-3),
        ("float64", 1e-12, 1e-6),
        ("float16", 9e-4, 1e-2),
        ("bfloat16", 7e-3, 0.1),
        ("complex64", 1e-6, 1e-3),
        ("int8", 0, 1),
        ("uint16", 0, 1),
        ("int64", 0, 1),
        ("bool", 0, 1),
    ],
)
def test_without_a_tolerance_the_data_type_decides(dtype: str, passes: float, fails: float) -> None:
    kind = ml_dtypes.bfloat16 if dtype == "bfloat16" else dtype
    one_ = np.array([1.0 if fails != 1 else 0.0])
    reference = [{"y": one_.astype(kind)}]
    for error, mismatches in ((passes, 0), (fails, 1)):
        got = [{"y": (one_ + error).astype(kind)}]
        assert compare(got, reference).mismatches == mismatches, error


def test_one_tolerance_alone_is_the_only_one() -> None:
    assert one([1 + 1e-6], [1.0], "float64", absolute=0.0)[0] == 1
    assert one([1 + 1e-6], [1.0], "float64", relative=0.0)[0] == 1
    assert one([1 + 1e-6], [1.0], "float64", relative=1e-5)[0] == 0


@given(st.integers(-(2**63), 2**63 - 1), st.integers(-(2**63), 2**63 - 1))
def test_int64_errors_are_exact(a: int, b: int) -> None:
    mismatches, error, _ = one([a], [b], "int64")
    assert mismatches == (a != b)
    assert error == float(abs(a - b))


def test_imaginary_parts_count() -> None:
    assert one([1 + 2j], [1 + 5j], "complex64")[:2] == (1, 3.0)


def test_bool_and_uint8_do_not_wrap_around() -> None:
    assert one([True], [False], "bool") == (1, 1, 0)
    assert one([0], [255], "uint8") == (1, 255, 1)


def test_the_worst_element_is_named() -> None:
    got = [{"y": np.zeros((2, 2), np.int8)}, {"y": np.array([[0, 0], [5, 0]], np.int8)}]
    reference = [{"y": np.zeros((2, 2), np.int8)}, {"y": np.array([[1, 0], [0, 0]], np.int8)}]
    c = compare(got, reference)
    assert (c.elements, c.mismatches, c.passed) == (8, 2, False)
    assert c.worst == "sample 1, 'y'[1, 0]: got 5, expected 0"


def test_accuracy_is_the_share_of_right_classes() -> None:
    outputs = [np.array([[0, 9, 1]]), np.array([[3, 2, 1]]), np.array([[0, 0, 1]])]
    assert accuracy(outputs, np.array([1, 0, 1])) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("got", "reference", "rmse", "cosine", "sqnr"),
    [
        ([3.0, 4.0], [3.0, 4.0], 0, 1, INF),
        ([3.0, 5.0], [3.0, 4.0], math.sqrt(0.5), 29 / math.sqrt(34 * 25), 10 * math.log10(25)),
        ([-3.0, -4.0], [3.0, 4.0], math.sqrt(50), -1, 10 * math.log10(0.25)),
        ([1.0, 0.0], [0.0, 1.0], 1, 0, 10 * math.log10(0.5)),
        ([1.0], [0.0], 1, None, None),
        ([NAN, INF, 1.0], [NAN, INF, 1.0], 0, 1, INF),
        ([NAN, 1.0], [2.0, 1.0], INF, 1, -INF),
        ([INF, 1.0], [-INF, 1.0], INF, 1, -INF),
        ([], [], 0, None, None),
    ],
)
def test_distances(
    got: list[float], reference: list[float], rmse: float, cosine: float | None, sqnr: float | None
) -> None:
    found = distance(np.array(got, np.float32), np.array(reference, np.float32))
    assert found.rmse == pytest.approx(rmse)
    assert found.cosine == (None if cosine is None else pytest.approx(cosine))
    assert found.sqnr == (None if sqnr is None else pytest.approx(sqnr))


@pytest.mark.parametrize("dtype", [np.int8, np.float16, ml_dtypes.bfloat16, np.complex64, np.int64])
def test_distances_add_up(dtype: type) -> None:
    """Over samples and outputs; narrow integers do not wrap."""
    rng = np.random.default_rng(7)
    a, b = (rng.integers(-128, 128, 500).astype(dtype) for _ in range(2))
    whole, parts = distance(a, b), distance(a[:123], b[:123]) + distance(a[123:], b[123:])
    assert (parts.elements, parts.rmse) == (500, pytest.approx(whole.rmse))
    wide = a.astype(np.complex128), b.astype(np.complex128)
    assert whole.rmse == pytest.approx(np.sqrt(np.mean(np.abs(wide[0] - wide[1]) ** 2)))
    names = [{"x": a[:123], "y": a[123:]}], [{"x": b[:123], "y": b[123:]}]
    assert compare(*names).distance.cosine == pytest.approx(whole.cosine)


def test_squares_beyond_floats_have_no_cosine() -> None:
    huge = distance(np.array([1e200, 1.0]), np.array([1e200, 2.0]))
    assert huge.cosine is None
    assert huge.rmse == pytest.approx(math.sqrt(0.5))


def test_another_shape_is_infinitely_far() -> None:
    assert compare([{"x": np.zeros(3)}], [{"x": np.zeros(2)}]).distance.rmse == INF


def test_strings_are_equal_or_not() -> None:
    """Whatever the tolerance: they have no distance, and no other output's figures change."""
    texts, scores = np.array([b"walk", b"idle"], "S64"), np.array([0.5, 0.25], np.float32)
    got = [{"label": texts, "score": scores}] * 2
    same = compare(got, got)
    assert (same.passed, same.max_abs_error, same.distance.elements) == (True, 0, 4)
    assert same.allowed.startswith("0 (default for strings), ")
    other = {"label": np.array([b"walk", b"fall"], "S64"), "score": scores}
    differ = compare(got, [got[0], other], absolute=1e9)
    assert (differ.mismatches, differ.max_abs_error, differ.distance.rmse) == (1, INF, 0)
    assert differ.worst == "sample 1, 'label'[1]: got 'idle', expected 'fall'"
