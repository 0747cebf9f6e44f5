"""A module of an archive -> a program that runs it on files of inputs."""

load(":calls.bzl", "check_board", "check_call", "check_common", "check_new", "check_plain", "check_platform", "is_select")
load(":cc.bzl", "cc_binary", "cc_library")
load(":checks.bzl", "info_of", "public_label", "public_name")
load(":common.bzl", "for_hidden", "for_public")
load(":firmware.bzl", "mlf_firmware")
load(":library.bzl", "MODEL_COPTS")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")
load(":providers.bzl", "MlfFirmwareInfo", "MlfInfo", "MlfRunnerInfo")
load(":shared.bzl", "make_shared", "shared_file")
load(":transitions.bzl", "ALLOWLIST", "model_transition")

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
        fail("%s: module: got '%s', which %s has not; expected one of: %s" %
             (public_label(ctx), ctx.attr.module, ctx.attr.archive.label, ", ".join(info.modules)))
    return ctx.attr.module

def _runner_source_impl(ctx):
    info = info_of(ctx, "archive", MlfInfo, "_source")
    module = module_of(ctx, info)
    source = ctx.actions.declare_file("%s/runner_%s.c" % (public_name(ctx), module))
    args = ctx.actions.args()
    args.add("runner")
    args.add(info.archive)
    args.add("--module", module)
    args.add("-o", source)
    run_mlftool(
        ctx,
        "runner",
        "mlftool",
        [args],
        inputs = [info.archive],
        outputs = [source],
        mnemonic = "MlfRunner",
        progress_message = "Describing module %s" % module,
    )
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

def _mlf_runner_impl(ctx):
    info = info_of(ctx, "archive", MlfInfo)
    if ctx.attr.firmware:
        firmware = ctx.attr.firmware[MlfFirmwareInfo]
        cpu, elf, images = firmware.cpu, firmware.elf, [firmware.bin, firmware.hex, firmware.map]
    else:
        firmware = None
        cpu, elf, images = "host", ctx.executable.program, []
    return [
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
    program = program or name + "_program"
    if is_select(library):
        # Which stands for a label and not for a list of some.
        native.alias(name = name + "_library", actual = library, **for_hidden(kwargs))
        library = name + "_library"
    source = dict(for_hidden(kwargs), archive = archive, module = module)
    make_shared(_runner_source, shared_file, name + "_source", source)
    cc_library(
        name = name + "_main",
        srcs = [name + "_source"] + srcs,
        copts = MODEL_COPTS,
        linkstatic = True,
        # The last two are linked for modules that call the C runtime only.
        deps = [
            library,
            Label("//crt:runner"),
            Label("//crt:runner_guard"),
            Label("//rules/settings:platform_hooks"),
        ],
        alwayslink = True,
        **for_hidden(kwargs, c = True)
    )
    if platform or board:
        mlf_firmware(name = program, board = board, platform = platform, deps = [name + "_main"], **kwargs)
    else:
        deps = [name + "_main", Label("//crt:board")]
        cc_binary(name = program, deps = deps, linkstatic = True, **kwargs)
    _mlf_runner(
        name = name,
        archive = archive,
        firmware = program if platform or board else None,
        module = module,
        program = None if platform or board else program,
        **for_public(kwargs)
    )
