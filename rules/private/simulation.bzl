"""Where actions that simulate a board may run: a simulator is a program of the machine, unlike all else."""

load(":labels.bzl", "shown")
load(":mlftool.bzl", "BuildSettingInfo")

_PLACES = {
    "anywhere": {},
    "here": {"no-remote-exec": "1"},
}

def _simulators_setting_impl(ctx):
    value = ctx.build_setting_value
    if value not in _PLACES:
        fail("%s: error[MLF0414]: got '%s', expected %s" % (shown(ctx.label), value, " or ".join(sorted(_PLACES))))
    return [BuildSettingInfo(value = value)]

simulators_setting = rule(
    doc = "Where a build simulates boards: `here`, or `anywhere` a remote service has the simulators, too.",
    implementation = _simulators_setting_impl,
    build_setting = config.string(flag = True),
)

# What a rule needs whose action may simulate a board.
SIMULATION_ATTRS = {"_simulators": attr.label(default = Label("//rules/settings:simulators"))}

# Tags that say where and how actions run; Bazel 4 to 6 do not pass them on to actions of Starlark's rules.
_TAGS = ["block-network", "exclusive", "local", "no-cache", "no-remote", "no-remote-cache", "no-remote-exec", "no-sandbox"]

def simulation_requirements(ctx, simulated):
    """The execution requirements of an action that runs programs of a model.

    Args:
      ctx: context of a rule with SIMULATION_ATTRS.
      simulated: whether they run on a simulated board; else they are the host's.

    Returns:
      dict.
    """
    place = _PLACES[ctx.attr._simulators[BuildSettingInfo].value] if simulated else {}
    told = {tag: "1" for tag in ctx.attr.tags if tag in _TAGS or tag.startswith(("cpu:", "resources:"))}
    return dict(place, **told)

def run_tags(kind, board = ""):
    """Tags by which `--test_tag_filters` chooses.

    Args:
      kind: `host`, `device` or `budget`.
      board: the name of a board, if it needs one.

    Returns:
      list of strings.
    """
    return ["mlf_kind=" + kind] + (["mlf_board=" + board] if board else [])
