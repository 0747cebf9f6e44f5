"""Whole archives: records to files and back, in every version of the format."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from mlftool.errors import MlfError, NameClashError, Problem
from mlftool.mlf import checksums, metadata, params
from mlftool.mlf.bson import decode_bson
from mlftool.mlf.bundle import Bundle
from mlftool.mlf.layout import Layout
from mlftool.mlf.readme import readme
from mlftool.mlf.records import (
    FULL_MODEL,
    OPERATOR,
    VERSIONS,
    Archive,
    IoTensor,
    MainMemory,
    Memory,
    ModuleRecord,
    TargetString,
)
from mlftool.mlf.strict import AGAIN

README = "README.md"
_RUNTIME, _CRT = "runtime/", "crt/"


def write(archive: Archive) -> Bundle:
    """The archive's files. Raises MlfError for what its version cannot express.

    README.md, parameters/<module>.json and checksums.sha256 are made here, not part of the record.
    """
    check(archive)
    archive = normal(archive)
    files = dict(archive.shared)
    if archive.version == 1:
        files = {
            _CRT + n[len(_RUNTIME) :] if n.startswith(_RUNTIME) else n: files[n] for n in files
        }
    for m in archive.modules:
        layout = Layout(archive.version, m.style)
        files |= {layout.name(name, m.name): data for name, data in m.files.items()}
        arrays = params.decode(m.params, member=f"parameters/{m.name}.params") if m.params else {}
        if arrays and len(m.params or b"") <= params.MOST_JSON:
            files[f"parameters/{m.name}.json"] = params.encode_json(arrays)
    files[metadata.MEMBER] = metadata.encode(archive)
    files[README] = readme(archive).encode()
    files[checksums.MEMBER] = checksums.encode(files)
    return Bundle(files)


def read(bundle: Bundle, file: str = "") -> Archive:
    """The archive as records, whatever its version. Raises MlfError with every problem."""
    about = metadata.member(bundle.files)
    if about is None:
        text = "has no metadata.json, so it is not a Model Library Format archive"
        raise MlfError(Problem("MLF0502", text, file, help=AGAIN))
    checksums.verify(bundle.files, file)
    version, modules = metadata.decode(bundle.files[about], file, about)
    made = {about, README, checksums.MEMBER}
    made |= {f"parameters/{m.name}.{end}" for m in modules for end in ("json", "bson")}
    rest = {name: data for name, data in bundle.files.items() if name not in made}
    for m in modules:  # the proposal has them as JSON or BSON alone
        usual = f"parameters/{m.name}.params"
        for end, decode in (("json", params.decode_json), ("bson", decode_bson)):
            twin = f"parameters/{m.name}.{end}"
            if twin in bundle.files and usual not in rest:
                rest[usual] = params.encode(decode(bundle.files[twin], file, twin))
    if version == 1:  # which the proposal gave the C runtime in crt/
        rest = {_RUNTIME + n[len(_CRT) :] if n.startswith(_CRT) else n: rest[n] for n in rest}
    places: dict[str, list[int]] = {}
    for k, m in enumerate(modules):
        for key in {m.name, m.name.lower()}:
            places.setdefault(key, []).append(k)
    owned: list[dict[str, bytes]] = [{} for _ in modules]
    shared = {}
    for name, data in rest.items():
        # Old versions name a file after its kind, and hold one module.
        for k in _candidates(name, places) if len(modules) > 1 else (0,):
            own = Layout(version, modules[k].style).owned(name, modules[k].name)
            if own is not None:
                owned[k][own] = data
                break
        else:
            shared[name] = data
    found = tuple(replace(m, files=files) for m, files in zip(modules, owned, strict=True))
    return Archive(version, found, shared)


def _candidates(name: str, places: Mapping[str, Sequence[int]]) -> list[int]:
    """The modules whose name a file's name begins with, by their places in the archive."""
    base = name.rsplit("/", 1)[-1]
    starts = {b[:n] for b in {base, base.removeprefix("tvmgen_")} for n in range(1, len(b) + 1)}
    return sorted({k for start in starts for k in places.get(start, ())})


def check(archive: Archive) -> None:
    """Raises MlfError with the reasons why the archive cannot be written in its version."""
    for find in (_version_problems, _members_problems, _place_problems):
        problems = list(find(archive))
        if problems:  # the later ones would only be its consequences
            clash = any(p.code == "MLF0503" for p in problems)
            raise (NameClashError if clash else MlfError)(problems)


