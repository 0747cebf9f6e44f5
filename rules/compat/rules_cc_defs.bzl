"""@rules_cc//cc:defs.bzl for a Bazel whose C++ rules are built in (4 to 7).

Debian's Bazel has them, yet its own @bazel_tools//tools/cpp loads @rules_cc, which it would download;
Debian's package of rules_cc does not load in Debian's Bazel. The symbols are re-exported as they are.
"""

load(":globals.bzl", "global_cc_common", "global_cc_info", "global_cc_toolchain_config_info")

CcInfo = global_cc_info
CcToolchainConfigInfo = global_cc_toolchain_config_info
cc_binary = native.cc_binary
cc_common = global_cc_common
cc_import = native.cc_import
cc_library = native.cc_library
cc_proto_library = native.cc_proto_library
cc_test = native.cc_test
cc_toolchain = native.cc_toolchain
cc_toolchain_suite = native.cc_toolchain_suite
fdo_prefetch_hints = native.fdo_prefetch_hints
fdo_profile = native.fdo_profile
objc_library = native.objc_library
