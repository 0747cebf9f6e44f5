"""`mlftool trace`: lines of C and nodes, against the debug information of a C compiler."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from builders import Net
from elftools.elf.elffile import ELFFile
from looks import GESTURE, MODELS, data_of, refused, said

from mlftool.insight.source_map import SOURCES, of_line, source_map
from mlftool.insight.subject import of_spec
from mlftool.module import ModuleSpec

Lines = dict[str, set[tuple[str, int]]]


def compiled_lines(folder: Path, files: tuple[str, ...]) -> Lines:
    """The lines that have instructions of each function, as gcc tells a debugger."""
    found: Lines = {}
    for file in files:
        command = ["gcc", "-g", "-O1", "-fno-inline", "-fno-toplevel-reorder", "-c", file]
        command += ["-I../include", "-I../../../runtime/include", "-o", "x.o"]
        subprocess.run(command, cwd=folder / SOURCES, check=True)
        with (folder / SOURCES / "x.o").open("rb") as stream:
            for name, lines in functions_of(ELFFile(stream), file):
                found.setdefault(name, set()).update((file, line) for line in lines)
    return found


def functions_of(elf: ELFFile, file: str) -> Iterator[tuple[str, list[int]]]:
    dwarf = elf.get_dwarf_info()
    for unit in dwarf.iter_CUs():
        program = dwarf.line_program_for_CU(unit)
        states = [e.state for e in program.get_entries() if e.state and not e.state.end_sequence]
        names = [entry.name.decode() for entry in program["file_entry"]]
        rows = [(s.address, s.line) for s in states if names[s.file] == file]
        for entry in unit.iter_DIEs():
            if entry.tag == "DW_TAG_subprogram" and "DW_AT_low_pc" in entry.attributes:
                low = entry.attributes["DW_AT_low_pc"].value
                end = low + entry.attributes["DW_AT_high_pc"].value
                name = entry.attributes["DW_AT_name"].value.decode()
                yield name, [line for address, line in rows if low <= address < end]


@pytest.mark.parametrize("executor", ["aot", "graph", "vm"])
@pytest.mark.parametrize("model", ["gesture_int8", "digits_float32"])
def test_lines_are_those_of_the_compiler(model: str, executor: str, tmp_path: Path) -> None:
    subject = of_spec(ModuleSpec(MODELS / f"{model}.onnx", model, executor=executor), "m", "m")
    found = source_map(subject)
    for name, data in subject.bundle.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    compiled = compiled_lines(tmp_path, found.files)
    for step in found.steps:
        defined = {(s.file, n) for s in step.definitions for n in range(s.first, s.last + 1)}
        assert compiled[step.function] <= defined
        for place in compiled[step.function]:
            assert step in of_line(found, "{}:{}".format(*place), "")
    kernels = {name for name in compiled if name.startswith((f"tvmgen_{model}_", "kernel_"))}
    interface = {f"tvmgen_{model}_{end}" for end in ("run", "__tvm_main__", "get_c_metadata")}
    mapped = {(s.file, n) for t in found.steps for s in t.spans for n in range(s.first, s.last + 1)}
    assert all(compiled[name] <= mapped for name in kernels - interface)


def test_steps_that_share_a_function_have_a_call_each() -> None:
    net = Net()
    y = net.input("x", np.float32, (1, 4, 6, 6))
    w = net.const(np.ones((4, 4, 3, 3)), np.float32)
    for _ in range(3):
        y = net.node("Conv", y, w, pads=[1] * 4)
    model = net.model(y)
    found = source_map(of_spec(ModuleSpec(model, "m", optimize="size"), "m", "m"))
    convolutions = [s for s in found.steps if s.op == "Conv"]
    assert len({s.function for s in convolutions}) == 1
    calls = [s.calls for s in convolutions]
    assert [len(c) for c in calls] == [1, 1, 1]
    assert sorted({*calls}) == calls
    (shared,) = {s.constants for s in convolutions}
    place = f"{shared[0].file}:{shared[0].first}"
    assert [s for s in of_line(found, place, "") if s.op == "Conv"] == convolutions


@pytest.mark.parametrize("model", sorted(MODELS.glob("*.onnx")), ids=lambda p: p.stem)
def test_every_node_of_the_model_is_named(model: Path) -> None:
    found = source_map(of_spec(ModuleSpec(model, "m"), "m", "m"))
    named = {name for s in found.steps for name in s.nodes} | {*(found.without or ())}
    assert named >= {node.name for node in onnx.load(model).graph.node if node.name}
    assert found.mapped < found.lines


def test_what_is_printed(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    tar = tmp_path / "g.tar"
    said(capsys, "compile", GESTURE, "--target", "cortex-m4", "-o", tar)
    found = data_of(capsys, "trace", tar)
    assert found["without_lines"] is None
    table = said(capsys, "trace", tar, "--csv").splitlines()
    assert len(table) == 1 + len(found["steps"])
    assert "stem_Conv" in said(capsys, "trace", tar)
    (call,) = found["steps"][1]["calls"]
    (step,) = data_of(capsys, "trace", tar, "--line", f"{call['file']}:{call['last']}")["steps"]
    assert step == found["steps"][1]
    assert "of no node" in said(capsys, "trace", tar, "--line", f"{call['file']}:1")
    assert "expected gesture_int8_lib0.c" in refused(capsys, "trace", tar, "--line", "lib1.c:7")
