"""What is looked at: one module, of a model, of a manifest's entry or of an archive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from pathlib import Path

from mlftool.builder import spec_of
from mlftool.compile import ModuleSpec, compile_module
from mlftool.describe import bundle as bundle_of
from mlftool.errors import MlfError, Problem
from mlftool.frozen import frozen, replace
from mlftool.insight.description import described
from mlftool.manifest.entries import Entry
from mlftool.manifest.keys import Manifest
from mlftool.mlf import Bundle, read_tar
from mlftool.mlf import archive as archives
from mlftool.mlf.interface import Interface
from mlftool.mlf.records import ModuleRecord
from mlftool.module import Module
from mlftool.runtime.boards import BOARDS, Board, choice, find
from mlftool.runtime.execute import Place, check_processor
from mlftool.runtime.interface import read_interface


@frozen
class Subject:
    """A module of an archive. `compiled` has all that the compiler knew of it; None where the
    archive was made elsewhere. `vectors` is the file that a manifest tests it with, within the
    `tolerance`: absolute and relative, None by the data type."""

    file: str  # for messages
    name: str  # for titles
    bundle: Bundle
    module: str | None = None
    compiled: Module | None = None
    vectors: Path | None = None
    tolerance: tuple[float | None, float | None] = (None, None)

    @cached_property
    def interface(self) -> Interface:
        """Raises MlfError if the archive has no such module, or several and none is named."""
        return read_interface(self.bundle, self.module, self.file)

    @cached_property
    def record(self) -> ModuleRecord:
        return archives.read(self.bundle, self.file).module(self.interface.module)

    @cached_property
    def memory(self) -> dict[str, int]:
        """Bytes of the workspace and the weights, where the archive tells them: TVM's first
        version and archives of operators do not."""
        if not self.record.memory.main and described(self.record, self.file) is None:
            return {}
        return {
            "weights": self.interface.constants_bytes,
            "workspace": self.interface.workspace_bytes,
        }

    @property
    def ram(self) -> int | None:
        """`Interface.ram_bytes`; None where the archive does not tell them."""
        return self.interface.ram_bytes if self.memory else None


def of_spec(spec: ModuleSpec, file: str, name: str) -> Subject:
    """A model, compiled. Raises MlfError."""
    module = compile_module(spec)
    return Subject(file, name, bundle_of([module]), spec.module_name, module)


def of_archive(path: Path, module: str | None = None) -> Subject:
    """Raises MlfError."""
    name = f"{path.name}: {module}" if module else path.name
    return Subject(str(path), name, read_tar(path), module)


@frozen
class Part:
    """A module of a manifest's entry, before it is compiled: the model's key and its file."""

    entry: Entry
    model: str
    executor: str
    title: str
    file: Path


def parts_of(manifest: Manifest, wanted: Sequence[Entry]) -> Iterator[Part]:
    """Each module of each entry."""
    for entry in wanted:
        for name, executor in zip(entry.models, entry.executors, strict=True):
            title = entry.output if len(entry.models) == 1 else f"{entry.output}: {name}"
            yield Part(entry, name, executor, title, manifest.locate(manifest.models[name].model))


def spec_of_part(manifest: Manifest, part: Part) -> ModuleSpec:
    """How it is compiled. Raises MlfError."""
    return spec_of(manifest, part.entry, part.model, part.executor)


def of_manifest(manifest: Manifest, wanted: Sequence[Entry]) -> Iterator[Subject]:
    """Each module of each entry, compiled when it is asked for. Raises MlfError."""
    for part in parts_of(manifest, wanted):
        yield of_part(manifest, part)


def of_part(manifest: Manifest, part: Part) -> Subject:
    """Raises MlfError."""
    found = of_spec(spec_of_part(manifest, part), str(part.file), part.title)
    test = manifest.models[part.model].test
    if test is None:
        return found
    tolerance = (test.absolute, test.relative)
    return replace(found, vectors=manifest.locate(test.vectors), tolerance=tolerance)


def board_for(target: str, wanted: str | None, file: str) -> Board:
    """The simulated board of a target, or the one that is `wanted`. Raises MlfError if there is
    none, if it has an operating system and so no memory map of its own, or if it lacks instructions
    of the target."""
    board = find(wanted or target, target)
    if board is None or board.hosted:
        known = [name for name, b in BOARDS.items() if not b.hosted]
        text = "this is measured on simulated boards without an operating system; got "
        text += f"'{wanted}'" if wanted else f"target '{target}'"
        raise MlfError(Problem("MLF0610", text, file, help=choice(wanted, known)))
    check_processor(target, Place(board.target, board), file)
    return board
