"""Our JSON, altered: a line with the place, what was found and the remedy, and no word of Python's.

Each key of an archive's description and of what `size --json` prints is left out, and replaced by
values of other kinds.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from copy import deepcopy
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from looks import GESTURE

from mlftool.compile import ModuleSpec, compile_module
from mlftool.describe import bundle
from mlftool.errors import MlfError
from mlftool.insight.description import described
from mlftool.insight.size import read_sizes
from mlftool.mlf import archive
from mlftool.mlf.interface import decode
from mlftool.mlf.records import ModuleRecord

MEMBER = "executor-config/aot/net.json"
GONE = object()
ODD = (GONE, None, -1, "x", 1.5, [], {}, True, "\ud800", 10**30, "a" * 5000)
SIZES: dict[str, Any] = {
    "schema_version": 1,
    "sizes": [
        {
            "name": "net",
            "flash": {"name": "flash", "bytes": 9, "parts": [{"name": "weights", "bytes": 9}]},
            "ram": {"name": "RAM", "bytes": 0},
            "reserved_bytes": 0,
            "module_ram_bytes": 4,
        }
    ],
}


def places(data: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Of every key, and of the first entry of every list."""
    entries = list(data) if isinstance(data, dict) else range(min(1, len(data)))
    for key in entries:
        yield (*path, key)
        if isinstance(data[key], (dict, list)):
            yield from places(data[key], (*path, key))


def altered(data: Any) -> Iterator[tuple[str, bytes]]:
    """Its last key, and the JSON with another value there."""
    for path in places(data):
        for value in ODD:
            made = deepcopy(data)
            inside = made
            for key in path[:-1]:
                inside = inside[key]
            if value is GONE:
                del inside[path[-1]]
            else:
                inside[path[-1]] = value
            yield str(path[-1]), json.dumps(made).encode()


def refusal(error: MlfError) -> str:
    """All of it, after a look at its form."""
    text = str(error)
    assert error.exit_code == 2
    assert not re.search(r"\w+Error\b|object is not|'NoneType'|Traceback", text), text
    assert text.count("help: ") == 1, text
    return text


@pytest.fixture(scope="module")
def record() -> ModuleRecord:
    made = bundle([compile_module(ModuleSpec(GESTURE, "net"))])
    return archive.read(made, "net.tar").module("net")


def test_descriptions_of_modules(record: ModuleRecord) -> None:
    refused: set[str] = set()
    for key, data in altered(json.loads(record.interface or b"")):
        other = replace(record, files={**record.files, MEMBER: data})
        for read in (partial(decode, "net", data, "a.tar", MEMBER), partial(described, other, "a")):
            try:
                read()
            except MlfError as error:
                if f"{key}: is missing" in refusal(error):
                    refused.add(key)
    assert {"inputs", "c_name", "memory", "pools", "peak_node", "first_step", "macs"} <= refused


def test_trees_of_sizes(tmp_path: Path) -> None:
    file = tmp_path / "sizes.json"
    refused: set[str] = set()
    for key, data in altered(SIZES):
        file.write_bytes(data)
        try:
            read_sizes(file)
        except MlfError as error:
            if f"{key}: is missing" in refusal(error):
                refused.add(key)
    assert refused == {"schema_version", "sizes", "name", "flash", "ram", "bytes", "reserved_bytes"}


def test_a_tree_of_great_depth(tmp_path: Path) -> None:
    """Python's parser takes it, and what reads the tree does not."""
    tree: dict[str, Any] = {"name": "part", "bytes": 1}
    for _ in range(400):
        tree = {"name": "part", "bytes": 1, "parts": [tree]}
    deep = {"schema_version": 1, "sizes": [{**SIZES["sizes"][0], "flash": tree}]}
    (tmp_path / "deep.json").write_text(json.dumps(deep))
    with pytest.raises(MlfError, match="is nested too deeply") as caught:
        read_sizes(tmp_path / "deep.json")
    refusal(caught.value)
