# ruff: noqa: E501 -- tables, and Starlark as buildifier lays it out.
"""What Bazel 7.6, 8 and 9 document and this project touches: names, attributes, built-in repositories.

From the "Build encyclopedia" and "Starlark API" of each version, and for labels of built-in
repositories from their BUILD files. What is not listed is refused, so a new use needs a new line here,
read in the documentation of all three.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

VERSIONS = ("7.6", "8", "9")

COMMON = {
    "aspect_hints": "label_list", "compatible_with": "label_list", "deprecation": "string",
    "exec_compatible_with": "label_list", "exec_properties": "dict", "features": "list",
    "name": "string", "restricted_to": "label_list", "tags": "list",
    "target_compatible_with": "label_list", "testonly": "bool", "toolchains": "label_list",
    "visibility": "visibility", "generator_name": "string",
}  # fmt: skip
TEST = {
    "args": "list", "env": "dict", "env_inherit": "list", "flaky": "bool", "local": "bool",
    "shard_count": "int", "size": "string", "timeout": "string",
}  # fmt: skip
BINARY = {"args": "list", "env": "dict"}

# Rules that every version has built in: attribute -> kind, beside COMMON.
NATIVE: Mapping[str, Mapping[str, str]] = {
    "alias": {"actual": "label"},
    "config_setting": {
        "constraint_values": "label_list", "define_values": "dict",
        "flag_values": "label_dict", "values": "dict",
    },
    "constraint_setting": {"default_constraint_value": "label"},
    "constraint_value": {"constraint_setting": "label"},
    "filegroup": {"data": "label_list", "output_group": "string", "srcs": "label_list"},
    "genrule": {
        "cmd": "string", "cmd_bash": "string", "executable": "bool", "local": "bool",
        "message": "string", "outs": "output_list", "srcs": "label_list", "tools": "label_list",
    },
    "genquery": {
        "compressed_output": "bool", "expression": "string", "opts": "list",
        "scope": "label_list", "strict": "bool",
    },
    "label_flag": {"build_setting_default": "label"},
    "label_setting": {"build_setting_default": "label"},
    "package_group": {"includes": "label_list", "packages": "list"},
    "platform": {
        "constraint_values": "label_list", "exec_properties": "dict", "flags": "list",
        "parents": "label_list", "required_settings": "label_list",
    },
    "test_suite": {"tests": "label_list"},
    "toolchain": {
        "exec_compatible_with": "label_list", "target_compatible_with": "label_list",
        "target_settings": "label_list", "toolchain": "label", "toolchain_type": "label",
    },
    "toolchain_type": {"no_match_error": "string"},
}  # fmt: skip

_CC = {
    "additional_compiler_inputs": "label_list", "additional_linker_inputs": "label_list",
    "conlyopts": "list", "copts": "list", "cxxopts": "list", "data": "label_list",
    "defines": "list", "deps": "label_list", "hdrs_check": "string", "includes": "list",
    "linkopts": "list", "linkstatic": "bool", "local_defines": "list", "malloc": "label",
    "srcs": "label_list", "win_def_file": "label", "link_extra_lib": "label",
}  # fmt: skip
# The rules of rules_cc, which Bazel 7 also has as native ones and 8 loads by itself.
CC_RULES: Mapping[str, Mapping[str, str]] = {
    "cc_binary": {**_CC, **BINARY, "linkshared": "bool", "stamp": "int"},
    "cc_import": {"hdrs": "label_list", "static_library": "label", "deps": "label_list"},
    "cc_library": {
        **_CC, "alwayslink": "bool", "hdrs": "label_list", "implementation_deps": "label_list",
        "include_prefix": "string", "linkstamp": "label", "strip_include_prefix": "string",
        "textual_hdrs": "label_list",
    },
    "cc_test": {**_CC, **TEST, "stamp": "int"},
    "cc_toolchain": {
        **{f"{part}_files": "label" for part in (
            "all", "ar", "as", "compiler", "coverage", "dwp", "linker", "objcopy", "strip",
        )},
        "compiler_files_without_includes": "label", "dynamic_runtime_lib": "label",
        "exec_transition_for_inputs": "bool", "libc_top": "label", "module_map": "label",
        "output_licenses": "list", "static_runtime_lib": "label", "supports_header_parsing": "bool",
        "supports_param_files": "bool", "toolchain_config": "label", "toolchain_identifier": "string",
    },
    "cc_toolchain_suite": {"toolchains": "dict"},
}  # fmt: skip

# Parameters of attr.<kind>; those of a later version only are not used here and not listed.
_VALUE = ["configurable", "default", "doc", "mandatory"]
_LABEL = [*_VALUE, "allow_files", "allow_rules", "aspects", "cfg", "providers"]
ATTR = {
    "bool": _VALUE,
    "int": [*_VALUE, "values"],
    "int_list": [*_VALUE, "allow_empty"],
    "label": [*_LABEL, "allow_single_file", "executable"],
    "label_keyed_string_dict": [*_LABEL, "allow_empty"],
    "label_list": [*_LABEL, "allow_empty"],
    "output": ["doc", "mandatory"],
    "output_list": ["allow_empty", "doc", "mandatory"],
    "string": [*_VALUE, "values"],
    "string_dict": [*_VALUE, "allow_empty"],
    "string_list": [*_VALUE, "allow_empty"],
    "string_list_dict": [*_VALUE, "allow_empty"],
}

# Parameters, besides the implementation, that all three versions have.
WORDS = {
    "module_extension": {"arch_dependent", "doc", "environ", "os_dependent"},
    "repository_rule": {"configure", "doc", "environ", "local", "remotable"},
    "rule": {
        "analysis_test", "build_setting", "cfg", "doc", "exec_compatible_with", "exec_groups",
        "executable", "fragments", "initializer", "outputs", "parent", "provides", "subrules",
        "test", "toolchains",
    },
}  # fmt: skip

# Objects whose functions are called while targets are analysed: they must exist.
MODULES = {
    "config_common": ["FeatureFlagInfo", "toolchain_type"],
    "coverage_common": ["instrumented_files_info"],
    "platform_common": [
        "ConstraintSettingInfo", "ConstraintValueInfo", "PlatformInfo", "TemplateVariableInfo",
        "ToolchainInfo",
    ],
    "testing": ["ExecutionInfo", "TestEnvironment", "analysis_test"],
}  # fmt: skip
CC_COMMON = [
    "action_is_enabled", "compile", "configure_features", "create_cc_toolchain_config_info",
    "create_compilation_context", "create_compile_variables", "create_library_to_link",
    "create_link_variables", "create_linker_input", "create_linking_context",
    "create_linking_context_from_compilation_outputs", "do_not_use_tools_cpp_compiler_present",
    "get_environment_variables", "get_execution_requirements", "get_memory_inefficient_command_line",
    "get_tool_for_action", "is_enabled", "link", "merge_cc_infos", "merge_compilation_outputs",
]  # fmt: skip
# What analysis may ask of its context, in all three.
CONTEXT = {
    "ctx": {
        "actions", "aspect_ids", "attr", "bin_dir", "build_file_path", "build_setting_value",
        "configuration", "coverage_instrumented", "created_actions", "disabled_features",
        "exec_groups", "executable", "expand_location", "expand_make_variables", "features",
        "file", "files", "fragments", "genfiles_dir", "info_file", "label", "outputs",
        "package_relative_label", "resolve_command", "resolve_tools", "rule", "runfiles",
        "target_platform_has_constraint", "toolchains", "var", "version_file", "workspace_name",
    },
    "actions": {
        "args", "declare_directory", "declare_file", "declare_symlink", "do_nothing",
        "expand_template", "run", "run_shell", "symlink", "template_dict", "write",
    },
    "rctx": {
        "attr", "delete", "download", "download_and_extract", "execute", "extract", "file", "getenv",
        "name", "os", "patch", "path", "read", "rename", "report_progress", "symlink", "template",
        "watch", "watch_tree", "which", "workspace_root",
    },
}  # fmt: skip


@dataclass(frozen=True)
class Module:
    """A repository that is not ours: package -> its targets, and .bzl file -> its symbols."""

    targets: Mapping[str, frozenset[str]]
    files: Mapping[str, tuple[str, ...]]


_CONFIG_LIB = (
    "action_config", "artifact_name_pattern", "env_entry", "env_set", "feature", "feature_set",
    "flag_group", "flag_set", "make_variable", "tool", "tool_path", "variable_with_value",
    "with_feature_set",
)  # fmt: skip
PLATFORMS = Module(
    {
        "": frozenset({"incompatible"}),
        "cpu": frozenset(
            [
                "aarch32",
                "aarch64",
                "all",
                "arm",
                "arm64",
                "armv6-m",
                "armv7",
                "armv7-m",
                "armv7e-m",
                "armv7e-mf",
                "armv8-m",
                "cpu",
                "i386",
                "mips64",
                "ppc",
                "ppc64le",
                "riscv32",
                "riscv64",
                "s390x",
                "wasm32",
                "wasm64",
                "x86_32",
                "x86_64",
            ]
        ),
        "host": frozenset({"host"}),
        "os": frozenset(
            [
                "android",
                "freebsd",
                "linux",
                "macos",
                "netbsd",
                "none",
                "openbsd",
                "os",
                "qnx",
                "windows",
            ]
        ),
    },
    {"host:constraints.bzl": ("HOST_CONSTRAINTS",)},
)
RULES_CC = Module(
    {"cc": frozenset({"current_cc_toolchain", "optional_current_cc_toolchain", "toolchain_type"})},
    {
        "cc:action_names.bzl": ("ACTION_NAMES",),
        "cc:cc_toolchain_config_lib.bzl": _CONFIG_LIB,
        "cc:defs.bzl": (
            *CC_RULES, "CcInfo", "CcToolchainConfigInfo", "DebugPackageInfo", "cc_common",
            "cc_proto_library", "fdo_prefetch_hints", "fdo_profile", "objc_library",
        ),
        "cc:find_cc_toolchain.bzl": (
            "CC_TOOLCHAIN_TYPE", "find_cc_toolchain", "find_cpp_toolchain", "use_cc_toolchain",
        ),
    },
)  # fmt: skip
_TOOLS_FILES = {
    "tools/build_defs/cc:action_names.bzl": ("ACTION_NAMES",),
    "tools/build_defs/repo:http.bzl": ("http_archive", "http_file"),
    "tools/build_defs/repo:local.bzl": ("local_repository", "new_local_repository"),
    "tools/build_defs/repo:utils.bzl": ("maybe",),
    "tools/cpp:cc_toolchain_config_lib.bzl": _CONFIG_LIB,
}
_TOOLS = {
    "tools": frozenset({"host_platform"}),
    "tools/allowlists/function_transition_allowlist": frozenset({"function_transition_allowlist"}),
    "tools/cpp": frozenset(
        {"current_cc_toolchain", "optional_current_cc_toolchain", "toolchain_type"}
    ),
    "tools/test": frozenset({"collect_coverage", "coverage_report_generator", "lcov_merger"}),
}
LOCAL_CONFIG_PLATFORM = Module(
    {"": frozenset({"host"})}, {":constraints.bzl": ("HOST_CONSTRAINTS",)}
)


@dataclass(frozen=True)
class Version:
    """One Bazel: what it has that another has not."""

    name: str

    @property
    def major(self) -> int:
        return int(self.name.partition(".")[0])

    @property
    def separator(self) -> str:
        """Between the parts of a repository's canonical name."""
        return "~" if self.major < 8 else "+"

    @property
    def rules(self) -> dict[str, Mapping[str, str]]:
        """Its native rules. Bazel 8 loads those of rules_cc by itself, 9 has no such thing."""
        return {**NATIVE, **(CC_RULES if self.major < 9 else {})}

    @property
    def globals(self) -> tuple[str, ...]:
        """Globals of .bzl files that 9 has given to rules_cc."""
        return ("CcInfo", "CcToolchainConfigInfo", "DebugPackageInfo") if self.major < 9 else ()

    @property
    def modules(self) -> dict[str, list[str]]:
        return {**MODULES, **({"cc_common": CC_COMMON} if self.major < 9 else {})}

    @property
    def built_in(self) -> dict[str, Module]:
        """Repositories that every module sees without asking."""
        found = {"bazel_tools": Module(_TOOLS, _TOOLS_FILES)}
        return found | ({"local_config_platform": LOCAL_CONFIG_PLATFORM} if self.major < 9 else {})


# Modules of the registry that ours may name in bazel_dep.
REGISTRY = {"platforms": PLATFORMS, "rules_cc": RULES_CC}
