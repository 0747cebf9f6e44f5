"""One compile for everyone: counted over modes, a host and boards, by aquery and in the log."""

from __future__ import annotations

import re
from collections import Counter

import pytest
from nested import Workspace

# What a user's rule changes on the way to a model, besides mode and platform.
VARIANT = """
NAMES = ["conlyopt", "copt", "cxxopt", "features", "linkopt"]
C = ["//command_line_option:" + name for name in NAMES]

def _change(_settings, _attr):
    return {option: ["-DVARIANT"] for option in C}

_variant = transition(implementation = _change, inputs = [], outputs = C)

def _variant_impl(ctx):
    return [DefaultInfo(files = depset(ctx.files.of))]

variant = rule(
    implementation = _variant_impl,
    attrs = {
        "of": attr.label_list(cfg = _variant),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
"""
PACKAGE = """
load(":variant.bzl", "variant")
load(
    "@mlftool//rules:defs.bzl",
    "mlf_arena_test", "mlf_cc_library", "mlf_firmware", "mlf_import", "mlf_model", "mlf_module",
    "mlf_package", "mlf_tune",
)

MODELS = ["gesture_int8", "vibration_int8"]
BOARDS = {"cortex-m4": "mps2_an386", "cortex-m7": "mps2_an500"}
PLATFORM = "@mlftool//rules/platforms:"

[
    mlf_model(
        name = "%s_%s" % (model, target),
        model = "//:models/%s.onnx" % model,
        module_name = model,
        target = target,
        vectors = "//:models/%s.npz" % model,
    )
    for model in MODELS
    for target in ["host"] + BOARDS.keys()
]

# The same C for two boards, and on the host: what an import says nothing of is for any processor.
[mlf_module(name = model, model = "//:models/%s.onnx" % model) for model in MODELS]
mlf_package(name = "both", modules = MODELS)
mlf_cc_library(name = "both_lib", archive = "both")
mlf_import(name = "both_any", archive = "both", modules = MODELS)
mlf_import(name = "foreign", archive = "foreign.tar", modules = ["gesture_int8"])
[
    mlf_firmware(
        name = "%s_%s" % (library, board),
        srcs = ["main.c"],
        platform = PLATFORM + board,
        deps = [library, "@mlftool//crt:platform_headers"],
    )
    for board in BOARDS.values()
    for library in ["both_any", "foreign"]
]
cc_binary(name = "program", srcs = ["host.c"], deps = ["both_lib"])
filegroup(name = "files", srcs = ["both", "gesture_int8_cortex-m4.tar"])
genrule(name = "copy", srcs = ["both"], outs = ["copy.tar"], cmd = "cp $< $@")
[
    mlf_arena_test(
        name = board + "_arena_test",
        archive = "both",
        library = "both_any",
        module = "gesture_int8",
        platform = PLATFORM + board,
        vectors = "//:models/gesture_int8.npz",
    )
    for board in BOARDS.values()
]
mlf_tune(name = "tuned", model = "//:models/gesture_int8.onnx", targets = ["cortex-m4"])
mlf_model(
    name = "tuned_model",
    model = "//:models/gesture_int8.onnx",
    target = "cortex-m4",
    tuning = "tuned",
)
variant(name = "variant", of = ["both", "tuned", "vibration_int8_host_archive"])
"""
# What is made once, and how often: what it makes there is the same for all configurations.
ONCE = {
    "MlfCompile": 2 * 3 + 1,
    "MlfPackage": 1,
    "MlfTune": 1,
    # A model each, and the arenas that are enough and too small for each board.
    "MlfRunner": 2 * 3 + 1 + 2 * 2,
    "MlfArena": 2 * 2,
}
MODES = ("fastbuild", "opt", "dbg")
# What else a command line changes: none of it changes a model.
MORE = (
    "--collect_code_coverage",
    "--copt=-g",
    "--@mlftool//rules/settings:copts=-O3",
    "--@mlftool//rules/settings:board=@mlftool//crt:headers",
    "--@mlftool//rules/settings:platform_hooks=@mlftool//crt:headers",
    "--@mlftool//crt:crt_config=@mlftool//crt:headers",
)


@pytest.fixture(scope="module")
def shared(built: Workspace) -> Workspace:
    """The workspace with a package in which everybody asks for the same."""
    folder = built.folder / "shared"
    folder.mkdir()
    (folder / "BUILD.bazel").write_text(PACKAGE)
    (folder / "variant.bzl").write_text(VARIANT)
    built.build("@models//gesture_int8:host_archive")
    (archive,) = (built.folder / "bazel-bin/external/models/gesture_int8").glob("host.tar")
    (folder / "foreign.tar").write_bytes(archive.read_bytes())
    (folder / "main.c").write_text((built.folder / "main.c").read_text())
    (folder / "host.c").write_text("int main(void) { return 0; }\n")
    return built


def made(workspace: Workspace, *options: str) -> dict[str, set[str]]:
    """Mnemonic -> the first outputs of its actions, for everything of the package."""
    query = f"mnemonic('{'|'.join(ONCE)}', deps(//shared/...))"
    arguments = ("--include_commandline=false", *workspace.options(), *options, query)
    talk = workspace.bazel("aquery", *arguments)
    found = [
        (kind, outputs)
        for action in talk.split("\n\n")
        for kind in re.findall(r"^  Mnemonic: (\w+)$", action, re.MULTILINE)
        for outputs in re.findall(r"^  Outputs: \[(.*)\]$", action, re.MULTILINE)
    ]
    return {name: {outputs for kind, outputs in found if kind == name} for name in ONCE}


@pytest.mark.parametrize("platform", ["", "mps2_an386"])
def test_every_mode_and_board_asks_for_the_same_actions(shared: Workspace, platform: str) -> None:
    options = [f"--platforms=@mlftool//rules/platforms:{platform}"] if platform else []

    modes = [made(shared, f"--compilation_mode={mode}", *options) for mode in MODES]
    modes.append(made(shared, *MORE, *options))

    assert {name: len(paths) for name, paths in modes[0].items()} == ONCE
    assert modes == [modes[0]] * 4


def test_three_modes_compile_each_model_once(shared: Workspace) -> None:
    """What is counted is done: models and their C files, by the host's and by the boards' tools."""
    targets = [f"//shared:{name}" for name in ("files", "copy", "foreign_archive", "program")]
    boards = ("cortex-m4_runner_source", "cortex-m7_sources", "host_runner_source")
    targets += [
        f"//shared:{model}_{p}" for model in ("gesture_int8", "vibration_int8") for p in boards
    ]
    shared.bazel("clean")

    done = [shared.build(f"--compilation_mode={mode}", *targets) for mode in MODES]

    counts = [Counter(action["mnemonic"] for action in actions) for actions in done]
    assert (counts[0]["MlfCompile"], counts[0]["MlfPackage"], counts[0]["MlfRunner"]) == (6, 1, 4)
    for later in counts[1:]:
        # Each mode has its own C, and its own library of the objects that archives bring.
        assert {name for name in later if name.startswith("Mlf")} <= {"MlfObjects"}, later
        assert later["CppCompile"] > 1


def test_an_archive_is_where_bazel_says(shared: Workspace) -> None:
    """The mode's own folder has it, for scripts that do not know how a model is compiled."""
    for mode in ("opt", "dbg"):
        shared.build(f"--compilation_mode={mode}", "//shared:both")
        assert (shared.folder / "bazel-bin" / "shared" / "both.tar").is_file()
        talk = shared.bazel("info", f"--compilation_mode={mode}", "bazel-bin")
        assert (shared.folder / "bazel-bin").resolve().as_posix() in talk
