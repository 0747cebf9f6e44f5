"""Every version of the format: what is read is what was written, and the bytes are TVM's."""

from __future__ import annotations

import json
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mlf_records import archives

from mlftool.errors import MlfError
from mlftool.mlf import Bundle, params
from mlftool.mlf.archive import normal, read, write
from mlftool.mlf.records import (
    OPERATOR,
    STANDALONE_CRT,
    VERSIONS,
    Archive,
    Argument,
    FunctionMemory,
    IoTensor,
    MainMemory,
    Memory,
    ModuleRecord,
    Storage,
    TargetString,
)


@settings(max_examples=60)
@pytest.mark.parametrize("version", VERSIONS)
@given(data=st.data())
def test_reading_gives_back_what_the_version_can_say(version: int, data: st.DataObject) -> None:
    """read(write(x)) == normal(x), and what is read can be written to the very same bytes."""
    archive = data.draw(archives(version))
    bundle = write(archive)
    again = read(bundle)
    assert again == normal(archive)
    assert normal(again) == again
    assert write(again).files == bundle.files


def test_version_7_loses_nothing_but_the_order_of_names() -> None:
    assert normal(Archive(7, (graph_module(),))) == Archive(7, (graph_module(),))


def graph_module() -> ModuleRecord:
    """A small model for the graph executor: x + p0, in 8 floats."""
    return ModuleRecord(
        name="vad",
        executors=("graph",),
        targets=(TargetString("c -keys=cpu -model=host"),),
        memory=Memory(
            main=(
                MainMemory(
                    0,
                    32,
                    64,
                    (IoTensor("x", "float32", 32),),
                    (IoTensor("output", "float32", 32),),
                ),
            ),
            functions=(FunctionMemory("tvmgen_vad_fused_add"),),
            sids=(Storage(0, 32, "x"), Storage(1, 32, "p0"), Storage(2, 32)),
        ),
        files={
            "codegen/host/src/vad_lib0.c": b";",
            "codegen/host/src/vad_lib1.c": b"int kernel;",
            "codegen/host/lib/vad_lib0.o": b"\x7fELF",
            "executor-config/graph/vad.graph": b"{}",
            "parameters/vad.params": params.encode({"p0": np.zeros(8, np.float32)}),
            "src/vad.relay": b"def @main",
        },
        exported="2021-03-10 11:12:13Z",
    )


SIDS = """[
      {
        "input_binding": "x",
        "size_bytes": 32,
        "storage_id": 0
      },
      {
        "input_binding": "p0",
        "size_bytes": 32,
        "storage_id": 1
      },
      {
        "size_bytes": 32,
        "storage_id": 2
      }
    ]"""
FUNCTIONS = """{
      "main": [
        {
          "constants_size_bytes": 32,
          "device": 1,
          "io_size_bytes": 64,
          "workspace_size_bytes": 0
        }
      ],
      "operator_functions": [
        {
          "function_name": "tvmgen_vad_fused_add",
          "workspace": [
            {
              "device": 1,
              "workspace_size_bytes": 0
            }
          ]
        }
      ]
    }"""
V1_SIDS = SIDS.replace("\n  ", "\n")
MEMORY = f"""{{
    "functions": {FUNCTIONS},
    "sids": {SIDS}
  }}"""
IO = """
          "inputs": {
            "x": {
              "dtype": "float32",
              "size": 32
            }
          },
          "io_size_bytes": 64,
          "outputs": {
            "output": {
              "dtype": "float32",
              "size": 32
            }
          },"""
TARGET_MAP = '{\n    "1": "c -keys=cpu -model=host"\n  }'
TARGET_LIST = '[\n    "c -keys=cpu -model=host"\n  ]'


def document(memory: str, executors: str, style: str, target: str, version: int) -> str:
    keys = [
        ("executors", '[\n    "graph"\n  ]') if executors == "executors" else None,
        ("export_datetime", '"2021-03-10 11:12:13Z"'),
        ("memory", memory),
        ("model_name", '"vad"'),
        ("runtimes", '[\n    "graph"\n  ]') if executors == "runtimes" else None,
        ("style", f'"{style}"') if style else None,
        ("target", target),
        ("version", str(version)),
    ]
    return "{\n" + ",\n".join(f'  "{k[0]}": {k[1]}' for k in keys if k) + "\n}"


