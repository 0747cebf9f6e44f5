"""A repository made of files of this one."""

def _shim_repository_impl(rctx):
    rctx.file("WORKSPACE", "workspace(name = \"%s\")\n" % rctx.name)
    if "BUILD.bazel" not in rctx.attr.files.values():
        rctx.file("BUILD.bazel", "")
    for label, destination in rctx.attr.files.items():
        rctx.symlink(rctx.path(label), destination)

shim_repository = repository_rule(
    doc = "A repository whose files are links to files of ours.",
    implementation = _shim_repository_impl,
    attrs = {
        "files": attr.label_keyed_string_dict(
            mandatory = True,
            doc = "Our file -> its path in the new repository.",
        ),
    },
)
