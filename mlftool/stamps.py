"""Whether an archive is what would be compiled again: everything that went into it, by content.

Each archive has a stamp: a digest of everything that decides its bytes, and one of the archive. If
both are unchanged, the archive is kept; anything in doubt counts as changed.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path, PurePosixPath

from mlftool.errors import MlfError
from mlftool.files import FileError, read_file, read_plain
from mlftool.mlf import make_folder, write_atomically
from mlftool.mlf.runtime_tree import crt_root

FOLDER = ".mlftool"
# Packages whose code decides what is written.
PACKAGES = (
    "flatbuffers",
    "google.protobuf",
    "jinja2",
    "ml_dtypes",
    "numpy",
    "onnx",
    "onnxruntime",
    "tflite",
)


def compiler_digest() -> str:
    """One digest of the compiler, of what it runs on and of what its environment tells it."""
    package = Path(__file__).absolute().parent
    files = (p for root in (package, crt_root()) for p in sorted(root.rglob("*")))
    sources = (p for p in files if p.is_file() and "__pycache__" not in p.parts)
    facts = [sys.version, platform.machine(), os.environ.get("SOURCE_DATE_EPOCH", "")]
    facts += map(_package, PACKAGES)
    return _digest([*(f.encode() for f in facts), *_named_contents(sources)])


def _package(name: str) -> str:
    """A package by its version and by the file it starts with: installing it changes that."""
    version = ""
    with suppress(importlib.metadata.PackageNotFoundError):
        version = importlib.metadata.version(name.rpartition(".")[2])
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        return f"{name} is missing"
    info = os.stat(spec.origin)
    return f"{name} {version} {spec.origin} {info.st_size} {info.st_mtime_ns}"


def _named_contents(files: Iterable[Path]) -> Iterator[bytes]:
    for file in files:
        yield os.fsencode(file)
        yield read_plain(file)


def _digest(parts: Iterable[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:  # lengths keep parts from running together
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


class Stamp:
    """The stamp of one archive below `folder`, made of `models` with external `data` they declare
    and of `others`.

    `settings` are all else: the compiler's digest and what the manifest asks for.
    """

    def __init__(
        self,
        folder: Path,
        output: str,
        settings: Sequence[str],
        models: Sequence[tuple[Path, Sequence[Path]]],
        others: Sequence[Path] = (),
    ) -> None:
        self.archive = folder / output
        self.file = folder / FOLDER / f"{output}.json"
        self.models, self.others = models, others
        self.settings = _digest(s.encode("utf-8", "surrogateescape") for s in settings)

    def holds(self) -> bool:
        """Whether the archive is the one that was written, from what is there now."""
        try:
            stamp = json.loads(read_plain(self.file))
            return bool(
                stamp["archive"] == _digest([read_plain(self.archive)])
                and stamp["inputs"] == self._inputs(stamp["external"])
            )
        except (OSError, ValueError, TypeError, KeyError, MlfError):
            return False

    def before(self) -> tuple[str, list[list[str]]] | None:
        """The digest of the archive's inputs; None if it cannot be computed."""
        try:
            external = [external_files(model) for model, _ in self.models]
            return self._inputs(external), external
        except (OSError, MlfError):
            return None  # compiling will tell

    def write(self, before: tuple[str, list[list[str]]] | None) -> None:
        """Stamps the archive, unless its inputs changed meanwhile: then it is unknown which it has.

        A stamp only ever says what was made of what, so an old one does no harm where a new one
        cannot be written: it does not match, and the archive is compiled again.
        """
        if before is None or before != self.before():
            return
        inputs, external = before
        with suppress(OSError, MlfError):
            archive = _digest([read_plain(self.archive)])
            stamp = {"archive": archive, "external": external, "inputs": inputs}
            make_folder(self.file.parent)
            write_atomically(self.file, json.dumps(stamp).encode())

    def _inputs(self, external: Sequence[Sequence[str]]) -> str:
        """A digest of everything; `external` names the data files of each model."""
        parts = [self.settings.encode(), *map(read_plain, self.others)]
        for (model, declared), names in zip(self.models, external, strict=True):
            parts += [os.fsencode(model), read_plain(model)]
            parts += _external_contents(model, declared, names)
        return _digest(parts)


def external_files(model: Path) -> list[str]:
    """The names of a model's external data files, as the model spells them."""
    import onnx

    from mlftool.frontends.load import parse, tensors
    from mlftool.frontends.tflite.model import is_tflite

    if is_tflite(read_plain(model, 8)):
        return []
    return sorted(
        {
            entry.value
            for tensor in tensors(parse(model))
            if tensor.data_location == onnx.TensorProto.EXTERNAL
            for entry in tensor.external_data
            if entry.key == "location"
        }
    )


def _external_contents(
    model: Path, declared: Sequence[Path], names: Sequence[str]
) -> Iterator[bytes]:
    """Read as the importer reads them: through links only if declared. Raises OSError."""
    if not names:
        return
    places = {file.name: file for file in declared}
    for name in names:
        if PurePosixPath(name).parts != (name,) or name in ("/", ".."):
            raise OSError("not in the model's folder")
        try:
            file = places.get(name)
            yield name.encode()
            yield read_file(file) if file else read_file(model.parent / name, follow=False)
        except FileError as error:
            raise OSError(str(error)) from None
