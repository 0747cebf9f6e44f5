"""The C++ globals of this Bazel under other names.

A file that exports `CcInfo` cannot read the global `CcInfo` (a name is local to the whole file), so
the renaming needs this second file.
"""

global_cc_info = CcInfo
global_cc_common = cc_common
global_cc_toolchain_config_info = CcToolchainConfigInfo
