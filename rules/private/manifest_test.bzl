"""A test that a BUILD file written from a manifest is what the manifest says."""

load(":labels.bzl", "shown")
load(":manifest_repository.bzl", "repository_of")
load(":mlftool.bzl", "TOOLCHAIN_TYPE")
load(":run.bzl", "executable")

def _written_repository(label):
    """As a BUILD file of the workspace writes it: "@mlftool" with modules, too; "" of the workspace itself."""
    name = repository_of(label).lstrip("@")
    return "@mlftool" if name.startswith(("mlftool~", "mlftool+")) else "@" + name if name else ""

def _mlf_manifest_test_impl(ctx):
    # Bazel knows which package a file belongs to; the sandbox has no BUILD files to tell from.
    labels = {
        file.short_path: "//%s:%s" % (file.owner.package, file.owner.name)
        for file in ctx.files.files + [ctx.file.manifest]
    }
    known = ctx.actions.declare_file(ctx.label.name + "_files.json")
    ctx.actions.write(known, json.encode(labels))
    arguments = [
        ctx.file.manifest.short_path,
        ctx.file.generated.short_path,
        _written_repository(ctx.attr._rules.label),
        known.short_path,
        shown(ctx.label),
    ]
    files = [ctx.file.manifest, ctx.file.generated, known] + ctx.files._reader + ctx.files._crt
    return [executable(ctx, "rules.private.tools.committed", arguments, files, "console")]

mlf_manifest_test = rule(
    doc = """Fails when a `BUILD.bazel` from `mlftool bazel --write` no longer matches its manifest.

The command writes the targets of `mlf_manifest_repository` into your own tree:

```sh
mlftool bazel models.yaml --write models/BUILD.bazel
```

The package `//models` then has `//models:keyword/cortex-m4` and all other targets of `mlf_model`,
`//models:tests`, and this test. After a change of the manifest, `bazel run //models:up_to_date_test -- --update`
writes the file again. Do not add anything to that `BUILD.bazel`: the command replaces the whole file.""",
    implementation = _mlf_manifest_test_impl,
    attrs = {
        "files": attr.label_list(allow_files = True, doc = "The files that the manifest names."),
        "generated": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "The generated `BUILD.bazel`.",
        ),
        "manifest": attr.label(
            mandatory = True,
            allow_single_file = [".yaml", ".yml"],
            doc = "The manifest.",
        ),
        # The boards that tests can run on are described there.
        "_crt": attr.label(default = Label("//crt:files")),
        "_reader": attr.label(default = Label("//mlftool:manifest_files")),
        "_rules": attr.label(default = Label("//rules:defs.bzl"), allow_single_file = True),
    },
    test = True,
    toolchains = [TOOLCHAIN_TYPE],
)
