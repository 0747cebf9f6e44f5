"""Every C++ symbol the rules use, loaded in this one place.

Bazel 8 and newer have them in rules_cc only; for 4.2.3 our @rules_cc is a shim (//rules/compat).
"""

load(
    "@rules_cc//cc:defs.bzl",
    _CcInfo = "CcInfo",
    _CcToolchainConfigInfo = "CcToolchainConfigInfo",
    _cc_binary = "cc_binary",
    _cc_common = "cc_common",
    _cc_library = "cc_library",
    _cc_toolchain = "cc_toolchain",
)

# Not from @bazel_tools, whose file of this kind is deprecated since Bazel 8.
load("@rules_cc//cc:find_cc_toolchain.bzl", _find_cc_toolchain = "find_cc_toolchain")

CC_TOOLCHAIN_TYPE = "@bazel_tools//tools/cpp:toolchain_type"
CcInfo = _CcInfo
CcToolchainConfigInfo = _CcToolchainConfigInfo
cc_binary = _cc_binary
cc_common = _cc_common
cc_library = _cc_library
cc_toolchain = _cc_toolchain
find_cc_toolchain = _find_cc_toolchain
