"""`mlftool size`: its sums are those of the budgets, its leaves those of binutils."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from looks import GESTURE, MANIFEST, data_of, loop_model, needs_board, refused, said
from shared import NETWORKS

from mlftool.compile import ModuleSpec
from mlftool.describe import bundle as bundle_of
from mlftool.errors import MlfError
from mlftool.insight.size import Tree, changes, measured
from mlftool.insight.subject import of_spec
from mlftool.insight.symbols import symbols
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import footprint, link_firmware


def firmware(path: Path = GESTURE, target: str = "cortex-m4", **options: Any) -> Path:
    """The program that `mlftool size` measures."""
    subject = of_spec(ModuleSpec(path, path.stem, target, **options), "", "")
    assert subject.compiled
    interface = read_interface(bundle_of([subject.compiled]), path.stem)
    return link_firmware(subject.bundle, interface, BOARDS[target], optimise=interface.flag)


def leaves(tree: dict[str, Any]) -> Iterator[tuple[str, int]]:
    if not tree.get("parts"):
        yield tree["name"], tree["bytes"]
    for part in tree.get("parts", ()):
        yield from leaves(part)


def part(tree: dict[str, Any], *path: str) -> dict[str, Any]:
    for name in path:
        (tree,) = (p for p in tree["parts"] if p["name"] == name)
    return tree


@needs_board
@pytest.mark.parametrize("target", ["cortex-m3", "cortex-m4", "cortex-m55", "rv32imc"])
def test_trees_add_up_to_the_footprint(target: str, capsys: pytest.CaptureFixture[str]) -> None:
    (size,) = data_of(capsys, "size", GESTURE, "--target", target)["sizes"]
    whole = footprint(firmware(target=target))
    assert (size["flash"]["bytes"], size["ram"]["bytes"]) == (whole.flash, whole.ram)
    assert size["reserved_bytes"] == whole.stack_reserved
    (memory,) = data_of(capsys, "memmap", GESTURE, "--target", target, "--no-advice")["maps"]
    assert size["module_ram_bytes"] == memory["ram_bytes"]
    for tree in (size["flash"], size["ram"]):
        assert sum(n for _, n in leaves(tree)) == tree["bytes"]
        unnamed = sum(n for name, n in leaves(tree) if name.startswith("without a name"))
        assert 0 <= unnamed < max(128, tree["bytes"] // 8), "most bytes have a name"


@needs_board
def test_weights_and_workspace_are_the_archives(capsys: pytest.CaptureFixture[str]) -> None:
    (size,) = data_of(capsys, "size", GESTURE)["sizes"]
    subject = of_spec(ModuleSpec(GESTURE, "gesture_int8", "cortex-m4"), "", "")
    model = part(size["flash"], "model gesture_int8")
    assert part(model, "weights")["bytes"] == subject.interface.constants_bytes
    assert {p["name"] for p in model["parts"]} == {"kernels", "weights", "entry points"}
    workspace = part(size["ram"], "model gesture_int8", "workspace")
    assert workspace["bytes"] == subject.interface.workspace_bytes
    tensors = sum(t.size_bytes for t in (*subject.interface.inputs, *subject.interface.outputs))
    runner = part(size["ram"], "inputs and outputs")["bytes"]
    assert tensors <= runner <= tensors + 128 * 2  # with guards
    assert part(size["flash"], "C library", "memset")["bytes"] > 0


@needs_board
def test_symbols_are_those_of_nm() -> None:
    elf = firmware()
    text = subprocess.check_output(["arm-none-eabi-nm", "-S", "--defined-only", elf], text=True)
    pairs = re.findall(r"^(\w+) (\w+) [a-zA-Z] (\S+)$", text, re.MULTILINE)
    expected = {name: int(size, 16) for _, size, name in pairs}
    found = {s.name: s.size for s in symbols(elf)}
    assert found.items() <= expected.items()
    assert sum(found.values()) >= 0.99 * sum({at: int(size, 16) for at, size, _ in pairs}.values())


@needs_board
def test_big_weights_have_their_layers_too(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that the assembler takes from a file."""
    path = next(n for n in NETWORKS if n.name == "ad_fp32").path
    (size,) = data_of(capsys, "size", path, "--weights", "binary")["sizes"]
    weights = part(size["flash"], "model ad_fp32", "weights")
    assert len(weights["parts"]) == 10
    assert weights["bytes"] > 1 << 20


