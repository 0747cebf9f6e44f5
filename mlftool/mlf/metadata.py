"""`metadata.json`, as every version of the format spells it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from datetime import datetime, timezone
from typing import Any

from mlftool.errors import MlfError, Problem
from mlftool.mlf.bundle import epoch
from mlftool.mlf.records import (
    FULL_MODEL,
    OPERATOR,
    VERSIONS,
    Archive,
    Argument,
    Dependency,
    FunctionMemory,
    IoTensor,
    MainMemory,
    Memory,
    ModuleRecord,
    Storage,
    TargetString,
)
from mlftool.mlf.strict import AGAIN, MAX_SIZE, Checked, decoded

MEMBER = "metadata.json"
_NUMBERED = re.compile(r"metadata-([1-9][0-9]{0,3})\.json")
# Which of them can run is not the format's business: a newer mlftool may have more.
EXECUTOR = re.compile(r"[a-z][a-z0-9_]{0,31}")
# A name becomes part of file names, and of C identifiers where there are C sources.
MODULE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,199}")


def encode(archive: Archive) -> bytes:
    """The file's bytes: for models indented with sorted keys, for operators one line as listed."""
    bodies = [_body(m, archive.version) for m in archive.modules]
    if archive.modules[0].style == OPERATOR:
        return json.dumps({"version": archive.version} | bodies[0]).encode()
    data: dict[str, Any] = {"version": archive.version}
    if archive.version >= 7:
        data["modules"] = {m.name: body for m, body in zip(archive.modules, bodies, strict=True)}
    else:
        data |= bodies[0]
    return json.dumps(data, indent=2, sort_keys=True).encode()


def _body(m: ModuleRecord, version: int) -> dict[str, Any]:
    when = datetime.fromtimestamp(epoch(), timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    body: dict[str, Any] = {
        "model_name": m.name,
        "export_datetime": m.exported or when,
        "memory": _operators(m.memory) if m.style == OPERATOR else _memory(m.memory, version),
        "target": [t.text for t in m.targets]
        if version >= 6
        else {str(t.device): t.text for t in m.targets},
        "executors" if version >= 5 else "runtimes": list(m.executors),
    }
    if version >= 4:
        body["style"] = m.style
    if m.dependencies:
        body["external_dependencies"] = [vars(d) for d in m.dependencies]
    return body


def _operators(memory: Memory) -> dict[str, Any]:
    return {
        name: [
            {
                "size_bytes": a.size_bytes,
                "shape": list(a.shape),
                "dtype": a.dtype,
                "input_binding": a.name,
            }
            for a in arguments
        ]
        for name, arguments in memory.operators.items()
    }


def _memory(memory: Memory, version: int) -> Any:
    sids = []
    for s in memory.sids or ():
        sids.append({"storage_id": s.storage_id, "size_bytes": s.size_bytes})
        if s.input_binding is not None:
            sids[-1]["input_binding"] = s.input_binding  # type: ignore[assignment]
    if version == 1:
        return sids
    functions = {
        "main": [_main(m) for m in memory.main],
        "operator_functions": [
            {
                "function_name": f.name,
                "workspace": [{"device": d, "workspace_size_bytes": n} for d, n in f.workspace],
            }
            for f in memory.functions
        ],
    }
    return {"functions": functions} | ({} if memory.sids is None else {"sids": sids})


def _main(m: MainMemory) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "device": m.device,
        "workspace_size_bytes": m.workspace_bytes,
        "constants_size_bytes": m.constants_bytes,
        "io_size_bytes": m.io_bytes,
    }
    for key, tensors in (("inputs", m.inputs), ("outputs", m.outputs)):
        if tensors is not None:
            entry[key] = {t.name: {"size": t.size_bytes, "dtype": t.dtype} for t in tensors}
    return entry


def member(names: Iterable[str]) -> str | None:
    """The metadata among an archive's files: `metadata.json`, or the proposal's
    `metadata-<version>.json`; None if there are none, or several of the latter."""
    found = sorted(n for n in names if _NUMBERED.fullmatch(n))
    return MEMBER if MEMBER in names else found[0] if len(found) == 1 else None


def decode(
    data: bytes, file: str = "", member: str = MEMBER
) -> tuple[int, tuple[ModuleRecord, ...]]:
    """The version and the modules, without their files. Raises MlfError with every problem.

    Spellings of TVM's documents that its code never wrote are read, too.
    """
    modules, value = decoded(data, _decode, "MLF0505", file, member)
    if (number := _NUMBERED.fullmatch(member)) and number[1] != str(value["version"]):
        text = f"says version {value['version']}; its name says {number[1]}"
        raise MlfError(Problem("MLF0505", text, file, path=member, help=AGAIN))
    return int(value["version"]), modules


def _decode(top: Checked) -> tuple[ModuleRecord, ...]:
    if not isinstance(top.value, dict):
        top.note("is not an object")
        return ()
    version = top.at("version").number(VERSIONS[0], VERSIONS[-1])
    if top.notes:
        return ()  # without a version nothing else has a meaning
    if version < 7 or "modules" not in top:  # an operator archive is flat in version 7 too
        return (_module(top, version, ""),)
    modules = tuple(_module(entry, version, key) for key, entry in top.at("modules").items())
    if top.value["modules"] == {}:
        top.note("has no modules")
    return modules


