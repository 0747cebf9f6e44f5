"""metadata.json that lies or is malformed: each wrong thing is one line, and all are told."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from test_versions import METADATA, graph_module, operator_module

from mlftool.errors import MlfError
from mlftool.mlf import Bundle
from mlftool.mlf.archive import read, write
from mlftool.mlf.layout import Layout
from mlftool.mlf.records import Archive
from mlftool.mlf.strict import AGAIN, MOST_NOTES, Checked

DELETE = object()


def changed(version: int, *changes: tuple[str, Any]) -> bytes:
    """The example of a version with values replaced: "memory.functions" names a key path."""
    data = copy.deepcopy(json.loads(METADATA[version]))
    for path, value in changes:
        *parents, last = path.split(".")
        at = data
        for key in parents:
            at = at[int(key) if isinstance(at, list) else key]
        key = int(last) if isinstance(at, list) else last
        if value is DELETE:
            del at[key]
        else:
            at[key] = value
    return json.dumps(data).encode()


MAIN = "memory.functions.main.0"
# name -> bytes, and (place, message) of every problem
HOSTILE: dict[str, tuple[bytes, list[tuple[str, str]]]] = {
    "empty": (b"", [("", "is not JSON: Expecting value in line 1, column 1")]),
    "cut": (METADATA[7].encode()[:-1], [("", "is not JSON")]),
    "latin": (b'{"version": "\xe9"}', [("", "is not UTF-8")]),
    "deep": (b"[" * 100_000, [("", "is nested too deeply")]),
    "list": (b"[]", [("", "is not an object")]),
    "nan": (changed(3).replace(b"64", b"NaN"), [("", "holds NaN, which is not JSON")]),
    "twice": (b'{"version": 7, "version": 1}', [("", "has the key 'version' twice")]),
    "huge_number": (b'{"version": ' + b"9" * 5000 + b"}", [("", "Exceeds the limit")]),
    "no_version": (b"{}", [("version", "is missing")]),
    "version_0": (changed(6, ("version", 0)), [("version", "got 0, expected an integer from 1")]),
    "version_8": (changed(6, ("version", 8)), [("version", "got 8, expected an integer from 1")]),
    "version_text": (changed(6, ("version", "6")), [("version", 'got "6", expected')]),
    "version_true": (changed(1, ("version", True)), [("version", "got true, expected")]),
    "version_float": (changed(6, ("version", 6.0)), [("version", "got 6.0, expected")]),
    "no_modules": (b'{"version": 7, "modules": {}}', [("", "has no modules")]),
    "modules_list": (b'{"version": 7, "modules": []}', [
        ("modules", "got a list of 0, expected an object")]),
    "module_text": (b'{"version": 7, "modules": {"m": 3}}', [
        ("modules.m", "got 3, expected an object")]),
    "several": (
        changed(
            5,
            ("model_name", DELETE),
            ("export_datetime", 7),
            ("style", "half-model"),
            ("target", ["c"]),
            ("executors", ["graph", "aot"]),
        ),
        [
            ("model_name", "is missing"),
            ("style", "got 'half-model', expected full-model or operator"),
            ("executors", "names 2 executors, expected 1"),
            ("target", "got a list of 1, expected an object"),
            ("export_datetime", "got 7, expected text"),
        ],
    ),
    "name_path": (
        changed(3, ("model_name", "../../etc")),
        [("model_name", "got '../../etc', expected a plain name")],
    ),
    "name_empty": (
        changed(3, ("model_name", "")),
        [("model_name", "got '', expected a plain name")],
    ),
    "name_other": (
        changed(7, ("modules.vad.model_name", "kws")),
        [("modules.vad.model_name", "got 'kws', expected 'vad'")],
    ),
    "name_surrogate": (
        changed(3, ("model_name", "\ud800")),
        [("model_name", "is text that is not Unicode")],
    ),
    "executor": (
        changed(7, ("modules.vad.executors", ["../magic"])),
        [("modules.vad.executors", "got '../magic', expected a name such as aot")],
    ),
    "target_long": (
        changed(7, ("modules.vad.target", ["c" * 300_000])),
        [("modules.vad.target[0]", "is text of 300000 characters, expected at most 4096")],
    ),
    "runtimes_in_5": (
        changed(4, ("version", 5)), [("executors", "is missing")],
    ),
    "style_in_7": (
        changed(7, ("modules.vad.style", "operator"), ("modules.vad.executors", []),
                ("modules.vad.memory", {})),
        [
            ("modules.vad.style", "got 'operator', expected full-model"),
            ("modules.vad.executors", "names 0 executors, expected 1"),
            ("modules.vad.memory.functions", "is missing"),
        ],
    ),
    "sizes": (
        changed(
            2,
            (f"{MAIN}.workspace_size_bytes", -1),
            (f"{MAIN}.io_size_bytes", 2**63),
            (f"{MAIN}.constants_size_bytes", 1.5),
            (f"{MAIN}.device", None),
            ("memory.sids.0.storage_id", 2**31),
            ("memory.sids.1.size_bytes", "32"),
            ("memory.sids.2.size_bytes", DELETE),
        ),
        [
            (f"{MAIN[:-2]}[0].workspace_size_bytes", "got -1, expected an integer from 0"),
            (f"{MAIN[:-2]}[0].constants_size_bytes", "got 1.5, expected an integer"),
            (f"{MAIN[:-2]}[0].io_size_bytes", "got 9223372036854775808, expected an integer"),
            (f"{MAIN[:-2]}[0].device", "got null, expected an integer"),
            ("memory.sids[0].storage_id", "got 2147483648, expected an integer from 0"),
            ("memory.sids[1].size_bytes", 'got "32", expected an integer'),
            ("memory.sids[2].size_bytes", "is missing"),
        ],
    ),
    "no_functions": (
        changed(6, ("memory.functions", DELETE)), [("memory.functions", "is missing")],
    ),
    "workspace": (
        changed(6, ("memory.functions.operator_functions.0.workspace", {"device": 1})),
        [("memory.functions.operator_functions[0].workspace", "got an object, expected a list")],
    ),
    "memory_of_2_in_1": (
        changed(2, ("version", 1)), [("memory", "got an object, expected a list")],
    ),
    "memory_of_1_in_2": (
        changed(1, ("version", 2)),
        [("memory", "got a list of 3, expected an object")],
    ),
    "target_device": (
        changed(3, ("target", {"cpu": "c"})), [("target.cpu", "has a key that is not a device "
            "type")],
    ),
    "inputs": (
        changed(7, (f"modules.vad.{MAIN}.inputs", {"x": {"size": 32}, "y": [32]})),
        [
            ("modules.vad.memory.functions.main[0].inputs.x.dtype", "is missing"),
            ("modules.vad.memory.functions.main[0].inputs.y", "got a list of 1, expected"),
        ],
    ),
    "dependency": (
        changed(6, ("external_dependencies", [{"short_name": "x", "url": "y", "url_type": "z"}])),
        [("external_dependencies[0].version_spec", "is missing")],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_metadata(name: str) -> None:
    data, wanted = HOSTILE[name]
    with pytest.raises(MlfError) as caught:
        read(Bundle({"metadata.json": data}), "a.tar")
    found = [(p.path, p.message) for p in caught.value.problems]
    listing = "\n".join(map(str, found))
    assert len(found) == len(wanted), listing
    for place, message in wanted:
        path = f"metadata.json: {place}" if place else "metadata.json"
        assert any(p == path and message in m for p, m in found), (path, message, listing)
    for problem in caught.value.problems:
        assert (problem.code, problem.file) == ("MLF0505", "a.tar")
        assert "\n" not in problem.message
    assert [p.help for p in caught.value.problems if p.help] == [AGAIN], "said once"


@pytest.mark.parametrize(
    ("path", "value", "place"),
    [
        (("add", 0, "shape"), [-1], "memory.add[0].shape[0]"),
        (("add", 0, "shape"), 4, "memory.add[0].shape"),
        (("add", 1, "size_bytes"), True, "memory.add[1].size_bytes"),
        (("add", 2, "input_binding"), None, "memory.add[2].input_binding"),
        (("add",), {"A": 4}, "memory.add"),
    ],
)
def test_hostile_operators(path: tuple[Any, ...], value: Any, place: str) -> None:
    data = json.loads(write(Archive(7, (operator_module(),))).files["metadata.json"])
    at = data["memory"]
    for key in path[:-1]:
        at = at[key]
    at[path[-1]] = value
    with pytest.raises(MlfError) as caught:
        read(Bundle({"metadata.json": json.dumps(data).encode()}))
    assert [p.path for p in caught.value.problems] == [f"metadata.json: {place}"]


def test_bits_flipped_anywhere_never_crash() -> None:
    """Whatever a byte becomes, there is an archive or a list of problems."""
    data = write(Archive(7, (graph_module(),))).files["metadata.json"]
    codes = set()
    for at in range(len(data)):
        for byte in (0, data[at] ^ 1, data[at] ^ 0x80, ord("}"), ord("9")):
            spoilt = Bundle({"metadata.json": data[:at] + bytes([byte]) + data[at + 1 :]})
            try:
                read(spoilt)
            except MlfError as error:
                codes |= {p.code for p in error.problems}
    assert codes == {"MLF0505"}


MANY = 20_000
LONG: dict[str, bytes] = {
    "executors": changed(7, ("modules.vad.executors", [1] * MANY)),
    "targets": changed(7, ("modules.vad.target", [1] * MANY)),
    "dependencies": changed(7, ("modules.vad.external_dependencies", [{}] * MANY)),
    "functions": changed(7, (f"modules.vad.{MAIN[:-7]}.operator_functions", [{}] * MANY)),
    "inputs": changed(7, (f"modules.vad.{MAIN}.inputs", dict.fromkeys(map(str, range(MANY)), 1))),
    "modules": changed(7, ("modules", {str(k): {} for k in range(MANY)})),
}


@pytest.mark.parametrize("name", LONG)
def test_reading_stops_when_there_are_problems_enough(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted, not timed: what is looked at depends on the bound, not on the list's length."""
    looked, begin = [0], Checked.__init__

    def counting(self: Checked, *arguments: Any) -> None:
        looked[0] += 1
        begin(self, *arguments)

    monkeypatch.setattr(Checked, "__init__", counting)
    with pytest.raises(MlfError) as caught:
        read(Bundle({"metadata.json": LONG[name]}), "a.tar")
    assert caught.value.problems[-1].message == f"and {MOST_NOTES - 200} more"
    assert looked[0] < 4 * MOST_NOTES


def test_many_modules_and_files_cost_no_product(monkeypatch: pytest.MonkeyPatch) -> None:
    asked, owned = [0], Layout.owned

    def counting(self: Layout, *arguments: str) -> str | None:
        asked[0] += 1
        return owned(self, *arguments)

    module = json.loads(METADATA[7])["modules"]["vad"]
    modules = {f"m{k}": {**module, "model_name": f"m{k}"} for k in range(200)}
    files = {f"src/m{k}.relay": b"" for k in range(200)} | {f"x{k}": b"" for k in range(200)}
    text = json.dumps({"version": 7, "modules": modules}).encode()
    monkeypatch.setattr(Layout, "owned", counting)
    archive = read(Bundle({"metadata.json": text, **files}))
    assert [list(m.files) for m in archive.modules] == [
        [f"src/{m.name}.relay"] for m in archive.modules
    ]
    assert len(archive.shared) == 200
    assert asked[0] <= 4 * len(files)
