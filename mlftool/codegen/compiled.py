"""Compiled templates, kept in the user's cache by their content: to compile those that a small
model needs is a fifth of what `mlftool compile` takes for it."""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from pathlib import Path

import jinja2
from jinja2 import BytecodeCache, Environment
from jinja2.bccache import Bucket, bc_magic

from mlftool.files import default_cache

_DIGEST = hashlib.sha256().digest_size


def _folder() -> Path | None:
    """None without a user: actions of a build system read nothing but what they declare."""
    variables = ("MLFTOOL_CACHE", "XDG_CACHE_HOME", "HOME")
    return default_cache() / "templates" if any(map(os.environ.get, variables)) else None


class Compiled(BytecodeCache):
    """What cannot be read or written is compiled again; the bytes have their digest before them.

    Jinja computes what it can beforehand, with the filters that the source `settings` defines."""

    def __init__(self, settings: Path) -> None:
        versions = (jinja2.__version__.encode(), bc_magic)
        self._parts: tuple[bytes, ...] = ()
        with suppress(OSError):  # installed without sources
            self._parts = (*versions, settings.read_bytes())

    def get_cache_key(self, name: str, filename: str | None = None) -> str:
        """The same wherever mlftool is: `filename` is for messages only."""
        return name

    def get_bucket(
        self, environment: Environment, name: str, filename: str | None, source: str
    ) -> Bucket:
        bucket = super().get_bucket(environment, name, filename, source)
        if bucket.code is not None and filename is not None:
            bucket.code = bucket.code.replace(co_filename=filename)
        return bucket

    def load_bytecode(self, bucket: Bucket) -> None:
        if path := self._path(bucket):
            with suppress(OSError):
                data = path.read_bytes()
                if hashlib.sha256(data[_DIGEST:]).digest() == data[:_DIGEST]:
                    bucket.bytecode_from_string(data[_DIGEST:])

    def dump_bytecode(self, bucket: Bucket) -> None:
        """Whole or not at all: written aside and renamed."""
        if path := self._path(bucket):
            data = bucket.bytecode_to_string()
            with suppress(OSError):
                path.parent.mkdir(parents=True, exist_ok=True)
                handle, aside = tempfile.mkstemp(dir=path.parent)
                try:
                    with open(handle, "wb") as file:
                        file.write(hashlib.sha256(data).digest() + data)
                    Path(aside).replace(path)
                finally:
                    Path(aside).unlink(missing_ok=True)

    def _path(self, bucket: Bucket) -> Path | None:
        """By the template's name and content, and by all that compiles it."""
        folder = _folder() if self._parts else None
        parts = (bucket.key.encode(), bucket.checksum.encode(), *self._parts)
        digests = b"".join(hashlib.sha256(part).digest() for part in parts)
        return folder / hashlib.sha256(digests).hexdigest() if folder else None
