"""What the rules refuse and what they say then; external code with its library."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from nested import Workspace
from refusals import CALLS, HELPERS, LOAD, REFUSED, said

from mlftool.mlf import Bundle, write_tar

sys.path.insert(0, os.path.abspath(Path(__file__).parents[1] / "runtime"))
from tvm_archives import code, graph_archive

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
    (folder / "text.onnx").write_text("no model\n")
    (folder / "x.json").write_text("{}\n")
    (folder / "large.c").write_text("char b[5 << 20]; int main(void) { return b[9]; }\n")
    (folder / "cmsis/arm_nnfunctions.h").write_text(
        "#include <stdint.h>\nstatic inline int32_t arm_convolve(int32_t x) { return x + 2; }\n"
    )
    (folder / "BUILD.bazel").write_text(LOAD + HELPERS + LIBRARY + "\n".join(REFUSED) + "\n")
    return built.bazel("build", *built.options(), "--keep_going", "//refused/...", fails=True)


@pytest.mark.parametrize("target", REFUSED)
def test_refused_with_what_to_do(refused: str, target: str) -> None:
    assert said(REFUSED[target]) in refused, refused
    name = re.search(r'name = "(\w+)"', target)
    assert name
    # A C compiler's message is of a file.
    assert f"//refused:{name[1]}" in refused or f"refused/{name[1]}_" in refused


def test_the_header_of_an_external_library_is_asked_for(refused: str) -> None:
    assert (
        "help: it belongs to CMSIS-NN; give the cc_library that has it: deps of //refused:l"
    ) in refused


@pytest.fixture(scope="module")
def called(built: Workspace) -> str:
    """What Bazel says of packages with a mistake each, where it stops to read them."""
    for number, line in enumerate(CALLS):
        folder = built.folder / "calls" / f"p{number}"
        folder.mkdir(parents=True)
        (folder / "BUILD.bazel").write_text(LOAD + 'cc_library(name = "c")\n' + line + "\n")
    options = [*built.options(), "--keep_going", "--nobuild"]
    return built.bazel("build", *options, "//calls/...", fails=True)


@pytest.mark.parametrize("line", CALLS)
def test_a_call_that_cannot_be_meant(called: str, line: str) -> None:
    name = re.findall(r'name = "([\w-]+)"', line)[-1]
    label = f"//calls/p{list(CALLS).index(line)}:{name}"
    assert said(CALLS[line]).replace("LABEL", label) in called, called


def test_external_code_builds_with_its_library(built: Workspace, refused: str) -> None:
    assert "Build completed successfully" in built.bazel(
        "build", *built.options(), "//refused:with_library", "//refused:graph"
    )
