"""The configuration changes we make, and why."""

# What a configuration is for: set only by the transitions below.
_PURPOSE = str(Label("//rules/settings:purpose"))
_MODE = "//command_line_option:compilation_mode"
_PLATFORMS = "//command_line_option:platforms"
_COVERAGE = "//command_line_option:collect_code_coverage"
_OPTIONS = [_MODE, _PLATFORMS, _PURPOSE]

def _neutral_impl(_settings, _attr):
    return {
        _MODE: "fastbuild",
        _PLATFORMS: [str(Label("//rules/platforms:host"))],
        _PURPOSE: "neutral",
    }

def _model_impl(_settings, _attr):
    return {
        _MODE: "dbg",
        _PLATFORMS: [str(Label("//rules/platforms:model"))],
        _PURPOSE: "model",
    }

# A model's archive is the same bytes for every target that needs it. Built in one fixed configuration it is one
# action with one path, which host tests, every firmware image and a plain `bazel build` share, in every
# compilation mode; otherwise each would compile the model again.
#
# Bazel names the output folder after the mode and after the options that transitions have changed on the
# way, changed meaning that the value became another. So there are two transitions, one after the other,
# that disagree about every option: whatever the way in was, all of them have changed when the second is
# done. (No C is compiled there, so the mode means nothing.) Options that are left alone, such as --copt,
# do not show in the path, and no action there reads them.
#
# Edges have the first, rules the second: see shared.bzl.
neutral_transition = transition(implementation = _neutral_impl, inputs = [], outputs = _OPTIONS)
model_transition = transition(implementation = _model_impl, inputs = [], outputs = _OPTIONS)

# An image writes no report of coverage: gcov's counters would only take its RAM, and instructions that its
# tests count. The compilers of users have no library for them.
def _firmware_impl(_settings, attr):
    return {_COVERAGE: False, _PLATFORMS: [str(attr.platform)], _PURPOSE: "firmware"}

# On the firmware rule itself, not on its deps: its own C toolchain must be the board's too.
firmware_transition = transition(
    implementation = _firmware_impl,
    inputs = [],
    outputs = [_COVERAGE, _PLATFORMS, _PURPOSE],
)

ALLOWLIST = "@bazel_tools//tools/allowlists/function_transition_allowlist"