def _module(at: Checked, version: int, key: str) -> ModuleRecord:
    name_at = at.at("model_name")
    name = name_at.text()
    plain = MODULE_NAME.fullmatch(name) and name == (key or name)
    if (name or name_at.value == "") and not plain:
        wanted = f"'{key[:100]}'" if key else "a plain name"
        name_at.note(f"got '{name[:100]}', expected {wanted}")
    style = _style(at, version)
    memory = at.at("memory")
    key = "executors" if version >= 5 else "runtimes"
    # The proposal for several modules has none: only graphs have storage ids.
    names = (
        _executors(at.at(key), style)
        if key in at or not (at.place and "functions" in memory)
        else ("graph" if "sids" in memory else "aot",)
    )
    dependencies = at.maybe("external_dependencies")
    return ModuleRecord(
        name=name,
        executors=names,
        targets=_targets(at.at("target"), version),
        memory=Memory(operators={n: a.list(_argument) for n, a in memory.items()})
        if style == OPERATOR
        else _read_memory(memory, version, "graph" in names),
        files={},
        style=style,
        dependencies=dependencies.list(_dependency) if dependencies else (),
        exported=(at.maybe("export_datetime_utc") or at.at("export_datetime")).text(),
    )


def _executors(at: Checked, style: str) -> tuple[str, ...]:
    names = at.list(Checked.text)
    wanted = 1 if style == FULL_MODEL else 0
    if isinstance(at.value, list) and len(names) != wanted:
        at.note(f"names {len(names)} executors, expected {wanted}")
    for executor in names:
        if not EXECUTOR.fullmatch(executor):
            at.note(f"got '{executor[:100]}', expected a name such as aot")
    return names


def _style(at: Checked, version: int) -> str:
    if version < 4:
        return FULL_MODEL
    style_at = at.at("style")
    style = style_at.text()
    if style in (FULL_MODEL, OPERATOR) and not (style == OPERATOR and at.place):
        return style
    if style:  # else it is missing or no text, which is noted
        wanted = FULL_MODEL if at.place else f"{FULL_MODEL} or {OPERATOR}"
        style_at.note(f"got '{style[:100]}', expected {wanted}")
    return FULL_MODEL


def _targets(at: Checked, version: int) -> tuple[TargetString, ...]:
    if isinstance(at.value, str):  # as the proposal for version 1 has it
        return (TargetString(at.text()),)
    if version >= 6:
        return at.list(lambda t: TargetString(t.text()))
    found = []
    for key, text in at.items():
        if not re.fullmatch("[0-9]{1,4}", key):
            text.note("has a key that is not a device type")
            continue
        found.append(TargetString(text.text(), int(key)))
    return tuple(found)


def _read_memory(at: Checked, version: int, has_sids: bool) -> Memory:
    if version == 1:
        sids = at.list(_storage)
        return Memory(sids=sids if has_sids else None)
    functions = at.at("functions")
    sids_at = at.maybe("sids")
    return Memory(
        main=functions.at("main").list(_read_main),
        functions=_functions(functions),
        sids=sids_at.list(_storage) if sids_at else None,
    )


def _storage(at: Checked) -> Storage:
    binding = at.maybe("input_binding")
    return Storage(
        at.at("storage_id").number(most=2**31 - 1),
        at.at("size_bytes").number(),
        binding.text(MAX_SIZE) if binding else None,
    )


def _read_main(at: Checked) -> MainMemory:
    def tensors(key: str) -> tuple[IoTensor, ...] | None:
        found = at.maybe(key)
        if found is None:
            return None
        return tuple(
            IoTensor(name, t.at("dtype").text(), t.at("size").number()) for name, t in found.items()
        )

    return MainMemory(
        at.at("workspace_size_bytes").number(),
        at.at("constants_size_bytes").number(),
        at.at("io_size_bytes").number(),
        tensors("inputs"),
        tensors("outputs"),
        at.at("device").number(most=2**31 - 1),
    )


def _functions(at: Checked) -> tuple[FunctionMemory, ...]:
    """A list, a mapping from names as in TVM's documentation, or entries beside `main` as in its
    proposal for several modules."""
    found = at.maybe("operator_functions")
    if found is None and any(key != "main" for key, _ in at.items()):
        named = [(key, entry) for key, entry in at.items() if key != "main"]
    elif found is not None and isinstance(found.value, dict):
        named = list(found.items())
    else:
        return at.at("operator_functions").list(_function)
    return tuple(FunctionMemory(name, entry.list(_workspace)) for name, entry in named)


def _function(at: Checked) -> FunctionMemory:
    return FunctionMemory(at.at("function_name").text(), at.at("workspace").list(_workspace))


def _workspace(at: Checked) -> tuple[int, int]:
    device = at.at("device").number(most=2**31 - 1)
    return device, at.at("workspace_size_bytes").number()


def _argument(at: Checked) -> Argument:
    return Argument(
        at.at("input_binding").text(MAX_SIZE),
        at.at("dtype").text(),
        at.at("shape").list(lambda extent: extent.number(most=2**31 - 1)),
        at.at("size_bytes").number(),
    )


def _dependency(at: Checked) -> Dependency:
    keys = ("short_name", "url", "url_type", "version_spec")
    return Dependency(*(at.at(key).text() for key in keys))
