"""What mlf_firmware links and with which tools, read from the programs by GNU binutils."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from nested import Workspace

pytestmark = pytest.mark.sampled(4)

PACKAGE = """
load("@mlftool//rules:defs.bzl", "mlf_board", "mlf_compile", "mlf_cc_library", "mlf_firmware")
load(":toolchain.bzl", "config")

# Interrupt handlers, say: the board names them, and so does the application.
cc_library(name = "both", srcs = ["both.c"], alwayslink = True)
cc_library(name = "with_options", srcs = ["option.c"], linkopts = ["-Wl,--defsym=by_library=4"])
mlf_board(name = "board", target = "cortex-m4", deps = ["@mlftool//crt:mps2_an386", ":both"])
cc_library(name = "again", deps = [":both"])
# A library of nothing but an object.
genrule(
    name = "object",
    srcs = ["object.c"],
    outs = ["object.o"],
    cmd = "/usr/bin/arm-none-eabi-gcc -mcpu=cortex-m4 -mthumb -mfloat-abi=hard -c $< -o $@",
)
cc_library(name = "objects", srcs = ["object.o"])
DEPS = [":both", ":again", ":objects", ":with_options", "@mlftool//crt:firmware_headers"]
mlf_firmware(name = "image", srcs = ["main.c"], board = ":board", deps = DEPS)
mlf_firmware(name = "stamped", srcs = ["main.c"], board = ":board", stamp = 1, deps = DEPS)

# Two versions of one model.
[
    mlf_compile(name = version, model = "//:models/%s.onnx" % model, module_name = "same")
    for version, model in {"v1": "gesture_int8", "v2": "vibration_int8"}.items()
]
[mlf_cc_library(name = version + "_lib", archive = version) for version in ["v1", "v2"]]
cc_binary(name = "one_version", srcs = ["empty.c"], deps = [":v1_lib"])
cc_binary(name = "two_versions", srcs = ["empty.c"], deps = [":v1_lib", ":v2_lib"])

config(name = "config")
filegroup(name = "none")
cc_toolchain(
    name = "by_actions",
    all_files = ":none", compiler_files = ":none", dwp_files = ":none", linker_files = ":none",
    objcopy_files = ":none", strip_files = ":none", ar_files = ":none", as_files = ":none",
    toolchain_config = ":config",
)
toolchain(
    name = "toolchain",
    target_compatible_with = ["@mlftool//rules/platforms:cpu_cortex-m4"],
    toolchain = ":by_actions",
    toolchain_type = "@bazel_tools//tools/cpp:toolchain_type",
)
MODEL = "//:models/gesture_int8.onnx"
mlf_compile(name = "machine", model = MODEL, target = "llvm -mcpu=cortex-m4")
mlf_cc_library(name = "machine_lib", archive = "machine", target = "cortex-m4")
mlf_firmware(name = "machine_image", srcs = ["main.c"], board = ":board",
             deps = DEPS + [":machine_lib"])
"""
BZL = """
load("@bazel_tools//tools/cpp:cc_toolchain_config_lib.bzl",
     "action_config", "feature", "flag_group", "flag_set", "tool")
load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")

COMPILE = [ACTION_NAMES.c_compile, ACTION_NAMES.cpp_compile, ACTION_NAMES.assemble,
           ACTION_NAMES.preprocess_assemble]
LINK = [ACTION_NAMES.cpp_link_executable]
FLAGS = ["-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16",
         "-no-canonical-prefixes", "-fno-canonical-system-headers"]

def _config_impl(ctx):
    tools = {name: "gcc" for name in COMPILE + LINK}
    tools[ACTION_NAMES.cpp_link_static_library] = "ar"
    return cc_common.create_cc_toolchain_config_info(
        ctx = ctx, toolchain_identifier = "by_actions", host_system_name = "x",
        target_system_name = "x", target_cpu = "cortex-m4", target_libc = "newlib",
        compiler = "gcc", abi_version = "x", abi_libc_version = "x",
        cxx_builtin_include_directories = ["/usr"],
        action_configs = [
            action_config(
                action_name = name,
                enabled = True,
                tools = [tool(path = "/usr/bin/arm-none-eabi-" + program)],
            )
            for name, program in tools.items()
        ],
        features = [
            feature(name = "machine", enabled = True, flag_sets = [flag_set(
                actions = COMPILE + LINK, flag_groups = [flag_group(flags = FLAGS)],
            )]),
            feature(name = "archiver_flags", enabled = True, flag_sets = [flag_set(
                actions = [ACTION_NAMES.cpp_link_static_library],
                flag_groups = [
                    flag_group(flags = ["rcsD", "%{output_execpath}"]),
                    flag_group(
                        iterate_over = "libraries_to_link",
                        expand_if_available = "libraries_to_link",
                        flags = ["%{libraries_to_link.name}"],
                    ),
                ],
            )]),
        ],
    )

