"""Whatever the bytes, a manifest loads or gives well-formed problems, quickly."""

from __future__ import annotations

import time
from pathlib import Path

import grown
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from manifest_corpus import FUZZ, HERE

from mlftool.errors import CODES
from mlftool.manifest import read
from mlftool.manifest.reader import MAX_BYTES, MAX_NODES

SEEDS = [f.read_bytes() for f in sorted(HERE.glob("*/**/*.yaml"))]
BITS = [
    *(b"\t", b"\n", b"\r", b" ", b"  ", b"- ", b": ", b"? ", b"[", b"]", b"{", b"}", b",", b"'"),
    *(
        b'"',
        b"&a ",
        b"*a",
        b"!!int ",
        b"<<: ",
        b"|\n",
        b">-\n",
        b"# ",
        b"---\n",
        b"...\n",
        b"%YAML",
    ),
    *(b"\\U00110000", b"\\ud800", b"\x00", b"\xff", b"\xef\xbb\xbf", b"\xe2\x80\xa8", b"9" * 5000),
    *(b"1e999", b".nan", b"-.inf", b"0x", b"[" * 100, b"version: 1\n", b"models:", b"kws.onnx"),
    *(b"k" * 300 + b".onnx", b"a/" * 400 + b"kws.onnx", b"kws.npz/kws.onnx"),
]


def check(data: bytes) -> None:
    Path("m.yaml").write_bytes(data)
    manifest, problems = read("m.yaml")
    assert problems or manifest
    for problem in problems:
        assert problem.code in CODES
        assert problem.line >= 1
        assert problem.column >= 1
        assert problem.line <= data.count(b"\n") + data.count(b"\r") + 1
        assert "; got " in problem.message
        assert ", expected " in problem.message
        assert len(str(problem).split("\n")) == 1 + bool(problem.help)


@st.composite
def mutants(draw: st.DrawFn) -> bytes:
    """A manifest of the corpus, cut, spliced with another and strewn with awkward bytes."""
    data = draw(st.sampled_from(SEEDS))
    for _ in range(draw(st.integers(1, 5))):
        at = draw(st.integers(0, len(data)))
        end = min(len(data), at + draw(st.sampled_from([0, 0, 1, 2, 8, 1000])))
        other = draw(st.sampled_from(SEEDS))
        piece = draw(st.one_of(st.sampled_from(BITS), st.just(other[:80]), st.binary(max_size=4)))
        data = data[:at] + piece + data[end:]
    return data


@FUZZ
@given(data=mutants())
@example(data=b"")
@example(data=b"\xef\xbb\xbf")
@example(data=b"version: " + b"9" * 1000)
@example(data=b'? "\\N"\n')
def test_mutated_manifests(data: bytes, folder: Path) -> None:
    check(data)


def test_manifests_grown_from_the_schema(folder: Path) -> None:
    """Known keys in wrong places, with values of wrong types."""
    trees = grown.seeds()
    for seed in range(60):
        check(grown.Grower(seed).manifest(trees))


@FUZZ
@given(data=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode)))
def test_any_bytes(data: bytes, folder: Path) -> None:
    check(data)


BOMBS = {
    "aliases": b"a: &a [" + b"x," * 9 + b"x]\n" + b"b: &b [" + b"*a," * 9 + b"*a]\n" * 500,
    "depth": b"[" * 100_000,
    "block_depth": b"- " * 100_000,
    "values": b"a: [" + b"1," * (MAX_NODES + 10) + b"]",
    "size": b"# " + b"x" * MAX_BYTES,
    "unknown_keys": b"".join(b"key%d: 1\n" % i for i in range(12_000)),
    "bad_models": b"version: 1\nmodels:\n"
    + b"".join(b"  m%d: {modle: x, targets: q}\n" % i for i in range(5000)),
    "long_key": b"? " + b"k" * 200_000 + b"\n: 1\n",
    "long_number": b"version: " + b"9" * 1024,
    "duplicates": b"version: 1\n" * 14_000,
    "huge": b"\xff" * (64 << 20),
}


@pytest.mark.parametrize("name", BOMBS)
def test_bombs_are_refused_within_seconds(name: str, folder: Path) -> None:
    start = time.process_time()
    check(BOMBS[name])
    # Measured 0.05 to 1.5 s; the limit leaves room for a slow machine, not for a blow-up.
    assert time.process_time() - start < 15
