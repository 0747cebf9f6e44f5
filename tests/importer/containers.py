"""Mutants of files that are no protobuf: .tflite files and archives.

A FlatBuffer is words that point at others, so words are what changes. An archive is members with
checksums of each other: a member changes and the checksums stay, which every reader must see, or
they are made anew, which `mlftool verify` must see where the certificate has a digest.
"""

from __future__ import annotations

import functools
import hashlib
import io
import json
import random
import re
import struct
import sys
import tarfile
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf.bundle import write_tar

TESTS = Path(__file__).parents[1]
MODELS = TESTS.parent / "examples" / "models"
CHECKSUMS = "./checksums.sha256"
ODD_WORDS = (0, 1, -1, 2, 4, 8, 255, 2**31 - 1, -(2**31), 2**16, -4, 0x7FC00000, 0x7F800000)
ODD_TEXTS = (
    "",
    "0",
    "-1",
    "9" * 30,
    "1e999",
    "[]",
    "{}",
    "null",
    '"',
    "\\",
    "\0",
    "../x",
    "é",
    "}",
)
ODD_VALUES: tuple[Any, ...] = (
    None,
    True,
    -1,
    2**31,
    2**64,
    0.5,
    "",
    "../x",
    "x" * 999,
    [],
    {},
    [[]],
)


@functools.cache
def flat_seeds() -> tuple[bytes, ...]:
    """Each operator of the front end's own tests, as a model."""
    sys.path.append(str(TESTS / "frontends" / "tflite"))
    from tfl_cases import FAMILIES, merged

    for name in ("elements", "moves", "states", "sums"):
        __import__(f"tfl_case_{name}")
    rng = np.random.default_rng(17)
    return tuple(merged([case]) for make in FAMILIES.values() for case in make(rng))


def flat(chance: random.Random) -> bytes:
    """A .tflite file with some words changed."""
    data = bytearray(chance.choice(flat_seeds()))
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        size = chance.choice((1, 1, 2, 4, 4, 4))
        at = chance.randrange(0, len(data) - 8) // size * size
        kind = chance.randrange(6)
        if kind == 0:
            data[at] ^= 1 << chance.randrange(8)
        elif kind == 1:
            data[at] = chance.choice((0, 1, 2, 3, 9, 17, 127, 128, 255))
        elif kind == 2:
            (old,) = struct.unpack_from("<i", data, at)
            new = (old + chance.choice((-4, -1, 1, 4, 16)) + 2**31) % 2**32 - 2**31
            struct.pack_into("<i", data, at, new)
        elif kind == 3:
            struct.pack_into("<i", data, at, chance.choice(ODD_WORDS))
        elif kind == 4:
            other = chance.randrange(0, len(data) - 8) // size * size
            data[at : at + size], data[other : other + size] = (
                data[other : other + size],
                data[at : at + size],
            )
        elif chance.random() < 0.1:
            del data[chance.randrange(len(data)) :]
            data += bytes(16)
    return bytes(data)


@functools.cache
def archives() -> tuple[dict[str, bytes], ...]:
    """Members of archives of each executor, with certificates."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        for executor in ("aot", "graph", "vm"):
            for model in ("gesture_int8", "vibration_float32"):
                spec = ModuleSpec(MODELS / f"{model}.onnx", "m", executor=executor, verify=True)
                path = Path(folder) / "m.tar"
                write_tar(compile_modules([spec]), path)
                with tarfile.open(path) as tar:
                    files = {m.name: tar.extractfile(m) for m in tar if m.isfile()}
                    found.append({n: f.read() for n, f in files.items() if f})
    return tuple(found)


def archived(chance: random.Random) -> bytes:
    """An archive one or two of whose members are changed."""
    members, changed = mutated_members(chance)
    if changed and chance.random() < 0.5:
        renewed(members)
    return tarred(members)


def mutated_members(chance: random.Random) -> tuple[dict[str, bytes], list[str]]:
    members = dict(chance.choice(archives()))
    names = [n for n in members if "/include/mlf/" not in n and "/runtime/" not in n]
    changed = []
    for _ in range(chance.choice((1, 1, 2))):
        name = chance.choice(names)
        if name not in members:
            continue
        old = members[name]
        if chance.random() < 0.04:
            del members[name]
        elif name.endswith((".json", ".certificate")) and chance.random() < 0.8:
            members[name] = _json(chance, old)
        else:
            members[name] = _bytes(chance, old)
        if members.get(name) != old:
            changed.append(name)
    return members, changed


def renewed(members: dict[str, bytes]) -> None:
    """Checksums as they would be, had the archive been written so."""
    lines = [
        f"{hashlib.sha256(data).hexdigest()}  {name.removeprefix('./')}\n"
        for name, data in sorted(members.items())
        if name != CHECKSUMS
    ]
    members[CHECKSUMS] = "".join(lines).encode()


def tarred(members: dict[str, bytes]) -> bytes:
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for name, data in sorted(members.items()):
            info = tarfile.TarInfo(name)
            info.size = len(data)
            tar.addfile(info, io.BytesIO(data))
    return file.getvalue()


def _bytes(chance: random.Random, data: bytes) -> bytes:
    """Some letters, numbers or words of a text changed, or bytes."""
    made = bytearray(data)
    if not made:
        return b"x"
    kind = chance.randrange(6)
    at = chance.randrange(len(made))
    if kind == 0:
        made[at] ^= 1 << chance.randrange(8)
    elif kind == 1:
        numbers = [*re.finditer(rb"\d+", data)]
        if numbers:
            one = chance.choice(numbers)
            new = chance.choice((b"0", b"1", b"99999999999", b"%d" % (int(one[0][:15]) + 1)))
            made[one.start() : one.end()] = new
    elif kind == 2:
        made[at:at] = chance.choice(ODD_TEXTS).encode()
    elif kind == 3:
        lines = data.splitlines(True)
        lines[chance.randrange(len(lines))] = chance.choice(lines)
        return b"".join(lines)
    elif kind == 4:
        lines = data.splitlines(True)
        del lines[chance.randrange(len(lines))]
        return b"".join(lines)
    else:
        del made[at:]
    return bytes(made)


def _json(chance: random.Random, data: bytes) -> bytes:
    """One place of a JSON text has another value, is repeated, or is gone."""
    try:
        root = json.loads(data)
    except ValueError:  # changed before
        return _bytes(chance, data)
    places: list[tuple[Any, Any]] = []
    todo = [root]
    while todo:
        part = todo.pop()
        keys = list(part) if isinstance(part, dict) else range(len(part))
        for key in keys:
            places.append((part, key))
            if isinstance(part[key], dict | list):
                todo.append(part[key])
    part, key = chance.choice(places)
    kind, value = chance.randrange(6), part[key]
    if kind == 0:
        del part[key]
    elif kind == 1:
        other, place = chance.choice(places)
        part[key] = json.loads(json.dumps(other[place])) if place in _keys(other) else None
    elif kind == 2 and isinstance(value, int):
        part[key] = value + chance.choice((-1, 1, 4, 16, -(2**40), 2**40))
    elif kind == 3 and isinstance(value, list):
        part[key] = value * chance.choice((2, 1000)) if len(value) < 100 else []
    elif kind == 4 and isinstance(value, str):
        part[key] = chance.choice((value[:-1], value + "0", value.upper(), value[::-1]))
    else:
        part[key] = chance.choice(ODD_VALUES)
    return json.dumps(root).encode()


def _keys(part: Any) -> Any:
    return part if isinstance(part, dict) else range(len(part))


CONTAINERS: dict[str, Callable[[random.Random], bytes]] = {"flat": flat, "archived": archived}
