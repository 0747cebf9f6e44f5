"""The configuration changes we make, and why."""

def _native(name):
    return "//command_line_option:" + name

def _ours(label):
    return str(Label(label))

# What a configuration is for: set only by the transitions below.
_PURPOSE = _ours("//rules/settings:purpose")
_PLATFORMS = _native("platforms")
_COVERAGE = _native("collect_code_coverage")

# A model's archive is the same bytes for every target that needs it. Built in one fixed configuration it is one
# action with one path, which host tests, every firmware image and a plain `bazel build` share, in every
# compilation mode; otherwise each would compile the model again.
#
# Bazel names the output folder after the mode and after the options that transitions have changed on the
# way, changed meaning that the value became another; Bazel 7 and newer after those that differ from the
# command line's. So there are two transitions, one after the other, that disagree about every option here:
# whatever the way in was, all of them have changed when the second is done, and to what no command line
# says. (No C is compiled there, so they mean nothing.) These are the options that images, coverage and
# transitions of users change on the way, and our settings, which show in the path wherever they are given.
# Others that are left alone do not show, and no action there reads them. Users' own settings stay: a
# model may select() on them.
_WORDS = ("neutral", "model")
_COPTS = (["-DMLF_NEUTRAL"], ["-DMLF_MODEL"])
_LABELS = (_ours("//rules/settings:purpose"), _ours("//rules/settings:files"))
_CONFIGURATION = {
    _native("compilation_mode"): ("fastbuild", "dbg"),
    _native("conlyopt"): _COPTS,
    _native("copt"): _COPTS,
    _native("cxxopt"): _COPTS,
    _native("features"): (["mlf_neutral"], ["mlf_model"]),
    _native("linkopt"): _COPTS,
    _COVERAGE: (True, False),
    _PLATFORMS: ([_ours("//rules/platforms:host")], [_ours("//rules/platforms:model")]),
    _PURPOSE: _WORDS,
    _ours("//crt:crt_config"): _LABELS,
    _ours("//rules/settings:board"): _LABELS,
    _ours("//rules/settings:copts"): _WORDS,
    _ours("//rules/settings:platform_hooks"): _LABELS,
}
_OPTIONS = _CONFIGURATION.keys()

def _neutral_impl(_settings, _attr):
    return {option: values[0] for option, values in _CONFIGURATION.items()}

def _model_impl(_settings, _attr):
    return {option: values[1] for option, values in _CONFIGURATION.items()}

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
