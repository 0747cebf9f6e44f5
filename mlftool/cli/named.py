"""The files that files name: a model's external data, and all that a manifest lists."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.errors import MlfError
from mlftool.files import MANIFEST_SUFFIXES, MODEL_SUFFIXES

if TYPE_CHECKING:
    from mlftool.manifest import Manifest


def listed(manifest: Manifest) -> tuple[Path, ...]:
    """All that its models are made of."""
    named = (name for model in manifest.models.values() for name in model.files)
    return tuple(map(manifest.locate, dict.fromkeys(named)))


def named_by(file: Path) -> Iterator[Path]:
    """Those of a model or a manifest, as far as it can be read: what is wrong with it is for the
    command to say."""
    if file.suffix in MANIFEST_SUFFIXES:
        from mlftool.manifest import read

        manifest, _ = read(file, check_files=False)
        for path in listed(manifest) if manifest else ():
            yield path
            yield from named_by(path)
    elif file.suffix in MODEL_SUFFIXES:
        from mlftool.stamps import external_files

        with suppress(MlfError, OSError):
            yield from (file.parent / name for name in external_files(file))
