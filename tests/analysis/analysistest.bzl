"""Tests of what rules say to each other and to Bazel: they analyse a target and build nothing.

Bazel knows such tests itself, by `rule(analysis_test = True)`; what is here is what bazel_skylib's `analysistest`
would add, had this repository a network to fetch it by.
"""

ObservedInfo = provider(
    doc = "A target as only an aspect sees it.",
    fields = {
        "actions": "list of Actions.",
        "kind": "string: its rule.",
        "tags": "list of strings.",
        "testonly": "bool.",
    },
)

def _observe_impl(target, ctx):
    return [ObservedInfo(
        actions = target.actions,
        kind = ctx.rule.kind,
        tags = ctx.rule.attr.tags,
        testonly = ctx.rule.attr.testonly,
    )]

_observe = aspect(implementation = _observe_impl)

def verdict(wanted):
    """What an analysis test returns.

    Args:
      wanted: list of (what, what it is, what it should be).

    Returns:
      list of providers.
    """
    wrong = ["%s: got %r, expected %r" % row for row in wanted if row[1] != row[2]]
    return [AnalysisTestResultInfo(success = not wrong, message = "\n".join(wrong))]

def fields_of(info):
    """The names of a provider's fields.

    Args:
      info: an instance, or a struct.

    Returns:
      list of strings, sorted.
    """
    return [name for name in dir(info) if name not in ["to_json", "to_proto"]]

# What Bazel itself adds to whatever can be run; each version has others.
_RUNFILES = ["Middleman", "RepoMappingManifest", "RunfilesTree", "SourceSymlinkManifest", "SymlinkTree"]

def mnemonics(observed):
    """How many actions of each mnemonic a target has, without those that lay out its runfiles.

    Args:
      observed: its ObservedInfo.

    Returns:
      dict.
    """
    found = {}
    for action in observed.actions:
        if action.mnemonic not in _RUNFILES:
            found[action.mnemonic] = found.get(action.mnemonic, 0) + 1
    return found

def observing_test(implementation, **attrs):
    """A rule that tests how `target` is analysed.

    Args:
      implementation: function of the context that returns `verdict`.
      **attrs: more attributes.

    Returns:
      A rule.
    """
    return rule(
        implementation = implementation,
        attrs = dict(attrs, target = attr.label(mandatory = True, aspects = [_observe])),
        analysis_test = True,
    )

def _failure_test_impl(ctx):
    # A transition makes a list of it.
    target = ctx.attr.target[0]
    if AnalysisFailureInfo not in target:
        return verdict([("%s is analysed" % target.label, True, False)])
    said = [cause.message for cause in target[AnalysisFailureInfo].causes.to_list()]
    return verdict([("one of %r has %r" % (said, ctx.attr.says), bool([s for s in said if ctx.attr.says in s]), True)])

# A target that must be refused, and what must be said of it.
failure_test = rule(
    implementation = _failure_test_impl,
    attrs = {
        "says": attr.string(mandatory = True),
        "target": attr.label(
            mandatory = True,
            cfg = analysis_test_transition(settings = {
                "//command_line_option:allow_analysis_failures": "True",
            }),
        ),
    },
    analysis_test = True,
)
