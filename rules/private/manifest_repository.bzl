"""A manifest -> a repository of targets; WORKSPACE and MODULE.bazel share this implementation."""

# Read in the repository phase, so that an edit of the reader makes the repository again. A test
# compares the list with the folder.
READER_FILES = [
    "__init__.py",
    "bazel.py",
    "entries.py",
    "keys.py",
    "kinds.py",
    "known.py",
    "nodes.py",
    "reader.py",
    "records.py",
    "reference.py",
    "together.py",
    "written.py",
]

def _manifest_repository_impl(rctx):
    label = rctx.attr.manifest
    manifest = str(rctx.path(label))
    inside = (label.package + "/" if label.package else "") + label.name

    # Run from the workspace's root, so that messages name the manifest as its author does.
    root = manifest[:-len(inside) - 1]
    launcher = rctx.path(rctx.attr._launcher)
    sources = rctx.path(rctx.attr._reader[0]).dirname.dirname
    packages = rctx.path(rctx.attr._packages).dirname.dirname
    for source in rctx.attr._reader + [rctx.attr._machines]:
        rctx.path(source)
    rctx.report_progress("reading %s" % inside)
    done = rctx.execute(
        [
            rctx.read(rctx.attr._python).strip(),
            "-B",
            "-s",
            "-S",
            str(launcher),
            "%s:%s" % (sources, packages),
            "mlftool.manifest.bazel",
            inside,
            _absolute(label),
            _repository_of(rctx.attr._launcher),
        ],
        working_directory = root,
        environment = {"LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "0"},
    )
    if done.return_code:
        fail("@%s: the manifest %s was not accepted\n%s" % (rctx.name, inside, done.stderr))
    for path, text in json.decode(done.stdout).items():
        rctx.file(path, text, executable = False)

def _repository_of(label):
    # "//x" of the main repository must be "@//x" inside another one. Newer Bazels print "@@//x".
    return str(label).split("//")[0] or "@"

def _absolute(label):
    return "%s//%s:%s" % (_repository_of(label), label.package, label.name)

mlf_manifest_repository = repository_rule(
    doc = """Makes a repository of targets from a manifest.

```starlark
mlf_manifest_repository(
    name = "models",
    manifest = "//examples:models.yaml",
)
```

The model `keyword` with target `cortex-m4` becomes `@models//keyword:cortex-m4` and the other targets
that `mlf_model` makes; `@models//:defs.bzl` has them as lists. Files that the manifest names must be
exported by the package they lie in (`exports_files`). An edit of the manifest that does not change its
meaning rebuilds nothing.""",
    implementation = _manifest_repository_impl,
    attrs = {
        "manifest": attr.label(
            mandatory = True,
            allow_single_file = [".yaml", ".yml"],
            doc = "The manifest.",
        ),
        "_launcher": attr.label(default = Label("//rules/private/tools:launch.py")),
        "_machines": attr.label(default = Label("@mlf_system//:machines.bzl")),
        "_packages": attr.label(default = Label("@mlf_python//:site/yaml/__init__.py")),
        "_python": attr.label(default = Label("@mlf_system//:python_path.txt")),
        "_reader": attr.label_list(default = [
            Label("//mlftool:__init__.py"),
            Label("//mlftool:errors.py"),
        ] + [Label("//mlftool:manifest/" + name) for name in READER_FILES]),
    },
)
