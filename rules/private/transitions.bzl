"""The two configuration changes we make, and why."""

def _model_impl(_settings, _attr):
    return {
        "//command_line_option:compilation_mode": "dbg",
        "//command_line_option:platforms": [str(Label("//rules/platforms:model"))],
    }

# A model's archive is the same bytes whoever asks for it. Built in one fixed configuration it is one
# action with one path, which host tests, every firmware image and a plain `bazel build` share;
# otherwise each would compile the model again.
#
# Bazel 4 names the output folder after the options that a transition has changed, so every way in must
# change the same ones: the platform is one that nothing else uses, and the mode the one that is least
# used (no C is compiled here, so the mode itself means nothing). Options that are left alone, such as
# --copt, do not show in the path, and no action here reads them.
model_transition = transition(
    implementation = _model_impl,
    inputs = [],
    outputs = [
        "//command_line_option:compilation_mode",
        "//command_line_option:platforms",
    ],
)

def _firmware_impl(_settings, attr):
    return {
        "//command_line_option:platforms": [str(attr.platform)],
        _IN_FIRMWARE: True,
    }

# Whether a library is built for an mlf_firmware, which knows what it wants it for.
_IN_FIRMWARE = str(Label("//rules/settings:in_firmware"))

# On the firmware rule itself, not on its deps: its own C toolchain must be the board's too.
firmware_transition = transition(
    implementation = _firmware_impl,
    inputs = [],
    outputs = [
        "//command_line_option:platforms",
        _IN_FIRMWARE,
    ],
)

ALLOWLIST = "@bazel_tools//tools/allowlists/function_transition_allowlist"
