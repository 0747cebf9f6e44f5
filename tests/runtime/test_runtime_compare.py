"""Errors against a reference, with everything floats can hold."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlftool.runtime.compare import accuracy, compare

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
