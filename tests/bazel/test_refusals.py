"""What the rules refuse and what they say then; external code with its library."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from nested import Workspace

from mlftool.mlf import Bundle, write_tar

sys.path.insert(0, os.path.abspath(Path(__file__).parents[1] / "runtime"))
from tvm_archives import code, graph_archive

LOAD = """load(
    "@mlftool//rules:defs.bzl",
    "mlf_budget_test", "mlf_cc_library", "mlf_compile", "mlf_firmware", "mlf_import", "mlf_module",
    "mlf_package", "mlf_report", "mlf_runner",
)
load("@rules_cc//cc:defs.bzl", "cc_library")
MODEL = "//:models/gesture_int8.onnx"
"""
# A target per line, and what is said of it.
REFUSED = {
    'mlf_compile(name = "a", model = MODEL, executor = "graph", interface_api = "c")':
        "interface_api: got c with executor 'graph', expected it with aot only; leave it out or "
        'set executor = "aot"',
    'mlf_compile(name = "b", model = MODEL, executor = "aot", link_params = 1)':
        "link_params: got 1 with executor 'aot', expected it with graph only",
    'mlf_compile(name = "c", model = MODEL, executor = "vm", system_lib = True)':
        "system_lib: got True with executor 'vm', expected it with aot or graph only",
    'mlf_compile(name = "d", model = MODEL, system_lib = True)':
        "system_lib: got True with interface_api 'c', which has no packed functions; set "
        'interface_api = "packed"',
    'mlf_compile(name = "e", model = MODEL, unpacked_api = 0)':
        "unpacked_api: got 0 with interface_api 'c'; set interface_api = \"packed\"",
    'mlf_compile(name = "f", model = MODEL, interface_api = "packed", workspace_io = True)':
        "workspace_io: got True with interface_api 'packed', expected 'c'",
    'mlf_compile(name = "Big", model = MODEL)':
        "module_name: got 'Big' from the target's name; set module_name, expected lower-case",
    'mlf_package(name = "g", modules = ["m7", "m6"])':
        "modules: one archive has one mlf_version; got m7 = 7, m6 = 6",
    'mlf_package(name = "h", modules = ["m7", "again"])':
        "modules: two modules are called 'm7'; set module_name of one of them",
    'mlf_runner(name = "i", archive = "graph_archive", library = "graph", module = "other")':
        "module: //refused:graph_archive has no module 'other'; one of: default",
    'mlf_compile(name = "o", model = MODEL, target = "cortex-m9")':
        "target: got 'cortex-m9', expected one of host, x86-64-v3, x86-64-v4, cortex-m0, cortex-m3",
    'mlf_firmware(name = "p", platform = "@mlftool//rules/platforms:host", deps = [":cmsis"])':
        "//refused:p: board: none of ours has the processor of platform "
        "@mlftool//rules/platforms:host; give your own mlf_board",
    'mlf_budget_test(name = "q", report = ":report")':
        "//refused:q: a budget needs at least one of: flash_bytes, instructions, ram_bytes",
    # By what the archives hold, found when they are unpacked.
    'mlf_import(name = "j", archive = "graph.tar", modules = ["keyword"])':
        "//refused:j: modules: got keyword; the archive holds default",
    'mlf_import(name = "k", archive = "graph.tar", executor = "aot")':
        "//refused:k: executor: got aot; module 'default' has graph",
    'mlf_import(name = "l", archive = "external.tar")':
        "external.tar: error[MLF0611]: codegen/host/src/default_lib2.c: includes "
        "'arm_nnfunctions.h', which neither the archive nor mlftool's C runtime has",
    'mlf_import(name = "n", archive = "text.tar")':
        "text.tar: error[MLF05",
}  # fmt: skip
HELPERS = """
mlf_module(name = "m7", model = MODEL)
mlf_module(name = "m6", model = MODEL, mlf_version = 6)
mlf_module(name = "again", model = MODEL, module_name = "m7")
mlf_import(name = "graph", archive = "graph.tar")
mlf_runner(name = "runner", archive = "graph_archive", library = "graph")
mlf_report(name = "report", runner = "runner", vectors = "//:models/gesture_int8.npz")
"""
# As external code generators have it: a call into a library that is not in the archive.
EXTERNAL = b"""#include <arm_nnfunctions.h>
int32_t default_conv(void) { return arm_convolve(40); }
"""
LIBRARY = """
cc_library(name = "cmsis", hdrs = ["cmsis/arm_nnfunctions.h"], includes = ["cmsis"])
mlf_import(name = "with_library", archive = "external.tar", deps = [":cmsis"])
"""


@pytest.fixture(scope="module")
def refused(built: Workspace) -> str:
    """What Bazel says of a package full of mistakes."""
    folder = built.folder / "refused"
    (folder / "cmsis").mkdir(parents=True)
    write_tar(graph_archive(5), folder / "graph.tar")
    external = Bundle({**graph_archive(5).files, code(5, 2): EXTERNAL})
    write_tar(external, folder / "external.tar")
    (folder / "text.tar").write_text("no archive\n")
    (folder / "cmsis/arm_nnfunctions.h").write_text(
        "#include <stdint.h>\nstatic inline int32_t arm_convolve(int32_t x) { return x + 2; }\n"
    )
    (folder / "BUILD.bazel").write_text(LOAD + HELPERS + LIBRARY + "\n".join(REFUSED) + "\n")
    return built.bazel("build", *built.options(), "--keep_going", "//refused/...", fails=True)


@pytest.mark.parametrize("target", REFUSED)
def test_refused_with_what_to_do(refused: str, target: str) -> None:
    assert REFUSED[target] in refused, refused


def test_the_header_of_an_external_library_is_asked_for(refused: str) -> None:
    assert (
        "help: it belongs to CMSIS-NN; give the cc_library that has it: deps of //refused:l"
    ) in refused


def test_a_library_for_no_processor(built: Workspace, refused: str) -> None:
    """A macro's mistake: nothing of its package is built."""
    folder = built.folder / "macro"
    folder.mkdir()
    line = 'mlf_cc_library(name = "a", archive = "//refused:graph_archive", target = "m4")\n'
    (folder / "BUILD.bazel").write_text(LOAD + line)

    talk = built.bazel("build", *built.options(), "//macro:a", fails=True)

    assert "mlf_cc_library a: target: got 'm4', expected one of host, " in talk


def test_external_code_builds_with_its_library(built: Workspace, refused: str) -> None:
    assert "Build completed successfully" in built.bazel(
        "build", *built.options(), "//refused:with_library", "//refused:graph"
    )
