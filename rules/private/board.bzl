"""What makes a program for a board: start-up code and a linker script."""

load(":cc.bzl", "CcInfo", "cc_common")

def _parent(folder):
    return folder.rsplit("/", 1)[0] if "/" in folder else "."

def _mlf_board_impl(ctx):
    script = ctx.file.linker_script

    # One word per option: a depset keeps only the first of equal words.
    flags = [
        "-nostartfiles",
        "-T" + script.path,
        "-L" + script.dirname,
        "-L" + _parent(script.dirname),
    ] if script else []
    linker_input = cc_common.create_linker_input(
        owner = ctx.label,
        additional_inputs = depset(([script] if script else []) + ctx.files.included_scripts),
        user_link_flags = depset(flags + ctx.attr.linkopts),
    )
    own = CcInfo(linking_context = cc_common.create_linking_context(linker_inputs = depset([linker_input])))
    return [cc_common.merge_cc_infos(cc_infos = [own] + [dep[CcInfo] for dep in ctx.attr.deps])]

mlf_board = rule(
    doc = """A board: its linker script, and start-up code as `deps`.

```starlark
cc_library(name = "startup", srcs = ["startup.c"], alwayslink = True)

mlf_board(name = "my_board", linker_script = "my_board.ld", deps = [":startup"])
```

Give it to `mlf_firmware(board = ...)`. The library with the vector table needs `alwayslink`: nothing
refers to the table, so the linker would leave it out.""",
    implementation = _mlf_board_impl,
    attrs = {
        "deps": attr.label_list(providers = [CcInfo], doc = "Start-up code, and libraries of the board."),
        "included_scripts": attr.label_list(
            allow_files = True,
            doc = "Scripts that `linker_script` INCLUDEs: beside it, or named from the folder above it.",
        ),
        "linker_script": attr.label(
            allow_single_file = [".ld", ".lds"],
            doc = "Where sections go. Without one the operating system's C library starts programs.",
        ),
        "linkopts": attr.string_list(doc = "More options for the linker."),
    },
    provides = [CcInfo],
)
