"""The host's C compiler in the keys of what it compiles and links.

Bazel describes that compiler by its path. Without this, an upgrade, or another machine that has another
compiler at this path, would take from a cache what the old one has made.
"""

load("@mlf_system//:tools.bzl", "HOST_COMPILER")
load(":cc.bzl", "CC_TOOLCHAIN_TYPE", "CcInfo", "cc_common", "find_cc_toolchain")

def _host_compiler_key_impl(ctx):
    # The toolchain of a board, or one whose files are inputs, has its own fingerprint.
    used = find_cc_toolchain(ctx).compiler_executable
    mark = HOST_COMPILER["fingerprint"][:16] if used == HOST_COMPILER["path"] else ""
    key = ctx.actions.declare_file(ctx.label.name + ".txt")
    ctx.actions.write(key, mark + "\n")
    return [CcInfo(
        # On the command line: of headers Bazel forgets those that a compilation did not read.
        compilation_context = cc_common.create_compilation_context(
            defines = depset(["MLF_HOST_COMPILER=0x" + mark] if mark else []),
        ),
        linking_context = cc_common.create_linking_context(
            linker_inputs = depset([cc_common.create_linker_input(
                owner = ctx.label,
                additional_inputs = depset([key]),
            )]),
        ),
    )]

host_compiler_key = rule(
    doc = "A library without code that everything depends on which the host's compiler may compile.",
    implementation = _host_compiler_key_impl,
    attrs = {"_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain")},
    fragments = ["cpp"],
    provides = [CcInfo],
    toolchains = [CC_TOOLCHAIN_TYPE],
)
