"""Runs a Python module from declared inputs only: `launch.py ROOT[=PACK][:SITE...] MODULE ...`.

Started as `python3 -B -s -S launch.py`, so that neither site-packages nor dist-packages of the
machine nor this script's folder is importable: only ROOT, SITE and the standard library are. A PACK
(bytecode.py) has modules of the folder before it; those of wheels are there without their sources.
"""

import marshal
import os
import runpy
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec, SourceFileLoader
from importlib.util import cache_from_source, spec_from_file_location
from types import ModuleType

# A module's name -> where its source is, or would be.
_SOURCES: dict[str, str] = {}
# Where its bytecode would be -> the pack's descriptor, the length and the offset.
_PLACES: dict[str, tuple[int, int, int]] = {}


class _Loader(SourceFileLoader):
    """The interpreter's own, which reads bytecode from packs; that of another Python it refuses."""

    def path_stats(self, path: str) -> dict[str, int]:
        return {"mtime": 0, "size": 0}  # no one compares: Bazel makes a pack anew with its sources

    def get_data(self, path: str) -> bytes:
        place = _PLACES.get(path)
        # Not by the descriptor's own position, which the processes that the worker forks share.
        return super().get_data(path) if place is None else os.pread(*place)


class _Finder:
    """What Python asks for modules before it looks into folders."""

    @staticmethod
    def find_spec(
        name: str, _path: Sequence[str] | None = None, _target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Of a module in a pack, or None."""
        source = _SOURCES.get(name)
        if source is None:
            return None
        folder = [os.path.dirname(source)] if source.endswith("/__init__.py") else None
        loader = _Loader(name, source)
        return spec_from_file_location(
            name, source, loader=loader, submodule_search_locations=folder
        )


def _use(folder: str, pack: str) -> None:
    """Takes a pack into use, if there is such a file; of two modules of a name the first stays."""
    try:
        file = os.open(pack, os.O_RDONLY)
    except OSError:
        return
    with open(file, "rb", buffering=0, closefd=False) as reader:
        places = marshal.load(reader)
        start = reader.tell()
    here = os.path.join(os.getcwd(), "" if folder == "." else folder)
    for name, (offset, length) in places.items():
        source = os.path.join(here, name)
        module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
        if _SOURCES.setdefault(module, source) == source:
            _PLACES[cache_from_source(source)] = (file, length, start + offset)


def main() -> None:
    """Replaces the import path and runs MODULE as `python -m` would."""
    roots, module = [root.partition("=") for root in sys.argv[1].split(":")], sys.argv[2]
    for folder, _, pack in roots:
        _use(folder, pack)
    sys.meta_path.insert(0, _Finder)
    sys.path[0:1] = [folder for folder, _, _ in roots]
    sys.argv = [module, *sys.argv[3:]]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