def version_7() -> str:
    main = FUNCTIONS.replace('\n          "io_size_bytes": 64,', IO)
    body = document(MEMORY.replace(FUNCTIONS, main), "executors", "full-model", TARGET_LIST, 7)
    body = body.replace(',\n  "version": 7', "").replace("\n", "\n    ")
    return '{\n  "modules": {\n    "vad": ' + body + '\n  },\n  "version": 7\n}'


METADATA = {
    1: document(V1_SIDS, "runtimes", "", TARGET_MAP, 1),
    2: document(MEMORY, "runtimes", "", TARGET_MAP, 2),
    3: document(MEMORY, "runtimes", "", TARGET_MAP, 3),
    4: document(MEMORY, "runtimes", "full-model", TARGET_MAP, 4),
    5: document(MEMORY, "executors", "full-model", TARGET_MAP, 5),
    6: document(MEMORY, "executors", "full-model", TARGET_LIST, 6),
    7: version_7(),
}
CODE = {"codegen/host/src/lib0.c", "codegen/host/src/lib1.c", "codegen/host/lib/lib0.o"}
MODULE_CODE = {name.replace("/lib0", "/vad_lib0").replace("/lib1", "/vad_lib1") for name in CODE}
FILES = {
    1: {*CODE, "relay.txt", "runtime-config/graph/graph.json"},
    2: {*CODE, "relay.txt", "runtime-config/graph/graph.json"},
    3: {*MODULE_CODE, "relay.txt", "runtime-config/graph/graph.json"},
    4: {*MODULE_CODE, "src/relay.txt", "runtime-config/graph/graph.json"},
    5: {*MODULE_CODE, "src/relay.txt", "executor-config/graph/graph.json"},
    6: {*MODULE_CODE, "src/relay.txt", "executor-config/graph/graph.json"},
    7: {*MODULE_CODE, "src/vad.relay", "executor-config/graph/vad.graph"},
}
EXTRAS = {"README.md", "checksums.sha256", "parameters/vad.json"}


@pytest.mark.parametrize("version", VERSIONS)
def test_bytes_of_every_version(version: int) -> None:
    bundle = write(Archive(version, (graph_module(),)))
    assert bundle.text("metadata.json") == METADATA[version]
    wanted = FILES[version] | EXTRAS | {"metadata.json", "parameters/vad.params"}
    assert set(bundle.files) == wanted


def test_aot_in_version_1_has_no_memory() -> None:
    module = graph_module()
    files = {n: d for n, d in module.files.items() if not n.endswith(".graph")}
    bundle = write(Archive(1, (replace(module, executors=("aot",), files=files),)))
    data = json.loads(bundle.files["metadata.json"])
    assert data["memory"] == []
    assert data["runtimes"] == ["aot"]
    assert read(bundle).modules[0].memory == Memory()


def operator_module() -> ModuleRecord:
    arguments = tuple(Argument(n, "int8", (1, 4), 4) for n in ("A", "B", "C"))
    return ModuleRecord(
        name="add",
        executors=(),
        targets=(TargetString("c -keys=cpu"),),
        memory=Memory(operators={"add": arguments}),
        files={
            "codegen/host/src/add_lib0.c": b";",
            "codegen/host/src/add_lib1.c": b"int kernel;",
            "src/tir-1.txt": b"primfn",
        },
        style=OPERATOR,
        exported="2021-07-20 11:12:13Z",
    )


ARGUMENTS = ", ".join(
    f'{{"size_bytes": 4, "shape": [1, 4], "dtype": "int8", "input_binding": "{name}"}}'
    for name in "ABC"
)


@pytest.mark.parametrize(
    ("version", "target", "executors"),
    [
        (4, '{"1": "c -keys=cpu"}', "runtimes"),
        (5, '{"1": "c -keys=cpu"}', "executors"),
        (6, '["c -keys=cpu"]', "executors"),
        (7, '["c -keys=cpu"]', "executors"),
    ],
)
def test_operator_archives(version: int, target: str, executors: str) -> None:
    bundle = write(Archive(version, (operator_module(),)))
    assert bundle.text("metadata.json") == (
        f'{{"version": {version}, "model_name": "add", '
        f'"export_datetime": "2021-07-20 11:12:13Z", "memory": {{"add": [{ARGUMENTS}]}}, '
        f'"target": {target}, "{executors}": [], "style": "operator"}}'
    )
    assert set(bundle.files) == {
        "codegen/host/src/lib0.c",
        "codegen/host/src/lib1.c",
        "src/tir-1.txt",
        "metadata.json",
        "README.md",
        "checksums.sha256",
    }
    assert read(bundle) == Archive(version, (operator_module(),))


