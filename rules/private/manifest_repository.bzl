"""A manifest -> a repository of targets; WORKSPACE and MODULE.bazel share this implementation."""

load(":system_tools.bzl", "clean_environment")

# Read in the repository phase, so that an edit of the reader makes the repository again. A test
# compares the list with the folder.
READER_FILES = [
    "__init__.py",
    "bazel.py",
    "boards.py",
    "entries.py",
    "keys.py",
    "kinds.py",
    "known.py",
    "matrix.py",
    "nodes.py",
    "quantize.py",
    "reader.py",
    "records.py",
    "reference.py",
    "starlark.py",
    "targets.py",
    "together.py",
    "written.py",
]

# The folder of the packages.
_PACKAGES = "packages"

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

    # Bazel empties this folder before the repository is made again. So it holds links to files that
    # stay, in the output base beside "external", and those that are the same are not read again.
    store = rctx.path("").dirname.dirname.get_child("mlf_manifests")
    rctx.report_progress("reading %s" % inside)
    done = rctx.execute(
        [
            rctx.read(rctx.attr._python).strip(),
            "-B",
            "-s",
            "-S",
            str(launcher),
            "%s:%s=%s.bytecode" % (str(sources), str(packages), str(packages)),
            "mlftool.manifest.bazel",
            inside,
            _absolute(label),
            repository_of(rctx.attr._launcher),
            str(store),
            str(rctx.path(_PACKAGES)),
        ],
        working_directory = root,
        environment = clean_environment(rctx),
    )
    if done.return_code:
        fail("@%s: the manifest %s was not accepted\n%s" % (rctx.attr.hub, inside, done.stderr))

    # A BUILD file that is added above a model changes the model's label. Bazel before 7.1 can watch none that
    # is not there yet (docs/rules.md, "What Bazel reports itself").
    if hasattr(rctx, "watch"):
        for file in done.stdout.splitlines():
            rctx.watch(file)
    rctx.file("BUILD.bazel", executable = False)

    # What the root of a repository has, for old Bazels and for new ones.
    for name in ["WORKSPACE", "REPO.bazel"]:
        rctx.file("%s/%s" % (_PACKAGES, name), executable = False)

def repository_of(label):
    """How any other repository writes the one that a label is of.

    Args:
      label: a Label.

    Returns:
      string: "@@name", which Bazel 7 and newer print, or "@name"; of the main repository "@@" or "@".
    """

    # Bazel 4 prints "//x" for the main repository, and inside another one that would be its own.
    return str(label).split("//")[0] or "@"

def _absolute(label):
    return "%s//%s:%s" % (repository_of(label), label.package, label.name)

manifest_repository = repository_rule(
    doc = """A folder of packages with the targets of a manifest, which another repository shows.""",
    implementation = _manifest_repository_impl,
    # The workspace says what is in it, so `bazel vendor` leaves it where it is.
    local = True,
    attrs = {
        "hub": attr.string(mandatory = True, doc = "The name by which users know the packages, for messages."),
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
            Label("//mlftool:frozen.py"),
            Label("//mlftool:keywords.py"),
            Label("//mlftool:options.py"),
            Label("//mlftool:version.py"),
        ] + [Label("//mlftool:manifest/" + name) for name in READER_FILES]),
    },
)

def _hub_repository_impl(rctx):
    rctx.delete(".")
    rctx.symlink(rctx.path(rctx.attr.origin).dirname.get_child(_PACKAGES), ".")

_hub_repository = repository_rule(
    doc = "The packages of a manifest, as a repository.",
    implementation = _hub_repository_impl,
    local = True,
    attrs = {"origin": attr.label(mandatory = True, allow_single_file = True, doc = "A file next to the packages' folder.")},
)

# What stands before the name of a repository beside @mlf_system: "@", or "@@mlftool++mlf+" of a module.
_BESIDE = repository_of(Label("@mlf_system//:machines.bzl"))[:-len("mlf_system")]

def manifest_repositories(names, manifest):
    """The repositories of a manifest, for WORKSPACE and module extension alike.

    Args:
      names: what the repository is called; the packages of each are the same.
      manifest: label of the manifest.
    """

    # Two, because Bazel reads and configures all packages of a repository again that it makes again.
    # The one that users name is a link, which is never made again; its files are those of the other, so
    # Bazel looks at each of them whenever that is made again, and finds nearly all of them the same.
    origin = names[0] + "_manifest"
    manifest_repository(name = origin, manifest = manifest, hub = names[0])
    for name in names:
        _hub_repository(name = name, origin = "%s%s//:BUILD.bazel" % (_BESIDE, origin))

def mlf_manifest_repository(name, manifest):
    """Makes a repository of targets from a manifest.

    ```starlark
    mlf_manifest_repository(
        name = "models",
        manifest = "//examples:models.yaml",
    )
    ```

    The model `keyword` with target `cortex-m4` becomes `@models//keyword:cortex-m4` and the other targets
    that `mlf_model` makes; `@models//:defs.bzl` has them as lists, and `bazel run @models//:report` prints
    what all of them need (without those tagged `manual` or of limited visibility). The package of each file that
    the manifest names must export it (`exports_files`). An edit of the manifest that does not
    change its meaning rebuilds nothing. If you change an option of a model, or add, rename or
    remove a model, only the targets of that model change, the report, and the packages that load
    `@models//:defs.bzl`.

    Args:
      name: the repository's name. Its files are in a second repository, `<name>_manifest`.
      manifest: label of the manifest.
    """

    where = "mlf_manifest_repository %s" % name
    if not str(manifest).endswith((".yaml", ".yml")) or "//" not in str(manifest):
        fail("%s: manifest: got '%s', expected the label of a .yaml file of the workspace, such as //:models.yaml" %
             (where, manifest))
    if not native.existing_rule("mlf_python"):
        fail("%s: there is no repository @mlf_python; call mlf_dependencies() before this" % where)
    manifest_repositories([name], manifest)
