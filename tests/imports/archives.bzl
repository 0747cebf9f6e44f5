"""Archives in the shapes of TVM's releases, made by the generators of tests/runtime."""

load("//rules/private:mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")  # buildifier: disable=bzl-visibility

def _foreign_archives_impl(ctx):
    args = ctx.actions.args()
    args.add(ctx.outputs.outs[0].dirname)
    args.add(ctx.file.include.dirname.rpartition("/tvm/")[0])
    run_mlftool(
        ctx,
        "runtime",
        "tests.imports.make_archives",
        [args],
        inputs = ctx.files.srcs + ctx.files.headers,
        outputs = ctx.outputs.outs,
        mnemonic = "ForeignArchives",
        progress_message = "Making archives in TVM's shapes",
    )
    return [DefaultInfo(files = depset(ctx.outputs.outs))]

foreign_archives = rule(
    implementation = _foreign_archives_impl,
    attrs = {
        "headers": attr.label_list(mandatory = True, allow_files = True),
        "include": attr.label(mandatory = True, allow_single_file = True),
        "outs": attr.output_list(mandatory = True),
        "srcs": attr.label_list(mandatory = True, allow_files = True),
    },
    toolchains = [TOOLCHAIN_TYPE],
)
