"""What else an archive can be asked for: its parts, a report, and whether it keeps its limits."""

load(":checks.bzl", "limits_of", "public_label", "public_name")
load(":cpus.bzl", "device_of")
load(":mlftool.bzl", "run_mlftool")

# Attribute -> the figure of a report that it limits.
_LIMITS = {
    "max_constants_bytes": "constants_bytes",
    "max_workspace_bytes": "workspace_bytes",
}
LIMIT_ATTRS = {
    "max_constants_bytes": attr.int(
        default = -1,
        doc = """The limit for bytes of weights and other constants, of all modules together.
Checked wherever validations run, in every build that uses the archive.""",
    ),
    "max_workspace_bytes": attr.int(
        default = -1,
        doc = "The limit for bytes of working memory, of all modules together; checked like `max_constants_bytes`.",
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
    checked = ctx.actions.declare_file(public_name(ctx) + ".limits.txt")
    args = ctx.actions.args()
    args.add_all([public_label(ctx), checked, report])
    args.add_all(["%s=%s=%d" % (attribute, figure, limit) for figure, (limit, attribute) in limits.items()])
    run_mlftool(
        ctx,
        "runtime",
        "rules.private.tools.limits",
        [args],
        inputs = [report],
        outputs = [checked],
        mnemonic = "MlfLimits",
        progress_message = "Checking the limits of %s" % public_label(ctx),
    )
    return [checked]

def declare_parts(ctx, folder, sources = None):
    """Declares the files of an archive, by what is in them.

    Args:
      ctx: the rule's context.
      folder: where they are, in the target's package.
      sources: names of the C files. None: what an archive holds depends on who made it, so they are a
        folder, too, which is read when the action runs.

    Returns:
      struct with `headers`, `link_args`, `objects` and the list `sources`.
    """
    return struct(
        headers = ctx.actions.declare_directory(folder + "/include"),
        link_args = ctx.actions.declare_file(folder + "/link.args"),
        objects = ctx.actions.declare_directory(folder + "/lib"),
        sources = [ctx.actions.declare_directory(folder + "/src")] if sources == None else [
            ctx.actions.declare_file("%s/src/%s" % (folder, source))
            for source in sources
        ],
    )

def extract_parts(ctx, info, folder, label, libraries):
    """Declares an action that unpacks and checks an archive from elsewhere.

    Args:
      ctx: the rule's context; the rule declares TOOLCHAIN_TYPE.
      info: its MlfInfo.
      folder: where the files are, in the target's package.
      label: of the library, for messages.
      libraries: whether the user gives libraries that sources may need.

    Returns:
      struct of `declare_parts`.
    """
    parts = declare_parts(ctx, folder)
    args = ctx.actions.args()
    args.add(info.archive)
    outputs = parts.sources + [parts.headers, parts.objects, parts.link_args]
    args.add_all(outputs, expand_directories = False)
    args.add_all(info.modules, before_each = "--module")
    args.add_all(["%s=%s" % pair for pair in info.executors.items()], before_each = "--executor")
    args.add("--label", label)
    if info.target:
        args.add("--processor", device_of(info.target, "%s: error[MLF0414]: target" % label))
    if libraries:
        args.add("--libraries")
    run_mlftool(
        ctx,
        "runner",  # with the C runtime, whose macros take many parameters from a file
        "rules.private.tools.unpack",
        [args],
        inputs = [info.archive],
        outputs = outputs,
        mnemonic = "MlfExtract",
        progress_message = "Unpacking %s" % info.archive.short_path,
    )
    return parts

def declare_runner_source(ctx, archive, module, folder):
    """Declares an action that describes a module to the program that runs it.

    Args:
      ctx: the rule's context; the rule declares TOOLCHAIN_TYPE.
      archive: File.
      module: the module's name.
      folder: where the file is, in the target's package.

    Returns:
      File of C.
    """
    source = ctx.actions.declare_file("%s/runner_%s.c" % (folder, module))
    args = ctx.actions.args()
    args.add("runner")
    args.add(archive)
    args.add("--module", module)
    args.add("-o", source)
    run_mlftool(
        ctx,
        "runner",
        "mlftool",
        [args],
        inputs = [archive],
        outputs = [source],
        mnemonic = "MlfRunner",
        progress_message = "Describing module %s" % module,
    )
    return source

def archive_groups(ctx, info, parts, **more):
    """The output groups of a rule that gives an archive; nothing of it is made unless asked for.

    Args:
      ctx: the rule's context; the rule has LIMIT_ATTRS and declares TOOLCHAIN_TYPE.
      info: its MlfInfo.
      parts: struct of `declare_parts`.
      **more: further groups.

    Returns:
      OutputGroupInfo.
    """
    report = ctx.actions.declare_file(public_name(ctx) + ".report.json")
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
        headers = depset([parts.headers]),
        objects = depset([parts.objects]),
        report = depset([report]),
        sources = depset(parts.sources),
        **more
    )
