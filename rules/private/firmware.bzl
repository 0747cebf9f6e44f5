"""Libraries -> a program image for a board."""

load(":board.bzl", "platform_of")
load(
    ":calls.bzl",
    "check_board",
    "check_call",
    "check_common",
    "check_new",
    "check_plain",
    "check_platform",
    "check_spelling",
    "is_ours",
    "label_of",
    "refuse",
)
load(":cc.bzl", "CC_TOOLCHAIN_TYPE", "CcInfo", "cc_common", "cc_library", "find_cc_toolchain")
load(":checks.bzl", "IMAGE", "check_modules", "limits_of", "public_label", "public_name")
load(":common.bzl", "for_hidden")
load(":cpus.bzl", "CPUS", "HOSTS", "condition")
load(":driven.bzl", "driven_library")
load(":groups.bzl", "check_limits")
load(":labels.bzl", "shown")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")
load(":providers.bzl", "MlfBoardInfo", "MlfFirmwareInfo")
load(":stamp.bzl", "stamp_of")
load(":transitions.bzl", "ALLOWLIST", "firmware_transition")

_LINK_ACTION = "c++-link-executable"

# The processor by the platform's constraint: a platform's name is the user's business.
_PROCESSORS = dict(
    [("//conditions:default", "")] + [(condition(Label("//rules/platforms:is_" + cpu)), cpu) for cpu in CPUS],
)

def _for_known(image):
    """The image, of platforms that say what their processor is.

    Others may have no C toolchain, and Bazel would tell of that before a rule can.
    """
    known = {condition(Label("//rules/platforms:is_" + cpu)): image for cpu in CPUS.keys() + ["other"]}
    return select(dict(known, **{"//conditions:default": None}))

def _libraries(ctx, context):
    """What there is to link and the options and files that come with it, each once, in link order."""
    plain, whole, objects, flags, files = {}, {}, {}, [], []
    for linker_input in context.linker_inputs.to_list():
        flags += linker_input.user_link_flags
        files += linker_input.additional_inputs
        for library in linker_input.libraries:
            archive = library.static_library or library.pic_static_library
            own = (library.objects or library.pic_objects or []) if not archive else []
            if archive:
                (whole if library.alwayslink else plain)[archive] = None
            elif not own:
                fail("%s: error[MLF0414]: deps: got %s, of which there is a shared library only; expected one that can be linked into an image" %
                     (public_label(ctx), linker_input.owner))
            objects.update([(file, None) for file in own])

    # From the board and from the application, say, once plain.
    plain = [archive for archive in plain if archive not in whole]
    return struct(plain = plain, whole = whole.keys(), objects = objects.keys(), flags = flags, files = files)

def _link(ctx, toolchain, elf, map_file):
    # Deliberately our own action: neither cc_binary nor cc_common.link of Bazel 4 can declare the linker's
    # map as an output. What they do with --linkopt and with libraries, this does too.
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    variables = cc_common.create_link_variables(
        cc_toolchain = toolchain,
        feature_configuration = features,
        is_using_linker = True,
        output_file = elf.path,
    )
    infos = [dep[CcInfo] for dep in ctx.attr.deps + ctx.attr.stamp + [ctx.attr.board]]
    libraries = _libraries(ctx, cc_common.merge_cc_infos(cc_infos = infos).linking_context)
    args = ctx.actions.args()
    args.add_all(cc_common.get_memory_inefficient_command_line(
        action_name = _LINK_ACTION,
        feature_configuration = features,
        variables = variables,
    ))
    args.add(map_file, format = "-Wl,-Map=%s")
    args.add_all(libraries.objects)
    if libraries.whole:
        args.add("-Wl,--whole-archive")
        args.add_all(libraries.whole)
        args.add("-Wl,--no-whole-archive")
    args.add("-Wl,--start-group")
    args.add_all(libraries.plain)
    args.add("-lm")
    args.add("-Wl,--end-group")
    args.add_all(libraries.flags)
    args.add_all(ctx.fragments.cpp.linkopts)
    args.add_all(ctx.attr.linkopts)
    start = ctx.actions.args()
    start.add_all([public_label(ctx), map_file])
    start.add(cc_common.get_tool_for_action(action_name = _LINK_ACTION, feature_configuration = features))
    run_mlftool(
        ctx,
        "runtime",
        "rules.private.tools.link",
        [start, args],
        env = cc_common.get_environment_variables(
            action_name = _LINK_ACTION,
            feature_configuration = features,
            variables = variables,
        ),
        inputs = libraries.plain + libraries.whole + libraries.objects + libraries.files,
        outputs = [elf, map_file],
        mnemonic = "MlfLink",
        progress_message = "Linking firmware %s" % elf.short_path,
        tools = [toolchain.all_files],
    )

