"""The C toolchain of a cross target: gcc with a C library, or clang before it, told nothing but what is here."""

load("@bazel_tools//tools/build_defs/cc:action_names.bzl", "ACTION_NAMES")
load(
    "@bazel_tools//tools/cpp:cc_toolchain_config_lib.bzl",
    "action_config",
    "feature",
    "flag_group",
    "flag_set",
    "tool",
    "tool_path",
    "with_feature_set",
)
load("//rules/private:cc.bzl", "CcToolchainConfigInfo", "cc_common", "cc_toolchain")
load("//rules/private:cpus.bzl", "CPUS")

_COMPILE = [
    ACTION_NAMES.assemble,
    ACTION_NAMES.c_compile,
    ACTION_NAMES.cpp_compile,
    ACTION_NAMES.cpp_header_parsing,
    ACTION_NAMES.preprocess_assemble,
]
_LINK = [ACTION_NAMES.cpp_link_executable]

# Bazel's name of a tool -> what follows "arm-none-eabi-", for instance.
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
_GCC_FLAGS = ["-fno-canonical-system-headers"]
_DETERMINISM_FLAGS = [
    "-Wno-builtin-macro-redefined",
    "-D__DATE__=\"redacted\"",
    "-D__TIMESTAMP__=\"redacted\"",
    "-D__TIME__=\"redacted\"",
]

_LINK_FLAGS = [
    "-Wl,--gc-sections",
    "-Wl,--build-id=none",
    # A board has no pages to protect: images are one segment, and newlib's assembler files say nothing
    # about the stack.
    "-Wl,--no-warn-rwx-segments",
    "-Wl,--no-warn-execstack",
]

def _flags(name, actions, flags, when = None):
    flag_sets = [flag_set(
        actions = actions,
        flag_groups = [flag_group(flags = flags)],
        with_features = [with_feature_set(features = [when])] if when else [],
    )]
    return feature(name = name, enabled = True, flag_sets = flag_sets)

# What Bazel's own description of a compiling action has, for one that has another program.
_COMPILE_FEATURES = [
    "legacy_compile_flags",
    "user_compile_flags",
    "sysroot",
    "unfiltered_compile_flags",
    "compiler_input_flags",
    "compiler_output_flags",
]

def _clang(path):
    """Actions that compile with clang, while gcc still links."""
    return [
        action_config(action, enabled = True, implies = _COMPILE_FEATURES, tools = [tool(path = path)])
        for action in _COMPILE
    ]

def _config_impl(ctx):
    if not ctx.attr.gcc:
        fail("%s: error[MLF0700]: the C compiler for %s is not installed; run: %s" %
             (ctx.label.name.rpartition("_")[0], ctx.attr.cpu, ctx.attr.install))
    stem = ctx.attr.gcc[:-len("gcc")]
    prefix = ctx.attr.prefix
    clang = ctx.attr.clang
    machine = ctx.attr.flags + ctx.attr.machine_flags
    return cc_common.create_cc_toolchain_config_info(
        ctx = ctx,
        action_configs = _clang(clang) if clang else [],
        abi_libc_version = "local",
        abi_version = "local",
        compiler = "clang" if clang else "gcc",
        cxx_builtin_include_directories = ctx.attr.includes,
        features = [
            # Bazel sets exactly one of the three by --compilation_mode.
            feature(name = "dbg"),
            feature(name = "fastbuild"),
            feature(name = "opt"),
            _flags("machine", _COMPILE, machine),
            _flags("link_machine", _LINK, ctx.attr.machine_flags if clang else machine),
            _flags("code", _COMPILE, _CODE_FLAGS),
            _flags("optimise_opt", _COMPILE, ["-O2"], when = "opt"),
            # A firmware that is not optimised is no use to anybody, so fastbuild is like opt.
            _flags("optimise_fastbuild", _COMPILE, ["-O2"], when = "fastbuild"),
            _flags("optimise_dbg", _COMPILE, ["-Og"], when = "dbg"),
            _flags("determinism", _COMPILE, ([] if clang else _GCC_FLAGS) + _DETERMINISM_FLAGS),
            _flags("link", _LINK, _LINK_FLAGS),
        ],
        host_system_name = "local",
        target_cpu = ctx.attr.cpu,
        target_libc = "local",
        target_system_name = prefix,
        tool_paths = [tool_path(name = name, path = stem + tool) for name, tool in _TOOLS.items()],
        toolchain_identifier = prefix + "-" + ctx.attr.cpu,
    )

_gcc_config = rule(
    implementation = _config_impl,
    attrs = {
        "clang": attr.string(),
        "cpu": attr.string(mandatory = True),
        "flags": attr.string_list(mandatory = True),
        "gcc": attr.string(),
        "includes": attr.string_list(),
        "install": attr.string(),
        "machine_flags": attr.string_list(mandatory = True),
        "prefix": attr.string(mandatory = True),
    },
    provides = [CcToolchainConfigInfo],
)

# buildifier: disable=unnamed-macro
def gcc_toolchains(prefix, compiler, files, constraint = "usual"):
    """A toolchain for each processor of a cross compiler: `:cortex-m4` or `:cortex-m4_picolibc`.

    The platforms have the constraint `//rules/platforms:cpu_<processor>`.

    Args:
      prefix: what the names of the compiler's programs begin with.
      compiler: dict, what probe.py found: `path` of gcc, absolute or from this package, empty when it is
        not installed; `includes`, the folders it searches by itself; `flags` for every use; `install`;
        `compiler`, a clang that compiles while gcc links.
      files: labels of files that change when the compiler does, or all its files.
      constraint: which of `//rules/platforms:<constraint>_c_toolchain` the platforms have.
    """
    for cpu, row in CPUS.items():
        if row.toolchain == prefix:
            name = cpu if constraint == "usual" else "%s_%s" % (cpu, constraint)
            _gcc_toolchain(name, cpu, row.flags, prefix, compiler, files, constraint)

def _gcc_toolchain(name, cpu, machine_flags, prefix, compiler, files, constraint):
    _gcc_config(
        name = name + "_config",
        clang = compiler.get("compiler", ""),
        cpu = cpu,
        flags = compiler["flags"],
        gcc = compiler["path"],
        includes = compiler["includes"],
        install = compiler["install"],
        machine_flags = machine_flags,
        prefix = prefix,
        # Who builds everything need not have every compiler.
        tags = ["manual"],
    )
    native.filegroup(
        name = name + "_files",
        srcs = files,
    )
    all_files = ":" + name + "_files"
    cc_toolchain(
        name = name + "_gcc",
        all_files = all_files,
        ar_files = all_files,
        as_files = all_files,
        compiler_files = all_files,
        dwp_files = all_files,
        linker_files = all_files,
        objcopy_files = all_files,
        strip_files = all_files,
        supports_param_files = True,
        tags = ["manual"],
        toolchain_config = ":" + name + "_config",
        toolchain_identifier = prefix + "-" + cpu,
    )
    native.toolchain(
        name = name,
        target_compatible_with = [
            Label("//rules/platforms:cpu_" + cpu),
            Label("//rules/platforms:%s_c_toolchain" % constraint),
        ],
        toolchain = ":" + name + "_gcc",
        toolchain_type = "@bazel_tools//tools/cpp:toolchain_type",
    )
