"""What mlf_arena_test compiles: an archive's workspace with a guard after it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import write_tar
from rules.private.tools import arena, arena_test

ROOT = Path(os.path.abspath(__file__)).parents[2]
MODEL = ROOT / "examples" / "models" / "gesture_int8.onnx"


def archive_of(folder: Path, executor: str = "aot", **options: Any) -> Path:
    spec = ModuleSpec(MODEL, module_name="hand", executor=executor, **options)
    bundle = compile_modules([spec])
    write_tar(bundle, folder / "hand.tar")
    for name, data in bundle.files.items():
        if name.startswith("codegen/host/include/"):
            path = folder / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(data)
    return folder / "hand.tar"


@pytest.mark.parametrize(
    ("executor", "options"), [("aot", {}), ("aot", {"workspace_io": True}), ("vm", {})]
)
def test_the_workspace_is_guarded(tmp_path: Path, executor: str, options: dict[str, Any]) -> None:
    archive, out = archive_of(tmp_path, executor, **options), tmp_path / "arena.c"

    assert arena.main([str(archive), "hand", "1", str(out)]) == 0

    text = out.read_text()
    (size,) = {int(s.split()[0]) for s in text.split("with an arena of ")[1:]}
    # A unit of 16 bytes less, then the guard.
    assert f"#define TVMGEN_HAND_WORKSPACE_SIZE ({(size + 1) - 16} + 64)" in text
    include = (tmp_path / "codegen/host/include", ROOT / "crt/include", ROOT / "crt/platform")
    flags = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-fsyntax-only")
    subprocess.run(["gcc", *flags, *(f"-I{i}" for i in include), str(out)], check=True)


def test_memory_that_is_not_the_modules_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive = archive_of(tmp_path, interface_api="packed")

    assert arena.main([str(archive), "hand", "0", str(tmp_path / "arena.c")]) == 2

    said = capsys.readouterr().err
    assert "error[MLF0607]: hand: has no workspace of its own" in said
    assert "interface_api 'c'" in said
    assert not (tmp_path / "arena.c").exists()


@pytest.mark.parametrize(
    ("enough", "less", "talk", "code"),
    [
        (0, 1, "hand: an arena of 15 bytes is too small", 0),
        (0, 0, "", 1),  # it ran
        (0, 1, "something else", 1),
        (3, 1, "hand: an arena of 15 bytes is too small", 3),
    ],
)
def test_both_runs_are_judged(
    monkeypatch: pytest.MonkeyPatch, enough: int, less: int, talk: str, code: int
) -> None:
    def run(arguments: list[str]) -> int:
        assert arguments[:2] == ["run", "a.tar"]
        if arguments[2:] == ["--runner", "less.elf"]:
            print(talk)
            return less
        return enough

    monkeypatch.setattr(arena_test, "mlftool", run)

    assert arena_test.main(["less.elf", "enough.elf", "run", "a.tar"]) == code
