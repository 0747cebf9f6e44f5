"""Modules as libraries called from Python, and the cache they are kept in."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from runtime_archives import HOSTILE, metadata, toy, vectors

from mlftool.errors import MlfError
from mlftool.files import default_cache
from mlftool.runtime import toolchain
from mlftool.runtime.cache import build_once, key_of
from mlftool.runtime.host import load_host


def sample(i: int = 0) -> dict[str, np.ndarray]:
    return {name: array[i] for name, array in vectors().items() if name in ("a:0", HOSTILE)}


def test_a_module_is_a_function_of_arrays() -> None:
    module = load_host(toy())
    for i in range(3):
        outputs = module(sample(i))
        assert list(outputs) == ["sum", "s/c"]
        for name, value in outputs.items():
            np.testing.assert_array_equal(value, vectors()[name][i], strict=True)


def test_buffers_are_aligned_and_inputs_may_be_views() -> None:
    module = load_host(toy("return ((uintptr_t)a | (uintptr_t)b | (uintptr_t)sum) % 64 != 0;"))
    given = sample()
    given[HOSTILE] = np.asfortranarray(given[HOSTILE])[:, ::1]
    np.testing.assert_array_equal(module(given)["s/c"], given[HOSTILE] * np.float32(0.5))


def test_the_second_load_compiles_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    first = load_host(toy())

    def fail(*_: object) -> None:
        raise AssertionError("compiled again")

    monkeypatch.setattr(toolchain, "compile_c", fail)
    assert load_host(toy()).library == first.library
    with pytest.raises(AssertionError):
        load_host(toy("return 0; /* other bytes */"))


def test_simultaneous_loads_agree(tmp_path: Path) -> None:
    found = []
    load = lambda: found.append(load_host(toy(), cache_dir=tmp_path).library)  # noqa: E731
    threads = [threading.Thread(target=load) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert len(set(found)) == 1
    left = {p.name for p in tmp_path.iterdir()}
    assert left == {found[0].parent.name, "looked-for-room"}  # nothing half made


def test_keys_do_not_run_together() -> None:
    assert key_of(["ab", "c"], {}) != key_of(["a", "bc"], {})
    assert key_of([], {"a": b"b"}) != key_of(["a", "b"], {"": b""})


def test_failure_of_the_c_function_is_an_error() -> None:
    with pytest.raises(MlfError, match="tvmgen_toy_run returned -7"):
        load_host(toy("return -7;"))(sample())


def test_sources_that_do_not_compile_are_one_line() -> None:
    with pytest.raises(MlfError) as caught:
        load_host(toy("return no_such_thing;"))
    (problem,) = caught.value.problems
    assert problem.code == "MLF0608"
    assert "no_such_thing" in problem.message
    assert "\n" not in str(problem)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"schema_version": 2}, "schema_version: got 2, expected 1"),
        ({"module": "other"}, "module: got 'other', expected 'toy'"),
        ({"inputs": [{"name": "a"}]}, r"inputs\[0\].shape: is missing"),
        ({"workspace_bytes": "many"}, 'workspace_bytes: got "many", expected an integer'),
        (
            {"inputs": [dict(name="a", c_name="a", dtype="int8", shape=[4], size_bytes=3)]},
            "3 bytes",
        ),
        ({"inputs": [dict(name="a", c_name="a", dtype="O", shape=[4], size_bytes=32)]}, "object"),
        ({"inputs": [dict(name="a", c_name="a;b", dtype="int8", shape=[4], size_bytes=4)]}, "a;b"),
        ({"inputs": [dict(name="a", c_name="a", dtype="int8", shape=[-4], size_bytes=-4)]}, "-4"),
    ],
)
def test_an_interface_that_lies_is_refused(changes: dict[str, object], message: str) -> None:
    with pytest.raises(MlfError, match=message) as caught:
        load_host(toy(**changes))
    assert caught.value.problems[0].code == "MLF0607"


def test_modules_are_chosen_by_name() -> None:
    with pytest.raises(MlfError, match="did you mean 'toy'"):
        load_host(toy(), "toi")
    two = toy()
    files = {
        **two.files,
        "metadata.json": metadata("toy", "other"),
        "executor-config/aot/other.json": b"{}",
    }
    with pytest.raises(MlfError, match="2 modules"):
        load_host(type(two)(files))
    assert load_host(type(two)(files), "toy").interface.module == "toy"


def test_a_cache_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(MlfError, match="set MLFTOOL_CACHE") as caught:
        load_host(toy(), cache_dir=blocked / "cache")
    assert caught.value.exit_code == 3


def test_a_home_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cache is then a folder of temporary files, if nobody else can put programs there."""
    monkeypatch.delenv("MLFTOOL_CACHE")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    (tmp_path / "file").touch()
    private = tmp_path / f"mlftool-{os.getuid()}"
    for home in (tmp_path / "file", Path("/proc/1/nowhere")):
        monkeypatch.setenv("HOME", str(home))
        assert default_cache() == private
    assert private.stat().st_mode & 0o777 == 0o700
    private.chmod(0o777)
    assert default_cache() == home / ".cache/mlftool"
    private.rmdir()
    private.symlink_to(tmp_path)
    assert default_cache() == home / ".cache/mlftool"
    monkeypatch.setenv("HOME", str(tmp_path))
    assert default_cache() == tmp_path / ".cache/mlftool"


def test_a_cached_program_that_cannot_be_looked_at(tmp_path: Path) -> None:
    """As one of another user, after sudo: the file system refuses to say whether it is there."""
    with pytest.raises(MlfError) as caught:
        build_once(tmp_path, "key", {}, lambda folder: None, ["n" * 300])
    assert [p.code for p in caught.value.problems] == ["MLF0608"]


def test_the_cache_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Unused for longest goes first, but nothing of today; a use counts, and other files stay."""
    monkeypatch.setattr("mlftool.runtime.cache.LIMIT_BYTES", 7 << 17)
    keys = [key_of([str(k)], {}) for k in range(5)]
    whole = {"a.o": bytes(1 << 18)}

    def made(key: str) -> None:
        build_once(tmp_path, key, whole, lambda folder: None, ["a.o"])

    def left() -> list[int]:
        return [k for k, key in enumerate(keys) if (tmp_path / key).exists()]

    def age(path: Path, days: float) -> None:
        os.utime(path, (time.time() - days * 86_400,) * 2)

    for days, key in enumerate(keys[:4]):
        made(key)
        age(tmp_path / key, days + 2)
    (tmp_path / "templates").mkdir()
    (tmp_path / f"{keys[0]}.interrupted").mkdir()
    for name in ("templates", f"{keys[0]}.interrupted"):
        age(tmp_path / name, 2)
    made(keys[3])  # is the last used now
    made(keys[4])  # looked for room today already
    assert left() == [0, 1, 2, 3, 4]
    age(tmp_path / "looked-for-room", 2)
    shutil.rmtree(tmp_path / keys[4])
    made(keys[4])
    assert left() == [0, 3, 4]  # 3.5 of them have room
    assert sorted(p.name for p in tmp_path.iterdir() if p.name not in keys) == [
        "looked-for-room",
        "templates",
    ]
