"""What is made once and shared by all configurations: a rule that makes it, and one that fetches it.

`X` is what users name; it stands in whatever configuration asks for it and takes `X.shared` in the one of
transitions.bzl. `X.shared` has `cfg = model_transition`.
"""

load(":checks.bzl", "SHARED")
load(":common.bzl", "for_hidden", "for_public", "split_common")
load(":providers.bzl", "MlfInfo", "MlfPartsInfo", "MlfSpecsInfo")
load(":transitions.bzl", "ALLOWLIST", "neutral_transition")

def _fetch_impl(ctx):
    of = ctx.attr.of[0]
    files = of[DefaultInfo].files
    if ctx.outputs.out:
        ctx.actions.symlink(output = ctx.outputs.out, target_file = files.to_list()[0])
        files = depset([ctx.outputs.out])
    passed = [MlfInfo, MlfPartsInfo, MlfSpecsInfo, OutputGroupInfo]
    providers = [of[provider] for provider in passed if provider in of]
    return [DefaultInfo(files = files)] + providers

_FETCH_ATTRS = {
    "of": attr.label(mandatory = True, cfg = neutral_transition),
    "out": attr.output(),
    "_allowlist_function_transition": attr.label(default = ALLOWLIST),
}

# One for each kind that users know.
mlf_archive = rule(implementation = _fetch_impl, attrs = _FETCH_ATTRS, provides = [MlfInfo])
mlf_compile = rule(implementation = _fetch_impl, attrs = _FETCH_ATTRS, provides = [MlfInfo])
mlf_package = rule(implementation = _fetch_impl, attrs = _FETCH_ATTRS, provides = [MlfInfo])
mlf_quantize = rule(implementation = _fetch_impl, attrs = _FETCH_ATTRS)
mlf_tune = rule(implementation = _fetch_impl, attrs = _FETCH_ATTRS)
shared_file = rule(implementation = _fetch_impl, attrs = _FETCH_ATTRS)

def make_shared(maker, fetcher, name, attributes, out = None):
    """Two targets: what makes something once, and what fetches it.

    Args:
      maker: a rule with `cfg = model_transition`.
      fetcher: one of the rules above.
      name: what users name.
      attributes: dict: those of the maker, and what Bazel gives every rule.
      out: the name of the one file, in the configuration of who asks; None is the maker's own.
    """
    common, own = split_common(attributes)
    maker(name = name + SHARED, **dict(own, **for_hidden(common)))
    fetcher(name = name, of = name + SHARED, out = out, **for_public(common, c = True))
