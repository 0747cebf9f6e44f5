"""A test that compiling a model again gives the same bytes."""

load(":checks.bzl", "info_of")
load(":labels.bzl", "shown")
load(":mlftool.bzl", "TOOLCHAIN_TYPE")
load(":providers.bzl", "MlfInfo")
load(":run.bzl", "executable")

def _mlf_reproducibility_test_impl(ctx):
    info = info_of(ctx, "archive", MlfInfo)
    groups = ctx.attr.archive[OutputGroupInfo]
    if not hasattr(groups, "again"):
        fail("%s: error[MLF0414]: archive: got %s, expected an mlf_compile; only models are compiled again" %
             (shown(ctx.label), shown(ctx.attr.archive.label)))
    files = [info.archive, groups.again.to_list()[0]]
    arguments = [file.short_path for file in files] + [shown(ctx.attr.archive.label)]
    return [executable(ctx, "rules.private.tools.reproduced", arguments, files)]

mlf_reproducibility_test = rule(
    doc = """Fails when a second compile of a model gives different bytes, and names the files that differ.

```starlark
mlf_reproducibility_test(name = "keyword_reproducibility_test", archive = ":keyword")
```

The second compile is a separate action: a new process, no worker, and another hash seed, locale,
time zone and number of threads.""",
    implementation = _mlf_reproducibility_test_impl,
    attrs = {
        "archive": attr.label(
            mandatory = True,
            allow_files = True,
            doc = "An `mlf_compile`; for an `mlf_model` it is `<name>_archive`.",
        ),
    },
    test = True,
    toolchains = [TOOLCHAIN_TYPE],
)
