"""What else an archive can be asked for: its parts, a report, and whether it keeps its limits."""

load(":checks.bzl", "limits_of")
load(":mlftool.bzl", "run_mlftool")

# Attribute -> the figure of a report that it limits.
_LIMITS = {
    "max_constants_bytes": "constants_bytes",
    "max_workspace_bytes": "workspace_bytes",
}
LIMIT_ATTRS = {
    "max_constants_bytes": attr.int(
        default = -1,
        doc = """Most bytes of weights and other constants, of all modules together. Checked by whatever
builds something of the archive, where validations run.""",
    ),
    "max_workspace_bytes": attr.int(
        default = -1,
        doc = "Most bytes of working memory, of all modules together; checked like `max_constants_bytes`.",
    ),
}

def check_limits(ctx, report, limits):
    """Declares an action that fails when a report's totals exceed limits.

    Args:
      ctx: the rule's context; the rule declares TOOLCHAIN_TYPE.
      report: File: JSON with `total`.
      limits: dict: figure -> most bytes, with the attribute's name: (limit, attribute).

    Returns:
      list with the File it writes, for the output group `_validation`; empty without limits.
    """
    if not limits:
        return []
    checked = ctx.actions.declare_file(ctx.label.name + ".limits.txt")
    args = ctx.actions.args()
    args.add_all([str(ctx.label), checked, report])
    args.add_all(["%s=%s=%d" % (attribute, figure, limit) for figure, (limit, attribute) in limits.items()])
    run_mlftool(
        ctx,
        "runtime",
        "rules.private.tools.limits",
        [args],
        inputs = [report],
        outputs = [checked],
        mnemonic = "MlfLimits",
        progress_message = "Checking the limits of %s" % ctx.label,
    )
    return [checked]

def _parts(ctx, info):
    """The folders of an archive, by what is in them."""
    folders = [
        ctx.actions.declare_directory("%s.files/%s" % (ctx.label.name, part))
        for part in ["src", "include", "lib"]
    ]
    link_args = ctx.actions.declare_file("%s.files/link.args" % ctx.label.name)
    args = ctx.actions.args()
    args.add(info.archive)
    args.add_all(folders + [link_args], expand_directories = False)
    args.add_all(info.modules, before_each = "--module")
    args.add_all(["--label", str(ctx.label), "--libraries"])
    run_mlftool(
        ctx,
        "runtime",
        "rules.private.tools.unpack",
        [args],
        inputs = [info.archive],
        outputs = folders + [link_args],
        mnemonic = "MlfExtract",
        progress_message = "Unpacking %s" % info.archive.short_path,
    )
    return folders

def archive_groups(ctx, info, **more):
    """The output groups of a rule that gives an archive; nothing of it is made unless asked for.

    Args:
      ctx: the rule's context; the rule has LIMIT_ATTRS and declares TOOLCHAIN_TYPE.
      info: its MlfInfo.
      **more: further groups.

    Returns:
      OutputGroupInfo.
    """
    sources, headers, objects = _parts(ctx, info)
    report = ctx.actions.declare_file(ctx.label.name + ".report.json")
    args = ctx.actions.args()
    args.add_all([info.archive, report])
    run_mlftool(
        ctx,
        "runtime",
        "rules.private.tools.describe",
        [args],
        inputs = [info.archive],
        outputs = [report],
        mnemonic = "MlfDescribe",
        progress_message = "Describing %s" % info.archive.short_path,
    )
    limits = {
        _LIMITS[attribute]: (limit, attribute)
        for attribute, limit in limits_of(ctx, _LIMITS.keys()).items()
    }
    return OutputGroupInfo(
        _validation = depset(check_limits(ctx, report, limits)),
        archive = depset([info.archive]),
        headers = depset([headers]),
        objects = depset([objects]),
        report = depset([report]),
        sources = depset([sources]),
        **more
    )
