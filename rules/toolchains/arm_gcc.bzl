"""The C toolchain of a Cortex-M: arm-none-eabi-gcc with newlib, told nothing but what is here."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load(
    "@bazel_tools//tools/cpp:cc_toolchain_config_lib.bzl",
    "feature",
    "flag_group",
    "flag_set",
    "tool_path",
    "with_feature_set",
)
load("//rules/private:cc.bzl", "CcToolchainConfigInfo", "cc_common", "cc_toolchain")

_COMPILE = [
    ACTION_NAMES.assemble,
    ACTION_NAMES.c_compile,
    ACTION_NAMES.cpp_compile,
    ACTION_NAMES.cpp_header_parsing,
    ACTION_NAMES.preprocess_assemble,
]
_LINK = [ACTION_NAMES.cpp_link_executable]

# Bazel's name of a tool -> what follows "arm-none-eabi-".
_TOOLS = {
    "ar": "ar",
    "cpp": "cpp",
    "dwp": "dwp",
    "gcc": "gcc",
    "gcov": "gcov",
    "ld": "ld",
    "nm": "nm",
    "objcopy": "objcopy",
    "objdump": "objdump",
    "strip": "strip",
}

_CODE_FLAGS = [
    # One section per function and object, so that --gc-sections drops what is not used.
    "-ffunction-sections",
    "-fdata-sections",
    # A fused multiply-add rounds once instead of twice: results would differ between processors.
    "-ffp-contract=off",
    # Debug information costs no flash, and a firmware without it cannot be debugged.
    "-g",
]

# Same bytes from the same sources: no clock, and include paths as Bazel wrote them.
_DETERMINISM_FLAGS = [
    "-fno-canonical-system-headers",
    "-Wno-builtin-macro-redefined",
    "-D__DATE__=\"redacted\"",
    "-D__TIMESTAMP__=\"redacted\"",
    "-D__TIME__=\"redacted\"",
]

def _flags(name, actions, flags, when = None):
    flag_sets = [flag_set(
        actions = actions,
        flag_groups = [flag_group(flags = flags)],
        with_features = [with_feature_set(features = [when])] if when else [],
    )]
    return feature(name = name, enabled = True, flag_sets = flag_sets)

def _config_impl(ctx):
    if not ctx.attr.gcc:
        fail("%s: the Cortex-M compiler is not installed; run: apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi" %
             ctx.label.name)
    stem = ctx.attr.gcc[:-len("gcc")]
    return cc_common.create_cc_toolchain_config_info(
        ctx = ctx,
        abi_libc_version = "newlib",
        abi_version = "eabi",
        compiler = "gcc",
        cxx_builtin_include_directories = ctx.attr.includes,
        features = [
            # Bazel sets exactly one of the three by --compilation_mode.
            feature(name = "dbg"),
            feature(name = "fastbuild"),
            feature(name = "opt"),
            _flags("machine", _COMPILE + _LINK, ctx.attr.flags),
            _flags("code", _COMPILE, _CODE_FLAGS),
            _flags("optimise_opt", _COMPILE, ["-O2"], when = "opt"),
            # A firmware that is not optimised is no use to anybody, so fastbuild is like opt.
            _flags("optimise_fastbuild", _COMPILE, ["-O2"], when = "fastbuild"),
            _flags("optimise_dbg", _COMPILE, ["-Og"], when = "dbg"),
            _flags("determinism", _COMPILE, _DETERMINISM_FLAGS),
            _flags("link", _LINK, ["-Wl,--gc-sections", "-Wl,--build-id=none", "-Wl,--no-warn-rwx-segments"]),
        ],
        host_system_name = "local",
        target_cpu = ctx.attr.cpu,
        target_libc = "newlib",
        target_system_name = "arm-none-eabi",
        tool_paths = [tool_path(name = name, path = stem + tool) for name, tool in _TOOLS.items()],
        toolchain_identifier = "arm-none-eabi-" + ctx.attr.cpu,
    )

_arm_gcc_config = rule(
    implementation = _config_impl,
    attrs = {
        "cpu": attr.string(mandatory = True),
        "flags": attr.string_list(mandatory = True),
        "gcc": attr.string(),
        "includes": attr.string_list(),
    },
    provides = [CcToolchainConfigInfo],
)

def arm_gcc_toolchain(name, constraint, flags, gcc, includes):
    """A toolchain named `name` for platforms that have `constraint`.

    Args:
      name: the processor, as in "cortex-m4"; register_toolchains() takes this target.
      constraint: label of the constraint_value a platform must have.
      flags: machine flags of gcc.
      gcc: absolute path of arm-none-eabi-gcc, empty when it is not installed.
      includes: folders gcc searches by itself.
    """
    _arm_gcc_config(
        name = name + "_config",
        cpu = name,
        flags = flags,
        gcc = gcc,
        includes = includes,
    )
    native.filegroup(
        name = name + "_files",
        srcs = ["@mlf_system//:arm_gcc.txt"],
    )
    files = ":" + name + "_files"
    cc_toolchain(
        name = name + "_gcc",
        all_files = files,
        ar_files = files,
        as_files = files,
        compiler_files = files,
        dwp_files = files,
        linker_files = files,
        objcopy_files = files,
        strip_files = files,
        supports_param_files = True,
        toolchain_config = ":" + name + "_config",
        toolchain_identifier = "arm-none-eabi-" + name,
    )
    native.toolchain(
        name = name,
        target_compatible_with = [constraint],
        toolchain = ":" + name + "_gcc",
        toolchain_type = "@bazel_tools//tools/cpp:toolchain_type",
    )
