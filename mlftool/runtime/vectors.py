"""Test vectors: .npz files of samples, keyed by the model's own tensor names.

An array has its tensor's shape, or one more axis in front that counts samples. Where a model takes
one sample at a time, its first axis may count them, too.
"""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from mlftool.errors import MlfError, Problem, did_you_mean
from mlftool.files import read_plain
from mlftool.mlf import write_atomically
from mlftool.mlf.interface import Interface, Tensor

Array = npt.NDArray[Any]
LABELS = "labels"  # the class of each sample, for accuracy; not a tensor of the model


def load_vectors(path: Path, tensors: Sequence[Tensor] = ()) -> dict[str, Array]:
    """The arrays of an .npz file, or of an .npy file if there is only one tensor.

    Nothing is unpickled. Raises MlfError with what is wrong."""
    try:
        loaded = np.load(io.BytesIO(read_plain(path)), allow_pickle=False)
        if isinstance(loaded, np.ndarray):
            if len(tensors) == 1:
                return {tensors[0].name: loaded}
            names = ", ".join(f"'{t.name}'" for t in tensors)
            expected = f", expected arrays named {names}" if names else ""
            raise ValueError(f"got a single array{expected}; save them with numpy.savez")
        with loaded as archive:
            arrays = {name: archive[name] for name in archive.files}
    except OSError as error:
        text = f"cannot be read: {error.strerror or error}"
        raise MlfError(Problem("MLF0600", text, str(path))) from None
    except Exception as error:
        # Damaged files end in a dozen kinds: of numpy, zipfile, zlib, struct, the header's parser.
        raise MlfError(Problem("MLF0600", _why(error), str(path), help=_HELP)) from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # numpy hands out foreign members as bytes
            text = "is not an array in numpy's format"
            raise MlfError(Problem("MLF0600", text, str(path), path=name, help=_HELP))
    return arrays


_HELP = "write the file with numpy.savez(path, **{'tensor name': array})"
ROWS = "save one row for each sample in every array"


def missing(name: str, arrays: Mapping[str, Array]) -> str:
    """The remedy for a file without an array of that name."""
    if not arrays:
        return f"the file has no array; {_HELP}"
    return did_you_mean(name, arrays, "the file has")


def remedy(array: Array, dtype: np.dtype[Any], shape: Sequence[int]) -> str:
    """What makes samples of a tensor from an array of another type or shape, as far as that can be
    told from them."""
    if array.dtype != dtype and array.dtype.kind in "biuf" and dtype.kind in "biuf":
        return f"if these are the values that the model was trained with: array.astype('{dtype}')"
    if array.dtype != dtype:
        return f"save an array of {dtype}"
    if order := _reordered(array.shape, tuple(shape)):
        return f"if only the order of the axes differs: array.transpose({order})"
    return f"save an array of {['samples', *shape]}".replace("'", "")


def _reordered(given: tuple[int, ...], shape: tuple[int, ...]) -> tuple[int, ...]:
    """The order of a batch's axes in which they have the tensor's, such as NHWC's for NCHW; () if
    there is none or several are possible."""
    wanted = shape if len(given) == len(shape) else (len(given[:1]), *shape)
    inner = given[1:]
    if len(given) != len(wanted) or len(set(inner)) < 2 or inner == wanted[1:]:
        return ()
    if sorted(inner) != sorted(wanted[1:]):
        return ()
    left, order = list(range(1, len(given))), [0]
    for extent in wanted[1:]:  # equal extents keep their order
        order.append(next(k for k in left if given[k] == extent))
        left.remove(order[-1])
    return tuple(order)


def _why(error: Exception) -> str:
    text = str(error).splitlines()[0] if str(error) else type(error).__name__
    if "allow_pickle" in text or "pickle" in text.lower():
        return (
            "contains Python objects or is not an .npz file; got pickled data, expected plain "
            "arrays"
        )
    return f"is not a readable .npz file: {text}"


