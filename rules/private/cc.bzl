"""Every C++ symbol the rules use, loaded in this one place.

Bazel 8 and newer have them in rules_cc only; for 4.2.3 our @rules_cc is a shim (//rules/compat).
"""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", _find_cpp_toolchain = "find_cpp_toolchain")
load(
    "@rules_cc//cc:defs.bzl",
    _CcInfo = "CcInfo",
    _CcToolchainConfigInfo = "CcToolchainConfigInfo",
    _cc_binary = "cc_binary",
    _cc_common = "cc_common",
    _cc_library = "cc_library",
    _cc_toolchain = "cc_toolchain",
)

CC_TOOLCHAIN_TYPE = "@bazel_tools//tools/cpp:toolchain_type"
CcInfo = _CcInfo
CcToolchainConfigInfo = _CcToolchainConfigInfo
cc_binary = _cc_binary
cc_common = _cc_common
cc_library = _cc_library
cc_toolchain = _cc_toolchain
find_cpp_toolchain = _find_cpp_toolchain