def _version_problems(archive: Archive) -> Iterable[Problem]:
    names = [m.name for m in archive.modules]
    if archive.version not in VERSIONS:
        yield Problem("MLF0506", f"version {archive.version}; expected one of 1 to 7")
        return
    if not names:
        yield Problem("MLF0506", "an archive holds at least one module")
    if len(set(names)) != len(names):
        text = f"Multiple modules should have unique names; got {', '.join(names)}"
        yield Problem("MLF0503", text)
    operators = [m.name for m in archive.modules if m.style == OPERATOR]
    if operators and len(names) > 1:
        text = f"Multiple operator is not supported. Got {', '.join(names)}"
        yield Problem("MLF0506", text, help="write one archive for each operator")
    elif len(names) > 1 and archive.version < 7:
        text = f"version {archive.version} holds one module; got {', '.join(names)}"
        yield Problem("MLF0506", text, help="write version 7")
    if operators and archive.version < 4:
        text = f"operators can be written from version 4 on; got {archive.version}"
        yield Problem("MLF0506", text, path=operators[0])


def _members_problems(archive: Archive) -> Iterable[Problem]:
    for m in archive.modules:
        yield from _module_problems(m, archive.version)


def _place_problems(archive: Archive) -> Iterable[Problem]:
    taken = list(archive.shared)
    for m in archive.modules:
        layout = Layout(archive.version, m.style)
        taken += [layout.name(name, m.name) for name in m.files]
    for name, count in sorted(Counter(taken).items()):
        if count > 1:
            yield Problem("MLF0506", f"two files would be '{name}'", help="rename the module")


def _module_problems(m: ModuleRecord, version: int) -> Iterable[Problem]:
    if not metadata.MODULE_NAME.fullmatch(m.name):
        yield Problem("MLF0404", f"module name '{m.name}'; expected letters, digits and _")
    if m.style not in (FULL_MODEL, OPERATOR):
        yield Problem("MLF0506", f"style '{m.style}'", path=m.name)
    if m.style == FULL_MODEL and len(m.executors) != 1:
        yield Problem("MLF0506", f"a model has one executor; got {len(m.executors)}", path=m.name)
    devices = [t.device for t in m.targets]
    if version < 6 and len(set(devices)) != len(devices):
        text = f"version {version} names one target for each device type; got {len(devices)}: "
        text += ", ".join(t.text for t in m.targets)
        yield Problem("MLF0506", text, path=m.name, help="write version 6 or 7")
    layout = Layout(version, m.style)
    for name in m.files:
        if layout.owned(layout.name(name, m.name), m.name) != name:
            text = f"'{name}' is not a module's file in version {version}"
            yield Problem("MLF0506", text, path=m.name)


def normal(archive: Archive) -> Archive:
    """The archive reduced to what its version can express, which is what reading returns.

    Version 1 knows of memory only the graph executor's; up to 6 there are no inputs and outputs;
    device types of targets are in 2 to 5; the C runtime came with 5, and is in the proposal for 1;
    JSON objects have no order.
    """
    version = archive.version
    shared = {
        name: data
        for name, data in archive.shared.items()
        if version >= 5
        or (version == 1 and name.startswith(_RUNTIME))
        or not name.startswith((_RUNTIME, "templates/"))
    }
    modules = tuple(_normal(m, version) for m in archive.modules)
    modules = tuple(sorted(modules, key=lambda m: m.name))
    return Archive(version, modules, shared)


def _normal(m: ModuleRecord, version: int) -> ModuleRecord:
    if m.style == OPERATOR:
        memory = Memory(operators=m.memory.operators)
    elif version == 1:
        sids = m.memory.sids or ()
        memory = Memory(sids=sids if "graph" in m.executors else None)
    else:
        main = tuple(_normal_main(entry, version) for entry in m.memory.main)
        memory = replace(m.memory, main=main, operators={})
    targets = m.targets
    if version >= 6:
        targets = tuple(TargetString(t.text) for t in targets)
    elif m.style != OPERATOR:
        targets = tuple(sorted(targets, key=lambda t: str(t.device)))
    dependencies = m.dependencies if version >= 5 else ()
    return replace(m, memory=memory, targets=targets, dependencies=dependencies)


def _normal_main(main: MainMemory, version: int) -> MainMemory:
    if version < 7:
        return replace(main, inputs=None, outputs=None)

    def ordered(tensors: tuple[IoTensor, ...] | None) -> tuple[IoTensor, ...] | None:
        return None if tensors is None else tuple(sorted(tensors, key=lambda t: t.name))

    return replace(main, inputs=ordered(main.inputs), outputs=ordered(main.outputs))
