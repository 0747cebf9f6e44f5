"""What was built, for images that are asked to carry it."""

load(":cc.bzl", "cc_library")
load(":cpus.bzl", "condition")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")

def _stamp_source_impl(ctx):
    source = ctx.actions.declare_file(ctx.label.name + ".c")
    args = ctx.actions.args()
    args.add_all([ctx.info_file, source])
    run_mlftool(
        ctx,
        "runtime",
        "rules.private.tools.stamp",
        [args],
        inputs = [ctx.info_file],
        outputs = [source],
        mnemonic = "MlfStamp",
        progress_message = "Writing version and commit",
    )
    return [DefaultInfo(files = depset([source]))]

_stamp_source = rule(
    doc = "A C file with the version and the commit, by the workspace's status.",
    implementation = _stamp_source_impl,
    toolchains = [TOOLCHAIN_TYPE],
)

def stamp_library(name, copts, deps):
    """The library of images that carry version and commit, one for all of a build.

    Args:
      name: of the library.
      copts: options for the C compiler.
      deps: what has `mlf_firmware.h`.
    """
    _stamp_source(name = name + "_source", tags = ["manual"])
    cc_library(
        name = name,
        srcs = [name + "_source"],
        copts = copts,
        # Carried by images that do not use them, too.
        linkopts = ["-Wl,-u,mlf_firmware_version", "-Wl,-u,mlf_firmware_commit"],
        linkstatic = True,
        tags = ["manual"],
        deps = deps,
    )

def stamp_of(stamp):
    """The library with version and commit of an image.

    Args:
      stamp: 1, 0, or -1 for what the command line says.

    Returns:
      list of labels, or a select of such.
    """
    yes, no = [Label("//crt:stamp")], [Label("//crt:no_stamp")]
    if stamp != -1:
        return yes if stamp else no
    return select({
        condition(Label("//rules/settings:is_stamped")): yes,
        "//conditions:default": no,
    })
