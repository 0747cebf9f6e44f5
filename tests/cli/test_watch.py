"""`mlftool watch`: each save is one build, a broken file is told and watched on, Ctrl-C ends it."""

from __future__ import annotations

import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from shared import OWN, REPO

from mlftool.cli import main
from mlftool.cli.watch import files_of
from mlftool.manifest import Model, load
from mlftool.manifest.records import keys_of

MANIFEST = """version: 1
models:
  gesture:
    model: gesture_int8.onnx
    targets: host
    test: {vectors: gesture_int8.npz}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for suffix in (".onnx", ".npz"):
        shutil.copy(OWN / f"gesture_int8{suffix}", tmp_path)
    (tmp_path / "models.yaml").write_text(MANIFEST)
    return tmp_path


class Watch:
    """The running command, and its lines."""

    def __init__(self, folder: Path, *options: str) -> None:
        self.lines: queue.Queue[str] = queue.Queue()
        path = f"{REPO}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mlftool", "watch", "models.yaml", *options],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(line)

    def round(self) -> str:
        """What one build prints."""
        text = ""
        while "watching " not in text:
            text += self.lines.get(timeout=120)
        return text


@pytest.fixture
def watch(folder: Path) -> Iterator[Watch]:
    made = Watch(folder)
    yield made
    made.process.kill()
    made.process.wait()


def test_saves_are_builds(folder: Path, watch: Watch) -> None:
    first = watch.round()
    assert re.search(r"gesture/host-aot.tar: written; gesture: [\d,]+ B RAM, 3,472 B const", first)
    manifest = folder / "models.yaml"
    manifest.write_text(MANIFEST.replace("targets:", "workspace_io: true\n    targets:"))
    assert re.search(r"host-aot.tar: written; gesture: [\d,]+ B \(-[\d,]+\) RAM", watch.round())
    manifest.write_text("version: 1\nmodels: {a: {modle: x}}\n")
    assert "error[MLF0106]" in watch.round()
    manifest.write_text(MANIFEST)
    assert "gesture/host-aot.tar: written" in watch.round()
    watch.process.send_signal(signal.SIGINT)
    assert watch.process.wait(timeout=60) == 130
    assert watch.lines.get(timeout=60) == "mlftool: ended by SIGINT\n"
    left = {p.name for p in folder.iterdir()}
    assert left == {"build", "gesture_int8.npz", "gesture_int8.onnx", "models.yaml"}


def test_each_build_is_a_line_of_json(folder: Path) -> None:
    watch = Watch(folder, "--json")
    try:
        first = json.loads(watch.lines.get(timeout=120))
        (entry,) = first["entries"]
        assert (first["schema_version"], first["problems"]) == (1, [])
        assert (entry["path"], entry["outcome"]) == ("gesture/host-aot.tar", "written")
        assert entry["modules"][0]["ram_bytes_before"] is None
        assert len(first["files"]) == 3
        (folder / "models.yaml").write_text("version: 1\nmodels: {a: {modle: x}}\n")
        second = json.loads(watch.lines.get(timeout=120))
        assert "MLF0106" in {p["code"] for p in second["problems"]}
        assert second["entries"] == []
    finally:
        watch.process.kill()
        watch.process.wait()


def test_all_files_of_a_manifest_are_watched(folder: Path) -> None:
    found = files_of(load(folder / "models.yaml"))
    names = ["models.yaml", "gesture_int8.onnx", "gesture_int8.npz"]
    assert [p.name for p in found] == names


def test_files_of_every_key_are_watched(tmp_path: Path) -> None:
    """A manifest that names a file wherever a model may name one."""
    names = {"model": "m.onnx", "data_files": "d.bin", "backend_files": "b.py", "tuning": "t.json",
             "quantize": "q.npz", "test": "v.npz"}  # fmt: skip
    keys = {name: about.kind for name, (_, about) in keys_of(Model).items()}
    with_files = {
        n for n, kind in keys.items() if "File(" in repr(kind) or n in ("test", "quantize")
    }
    assert with_files == names.keys()
    (tmp_path / "models.yaml").write_text(
        "version: 1\nmodels:\n  m:\n    model: m.onnx\n    data_files: [d.bin]\n"
        "    backend_files: [b.py]\n    tuning: t.json\n    quantize: {data: q.npz}\n"
        "    test: {vectors: v.npz}\n    targets: host\n"
    )
    found = files_of(load(tmp_path / "models.yaml", check_files=False))
    assert {p.name for p in found} == {"models.yaml", *names.values()}


@pytest.mark.parametrize("command", ["build", "watch"])
@pytest.mark.parametrize("name", ["m.onnx", "m.tar"])
def test_what_is_no_manifest_is_named(
    command: str, name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / name).write_bytes(b"\xff\0")
    assert main([command, str(tmp_path / name)]) == 2
    said, hint = capsys.readouterr().err.splitlines()
    assert "error[MLF0100]" in said
    assert "`mlftool " in hint


def test_bad_input_ends_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["watch", str(tmp_path / "none.yaml")]) == 2
    assert "MLF0100" in capsys.readouterr().err
