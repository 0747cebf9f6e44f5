"""A module of an archive -> a program that runs it on files of inputs."""

load(":calls.bzl", "check_board", "check_call", "check_common", "check_new", "check_plain", "check_platform", "is_select")
load(":cc.bzl", "cc_binary", "cc_library")
load(":checks.bzl", "info_of", "public_label", "public_name")
load(":common.bzl", "for_alias", "for_hidden", "for_public")
load(":firmware.bzl", "mlf_firmware")
load(":groups.bzl", "declare_runner_source")
load(":labels.bzl", "shown")
load(":library.bzl", "MODEL_COPTS")
load(":mlftool.bzl", "TOOLCHAIN_TYPE")
load(":providers.bzl", "MlfFirmwareInfo", "MlfInfo", "MlfRunnerInfo")
load(":shared.bzl", "make_shared", "shared_file")
load(":transitions.bzl", "ALLOWLIST", "model_transition")

# Guard and hooks are linked for modules that call the C runtime only.
_RUNNER = [
    Label("//crt:headers"),
    Label("//crt:runner"),
    Label("//crt:runner_guard"),
    Label("//crt:runner_headers"),
    Label("//rules/settings:platform_hooks"),
]
_BOARD = Label("//crt:board")

def module_of(ctx, info):
    """The module a rule is about: its attribute `module`, or the only one there is.

    Args:
      ctx: context of a rule with attributes `archive` and `module`.
      info: the archive's MlfInfo.

    Returns:
      string.
    """
    if not ctx.attr.module and len(info.modules) == 1:
        return info.modules[0]
    if ctx.attr.module not in info.modules:
        fail("%s: error[MLF0414]: module: got '%s', which is not in %s; expected one of: %s" %
             (public_label(ctx), ctx.attr.module, shown(ctx.attr.archive.label), ", ".join(info.modules)))
    return ctx.attr.module

def _runner_source_impl(ctx):
    info = info_of(ctx, "archive", MlfInfo, "_source")
    module = module_of(ctx, info)
    source = declare_runner_source(ctx, info.archive, module, public_name(ctx))
    return [DefaultInfo(files = depset([source]))]

_runner_source = rule(
    implementation = _runner_source_impl,
    attrs = {
        "archive": attr.label(mandatory = True, allow_files = True),
        "module": attr.string(),
        "_allowlist_function_transition": attr.label(default = ALLOWLIST),
    },
    cfg = model_transition,
    toolchains = [TOOLCHAIN_TYPE],
)

def _compiled_source_impl(ctx):
    return [DefaultInfo(files = ctx.attr.archive[OutputGroupInfo].runner)]

compiled_runner_source = rule(
    doc = "The C of a runner that `mlf_compile` writes.",
    implementation = _compiled_source_impl,
    attrs = {"archive": attr.label(mandatory = True, providers = [MlfInfo])},
)

def _mlf_runner_impl(ctx):
    info = info_of(ctx, "archive", MlfInfo)
    if ctx.attr.firmware:
        firmware = ctx.attr.firmware[MlfFirmwareInfo]
        cpu, elf, images = firmware.cpu, firmware.elf, [firmware.bin, firmware.hex, firmware.map]
        groups = [OutputGroupInfo(
            bin = depset([firmware.bin]),
            elf = depset([firmware.elf]),
            hex = depset([firmware.hex]),
            map = depset([firmware.map]),
        )]
    else:
        firmware = None
        cpu, elf, images = "host", ctx.executable.program, []
        groups = []
    return groups + [
        DefaultInfo(files = depset([elf] + images)),
        MlfRunnerInfo(
            archive = info.archive,
            cpu = cpu,
            description = firmware.description if firmware else None,
            elf = elf,
            images = images,
            module = module_of(ctx, info),
            simulator = firmware.simulator if firmware else None,
        ),
    ]

_mlf_runner = rule(
    implementation = _mlf_runner_impl,
    attrs = {
        "archive": attr.label(mandatory = True, allow_files = True),
        "firmware": attr.label(providers = [MlfFirmwareInfo]),
        "module": attr.string(),
        "program": attr.label(cfg = "target", executable = True),
    },
    provides = [MlfRunnerInfo],
)

def mlf_runner(name, archive, library, module = "", platform = None, program = "", srcs = [], board = None, **kwargs):
    """A program that runs one module of an archive on a file of inputs, for tests and measurements.

    Args:
      name: the target's name.
      archive: an `mlf_compile`, `mlf_package` or `mlf_import` target.
      library: the `mlf_cc_library` of that archive.
      module: which module, when the archive has several.
      platform: the board's platform; none means the host.
      program: the name of the program, so that its images are `<program>.elf` and so on. Default:
        `<name>_program`.
      srcs: more C files, linked before the library.
      board: your own `mlf_board`.
      **kwargs: `tags`, `visibility` and so on.
    """
    check_call(
        name,
        archive = (archive, "label"),
        library = (library, "label"),
        module = (module, "string"),
        program = (program, "string"),
        srcs = (srcs, "list"),
    )
    check_common(name, kwargs)
    check_plain(name, "it is a target's name; leave it out", program = program)
    check_platform(name, platform)
    check_board(name, board, platform)
    check_new(name, [name, name + "_source", name + "_main"])
    if is_select(library):
        # Which stands for a label and not for a list of some.
        native.alias(name = name + "_library", actual = library, **for_alias(for_hidden(kwargs)))
        library = name + "_library"
    source = dict(for_hidden(kwargs), archive = archive, module = module)
    make_shared(_runner_source, shared_file, name + "_source", source)
    program_of_source(
        name = name,
        archive = archive,
        board = board,
        kwargs = kwargs,
        library = library,
        module = module,
        platform = platform,
        program = program or name + "_program",
        srcs = srcs,
    )

def program_of_source(name, archive, library, module, platform, program, srcs, board, kwargs):
    """The targets of `mlf_runner` but the one that writes its C, `<name>_source`.

    Args:
      name: the target's name.
      archive: label of what has an MlfInfo.
      library: label of the archive's library.
      module: which module, "" for the only one.
      platform: label of the board's platform, or None.
      program: the name of the program.
      srcs: list of more C files.
      board: label of a board, or None.
      kwargs: dict: `tags`, `visibility` and so on.
    """
    cc_library(
        name = name + "_main",
        srcs = [name + "_source"] + srcs,
        copts = MODEL_COPTS,
        linkstatic = True,
        deps = [library] + _RUNNER,
        alwayslink = True,
        **for_hidden(kwargs, c = True)
    )

    # Never stamped: it is there to be measured, and a commit must change no figure and run nothing again.
    kwargs = dict(kwargs, stamp = 0)
    if platform or board:
        # Left to the runner when a wildcard asks: of each target that is asked for, Bazel looks again in every
        # build at what configuration its rule changes to.
        manual = dict(kwargs, tags = (kwargs.get("tags") or []) + ["manual"])
        mlf_firmware(name = program, board = board, platform = platform, deps = [name + "_main"], **manual)
    else:
        deps = [name + "_main", _BOARD]
        cc_binary(name = program, deps = deps, linkstatic = True, **kwargs)
    _mlf_runner(
        name = name,
        archive = archive,
        firmware = program if platform or board else None,
        module = module,
        program = None if platform or board else program,
        **for_public(kwargs)
    )
