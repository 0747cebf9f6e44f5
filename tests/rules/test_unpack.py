"""What mlf_cc_library gets out of an archive, and what it says of one that is not as declared."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from shared import OWN

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import write_tar
from rules.private.tools import unpack

sys.path.insert(0, str(Path(os.path.abspath(__file__)).parents[2] / "tools"))
import rules_doc

MODEL = OWN / "gesture_int8.onnx"
FORMS = {
    "struct": {},
    "packed": {"interface_api": "packed", "system_lib": True},
    "graph": {"executor": "graph"},
    "objects": {"executor": "graph", "system_lib": True, "target": "llvm"},
}


# Everything that the names of an archive's C files depend on.
NAMED = {
    **FORMS,
    "vm": {"executor": "vm"},
    "vm_objects": {"executor": "vm", "target": "llvm"},
    "old": {"mlf_version": 1},
    "old_graph": {"mlf_version": 2, "executor": "graph"},
    "old_packed": {"mlf_version": 3, "interface_api": "packed"},
    "filed": {"weights": "binary", "executor": "graph"},
    "linked": {"link_params": True, "executor": "graph"},
}


def archive(folder: Path, *forms: str) -> Path:
    specs = [ModuleSpec(MODEL, f"m_{form}", **FORMS[form]) for form in forms]
    write_tar(compile_modules(specs), folder / "a.tar")
    return folder / "a.tar"


def named(form: str, module: str) -> list[str]:
    """The C files that the rules expect."""
    words = {"executor": "aot", "target": "host", "interface_api": "c", **NAMED[form]}
    packed = words["interface_api"] == "packed"
    rules = rules_doc.run_bzl("//rules/private:compile.bzl", {})
    return rules["source_names"](module, words["executor"], words["target"], packed, 0)


@pytest.mark.parametrize("form", NAMED)
def test_the_rules_know_the_files_before_they_are_made(form: str, tmp_path: Path) -> None:
    write_tar(compile_modules([ModuleSpec(MODEL, "m", **NAMED[form])]), tmp_path / "a.tar")
    sources = [tmp_path / "src" / name for name in named(form, "m")]

    assert unpack.beside(tmp_path / "a.tar", sources) == 0

    # As the folders of an archive from elsewhere.
    (tmp_path / "b").mkdir()
    shutil.copy(tmp_path / "a.tar", tmp_path / "b")
    assert run(tmp_path / "b", "--module", "m") == 0
    both = [
        sorted((p.read_bytes(), p.suffix) for p in (folder / "src").iterdir())
        for folder in (tmp_path, tmp_path / "b")
    ]
    assert both[0] == both[1]
    assert sorted((tmp_path / "src").iterdir()) == sorted(sources)
    for part in ("include", "lib"):
        files = [
            {str(p.relative_to(f / part)): p.read_bytes() for p in (f / part).rglob("*.?")}
            for f in (tmp_path, tmp_path / "b")
        ]
        assert files[0] == files[1]
    assert (tmp_path / "link.args").read_bytes() == (tmp_path / "b" / "link.args").read_bytes()


# Modules of one archive: those with a system library share one, which is a file of its own.
TOGETHER = {
    "none": ["struct", "graph"],
    "one": ["struct", "packed", "graph"],
    "two": ["packed", "listed"],
    "two_among_others": ["struct", "listed", "packed", "vm"],
    "objects": ["objects", "packed_objects"],
}
NAMED_TOGETHER = {
    **NAMED,
    "listed": {"executor": "graph", "system_lib": True},
    "packed_objects": {**FORMS["packed"], "target": "llvm"},
}


@pytest.mark.parametrize("archive", TOGETHER)
def test_the_rules_know_the_files_of_several_modules(archive: str, tmp_path: Path) -> None:
    forms = TOGETHER[archive]
    modules = [ModuleSpec(MODEL, f"m_{form}", **NAMED_TOGETHER[form]) for form in forms]
    write_tar(compile_modules(modules), tmp_path / "a.tar")
    asked = [
        SimpleNamespace(
            module_name=m.module_name,
            executor=m.executor,
            target=m.target,
            options=NAMED_TOGETHER[form],
        )
        for m, form in zip(modules, forms, strict=True)
    ]
    rules = rules_doc.run_bzl("//rules/private:compile.bzl", {})
    sources = [tmp_path / "src" / name for name in rules["package_source_names"](asked)]

    assert unpack.beside(tmp_path / "a.tar", sources) == 0
    assert sorted((tmp_path / "src").iterdir()) == sorted(sources)


def test_the_rules_know_the_files_of_backends(tmp_path: Path) -> None:
    spec = ModuleSpec(MODEL, "m", backends=("cmsis-nn",))
    write_tar(compile_modules([spec]), tmp_path / "a.tar")
    rules = rules_doc.run_bzl("//rules/private:compile.bzl", {})
    names = rules["source_names"]("m", "aot", "host", False, 1)

    assert unpack.beside(tmp_path / "a.tar", [tmp_path / "src" / name for name in names]) == 0


@pytest.mark.parametrize("wrong", [["m_lib0.c"], ["m_lib0.c", "m_lib1.c", "m_lib2.c"]])
def test_other_files_than_the_rules_know(
    wrong: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tar(compile_modules([ModuleSpec(MODEL, "m")]), tmp_path / "a.tar")

    assert unpack.beside(tmp_path / "a.tar", [tmp_path / "src" / name for name in wrong]) == 4

    assert "error[MLF0504]: got C files m_lib0.c, m_lib1.c, expected " in capsys.readouterr().err
    assert not (tmp_path / "src").exists()


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


@pytest.mark.parametrize(
    ("made", "given", "said"),
    [
        ("host", "", ""),
        ("host", "host", ""),
        ("cortex-m7", "cortex-m7", ""),
        ("cortex-m7", "", "got none; module 'm' is for cortex-m7\nhelp: set target = 'cortex-m7'"),
        ("cortex-m7", "cortex-m4", "got 'cortex-m4'; module 'm' is for cortex-m7\nhelp: set"),
        ("host", "cortex-m4", "got 'cortex-m4'; module 'm' is for host\nhelp: leave it out"),
    ],
)
def test_the_processor_is_the_one_of_the_archive(
    made: str, given: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Images are compared with what the rule says, before the archive is opened."""
    write_tar(compile_modules([ModuleSpec(MODEL, "m", made)]), tmp_path / "a.tar")
    folders = [str(tmp_path / name) for name in ("src", "include", "lib", "link.args")]
    words = ["--module", "m", "--label", "//a:lib", *(["--processor", given] if given else [])]
    status = unpack.main([str(tmp_path / "a.tar"), *folders, *words])
    printed = capsys.readouterr().err
    assert status == (2 if said else 0), printed
    assert (f"error[MLF0504]: //a:lib: target: {said}" in printed) == bool(said), printed