def test_several_modules_share_an_archive() -> None:
    """Executors may be mixed; the runtime's files stand once, the modules by name."""
    files = {"codegen/host/src/kws_lib0.c": b";", "codegen/host/include/tvmgen_kws.h": b""}
    other = replace(
        graph_module(),
        name="kws",
        executors=("aot",),
        files=files,
        memory=Memory(),
        dependencies=(STANDALONE_CRT,),
    )
    shared = {"runtime/src/a.c": b"", "templates/t": b""}
    archive = Archive(7, (graph_module(), other), shared)
    bundle = write(archive)
    assert read(bundle) == replace(archive, modules=(other, graph_module()))
    data = json.loads(bundle.files["metadata.json"])["modules"]
    assert [data[n]["executors"] for n in ("kws", "vad")] == [["aot"], ["graph"]]
    assert data["kws"]["external_dependencies"] == [
        {
            "short_name": "tvm_standalone_crt",
            "url": "./runtime",
            "url_type": "mlf_path",
            "version_spec": "0.18.0",
        }
    ]


MODEL, ADD = graph_module(), operator_module()
CONFIG = ("executor-config/graph/graph.graph", "executor-config/graph/graph.json")
CLASH = replace(MODEL, name="graph", files=dict.fromkeys(CONFIG, b""))  # one name in version 5
TWO_TARGETS = replace(MODEL, targets=(TargetString("c"), TargetString("cmsis-nn")))


@pytest.mark.parametrize(
    ("archive", "message"),
    [
        (Archive(7, (MODEL, MODEL)), "Multiple modules should have unique names; got vad, vad"),
        (Archive(7, (ADD, replace(ADD, name="b"))), "Multiple operator is not supported. Got"),
        (Archive(7, (ADD, MODEL)), "Multiple operator is not supported. Got add, vad"),
        (Archive(6, (MODEL, replace(MODEL, name="b", files={}))), "version 6 holds one module"),
        (Archive(3, (ADD,)), "operators can be written from version 4 on; got 3"),
        (Archive(8, (MODEL,)), "version 8; expected one of 1 to 7"),
        (Archive(0, (MODEL,)), "version 0; expected one of 1 to 7"),
        (Archive(7, ()), "at least one module"),
        (Archive(5, (TWO_TARGETS,)), "one target for each device type; got 2: c, cmsis-nn"),
        (Archive(7, (replace(MODEL, name="a/b", files={}),)), "module name 'a/b'"),
        (Archive(7, (replace(MODEL, executors=()),)), "a model has one executor; got 0"),
        (
            Archive(7, (replace(MODEL, files={"src/other.relay": b""}),)),
            "'src/other.relay' is not a module's file",
        ),
        (Archive(5, (CLASH,)), "'executor-config/graph/graph.json' is not a module's file in"),
    ],
)
def test_what_cannot_be_written(archive: Archive, message: str) -> None:
    with pytest.raises(MlfError) as caught:
        write(archive)
    assert message in caught.value.problems[0].message
    assert len(caught.value.problems) == 1


def test_checksums_are_those_of_sha256sum(tmp_path: Path) -> None:
    bundle = write(Archive(7, (MODEL,)))
    for name, data in bundle.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    command = ["sha256sum", "--check", "--strict", "--quiet", "checksums.sha256"]
    assert subprocess.run(command, cwd=tmp_path).returncode == 0
    assert bundle.files["checksums.sha256"].count(b"\n") == len(bundle.files) - 1


def test_a_changed_file_is_noticed() -> None:
    bundle = write(Archive(7, (MODEL,)))
    changed = {**bundle.files, "src/vad.relay": b"def @other", "relay": b"more files are fine"}
    del changed["codegen/host/src/vad_lib0.c"]
    with pytest.raises(MlfError) as caught:
        read(Bundle(changed), "a.tar")
    assert [(p.code, p.path) for p in caught.value.problems] == [
        ("MLF0507", "codegen/host/src/vad_lib0.c"),
        ("MLF0507", "src/vad.relay"),
    ]


def test_readme_cannot_be_broken_by_names() -> None:
    hostile = "x`|\n# Title <script>\x1b[0m"
    module = replace(MODEL, targets=(TargetString(hostile),))
    text = write(Archive(7, (module,))).text("README.md")
    assert "<script>" not in text
    assert "\x1b" not in text
    assert [line for line in text.splitlines() if line.startswith("# ")] == ["# `vad`"]
