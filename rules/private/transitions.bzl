"""The two configuration changes we make, and why."""

def _model_impl(_settings, _attr):
    return {
        "//command_line_option:compilation_mode": "opt",
        "//command_line_option:conlyopt": [],
        "//command_line_option:copt": [],
        "//command_line_option:cxxopt": [],
        "//command_line_option:linkopt": [],
        "//command_line_option:platforms": [str(Label("//rules/platforms:model"))],
    }

# A model's archive and C sources are the same bytes whoever asks for them. Built in one fixed
# configuration they are one action with one path, which host tests, every firmware image and a plain
# `bazel build` share; otherwise each would compile the model again. The platform is one that nothing
# else uses, so that every way in changes the same options and arrives at the same output folder.
model_transition = transition(
    implementation = _model_impl,
    inputs = [],
    outputs = [
        "//command_line_option:compilation_mode",
        "//command_line_option:conlyopt",
        "//command_line_option:copt",
        "//command_line_option:cxxopt",
        "//command_line_option:linkopt",
        "//command_line_option:platforms",
    ],
)

def _firmware_impl(_settings, attr):
    return {"//command_line_option:platforms": [str(attr.platform)]}

# On the firmware rule itself, not on its deps: its own C toolchain must be the board's too.
firmware_transition = transition(
    implementation = _firmware_impl,
    inputs = [],
    outputs = ["//command_line_option:platforms"],
)

ALLOWLIST = "@bazel_tools//tools/allowlists/function_transition_allowlist"