def save_npz(path: Path, arrays: Mapping[str, Array]) -> None:
    """Writes `arrays` to `path`, whole or not at all, with the same bytes every time."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for key, array in arrays.items():
            # A fixed date: numpy.savez would write the clock's.
            member = zipfile.ZipInfo(f"{key}.npy", (1980, 1, 1, 0, 0, 0))
            with archive.open(member, "w", force_zip64=True) as out:
                np.lib.format.write_array(out, np.asanyarray(array), allow_pickle=False)
    write_atomically(path, buffer.getvalue())


def samples_of(
    arrays: Mapping[str, Array], tensors: Sequence[Tensor], file: str
) -> list[dict[str, Array]]:
    """`arrays` as samples, each a dict with every one of `tensors`, contiguous.

    Arrays of other names are left alone: one file may hold inputs, references and notes. Raises
    MlfError with all problems at once.
    """
    problems = []
    counts: dict[str, int] = {}
    made: dict[str, Array] = {}
    for tensor in tensors:
        if tensor.name not in arrays:
            text = f"no array for tensor '{tensor.name}'"
            problems.append(Problem("MLF0601", text, file, help=missing(tensor.name, arrays)))
            continue
        try:
            made[tensor.name] = slots(arrays[tensor.name], tensor)
            counts[tensor.name] = _sample_count(made[tensor.name], tensor)
        except ValueError as error:
            array = arrays[tensor.name]
            hint = remedy(array, tensor.dtype, tensor.shape)
            problems.append(Problem("MLF0602", str(error), file, path=tensor.name, help=hint))
    if len(set(counts.values())) > 1:
        text = ", ".join(f"'{name}' {count}" for name, count in counts.items())
        text = f"the arrays hold different numbers of samples: {text}"
        problems.append(Problem("MLF0603", text, file, help=ROWS))
    if problems:
        raise MlfError(problems)
    count = next(iter(counts.values()), 1)
    return [{t.name: _sample(made[t.name], t, i) for t in tensors} for i in range(count)]


def one_sample(
    arrays: Mapping[str, Array], tensors: Sequence[Tensor], file: str
) -> dict[str, Array]:
    """The only sample of `arrays`, as of `samples_of`. Raises MlfError, also if there are more."""
    samples = samples_of(arrays, tensors, file)
    if len(samples) > 1:
        text = f"one call computes one sample; got {len(samples)}"
        help = "call it for each: {name: array[i] for name, array in arrays.items()}"
        raise MlfError(Problem("MLF0603", text, file, help=help))
    return samples[0]


def regrouped(array: Array, shape: tuple[int, ...]) -> Array:
    """`array` in `shape`, if only neighbouring axes have to be merged or split for that, so that
    each element keeps its meaning; else as it is. NHWC for NCHW is such another one."""
    if array.size != math.prod(shape):
        return array
    given, wanted = _bounds(array.shape), _bounds(shape)
    return array.reshape(shape) if given <= wanted or wanted <= given else array


def _bounds(shape: tuple[int, ...]) -> set[int]:
    """After how many elements each axis turns over."""
    return {math.prod(shape[k:]) for k in range(len(shape) + 1)}


def paired(
    inputs: Path, expected: Path, interface: Interface
) -> tuple[list[dict[str, Array]], list[dict[str, Array]]]:
    """Samples of a module's inputs and as many of its outputs. Raises MlfError."""
    given, wanted = (
        samples_of(load_vectors(file, tensors), tensors, str(file))
        for file, tensors in ((inputs, interface.inputs), (expected, interface.results))
    )
    if len(given) != len(wanted):
        text = f"wrong number of samples; got {len(wanted)}, expected {len(given)}"
        text = f"{text} as in the inputs"
        raise MlfError(Problem("MLF0603", text, str(expected), help=ROWS))
    return given, wanted


def slots(array: Array, tensor: Tensor) -> Array:
    """Texts as C stores those of `tensor`; of a type that numpy lacks, which its files keep as
    bytes, the values; any other array as it is. Raises ValueError if a text does not fit."""
    if array.dtype.type is np.void and array.dtype == np.dtype(f"V{tensor.dtype.itemsize}"):
        return array.view(tensor.dtype)
    room = tensor.dtype.itemsize - 1
    if tensor.dtype.kind != "S" or array.dtype.kind not in "SUO":
        return array
    texts = [t if isinstance(t, bytes) else str(t).encode() for t in array.reshape(-1)]
    if long := next((t for t in texts if len(t) > room or b"\0" in t), b""):
        shown = long[:24].decode("utf-8", "replace")
        text = f"string '{shown}' has {len(long)} bytes; expected at most {room} and no zero"
        raise ValueError(text)
    return np.array(texts, tensor.dtype).reshape(array.shape)


