"""Files of test vectors: what is read, and one line for everything that cannot be."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path

import numpy as np
import pytest
from runtime_archives import HOSTILE, toy, vectors

from mlftool.errors import MlfError
from mlftool.mlf.interface import Interface, Tensor
from mlftool.runtime.interface import read_interface
from mlftool.runtime.vectors import check_labels, labels_of, load_vectors, samples_of, save_npz

INPUTS = read_interface(toy()).inputs


def problems_of(arrays: dict[str, np.ndarray]) -> list[tuple[str, str]]:
    with pytest.raises(MlfError) as caught:
        samples_of(arrays, INPUTS, "v.npz")
    return [(p.code, p.message) for p in caught.value.problems]


def test_samples_are_split_along_the_first_axis() -> None:
    samples = samples_of(vectors(3), INPUTS, "v.npz")
    assert len(samples) == 3
    assert list(samples[2]) == ["a:0", HOSTILE]
    np.testing.assert_array_equal(samples[2]["a:0"], vectors(3)["a:0"][2], strict=True)


def test_one_sample_needs_no_axis() -> None:
    one = {name: array[0] for name, array in vectors(1).items()}
    (sample,) = samples_of(one, INPUTS, "v.npz")
    np.testing.assert_array_equal(sample["a:0"], one["a:0"], strict=True)


def test_samples_are_contiguous_whatever_the_file_holds() -> None:
    arrays = {name: np.asfortranarray(array) for name, array in vectors(3).items()}
    for sample in samples_of(arrays, INPUTS, "v.npz"):
        assert all(array.flags.c_contiguous for array in sample.values())


def test_all_problems_are_told_at_once() -> None:
    arrays = {"a": np.zeros((1, 4), np.int8), HOSTILE: np.zeros((3, 2), np.float64)}
    assert problems_of(arrays) == [
        ("MLF0601", "no array for tensor 'a:0'"),
        ("MLF0602", "wrong type; got float64, expected float32"),
    ]


@pytest.mark.parametrize(
    ("shape", "shown"),
    [
        ((4,), "got [4], expected [1, 4] or [samples, 1, 4]"),
        ((2, 5), "got [2, 5], expected"),
        ((0, 4), "got [0, 4], expected"),
        ((0, 1, 4), "got [0, 1, 4], expected"),
        ((1, 1, 1, 4), "got [1, 1, 1, 4], expected"),
        ((), "got [], expected"),
    ],
)
def test_wrong_shapes(shape: tuple[int, ...], shown: str) -> None:
    arrays = {**vectors(1), "a:0": np.zeros(shape, np.int8)}
    ((code, message),) = problems_of(arrays)
    assert code == "MLF0602"
    assert shown in message


def test_a_batch_is_samples_of_a_model_that_takes_one() -> None:
    """As trainers store them, and as `mlftool quantize --data` takes them."""
    batched = {name: array[:, 0] if name == "a:0" else array for name, array in vectors(3).items()}
    assert batched["a:0"].shape == (3, 4)
    found, wanted = (samples_of(v, INPUTS, "v.npz") for v in (batched, vectors(3)))
    assert len(found) == 3
    for one, other in zip(found, wanted, strict=True):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name], strict=True)


def test_a_model_with_a_larger_batch_takes_whole_batches() -> None:
    tensor = _tensor("x", (2, 4), np.int8)
    with pytest.raises(MlfError, match=r"got \[3, 4\], expected \[2, 4\] or \[samples, 2, 4\]"):
        samples_of({"x": np.zeros((3, 4), np.int8)}, [tensor], "v.npz")


def test_different_numbers_of_samples() -> None:
    arrays = {**vectors(3), "a:0": vectors(2)["a:0"]}
    ((code, message),) = problems_of(arrays)
    assert code == "MLF0603"
    assert "'a:0' 2" in message
    assert "3" in message


@pytest.mark.parametrize("array", [np.zeros(2, np.int64), np.zeros((3, 1), int), np.zeros(3)])
def test_labels_are_one_integer_per_sample(array: np.ndarray) -> None:
    check_labels(np.zeros(3, np.uint8), 3, "v.npz")
    with pytest.raises(MlfError, match="labels"):
        check_labels(array, 3, "v.npz")


@pytest.mark.parametrize(
    ("labels", "classes", "text"),
    [
        ([0, 2, 1], 3, ""),
        ([0, 3, 1], 3, "got 3, expected 0 to 2"),
        ([1, 2, 3], 3, "labels that count from 1 are one too large"),
        ([0, -1, 1], 3, "got -1, expected 0 to 2"),
        ([0, 7, 1], 1, ""),  # of a single score, no element is the largest: there is no accuracy
    ],
)
def test_labels_name_an_element_of_the_scores(labels: list[int], classes: int, text: str) -> None:
    """The first result of several elements: what a model names itself, and extents, are others."""
    results = (_tensor("label", (1,), np.int64), _tensor("scores", (1, classes), np.float32))
    interface = Interface("m", "host", (), results, 0, 0)
    given = {"labels": np.array(labels)}
    if not text:
        found = labels_of(given, interface, 3, "v.npz")
        assert (found is None) == (classes == 1)
        return
    with pytest.raises(MlfError, match=r"MLF0602.*labels") as error:
        labels_of(given, interface, 3, "v.npz")
    assert text in str(error.value) + error.value.problems[0].help


def test_a_tensor_may_be_called_labels() -> None:
    """Then the file has no classes."""
    inputs = (_tensor("labels", (4,), np.float32),)
    interface = Interface("m", "host", inputs, (_tensor("y", (3,), np.float32),), 0, 0)
    assert labels_of({"labels": np.zeros((2, 4))}, interface, 2, "v.npz") is None


def _tensor(name: str, shape: tuple[int, ...], dtype: type) -> Tensor:
    return Tensor(name, name, np.dtype(dtype), shape, np.dtype(dtype).itemsize * math.prod(shape))


def damaged_files(folder: Path) -> dict[str, Path]:
    """Files that numpy, zipfile or zlib refuse, each in its own way."""
    good = folder / "good.npz"
    np.savez(good, x=np.arange(100.0))
    data = good.read_bytes()
    squeezed = folder / "squeezed.npz"
    np.savez_compressed(squeezed, x=np.arange(1000.0))
    packed = bytearray(squeezed.read_bytes())
    packed[120:140] = bytes(20)
    header = data.replace(b"'shape': (100,)", b"'shape': (-10,)")
    files = {
        "empty": b"",
        "text": b"not an archive",
        "half": data[: len(data) // 2],
        "no directory": data[:-30],
        "array": data[data.index(b"\x93NUMPY") :],
        "compressed badly": bytes(packed),
        "negative shape": header,
        "checksum": data.replace(np.float64(50).tobytes(), np.float64(51).tobytes()),
    }
    paths = {}
    for name, content in files.items():
        paths[name] = folder / f"{name}.npz"
        paths[name].write_bytes(content)
    paths["objects"] = folder / "objects.npz"
    np.savez(paths["objects"], x=np.array([{"a": 1}], dtype=object))
    paths["member that is no array"] = folder / "member.npz"
    with zipfile.ZipFile(paths["member that is no array"], "w") as archive:
        archive.writestr("x.npy", "no array")
    paths["absent"] = folder / "absent.npz"
    paths["folder"] = folder
    return paths


KINDS = [
    "empty", "text", "half", "no directory", "array", "compressed badly", "negative shape",
    "checksum", "objects", "member that is no array", "absent", "folder",
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_files_are_one_problem(kind: str, tmp_path: Path) -> None:
    path = damaged_files(tmp_path)[kind]
    with pytest.raises(MlfError) as caught:
        load_vectors(path)
    (problem,) = caught.value.problems
    assert problem.code == "MLF0600"
    assert problem.file == str(path)
    assert len(str(problem).splitlines()) <= 2


def test_saving_and_loading_gives_the_same_arrays_and_bytes(tmp_path: Path) -> None:
    save_npz(tmp_path / "a.npz", vectors())
    save_npz(tmp_path / "b.npz", load_vectors(tmp_path / "a.npz"))
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()
    for name, array in vectors().items():
        np.testing.assert_array_equal(np.load(tmp_path / "a.npz")[name], array, strict=True)
