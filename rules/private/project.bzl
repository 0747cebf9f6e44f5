"""An archive -> a folder that CMake and Make build."""

load(":checks.bzl", "check_file_name", "info_of")
load(":labels.bzl", "shown")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")
load(":providers.bzl", "MlfInfo")

def _mlf_project_impl(ctx):
    info = info_of(ctx, "archive", MlfInfo)
    library = ctx.attr.library
    if not library:
        if len(info.modules) > 1:
            fail("%s: error[MLF0414]: library: got '' for an archive of %d modules (%s), none of which can name it; set library" %
                 (shown(ctx.label), len(info.modules), ", ".join(info.modules)))
        library = info.modules[0]
    check_file_name(ctx, "library", library)
    folder = ctx.actions.declare_directory(ctx.label.name)
    args = ctx.actions.args()
    args.add("extract")
    args.add(info.archive)
    args.add("--project", "%s=%s" % (library, folder.path))
    run_mlftool(
        ctx,
        "runner",
        "mlftool",
        [args],
        inputs = [info.archive],
        outputs = [folder],
        mnemonic = "MlfProject",
        progress_message = "Writing project %s" % folder.short_path,
    )
    return [DefaultInfo(files = depset([folder]))]

mlf_project = rule(
    doc = """A folder with an archive as plain C: a `CMakeLists.txt` and a `Makefile` build it as a static
library, for projects that do not use Bazel.

```starlark
mlf_project(name = "keyword_project", archive = ":keyword")
```

The folder, `bazel-bin/.../keyword_project`, contains the C runtime if the modules call it, and the
machine flags of the target's processor. `make` uses the default compiler of the target unless you
set `CC` and `AR`; for CMake pass `-DCMAKE_TOOLCHAIN_FILE=toolchain.cmake`.""",
    implementation = _mlf_project_impl,
    attrs = {
        "archive": attr.label(
            mandatory = True,
            allow_files = True,
            doc = "An `mlf_compile`, `mlf_package` or `mlf_import` (`<name>_archive`) target.",
        ),
        "library": attr.string(doc = "The library's name. Default: that of the only module."),
    },
    toolchains = [TOOLCHAIN_TYPE],
)