def _sample_count(array: Array, tensor: Tensor) -> int:
    if array.dtype != tensor.dtype:
        raise ValueError(f"wrong type; got {array.dtype}, expected {tensor.dtype}")
    if array.shape == tensor.shape or (tensor.extents and _fits(array.shape, tensor.shape)):
        return 1
    if tensor.extents and array.ndim and _fits(array.shape[1:], tensor.shape):
        return len(array)
    if array.ndim == len(tensor.shape) + 1 and array.shape[1:] == tensor.shape and len(array):
        return len(array)
    if is_batch(array, tensor.shape):
        return len(array)
    expected = f"{list(tensor.shape)} or {['samples', *tensor.shape]}".replace("'", "")
    raise ValueError(f"wrong shape; got {list(array.shape)}, expected {expected}")


def is_batch(array: Array, shape: tuple[int, ...]) -> bool:
    """Whether the array's first axis counts samples of a tensor with a batch of one."""
    alike = array.ndim == len(shape) and array.shape[1:] == shape[1:]
    return shape[:1] == (1,) and alike and array.shape[0] > 0


def _fits(shape: tuple[int, ...], bounds: tuple[int, ...]) -> bool:
    same_rank = len(shape) == len(bounds)
    return same_rank and all(n <= most for n, most in zip(shape, bounds, strict=True))


def _sample(array: Array, tensor: Tensor, index: int) -> Array:
    if is_batch(array, tensor.shape):
        sample = array[index : index + 1]
    else:
        sample = array if array.ndim == len(tensor.shape) else array[index]
    return np.asarray(sample, dtype=tensor.dtype, order="C")


def scored(results: Sequence[Tensor]) -> Tensor | None:
    """The result that has a score for each class: the first of several elements, if there is one.
    Others, such as the label that a model names itself, have no class."""
    return next((t for t in results if math.prod(t.shape) > 1), None)


def labels_of(
    arrays: Mapping[str, Array], interface: Interface, samples: int, file: str
) -> Array | None:
    """The class of each sample; None if the file tells none, or no result has a score for each.
    Raises MlfError."""
    tensors = (*interface.inputs, *interface.results)
    scores = scored(interface.results)
    if LABELS not in arrays or any(t.name == LABELS for t in tensors) or scores is None:
        return None
    labels = arrays[LABELS]
    check_labels(labels, samples, file)
    check_classes(labels, math.prod(scores.shape), file)
    return labels


def check_labels(labels: Array, samples: int, file: str) -> None:
    """Raises MlfError unless `labels` holds one class index per sample."""
    if labels.dtype.kind not in "iu" or labels.shape != (samples,):
        text = f"got {labels.dtype} {list(labels.shape)}, expected integers [{samples}]"
        raise MlfError(Problem("MLF0602", text, file, path=LABELS, help=_indices(labels, samples)))


def check_classes(labels: Array, classes: int, file: str) -> None:
    """Raises MlfError for labels [samples] that none of so many scores is for."""
    bad = labels[(labels < 0) | (labels >= classes)]
    if bad.size:
        text = f"got {bad[0]}, expected 0 to {classes - 1}, the places of the largest score"
        help = "labels that count from 1 are one too large"
        if bad.min() != classes:
            help = "a label is the index of its class's score; leave other samples out"
        raise MlfError(Problem("MLF0602", text, file, path=LABELS, help=help))


def _indices(labels: Array, samples: int) -> str:
    """The remedy for labels that are no class indices."""
    if labels.ndim == 2 and labels.shape == (samples, 1):
        return "one label for each sample: labels[:, 0]"
    if labels.ndim == 2 and len(labels) == samples and labels.dtype.kind in "biuf":
        return "if they are one-hot: labels.argmax(axis=1)"
    if labels.shape == (samples,) and labels.dtype.kind in "bf":
        return "labels.astype('int64')"
    if labels.shape == (samples,):
        return "a label is the index of its class's score"
    return ROWS
