"""Compiling a module of an archive for this computer, as a library or a program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mlftool.files import default_cache
from mlftool.mlf.records import ModuleRecord
from mlftool.runtime import toolchain
from mlftool.runtime.cache import build_once, key_of
from mlftool.runtime.sources import INCLUDES, Code, crt_files

_HOST_INCLUDES = ("-Icrt/runner", "-Icrt/platform")
FRAME = "crt/"  # where the files are that are the same for all modules of an executor


def compile_once(
    command: Sequence[str],
    flags: Sequence[str],
    files: Mapping[str, bytes],
    sources: Sequence[str],
    cache: Path,
    what: str,
) -> dict[str, bytes]:
    """The object files of C sources that many modules share, by name: they are compiled once for
    equal files and flags. `files` are the sources and all that they include. Raises MlfError."""
    objects = {f"{source.removesuffix('.c').replace('/', '.')}.o": source for source in sources}
    key = key_of((toolchain.identity(tuple(command)), *flags, "-c", *sources), files)

    def build(work: Path) -> None:
        for name, source in objects.items():
            toolchain.compile_c(command, (*flags, "-c", source, "-o", name), work, what)

    folder = build_once(cache, key, files, build, tuple(objects))
    return {name: (folder / name).read_bytes() for name in objects}


def frame_objects(
    command: Sequence[str], flags: Sequence[str], files: Mapping[str, bytes], cache: Path
) -> dict[str, bytes]:
    """What of a program's `files` is not of the module, as object files."""
    frame = {name: data for name, data in files.items() if name.startswith(FRAME)}
    sources = [name for name in frame if name.endswith(".c")]
    return compile_once(command, flags, frame, sources, cache, "the runner") if sources else {}


def crt_objects(record: ModuleRecord, cache: Path) -> dict[str, bytes]:
    """Our C runtime as object files, compiled once for all modules with the same limits."""
    files, sources = crt_files(record)
    command = toolchain.find(toolchain.CC)
    flags = ("-std=gnu99", "-O2", "-fPIC", *INCLUDES, *_HOST_INCLUDES)
    return compile_once(command, flags, files, sources, cache, "the C runtime")


def build_code(
    code: Code,
    extra: Mapping[str, bytes],
    flags: Sequence[str],
    name: str,
    what: str,
    cache_dir: Path | None = None,
    crt: ModuleRecord | None = None,
) -> Path:
    """The file made of a module's code and `extra` files, whose .c files are compiled with it.

    `name` may hold "{key}", which becomes that of the cache. With `crt` the C runtime is linked,
    made for that module. Raises MlfError, naming libraries that the archive does not hold.
    """
    cache = cache_dir or default_cache()
    cc = toolchain.find(toolchain.CC)
    cxx = toolchain.find(toolchain.CXX) if code.cxx else ()
    common = (*flags, *INCLUDES, *_HOST_INCLUDES)
    objects = crt_objects(crt, cache) if crt is not None else {}
    objects |= frame_objects(cc, (*common, *code.cflags), {**code.files, **extra}, cache)
    files = {**code.files, **extra, **objects}
    sources = (*code.c, *(n for n in extra if n.endswith(".c") and not n.startswith(FRAME)))
    identities = (toolchain.identity(cc), *((toolchain.identity(cxx),) if cxx else ()))
    key = key_of((*identities, *common, *code.cflags, *sources, *objects), files)
    out = name.format(key=key)

    def build(work: Path) -> None:
        linked = [*code.objects]
        for i, source in enumerate(code.cxx):
            linked.append(f"cxx{i}.o")
            plain = (*common, "-ffp-contract=off", "-w", "-c", source, "-o", linked[-1])
            toolchain.compile_c(cxx, plain, work, what)
        libraries = ("-lstdc++", "-lm") if code.cxx else ("-lm",)
        arguments = (*common, *code.cflags, *sources, *linked, *objects, "-o", out, *libraries)
        toolchain.compile_c(cc, arguments, work, what)

    return build_once(cache, key, files, build, [out]) / out