config = rule(implementation = _config_impl, provides = [CcToolchainConfigInfo])
"""
FILES = {
    "both.c": "int both_handler(void) { return 1; }\n",
    "option.c": "int option(void) { return 2; }\n",
    "object.c": "int only_object(void) { return 3; }\n",
    "main.c": '#include "mlf_firmware.h"\n'
    "int both_handler(void), option(void), only_object(void);\n"
    "int main(void) { return both_handler() + option() + only_object() - 6; }\n",
    "empty.c": "int main(void) { return 0; }\n",
    "BUILD.bazel": PACKAGE,
    "toolchain.bzl": BZL,
}
STATUS = "#!/bin/sh\necho STABLE_GIT_COMMIT %s\n"


@pytest.fixture(scope="module")
def linking(built: Workspace) -> Workspace:
    folder = built.folder / "linking"
    folder.mkdir()
    for name, text in FILES.items():
        (folder / name).write_text(text)
    return built


def image(workspace: Workspace, name: str, *options: str) -> Path:
    """The ELF file of an image, built."""
    target = f"//linking:{name}"
    workspace.bazel("build", *workspace.options(), *options, target)
    found = workspace.folder.glob(f"bazel-out/*/bin/linking/{name}.elf")
    return max(found, key=lambda path: path.stat().st_mtime)


def symbols(elf: Path) -> dict[str, int]:
    table = subprocess.run(["arm-none-eabi-nm", elf], capture_output=True, text=True, check=True)
    rows = [line.split() for line in table.stdout.splitlines()]
    return {row[2]: int(row[0], 16) for row in rows if len(row) == 3}


def test_what_board_and_application_share_is_linked_once(linking: Workspace) -> None:
    found = symbols(image(linking, "image", "--linkopt=-Wl,--defsym=by_command_line=5"))

    assert {"both_handler", "only_object", "option"} <= found.keys()
    assert (found["by_library"], found["by_command_line"]) == (4, 5)


def status(workspace: Workspace, commit: str) -> str:
    file = workspace.folder.parent / f"status-{commit}.sh"
    file.write_text(STATUS % commit)
    file.chmod(0o755)
    return f"--workspace_status_command={file}"


def test_only_an_image_that_is_asked_carries_its_commit(linking: Workspace) -> None:
    plain, stamped, asked = [], [], []
    for commit in ("c0ffee", "0ddba11"):
        options = (status(linking, commit), "--embed_label=v7")
        plain.append(image(linking, "image", *options).read_bytes())
        stamped.append(image(linking, "stamped", *options).read_bytes())
        asked.append(image(linking, "image", "--stamp", *options).read_bytes())
        for data in (stamped[-1], asked[-1]):
            assert f"{commit}\0".encode() in data
            assert b"v7\0" in data
        assert commit.encode() not in plain[-1]
    assert plain[0] == plain[1]
    assert stamped[0] != stamped[1]
    # What is measured is never stamped, or a label's length would change figures and budgets.
    report = "deps(@models//gesture_int8:cortex-m4_report)"
    query = ("cquery", *linking.loading(), "--stamp", *options)
    said = linking.bazel(*query, f"filter('crt:(no_)?stamp$', {report})")
    assert "//crt:no_stamp (" in said
    assert "//crt:stamp (" not in said


def test_a_toolchain_that_names_its_tools_by_actions_only(linking: Workspace) -> None:
    """Objects are collected, images are linked and written without the path of any tool."""
    elf = image(linking, "machine_image", "--extra_toolchains=//linking:toolchain")

    assert "both_handler" in symbols(elf)
    log = linking.build("--extra_toolchains=//linking:toolchain", "//linking:machine_image")
    made = [a["commandArgs"] for a in log if a["mnemonic"] in ("MlfLink", "MlfObjects")]
    assert {word for line in made for word in line if "arm-none-eabi" in Path(word).name} <= {
        "/usr/bin/arm-none-eabi-gcc", "/usr/bin/arm-none-eabi-ar",
    }  # fmt: skip


def test_two_versions_of_one_model_are_refused_by_the_linker(linking: Workspace) -> None:
    """As mlf_firmware does; else the one that comes first is linked. Called or not."""
    linking.build("//linking:one_version")
    # Bazel found gold and gives objects between --start-lib and --end-lib, which bfd does not know.
    for linker in (["--linkopt=-fuse-ld=gold"], ["--linkopt=-fuse-ld=bfd", "--nostart_end_lib"]):
        words = (*linker, "//linking:two_versions")
        talk = linking.bazel("build", *linking.options(), *words, fails=True)
        assert "multiple definition of" in talk, talk
        assert "mlf_module_same_in_two_libraries_set_module_name" in talk, talk
