"""What makes a program for a board: start-up code, a linker script, and how to run it."""

load(":calls.bzl", "check_call", "check_common", "check_new", "check_plain", "refuse")
load(":cc.bzl", "CcInfo", "cc_common", "cc_library")
load(":common.bzl", "for_hidden")
load(":cpus.bzl", "CPUS", "is_bare")
load(":providers.bzl", "MlfBoardInfo")

# Folders of crt/boards that boards share.
BOARD_PARTS = ["common", "cortex_m", "riscv"]

def _parent(folder):
    return folder.rsplit("/", 1)[0] if "/" in folder else "."

def _description(ctx):
    """A board.json as `mlftool run --on` reads it, or None: it knows our boards."""
    if not ctx.attr.simulator or not ctx.attr.target:
        return None
    description = ctx.actions.declare_file(ctx.label.name + "/board.json")
    content = dict(
        simulator = ctx.attr.simulator,
        targets = [ctx.attr.target],
        title = ctx.attr.title or ctx.label.name,
    )

    # Bazel links; who runs the program only asks whether there is a script.
    if ctx.file.linker_script:
        content["linker_script"] = ctx.file.linker_script.basename
    ctx.actions.write(description, json.encode_indent(content) + "\n")
    return description

def _mlf_board_impl(ctx):
    scripts = [ctx.file.linker_script] if ctx.file.linker_script else []

    # One word per option: a depset keeps only the first of equal words. INCLUDE names scripts that lie
    # beside the board's own, or from the folder above.
    folders = {}
    for script in scripts + (ctx.files.included_scripts if scripts else []):
        folders["-L" + script.dirname] = None
        folders["-L" + _parent(script.dirname)] = None
    flags = ["-nostartfiles", "-T" + scripts[0].path] if scripts else []
    linker_input = cc_common.create_linker_input(
        owner = ctx.label,
        additional_inputs = depset(scripts + ctx.files.included_scripts),
        user_link_flags = depset(flags + folders.keys() + ctx.attr.linkopts),
    )
    own = CcInfo(linking_context = cc_common.create_linking_context(linker_inputs = depset([linker_input])))
    return [
        cc_common.merge_cc_infos(cc_infos = [own] + [dep[CcInfo] for dep in ctx.attr.deps]),
        MlfBoardInfo(description = _description(ctx), simulator = ctx.attr.simulator),
    ]

board_library = rule(
    implementation = _mlf_board_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo]),
        "included_scripts": attr.label_list(allow_files = True),
        "linker_script": attr.label(allow_single_file = [".ld", ".lds"]),
        "linkopts": attr.string_list(),
        "simulator": attr.string_list(),
        "target": attr.string(),
        "title": attr.string(),
    },
    provides = [CcInfo, MlfBoardInfo],
)

def _check(name, target, parts):
    if target not in CPUS:
        refuse(name, "target", target, "one of " + ", ".join(sorted(CPUS)))
    wrong = [part for part in parts if part not in BOARD_PARTS]
    if wrong:
        refuse(name, "parts", wrong[0], "some of " + ", ".join(BOARD_PARTS))

def mlf_board(
        name,
        target,
        linker_script = None,
        srcs = [],
        parts = [],
        deps = [],
        included_scripts = [],
        linkopts = [],
        simulator = [],
        title = "",
        **kwargs):
    """A board of your own: its processor, linker script and start-up code.

    ```starlark
    mlf_board(
        name = "nucleo",
        srcs = ["startup.c"],
        linker_script = "nucleo.ld",
        target = "cortex-m4",
        deps = ["@vendor//:hal"],
    )
    ```

    Give it to `mlf_firmware(board = ":nucleo")` or `mlf_model(board = ":nucleo")`. The platform they then
    build for is `<name>_platform`, with the processor's constraint and one of its own,
    `<name>_constraint`, for `select` and `target_compatible_with`.

    Args:
      name: the board.
      target: the processor, one of mlftool's targets such as `cortex-m4`.
      linker_script: the linker script. Without one the board is a computer whose operating system
        starts programs; mlftool's platform library, on C's files and clock, then serves them
        unless `deps` do.
      srcs: start-up code, and headers it includes. All of it is linked, since no code refers to a
        vector table.
      parts: mlftool's start-up code to use: `cortex_m` or `riscv`, and `common`; `srcs` then
        contains the `board.h` that they include.
      deps: more libraries, such as the vendor's; a library with a vector table needs `alwayslink`.
      included_scripts: scripts that `linker_script` INCLUDEs, in its folder or relative to the
        folder above. With `parts`, `common/sections.ld` is one of them.
      linkopts: more options for the linker.
      simulator: the command that runs programs of the board, such as
        `["qemu-system-arm", "-machine", "x"]`. Without it the build makes images but no tests.
      title: its name in tables.
      **kwargs: `visibility`, `tags` and so on.
    """
    check_call(
        name,
        deps = (deps, "list"),
        included_scripts = (included_scripts, "list"),
        linker_script = (linker_script, "label"),
        linkopts = (linkopts, "string_list"),
        parts = (parts, "string_list"),
        simulator = (simulator, "string_list"),
        srcs = (srcs, "list"),
        target = (target, "string"),
        title = (title, "string"),
    )
    check_common(name, kwargs)
    check_plain(name, "it decides what the board is made of; make a board for each", parts = parts, target = target)
    check_new(name, [name, name + "_platform", name + "_constraint"])
    _check(name, target, parts)
    if is_bare(target) and not (linker_script or deps or linkopts):
        refuse(name, "linker_script", linker_script, "the board's: on %s there is no system that places programs" % target)
    tags = kwargs.pop("tags", []) + ["manual"]
    if srcs or parts:
        cc_library(
            name = name + "_startup",
            srcs = srcs + [Label("//crt:board_part_%s_sources" % part) for part in parts],
            copts = ["-std=c99", "-O2", "-ffp-contract=off"],
            includes = ["."],
            linkstatic = True,
            deps = deps + [Label("//crt:board_part_%s" % part) for part in parts],
            alwayslink = True,
            **for_hidden(dict(kwargs, tags = tags), c = True)
        )
        deps = deps + [name + "_startup"]
    elif not linker_script and not deps:
        deps = [Label("//crt:host_platform")]
    board_library(
        name = name,
        included_scripts = included_scripts + ([Label("//crt:boards/common/sections.ld")] if parts else []),
        linker_script = linker_script,
        linkopts = linkopts,
        simulator = simulator,
        tags = tags,
        target = target,
        title = title,
        deps = deps,
        **kwargs
    )
    visibility = kwargs.get("visibility")
    native.constraint_setting(name = name + "_setting", visibility = ["//visibility:private"])
    native.constraint_value(name = name + "_constraint", constraint_setting = name + "_setting", visibility = visibility)
    native.platform(
        name = name + "_platform",
        constraint_values = [Label("//rules/platforms:cpu_" + target), name + "_constraint"],
        visibility = visibility,
    )

def platform_of(board):
    """The platform of a board that `mlf_board` made.

    Args:
      board: its label, a string or Label.

    Returns:
      A label.
    """
    text = str(board)
    if ":" not in text and "//" in text:
        text += ":" + text.rpartition("/")[2]
    return text + "_platform"
