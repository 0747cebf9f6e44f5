"""What mlf_cc_library gets out of an archive, and what it says of one that is not as declared."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from shared import OWN

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import write_tar
from rules.private.tools import unpack

MODEL = OWN / "gesture_int8.onnx"
FORMS = {
    "struct": {},
    "packed": {"interface_api": "packed", "system_lib": True},
    "graph": {"executor": "graph"},
    "objects": {"executor": "graph", "system_lib": True, "target": "llvm"},
}


def archive(folder: Path, *forms: str) -> Path:
    specs = [ModuleSpec(MODEL, f"m_{form}", **FORMS[form]) for form in forms]
    write_tar(compile_modules(specs), folder / "a.tar")
    return folder / "a.tar"


def run(folder: Path, *arguments: str) -> int:
    places = [str(folder / n) for n in ("a.tar", "src", "include", "lib", "link.args")]
    return unpack.main([*places, *arguments])


@pytest.mark.parametrize(("form", "found"), [("struct", False), ("packed", True), ("graph", False),
                                             ("objects", True)])  # fmt: skip
def test_a_system_library_is_taken_out_of_its_library(
    form: str, found: bool, tmp_path: Path
) -> None:
    archive(tmp_path, form)
    assert run(tmp_path, "--module", f"m_{form}") == 0
    words = (tmp_path / "link.args").read_text().split()
    assert words == (["-Wl,-u,TVMSystemLibEntryPoint"] if found else [])


def test_a_graph_and_its_parameters_are_c(tmp_path: Path) -> None:
    bundle = compile_modules([ModuleSpec(MODEL, "m", executor="graph")])
    write_tar(bundle, tmp_path / "a.tar")
    assert run(tmp_path, "--module", "m", "--executor", "m=graph") == 0
    (tmp_path / "print.c").write_text(
        '#include <stdio.h>\n#include "tvmgen_m_graph.h"\nint main(void) {\n'
        "  fwrite(tvmgen_m_graph, 1, tvmgen_m_graph_size, stdout);\n"
        "  fwrite(tvmgen_m_params, 1, tvmgen_m_params_size, stdout);\n  return 0;\n}\n"
    )
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-Iinclude", "print.c", "src/m_graph.c"]
    subprocess.run([*command, "-o", "print"], cwd=tmp_path, check=True)
    printed = subprocess.run([tmp_path / "print"], capture_output=True, check=True).stdout
    files = bundle.files
    assert printed == files["executor-config/graph/m.graph"] + files["parameters/m.params"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--module", "m"], "modules: got m; the archive holds m_graph, m_packed"),
        (
            ["--module", "m_graph", "--module", "m_packed", "--executor", "m_packed=graph"],
            "executor: got graph; module 'm_packed' has aot",
        ),
    ],
)
def test_what_is_not_as_declared(
    arguments: list[str], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    archive(tmp_path, "graph", "packed")
    assert run(tmp_path, *arguments, "--label", "//a:b") == 2
    said = capsys.readouterr().err
    assert f"//a:b: {message}" in said
    assert not (tmp_path / "src").exists()


def test_every_module_has_an_executor_of_its_own(tmp_path: Path) -> None:
    archive(tmp_path, "graph", "packed", "struct")
    executors = ["m_graph=graph", "m_packed=aot", "m_struct=aot"]
    modules = [word for pair in executors for word in ("--module", pair.partition("=")[0])]
    given = [word for pair in executors for word in ("--executor", pair)]
    assert run(tmp_path, *modules, *given) == 0
    assert (tmp_path / "include/tvmgen_m_struct.h").is_file()
