"""`parameters/<module>.bson`: what the JSON form has, but the bytes as they are.

The format's proposal names the file and does not say what is in it. It is written where it is asked
for, and read where an archive has no other parameters, with the package pymongo.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from mlftool.errors import ENVIRONMENT, MlfError, Problem
from mlftool.mlf import checksums
from mlftool.mlf.bundle import Bundle
from mlftool.mlf.params import SCHEMA, Array, decode, entries, from_entries, located


def library() -> Any:
    """pymongo's `bson`. Raises MlfError where it is not installed."""
    try:
        return importlib.import_module("bson")
    except ImportError:
        help = "pip install 'mlftool[bson]', or: pip install pymongo"
        text = "writing or reading BSON needs the Python package 'pymongo'"
        raise MlfError(Problem("MLF0700", text, help=help), ENVIRONMENT) from None


def with_bson(bundle: Bundle) -> Bundle:
    """The archive with a .bson for each .params that is not empty. Raises MlfError."""
    files = dict(bundle.files)
    for name, data in bundle.files.items():
        arrays = decode(data, member=name) if name.endswith(".params") else {}
        if arrays:
            files[f"{name.removesuffix('.params')}.bson"] = encode_bson(arrays)
    return Bundle({**files, checksums.MEMBER: checksums.encode(files)})


def encode_bson(arrays: Mapping[str, Array]) -> bytes:
    """What `decode_bson` reads."""
    found = {"schema_version": SCHEMA, "parameters": entries(arrays, bytes)}
    return bytes(library().encode(found))


def decode_bson(data: bytes, file: str = "", member: str = "") -> dict[str, Array]:
    """Raises MlfError for anything that is not exactly of `encode_bson`'s form."""
    read = library().decode

    def arrays() -> dict[str, Array]:
        try:
            found = read(data)
        except Exception as error:  # the package has many classes for what is wrong
            raise ValueError(f"is not BSON: {error}") from None
        return from_entries(found, _of_bytes)

    return located(arrays, file, member)


def _of_bytes(data: Any) -> bytes:
    if not isinstance(data, bytes):
        raise ValueError("data that are not bytes")
    return data
