"""What the rules refuse and what they say then; external code with its library."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

import pytest
from nested import Workspace

from mlftool.mlf import Bundle, write_tar

sys.path.insert(0, os.path.abspath(Path(__file__).parents[1] / "runtime"))
from tvm_archives import code, graph_archive

LOAD = """load(
    "@mlftool//rules:defs.bzl",
    "mlf_arena_test", "mlf_baseline_test", "mlf_benchmark", "mlf_board", "mlf_budget_test",
    "mlf_cc_library", "mlf_compile", "mlf_firmware", "mlf_firmware_test", "mlf_golden_test",
    "mlf_host_test", "mlf_import", "mlf_module", "mlf_package", "mlf_project", "mlf_report",
    "mlf_reproducibility_test",
    "mlf_runner", "mlf_size_report", "mlf_tune",
)
load("@rules_cc//cc:defs.bzl", "cc_library")
MODEL = "//:models/gesture_int8.onnx"
VECTORS = "//:models/gesture_int8.npz"
REPORT = "@models//gesture_int8:host_report"
HOST = "@models//gesture_int8:host_runner"
"""
# A target per line, and what is said of it.
REFUSED = {
    'mlf_compile(name = "a", model = MODEL, executor = "graph", interface_api = "c")':
        "//refused:a: interface_api: got c with executor 'graph', expected it with aot only; leave "
        'it out or set executor = "aot"',
    'mlf_compile(name = "b", model = MODEL, executor = "aot", link_params = 1)':
        "//refused:b: link_params: got 1 with executor 'aot', expected it with graph only",
    'mlf_compile(name = "c", model = MODEL, executor = "vm", system_lib = True)':
        "//refused:c: system_lib: got True with executor 'vm', expected it with aot or graph only",
    'mlf_compile(name = "d", model = MODEL, system_lib = True)':
        "//refused:d: system_lib: got True with interface_api 'c', which has no packed functions; "
        'set interface_api = "packed"',
    'mlf_compile(name = "e", model = MODEL, unpacked_api = 0)':
        "//refused:e: unpacked_api: got 0 with interface_api 'c'; set interface_api = \"packed\"",
    'mlf_compile(name = "f", model = MODEL, interface_api = "packed", workspace_io = True)':
        "//refused:f: workspace_io: got True with interface_api 'packed', expected 'c'",
    'mlf_compile(name = "Big", model = MODEL)':
        "//refused:Big: module_name: got 'Big' from the target's name; set module_name, "
        "expected lower-case",
    'mlf_package(name = "g", modules = ["m7", "m6"])':
        "//refused:g: modules: one archive has one mlf_version; got m7 = 7, m6 = 6",
    'mlf_package(name = "h", modules = ["m7", "again"])':
        "//refused:h: modules: two modules are called 'm7'; set module_name of one of them",
    'mlf_runner(name = "i", archive = "graph_archive", library = "graph", module = "other")':
        "module: got 'other', which //refused:graph_archive has not; expected one of: default",
    'mlf_compile(name = "o", model = MODEL, target = "cortex-m9")':
        "target: got 'cortex-m9', expected one of host, x86-64-v3, x86-64-v4, aarch64, ",
    'mlf_firmware(name = "p", platform = "@mlftool//rules/platforms:host", deps = [":cmsis"])':
        "//refused:p: board: none of ours has the processor of platform "
        "@mlftool//rules/platforms:host; give your own mlf_board",
    'mlf_budget_test(name = "q", report = ":report")':
        "//refused:q: a budget needs at least one of: flash_bytes, instructions, ram_bytes",
    'mlf_compile(name = "r", model = MODEL, input_shapes = {"acceleration": "1,x"})':
        "//refused:r: input_shapes: got '1,x' for input 'acceleration', expected extents, such as",
    'mlf_compile(name = "s", model = MODEL, max_workspace_bytes = -5)':
        "//refused:s: max_workspace_bytes: got -5, expected bytes or a count, 0 or more; leave it "
        "out for no limit",
    'mlf_compile(name = "t", model = MODEL, target = "")':
        "//refused:t: target: got '', expected a target such as host or cortex-m4; leave it out",
    'mlf_compile(name = "t1", model = MODEL, patches = "65")':
        "//refused:t1: patches: got '65', expected off, auto or 2 to 64",
    'mlf_compile(name = "t2", model = MODEL, pools = ["sram=64KB"])':
        "//refused:t2: pools: got 'sram=64KB', expected NAME=BYTES or NAME=BYTES@SECTION, such as",
    'mlf_compile(name = "t10", model = MODEL, patches = "2", tuning = "x.json")':
        "//refused:t10: tuning: got //refused:x.json with optimize 'speed' and patches '2'",
    'mlf_compile(name = "t11", model = MODEL, tuning = "text.onnx")':
        "in tuning attribute of mlf_compile rule //refused:t11: source file "
        "'//refused:text.onnx' is misplaced here (expected .json)",
    'mlf_compile(name = "t3", model = MODEL, pools = ["a=1KiB", "a=2KiB"])':
        "//refused:t3: pools: got 'a' twice; give each memory a name of its own",
    'mlf_project(name = "t4", archive = "m8", library = "../m8")':
        "//refused:t4: library: got '../m8', expected letters, digits and any of '_-.+'",
    'mlf_package(name = "t5", modules = [":cmsis"])':
        "in modules attribute of mlf_package rule //refused:t5: '//refused:cmsis' does not have "
        "mandatory providers: 'MlfModuleInfo'",
    'mlf_host_test(name = "t6", runner = ":m8", vectors = VECTORS)':
        "in runner attribute of _mlf_run_test rule //refused:t6: '//refused:m8' does not have "
        "mandatory providers: 'MlfRunnerInfo'",
    'mlf_report(name = "t7", runner = HOST, vectors = MODEL)':
        "in vectors attribute of mlf_report rule //refused:t7: source file "
        "'//:models/gesture_int8.onnx' is misplaced here (expected .npz",
    'mlf_compile(name = "t8", model = MODEL, data = ["nowhere.bin"])':
        "(//refused:t8) failed: missing input file '//refused:nowhere.bin'",
    'mlf_import(name = "t9", archive = "x.json")':
        "in archive attribute of _mlf_archive rule //refused:t9_archive: source file "
        "'//refused:x.json' is misplaced here (expected .tar or .model-library-format)",
    'mlf_compile(name = "u", model = VECTORS)':
        "in model attribute of mlf_compile rule //refused:u: source file "
        "'//:models/gesture_int8.npz' is misplaced here (expected .onnx)",
    'mlf_report(name = "v", absolute = "tiny", runner = HOST, vectors = VECTORS)':
        "//refused:v: absolute: got 'tiny', expected a number of 0 or more, such as 0.5 or 1e-5",
    'mlf_host_test(name = "w", relative = -1, runner = HOST, vectors = VECTORS)':
        "//refused:w: relative: got '-1', expected a number of 0 or more",
    'mlf_benchmark(name = "x", repetitions = 0, runner = HOST, vectors = VECTORS)':
        "//refused:x: repetitions: got 0, expected 1 or more",
    'mlf_golden_test(name = "y", golden = REPORT, src = REPORT)':
        "//refused:y: golden: @models//gesture_int8:host_report is made by the build; expected a "
        "file of the source tree",
    'mlf_size_report(name = "z", program = ":cmsis")':
        "//refused:z: program: //refused:cmsis makes no program; expected a cc_binary, cc_test or",
    'mlf_firmware(name = "aa", platform = "@mlftool//rules/platforms:cortex-m4")':
        "//refused:aa: srcs, deps: got neither, expected C files or libraries, one of them with",
    'mlf_baseline_test(name = "ab", baseline = "x.json", reports = [REPORT], tolerance = "5 %")':
        "//refused:ab: tolerance: got '5 %', expected a number of 0 or more",
    'mlf_budget_test(name = "ac", report = REPORT, flash_bytes = -7)':
        "//refused:ac: flash_bytes: got -7, expected bytes or a count, 0 or more",
    'mlf_project(name = "ad", archive = ":cmsis")':
        "in archive attribute of mlf_project rule //refused:ad: '//refused:cmsis' does not have "
        "mandatory providers: 'MlfInfo'",
    'mlf_runner(name = "ae", archive = "m8", library = "l8", '
    'platform = "@mlftool//rules/platforms:host")':
        "//refused:ae_program: board: none of ours has the processor of platform "
        "@mlftool//rules/platforms:host; give your own mlf_board",
    'mlf_firmware_test(name = "am", firmware = ":quiet")':
        "//refused:am: nothing simulates the board of refused/quiet.elf; give its mlf_board a "
        "simulator, or test on the host",
    'mlf_compile(name = "value", model = MODEL, input_values = {"x": "1,two"})':
        "//refused:value: input_values: got '1,two' for input 'x', expected numbers, such as",
    'mlf_tune(name = "tune_host", model = MODEL, targets = ["cortex-m4", "host"])':
        "//refused:tune_host: targets: got 'host', expected targets with a simulated board",
    'mlf_compile(name = "tuned_size", model = MODEL, optimize = "size", tuning = "x.json")':
        "tuning: got //refused:x.json with optimize 'size' and patches 'off', expected speed and",
    # By the compiler, the archives' makers and the runners.
    'mlf_compile(name = "af", model = MODEL, input_shapes = {"nope": "1,2"})':
        "models/gesture_int8.onnx: error[MLF0208]: shape given for 'nope', which is not an input "
        "of the model",
    'mlf_compile(name = "ag", model = "text.onnx")':
        "refused/text.onnx: error[MLF0202]: is not an ONNX model: its bytes do not parse",
    'mlf_compile(name = "al", model = MODEL, tuning = "x.json")':
        "refused/x.json: error[MLF0408]: is no tuning record",
    'mlf_report(name = "ah", runner = HOST, vectors = "//:models/vibration_int8.npz")':
        "models/vibration_int8.npz: error[MLF0601]: no array for tensor 'acceleration'",
    'mlf_arena_test(name = "ai", archive = ":m8", library = ":l8", vectors = VECTORS)':
        "error[MLF0607]: m8: has no workspace of its own that could be made smaller",
    # By what the archives hold, found when they are unpacked.
    'mlf_reproducibility_test(name = "twice", archive = ":given")\n'
    'mlf_module(name = "part", model = MODEL)\nmlf_package(name = "given", modules = [":part"])':
        "//refused:twice: archive: got //refused:given, expected an mlf_compile; only models are",
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
mlf_compile(name = "m8", model = MODEL, interface_api = "packed")
mlf_cc_library(name = "l8", archive = "m8")
mlf_import(name = "graph", archive = "graph.tar")
mlf_runner(name = "runner", archive = "graph_archive", library = "graph")
mlf_board(name = "hardware", srcs = ["start.c"], linker_script = "x.ld", target = "cortex-m4")
mlf_firmware(name = "quiet", srcs = ["start.c"], board = ":hardware", tags = ["manual"])
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
    (folder / "text.onnx").write_text("no model\n")
    (folder / "x.json").write_text("{}\n")
    (folder / "cmsis/arm_nnfunctions.h").write_text(
        "#include <stdint.h>\nstatic inline int32_t arm_convolve(int32_t x) { return x + 2; }\n"
    )
    (folder / "BUILD.bazel").write_text(LOAD + HELPERS + LIBRARY + "\n".join(REFUSED) + "\n")
    return built.bazel("build", *built.options(), "--keep_going", "//refused/...", fails=True)


@pytest.mark.parametrize("target", REFUSED)
def test_refused_with_what_to_do(refused: str, target: str) -> None:
    assert REFUSED[target] in refused, refused
    name = re.search(r'name = "(\w+)"', target)
    assert name
    assert f"//refused:{name[1]}" in refused


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


# A mistake in the call itself: Bazel stops reading the package there.
@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            'mlf_compile(name = "a", model = "x.onnx", executor = "aott")',
            "//line:a: invalid value in 'executor' attribute: has to be one of 'aot', 'graph' or "
            "'vm' instead of 'aott'",
        ),
        (
            'mlf_compile(name = "a", model = "x.onnx", mlf_version = 9)',
            "//line:a: invalid value in 'mlf_version' attribute: has to be one of '1', '2',",
        ),
        (
            'mlf_compile(name = "a", model = "x.onnx", executer = "aot")',
            "//line:a: no such attribute 'executer' in 'mlf_compile' rule",
        ),
        (
            'mlf_compile(name = "a")',
            "//line:a: missing value for mandatory attribute 'model' in 'mlf_compile' rule",
        ),
        (
            'mlf_model(name = "a", model = "x.onnx", flash_bytes = 1)',
            "mlf_model a: a budget is checked against a run, so it needs vectors (in a manifest:",
        ),
        (
            'mlf_firmware(name = "a", srcs = ["a.c"])',
            "mlf_firmware a: board, platform: got neither, expected your mlf_board or the platform",
        ),
        (
            'mlf_board(name = "a", linker_script = "a.ld", target = "m4")',
            "mlf_board a: target: got 'm4', expected one of aarch64, armv7-a, cortex-m0, ",
        ),
        (
            'mlf_board(name = "a", parts = ["cortex"], target = "cortex-m4")',
            "mlf_board a: parts: got 'cortex', expected some of common, cortex_m, riscv",
        ),
        (
            'mlf_model(name = "a", model = "x.onnx", target = "m4")',
            "mlf_model a: target: got 'm4', expected one of host, ",
        ),
    ],
)
def test_a_call_that_cannot_be_meant(built: Workspace, line: str, said: str) -> None:
    folder = built.folder / "line"
    folder.mkdir(exist_ok=True)
    load = LOAD.replace('"mlf_module"', '"mlf_model", "mlf_module"')
    (folder / "BUILD.bazel").write_text(load + line + "\n")

    talk = built.bazel("build", *built.options(), "--nobuild", "//line:all", fails=True)

    assert said in talk, talk


def test_external_code_builds_with_its_library(built: Workspace, refused: str) -> None:
    assert "Build completed successfully" in built.bazel(
        "build", *built.options(), "//refused:with_library", "//refused:graph"
    )
