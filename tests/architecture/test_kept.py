"""The results that tests keep: whole, for their key only, and never in another user's folder."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path

import kept
import pytest


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MLFTOOL_TEST_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_a_result_is_found_by_its_key_only(cache: Path) -> None:
    key, other = kept.key_of(["a", b"b"]), kept.key_of(["ab", b""])
    assert key != other
    assert kept.recall(key) is None
    kept.keep(key, b"result")
    assert (kept.recall(key), kept.recall(other)) == (b"result", None)
    assert [p.name for p in cache.glob("??/*")] == [key]


def test_off_keeps_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFTOOL_TEST_CACHE", "off")
    key = kept.key_of(["off"])
    kept.keep(key, b"result")
    assert kept.folder() is None
    assert kept.recall(key) is None


def test_a_folder_that_others_can_write_is_not_used(cache: Path) -> None:
    key = kept.key_of(["a"])
    kept.keep(key, b"result")
    cache.chmod(0o777)
    assert kept.folder() is None
    assert kept.recall(key) is None


def test_a_link_to_a_folder_is_not_used(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(cache)
    monkeypatch.setenv("MLFTOOL_TEST_CACHE", str(tmp_path / "link"))
    assert kept.folder() is None


def test_only_what_was_not_used_for_days_is_forgotten(cache: Path) -> None:
    used, unused = kept.key_of(["used"]), kept.key_of(["unused"])
    for key in (used, unused):
        kept.keep(key, b"result")
    before = time.time() - (kept.UNUSED_DAYS + 1) * 86400
    for key in (used, unused):
        os.utime(cache / key[:2] / key, (before, before))
    assert kept.recall(used) == b"result"  # which is a use
    (cache / "builds-2000-01-01").mkdir()
    kept.forget_old()
    assert (kept.recall(used), kept.recall(unused)) == (b"result", None)
    assert not (cache / "builds-2000-01-01").exists()


def test_it_is_looked_for_once_a_day(cache: Path) -> None:
    old, key = time.time() - (kept.UNUSED_DAYS + 1) * 86400, kept.key_of(["a"])
    for hours, found in ((0, None), (1, b"result"), (25, None)):
        kept.keep(key, b"result")
        os.utime(cache / key[:2] / key, (old, old))
        if hours:
            looked = time.time() - hours * 3600
            os.utime(cache / "looked", (looked, looked))
        kept.forget_old()
        assert kept.recall(key) == found, hours


@pytest.mark.skipif(shutil.which("ccache") is None, reason="apt-get install ccache")
@pytest.mark.usefixtures("cache")
def test_a_source_of_two_projects_is_compiled_once_and_another_header_anew(tmp_path: Path) -> None:
    variables = kept.compiler_cache()
    program = variables["CMAKE_C_COMPILER_LAUNCHER"]

    def compiled(name: str, header: str) -> tuple[bytes, int]:
        """The object, and how often it was in the cache until now."""
        folder = tmp_path / name
        (folder / "include").mkdir(parents=True)
        (folder / "include/a.h").write_text(header)
        (folder / "a.c").write_text('#include "a.h"\nint a(void) { return A; }\n')
        words = [
            program,
            "gcc",
            "-g",
            f"-I{folder}/include",
            "-c",
            str(folder / "a.c"),
            "-o",
            "a.o",
        ]
        environment = {**os.environ, **variables}
        subprocess.run(words, cwd=folder, env=environment, check=True)
        said = subprocess.run([program, "--print-stats"], env=environment, capture_output=True)
        hits = re.findall(rb"^(?:direct|preprocessed)_cache_hit\t(\d+)$", said.stdout, re.M)
        return (folder / "a.o").read_bytes(), sum(map(int, hits))

    first, second = compiled("one", "#define A 1\n"), compiled("two", "#define A 1\n")
    other = compiled("three", "#define A 2\n")

    assert (first[1], second[1], other[1]) == (0, 1, 1)
    assert first[0] == second[0] != other[0]