@needs_board
def test_against_another_build(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old = tmp_path / "old.json"
    old.write_text(said(capsys, "size", GESTURE, "--json"))
    text = said(capsys, "size", GESTURE, "--optimize", "size", "--against", old)
    rows = [re.findall(r"[+-]?[\d,]+", line)[:3] for line in text.splitlines()[2:] if line]
    numbers = [[int(n.replace(",", "")) for n in row] for row in rows]
    assert all(before + change == after for before, after, change in numbers)
    assert numbers[0][2] < -1000
    assert "dsp.small_pairs" in text
    same = said(capsys, "size", GESTURE, "--against", old).splitlines()
    assert [line.split()[-2:] for line in same if line][1:] == [["+0", "flash"], ["+0", "RAM"]]


@needs_board
def test_a_manifest_is_compared_entry_by_entry(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    old = tmp_path / "old.json"
    old.write_text(said(capsys, "size", MANIFEST, "--entry", "gesture_int8", "--json"))
    one = ("--entry", "gesture_int8", "--target", "cortex-m3")
    assert "gesture_int8/cortex-m3" in said(capsys, "size", MANIFEST, *one, "--against", old)
    other = ("--entry", "digits_int8", "--target", "cortex-m3")
    assert "has no program with a name of" in refused(
        capsys, "size", MANIFEST, *other, "--against", old
    )


@needs_board
def test_any_firmware(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A program by its ELF file, with an application beside the model; one without symbols."""
    elf = tmp_path / "f.elf"
    shutil.copy(firmware(), elf)
    (size,) = data_of(capsys, "size", elf)["sizes"]
    kernels = part(size["flash"], "model gesture_int8", "kernels")
    assert all(p["name"].startswith("tvmgen_gesture_int8_") for p in kernels["parts"])
    subprocess.run(["arm-none-eabi-strip", elf], check=True)
    assert "has no symbol table" in refused(capsys, "size", elf)
    (tmp_path / "a.c").write_text("int table[100] = {1}; int main(void) { return table[0]; }")
    flags = ["-mcpu=cortex-m4", "-mthumb", "-g", "--specs=nosys.specs", "a.c", "-o", "a.elf"]
    subprocess.run(["arm-none-eabi-gcc", *flags], cwd=tmp_path, check=True, capture_output=True)
    (size,) = data_of(capsys, "size", tmp_path / "a.elf")["sizes"]
    assert part(size["ram"], "application", "a.c", "table")["bytes"] == 400


@needs_board
def test_bodies_of_loops_are_kernels(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    onnx.save(loop_model(), tmp_path / "m.onnx")
    (size,) = data_of(capsys, "size", tmp_path / "m.onnx")["sizes"]
    whole = part(size["flash"], "model m")
    bodies = part(whole, "kernels", "called by other kernels")
    assert any("loop" in p["name"] for p in bodies["parts"])
    assert part(whole, "weights")["bytes"] >= 4 * 64
    entries = [p["name"] for p in part(whole, "entry points")["parts"]]
    assert sorted(entries) == ["tvmgen_m___tvm_main__", "tvmgen_m_run"]


def test_changes_are_sorted_and_complete() -> None:
    old = Tree("flash", 30, (Tree("a", 20, (Tree("x", 15), Tree("y", 5))), Tree("b", 10)))
    new = Tree("flash", 37, (Tree("a", 20, (Tree("x", 5), Tree("y", 15))), Tree("c", 17)))
    found = [(c.name, c.before, c.after, c.depth) for c in changes(old, new, 3)]
    assert found == [
        ("flash", 30, 37, 0),
        *(("c", 0, 17, 1), ("b", 10, 0, 1)),
        *(("a", 20, 20, 1), ("x", 15, 5, 2), ("y", 5, 15, 2)),
    ]
    assert [c.name for c in changes(old, replace(new, parts=old.parts), 3)] == ["flash"]


def outcome(program: Path) -> tuple[int, str]:
    """0 and no code, or what a refusal says; any other exception fails the test."""
    try:
        measured(program, "f")
    except MlfError as error:
        return error.exit_code, error.problems[0].code
    return 0, ""


@needs_board
def test_damaged_programs_are_refused(tmp_path: Path) -> None:
    """Or measured, if the damage does not show; nothing else, and soon."""
    whole = firmware().read_bytes()
    chance, found = random.Random(5), set()
    for _ in range(60):
        data = bytearray(whole)
        if chance.random() < 0.2:
            del data[chance.randrange(len(data)) :]
        for _ in range(chance.choice([1, 4, 30]) if data else 0):
            near_an_end = chance.choice([64, 3000, len(data)])
            at = chance.randrange(min(len(data), near_an_end))
            data[at if chance.random() < 0.5 else -1 - at] = chance.choice([0, 255, 128, 7])
        (tmp_path / "f.elf").write_bytes(data)
        found.add(outcome(tmp_path / "f.elf"))
    assert found == {(0, ""), (2, "MLF0609")}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["no.onnx"], "MLF0201"),
        (["x.elf"], "MLF0609"),
        (["x.json"], "MLF0502"),
        (["deep.json"], "MLF0502"),
        (["no.json"], "MLF0501"),
        ([GESTURE, "--target", "aarch64"], "MLF0610"),
        ([GESTURE, "--depth", "0"], "--depth"),
        ([GESTURE, "--json", "--against", "x.json"], "mlftool diff"),
    ],
)
def test_bad_input(
    words: list[object],
    message: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("x.elf").write_bytes(b"\x7fELF junk")
    Path("x.json").write_text('{"schema_version": 1, "sizes": [{"name": "a", "flash": []}]}')
    Path("deep.json").write_text('{"schema_version": 1, "a": ' + "[" * 100_000)
    assert message in refused(capsys, "size", *words)
