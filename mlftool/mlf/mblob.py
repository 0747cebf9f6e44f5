"""`__tvm_dev_mblob` of a shared library: the modules that TVM's loader puts around its code.

All numbers are 64 bits, little-endian; a text is its length and its bytes. The code itself is the
module `_lib`, which has no content; `_import_tree` says which module imports which.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence

from mlftool.mlf.params import Array, encode_array


def aot_blob(name: str) -> bytes:
    """The factory `name` of a library for TVM's AOT executor; its metadata are the code's."""
    factory = _text("AotExecutorFactory") + _tensors({}) + _text(name)
    metadata = _text("metadata_module")  # between the factory and the code
    return _blob([factory, metadata, _text("_lib")], [[1], [2], []])


def graph_blob(name: str, graph: bytes, params: Mapping[str, Array]) -> bytes:
    """The factory `name` of a library for TVM's graph executor."""
    factory = _text("GraphExecutorFactory") + _sized(graph) + _tensors(params) + _text(name)
    return _blob([factory, _text("_lib")], [[1], []])


def _blob(modules: Sequence[bytes], imports: Sequence[Sequence[int]]) -> bytes:
    """`imports` has the indices of the modules that each one imports."""
    children = [child for each in imports for child in each]
    starts = [sum(map(len, imports[:i])) for i in range(len(imports) + 1)]
    tree = _text("_import_tree") + _numbers(starts) + _numbers(children)
    return _sized(_number(len(modules) + 1) + b"".join(modules) + tree)


def _tensors(arrays: Mapping[str, Array]) -> bytes:
    """Their number, their names as a vector, and their records."""
    names = _number(len(arrays)) + b"".join(map(_text, arrays))
    return _number(len(arrays)) + names + b"".join(map(encode_array, arrays.values()))


def _number(value: int) -> bytes:
    return struct.pack("<Q", value)


def _numbers(values: Sequence[int]) -> bytes:
    return _number(len(values)) + b"".join(map(_number, values))


def _sized(data: bytes) -> bytes:
    return _number(len(data)) + data


def _text(text: str) -> bytes:
    return _sized(text.encode())
