"""TVM's archives with bytes changed, cut and copied: a module or a list of problems, never a crash.

MLFTOOL_MUTATIONS sets how many (2,000); 400,000 were run without a finding when this was written.
"""

from __future__ import annotations

import os
import random
from collections import Counter

from tvm_archives import (
    graph_archive,
    linked_archive,
    operator_archive,
    packed_archive,
    struct_archive,
)

from mlftool.cli.inspect import describe, render
from mlftool.errors import MlfError
from mlftool.mlf import Bundle
from mlftool.mlf.archive import normal, read, write
from mlftool.runtime.descriptor import runner_c
from mlftool.runtime.load import LoadedArchive

ARCHIVES = (
    *(graph_archive(version) for version in (1, 3, 5, 7)),
    *(struct_archive(), struct_archive(external_pools=True), linked_archive()),
    *(operator_archive(4), operator_archive(7), packed_archive(5, with_metadata=False)),
)
TOKENS = (
    *(b"0", b"-1", b"9" * 20, b"null", b"[]", b"{}", b'""', b'"\\ud800"', b"true", b"1e5"),
    *(b"2147483648", b"\xff", b"\0", b"float64", b"bool", b"string", b"int128", b".."),
)


def mutate(data: bytearray, dice: random.Random) -> None:
    at = dice.randrange(len(data))
    match dice.randrange(5):
        case 0:
            data[at] ^= 1 << dice.randrange(8)
        case 1:
            data[at : at + dice.randint(1, 8)] = dice.choice(TOKENS)
        case 2:
            del data[at : at + dice.randint(1, 40)]
        case 3:
            start = dice.randrange(len(data))
            data[at:at] = data[start : start + dice.randint(1, 60)]
        case _:
            del data[at:]


def use(bundle: Bundle) -> None:
    """Everything but the compiler."""
    archive = LoadedArchive(bundle, "a.tar")
    list(render(archive.record, describe(archive)))
    assert read(write(archive.record)) == normal(archive.record)
    for name in archive.modules:
        module = archive.module(name)
        runner_c(module.interface, module.record)


def test_mutated_archives() -> None:
    dice = random.Random(20261121)
    codes: Counter[str] = Counter()
    for _ in range(int(os.environ.get("MLFTOOL_MUTATIONS", "2000"))):
        files = dict(dice.choice(ARCHIVES).files)
        names = [n for n in files if not n.endswith(".c")]
        for _ in range(dice.randint(1, 3)):
            name = dice.choice(names)
            data = bytearray(files[name])
            if data:
                mutate(data, dice)
                files[name] = bytes(data)
        try:
            use(Bundle(files))
            codes["fine"] += 1
        except MlfError as error:
            for problem in error.problems:
                codes[problem.code] += 1
                assert "\n" not in str(problem).split("\nhelp: ")[0]
    assert codes.keys() >= {"fine", "MLF0505", "MLF0508", "MLF0509", "MLF0607"}