def _images(ctx, elf):
    # Not objcopy, which a C++ toolchain need not have.
    args = ctx.actions.args()
    args.add_all([elf, ctx.outputs.bin, ctx.outputs.hex])
    run_mlftool(
        ctx,
        "runtime",
        "rules.private.tools.image",
        [args],
        inputs = [elf],
        outputs = [ctx.outputs.bin, ctx.outputs.hex],
        mnemonic = "MlfImage",
        progress_message = "Writing %s" % ctx.outputs.bin.short_path,
    )

def _limits(ctx, elf):
    """What checks that the image fits, for every build of it."""
    limits = {name: (limit, name) for name, limit in limits_of(ctx, ["flash_bytes", "ram_bytes"]).items()}
    if not limits:
        return []
    report = ctx.actions.declare_file(public_name(ctx) + ".limits.json")
    text = ctx.actions.declare_file(public_name(ctx) + ".sizes.txt")
    args = ctx.actions.args()
    args.add_all([elf, public_label(ctx), report, text])
    run_mlftool(
        ctx,
        "runtime",
        "rules.private.tools.size",
        [args],
        inputs = [elf],
        outputs = [report, text],
        mnemonic = "MlfSize",
        progress_message = "Measuring %s" % elf.short_path,
    )
    return check_limits(ctx, report, limits)

def _check_resolution(ctx):
    # Before Bazel 7 the C compiler is the host's, whatever the platform, unless this flag is set.
    asks = getattr(cc_common, "is_cc_toolchain_resolution_enabled_do_not_use", None)
    if asks and not asks(ctx = ctx):
        fail(("%s: error[MLF0414]: the platform does not choose the C compiler: add the line " +
              "'build --incompatible_enable_cc_toolchain_resolution' to .bazelrc") % public_label(ctx))

def _mlf_firmware_impl(ctx):
    _check_resolution(ctx)

    # What //crt:board is where no board of ours is: the host's.
    if ctx.attr.board.label == Label("//crt:host_platform"):
        fail("%s: error[MLF0414]: board: no built-in board has the processor of platform %s; give your own mlf_board" %
             (public_label(ctx), shown(ctx.attr.platform.label)))
    contexts = [dep[CcInfo].linking_context for dep in ctx.attr.deps]

    # What is for this computer, also the C of "host", which has none of the board's kernels, may be what a
    # platform of a processor that we do not know links.
    cpu = ctx.attr.cpu or ctx.attr.platform.label.name
    check_modules(ctx, contexts, cpu, CPUS.keys() + (HOSTS.keys() if ctx.attr.cpu else []))
    toolchain = find_cc_toolchain(ctx)
    files = ctx.outputs
    board = ctx.attr.board[MlfBoardInfo] if MlfBoardInfo in ctx.attr.board else None
    _link(ctx, toolchain, files.elf, files.map)
    _images(ctx, files.elf)
    return [
        DefaultInfo(files = depset([files.elf, files.bin, files.hex, files.map])),
        OutputGroupInfo(
            _validation = depset(_limits(ctx, files.elf)),
            bin = depset([files.bin]),
            elf = depset([files.elf]),
            hex = depset([files.hex]),
            map = depset([files.map]),
        ),
        MlfFirmwareInfo(
            bin = files.bin,
            cpu = cpu,
            description = board.description if board else None,
            elf = files.elf,
            hex = files.hex,
            map = files.map,
            simulator = board.simulator if board else None,
        ),
    ]

