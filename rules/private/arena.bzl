"""A test that the arena a model reports is what it needs."""

load(
    ":calls.bzl",
    "check_board",
    "check_call",
    "check_common",
    "check_new",
    "check_number",
    "check_platform",
    "text_of",
)
load(":checks.bzl", "info_of", "public_name")
load(":common.bzl", "for_hidden")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")
load(":providers.bzl", "MlfInfo", "MlfRunnerInfo")
load(":run.bzl", "RUN_ATTRS", "executable", "run_arguments", "run_inputs", "short_path")
load(":runner.bzl", "mlf_runner", "module_of")
load(":shared.bzl", "make_shared", "shared_file")
load(":transitions.bzl", "ALLOWLIST", "model_transition")

def _arena_source_impl(ctx):
    info = info_of(ctx, "archive", MlfInfo, "_less_arena" if ctx.attr.less else "_enough_arena")
    module = module_of(ctx, info)
    source = ctx.actions.declare_file("%s/%s_arena.c" % (public_name(ctx), module))
    args = ctx.actions.args()
    args.add_all([info.archive.path, module, str(ctx.attr.less), source.path])
    run_mlftool(
        ctx,
        "runner",
        "rules.private.tools.arena",
        [args],
        inputs = [info.archive],
        outputs = [source],
        mnemonic = "MlfArena",
        progress_message = "Guarding the workspace of %s" % module,
    )
    return [DefaultInfo(files = depset([source]))]

_arena_source = rule(
    implementation = _arena_source_impl,
    attrs = {
        "archive": attr.label(mandatory = True, allow_files = True),
        "less": attr.int(),
        "module": attr.string(),
        "_allowlist_function_transition": attr.label(default = ALLOWLIST),
    },
    cfg = model_transition,
    toolchains = [TOOLCHAIN_TYPE],
)

def _arena_test_impl(ctx):
    # The last two arguments are `--runner ELF`; the tool gives each in turn.
    elves = [ctx.attr.less[MlfRunnerInfo].elf, ctx.attr.runner[MlfRunnerInfo].elf]
    return [executable(
        ctx,
        "rules.private.tools.arena_test",
        [elf.short_path for elf in elves] + run_arguments(ctx, short_path, with_runner = False),
        run_inputs(ctx) + elves,
        "runner",
    )]

_arena_test = rule(
    implementation = _arena_test_impl,
    attrs = dict(RUN_ATTRS, less = attr.label(mandatory = True, providers = [MlfRunnerInfo])),
    test = True,
    toolchains = [TOOLCHAIN_TYPE],
)

def mlf_arena_test(
        name,
        archive,
        library,
        vectors,
        module = "",
        platform = None,
        board = None,
        absolute = "",
        relative = "",
        **kwargs):
    """Tests that the workspace a module reports is enough, and that one byte less is not.

    ```starlark
    mlf_arena_test(
        name = "keyword_arena_test",
        archive = ":keyword",
        library = ":keyword_lib",
        platform = "@mlftool//rules/platforms:cortex-m4",
        vectors = "keyword.npz",
    )
    ```

    The module is built twice, with `TVMGEN_<MODULE>_WORKSPACE_SIZE` bytes of workspace and with one less,
    each with a guard after it, and runs on all vectors. The first must give the expected outputs
    and leave the guard unchanged; the second must fail. The test fills the workspace with a
    pattern before each run, so a module that reads memory before it writes it fails, too. Memory
    is planned in units of 16 bytes: one byte less is a unit less.

    This works for mlftool's modules with `interface_api = "c"`, which contain their workspace.

    Args:
      name: the test's name.
      archive: an `mlf_compile` or `mlf_package` target.
      library: the `mlf_cc_library` of that archive.
      vectors: `.npz` file with inputs and expected outputs.
      module: which module, when the archive has several.
      platform: the board's platform; none means the host.
      board: your own `mlf_board`.
      absolute: largest difference allowed; "0" means equal. Without it and `relative` the data type
        decides: 1e-5 and 1e-5 for float32, 0 for integers.
      relative: allowed difference as a share of the reference, added to `absolute`.
      **kwargs: `tags`, `size`, `visibility` and so on.
    """
    check_call(
        name,
        archive = (archive, "label"),
        library = (library, "label"),
        module = (module, "string"),
        vectors = (vectors, "label"),
    )
    check_common(name, kwargs)
    check_number(name, absolute = absolute, relative = relative)
    check_platform(name, platform)
    check_board(name, board, platform)
    check_new(name, [name])
    for part, less in {"enough": 0, "less": 1}.items():
        make_shared(
            _arena_source,
            shared_file,
            "%s_%s_arena" % (name, part),
            dict(for_hidden(dict(kwargs, testonly = True)), archive = archive, less = less, module = module),
        )
        mlf_runner(
            name = "%s_%s" % (name, part),
            srcs = ["%s_%s_arena" % (name, part)],
            archive = archive,
            board = board,
            library = library,
            module = module,
            platform = platform,
            **for_hidden(dict(kwargs, testonly = True), c = True)
        )
    _arena_test(
        name = name,
        absolute = text_of(absolute),
        less = name + "_less",
        relative = text_of(relative),
        runner = name + "_enough",
        size = kwargs.pop("size", "medium" if platform or board else "small"),
        vectors = vectors,
        **kwargs
    )
