"""The C++ globals of this Bazel under other names.

A file that exports `CcInfo` cannot read the global `CcInfo` (a name is local to the whole file), so
the renaming needs this second file.
"""

# They are what newer Bazels no longer have, and then nothing loads this file.
# buildifier: disable=native-cc-info
global_cc_info = CcInfo

# buildifier: disable=native-cc-common
global_cc_common = cc_common
global_cc_toolchain_config_info = CcToolchainConfigInfo