_mlf_firmware = rule(
    implementation = _mlf_firmware_impl,
    attrs = {
        "bin": attr.output(mandatory = True),
        "board": attr.label(mandatory = True, providers = [CcInfo]),
        "cpu": attr.string(),
        "deps": attr.label_list(mandatory = True, providers = [CcInfo]),
        "elf": attr.output(mandatory = True),
        "flash_bytes": attr.int(default = -1),
        "hex": attr.output(mandatory = True),
        "linkopts": attr.string_list(),
        "map": attr.output(mandatory = True),
        "platform": attr.label(mandatory = True),
        "ram_bytes": attr.int(default = -1),
        "stamp": attr.label_list(providers = [CcInfo]),
        "_allowlist_function_transition": attr.label(default = ALLOWLIST),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    cfg = firmware_transition,
    fragments = ["cpp"],
    provides = [MlfFirmwareInfo],
    toolchains = [CC_TOOLCHAIN_TYPE, TOOLCHAIN_TYPE],
)

def _checked_firmware_impl(ctx):
    image = ctx.attr.image
    if not image:
        own = str(Label("//rules/platforms:cpu_other")).rpartition(":")[0]
        fail(("%s: error[MLF0414]: platform: got %s, which does not say its processor, expected one of %s:cpu_%s; add it to the " +
              "platform's constraint_values (cpu_other: by a C toolchain of your own)") %
             (shown(ctx.label), shown(ctx.attr.platform.label), own, ", cpu_".join(sorted(CPUS) + ["other"])))
    return [image[DefaultInfo], image[MlfFirmwareInfo], image[OutputGroupInfo]]

# What users name if the platform is theirs. It needs no C toolchain, so that it can say what that lacks.
_mlf_checked_firmware = rule(
    implementation = _checked_firmware_impl,
    attrs = {
        "image": attr.label(providers = [MlfFirmwareInfo]),
        "platform": attr.label(mandatory = True),
        "_allowlist_function_transition": attr.label(default = ALLOWLIST),
    },
    cfg = firmware_transition,
    provides = [MlfFirmwareInfo],
)

_ARGUMENTS = [
    "board",
    "copts",
    "deps",
    "driven",
    "flash_bytes",
    "linkopts",
    "platform",
    "ram_bytes",
    "srcs",
    "stamp",
    "workspace_bytes",
]

def mlf_firmware(
        name,
        platform = None,
        deps = [],
        srcs = [],
        board = None,
        copts = [],
        linkopts = [],
        flash_bytes = None,
        ram_bytes = None,
        stamp = -1,
        driven = False,
        workspace_bytes = 64 * 1024,
        **kwargs):
    """A firmware image: `<name>.elf`, `.bin`, `.hex` and the linker's `.map`.

    ```starlark
    mlf_firmware(
        name = "sensor",
        srcs = ["main.c"],
        platform = "//rules/platforms:cortex-m4",
        deps = ["@models//keyword:cortex-m4"],
    )
    ```

    `.bin` contains the bytes to write at the start of flash. If a board has its vectors in another
    memory far from the code, `.bin` contains the larger of the two; `.hex` always contains
    everything.

    With `driven` the image is a program that a host drives over the board's first UART, by
    `mlftool.micro` or TVM's own client. It provides its own `main`, so `srcs` must not have one:

    ```starlark
    mlf_compile(
        name = "keyword",
        interface_api = "packed",
        model = "keyword.onnx",
        system_lib = True,
        target = "cortex-m4",
    )

    mlf_cc_library(name = "keyword_lib", archive = ":keyword")

    mlf_firmware(
        name = "bench",
        driven = True,
        platform = "//rules/platforms:cortex-m4",
        deps = [":keyword_lib"],
    )
    ```

    The output groups `elf`, `bin`, `hex` and `map` have each file alone.

    Its dependencies are built for `platform`; the rest of the build is unaffected. One build can
    contain images for several boards and host tests.

    Args:
      name: the image's name.
      platform: label of the platform to build for. Default: that of `board`. A platform of your
        own names its processor by a constraint value of mlftool, such as
        `@mlftool//rules/platforms:cpu_cortex-m4`, in addition to those of `@platforms`, which many
        processors share. A platform without a C compiler in mlftool has `cpu_other`; it then links
        models for the host, with your own C toolchain.
      deps: libraries, for instance those of `mlf_cc_library` or of a manifest.
      srcs: C files with `main`.
      board: your own `mlf_board`, or a `cc_library` with start-up code and, in its `linkopts`, the linker
        script. Default: the simulated board that `platform` stands for.
      copts: options for compiling `srcs`.
      linkopts: options for the linker.
      flash_bytes: the limit for bytes of flash; every build of the image checks it, as
        `mlf_compile` describes.
      ram_bytes: the limit for bytes of static data, without the stack and heap of the linker script.
      stamp: whether the image carries what was built: 1 is yes, 0 no, -1 if Bazel is told `--stamp`.
        `mlf_firmware_version` and `mlf_firmware_commit`, strings that `mlf_firmware.h` of
        `@mlftool//crt:firmware_headers` declares, are then `--embed_label` and `STABLE_GIT_COMMIT` of
        `--workspace_status_command`; else both are empty, and a commit changes no byte of an image. Take this
        in place of a `cc_library`'s `linkstamp`, which Bazel shows to its own rules only and no image has.
        The programs that `mlf_model` and `mlf_runner` make to measure a model carry neither.
      driven: whether the image is the RPC server of docs/rpc.md. A `board` of your own then
        defines, in its `srcs` or `deps`, the functions of `rpc_line.h` of
        `@mlftool//crt:rpc_headers`. `--@mlftool//crt:crt_config` sets the limits, such as the
        packet size, which takes memory of the board.
      workspace_bytes: with `driven`, the memory for the host's allocations and for executors.
      **kwargs: `tags`, `visibility`, `testonly` and so on.
    """
    check_call(
        name,
        copts = (copts, "string_list"),
        deps = (deps, "list"),
        driven = (driven, "bool"),
        flash_bytes = (flash_bytes, "bytes"),
        linkopts = (linkopts, "string_list"),
        ram_bytes = (ram_bytes, "bytes"),
        srcs = (srcs, "list"),
        workspace_bytes = (workspace_bytes, "bytes"),
    )
    check_common(name, kwargs)
    check_spelling(name, kwargs, _ARGUMENTS)
    check_plain(name, "leave it out and say --stamp or --nostamp", stamp = stamp)
    check_plain(name, "make an image for each", driven = driven, workspace_bytes = workspace_bytes)
    check_platform(name, platform)
    check_board(name, board, platform)
    if not platform and not board:
        fail("%s: error[MLF0414]: board, platform: got neither, expected your mlf_board or the platform of a board of ours" %
             label_of(name))
    if not srcs and not deps:
        fail("%s: error[MLF0414]: srcs, deps: got neither, expected C files or libraries, one of them with main" % label_of(name))
    if stamp not in [-1, 0, 1]:
        refuse(name, "stamp", stamp, "one of -1, 0, 1")
    if driven and not deps:
        fail("%s: error[MLF0414]: deps: got none, expected the mlf_cc_library that a host drives" % label_of(name))
    made = ([name + "_sources"] if srcs else []) + ([name + "_server"] if driven else [])
    check_new(name, [name, name + IMAGE] + made)

    # Of ours and of those that mlf_board makes the processor is known: one target less for each image.
    image = name if not platform or is_ours(platform) else name + IMAGE
    platform = platform or platform_of(board)
    if srcs:
        cc_library(
            name = name + "_sources",
            srcs = srcs,
            copts = copts,
            linkstatic = True,
            deps = deps,
            **for_hidden(kwargs, c = True)
        )
        deps = [name + "_sources"]
    if driven:
        driven_library(name + "_server", bool(board), workspace_bytes, kwargs)
        deps = deps + [name + "_server"]
    _mlf_firmware(
        name = image,
        bin = name + ".bin",
        board = board or Label("//rules/settings:board"),
        cpu = select(_PROCESSORS),
        deps = deps,
        elf = name + ".elf",
        flash_bytes = flash_bytes,
        hex = name + ".hex",
        linkopts = linkopts,
        map = name + ".map",
        platform = platform,
        ram_bytes = ram_bytes,
        stamp = stamp_of(stamp),
        # Users name its files, so they are as visible.
        **(kwargs if image == name else dict(for_hidden(kwargs, c = True), visibility = kwargs.get("visibility")))
    )
    if image != name:
        _mlf_checked_firmware(name = name, image = _for_known(image), platform = platform, **kwargs)
