"""What a whole build can be told on the command line or in .bazelrc, without a change to a BUILD file."""

load(":labels.bzl", "shown")

COPTS_VARIABLE = "MLF_COPTS"

def _copts_setting_impl(ctx):
    value = ctx.build_setting_value
    for bad in ["\n", "$"]:
        if bad in value:
            fail("%s: error[MLF0414]: got %s, expected options for the C compiler, with spaces between them" % (shown(ctx.label), repr(value)))
    return [platform_common.TemplateVariableInfo({COPTS_VARIABLE: value})]

def _mark_impl(_ctx):
    return []

mark = rule(
    doc = "What a transition sets and a command line does not.",
    implementation = _mark_impl,
    build_setting = config.string(),
)

copts_setting = rule(
    doc = "Options for the C compiler as a Make variable, which `copts` of a cc_library splits into words.",
    implementation = _copts_setting_impl,
    build_setting = config.string(flag = True),
)
