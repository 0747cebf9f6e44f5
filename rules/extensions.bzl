"""The module extension `mlf`: what MODULE.bazel uses where a WORKSPACE calls repositories.bzl.

`tools/newer_bazel` runs it with Bazel 7; `tests/rules/test_modules.py` evaluates it with what 7, 8 and 9 document.
"""

load("//rules/private:development.bzl", "development_repositories")
load("//rules/private:manifest_repository.bzl", "manifest_repositories")
load("//rules/private:python_packages.bzl", "python_packages")
load("//rules/private:system_tools.bzl", "system_tools")

def _manifests(modules):
    """Each manifest's label with the names of its repository.

    All repositories of an extension share one set of names, and a module does not know those of others.
    So each has a long name, with the module's before it; the short one is the root module's, and that of
    another module where no second one wants it.
    """
    tags = [(module, tag) for module in modules for tag in module.tags.manifest]
    wanted = [tag.name for _, tag in tags]
    owners, found = {}, []
    for module, tag in tags:
        names = ["%s_%s" % (module.name, tag.name)] if module.name else []
        if module.is_root or len([name for name in wanted if name == tag.name]) == 1:
            names = [tag.name] + names
        for name in names:
            if name in owners:
                fail("mlf.manifest(name = \"%s\") of module '%s': got repository '%s' twice, the other of module '%s'; choose another name" %
                     (tag.name, module.name, name, owners[name]))
            owners[name] = module.name
        found.append((tag.manifest, names))
    return found

def _python(modules):
    """The root module's tag `python`: a build has one interpreter."""
    tags = [tag for module in modules if module.is_root for tag in module.tags.python]
    if len(tags) > 1:
        fail("mlf.python: got %d of them, expected one" % len(tags))
    return tags[0] if tags else struct(interpreter = None, interpreter_files = [], wheel_house = None)

def _mlf_impl(mctx):
    python = _python(mctx.modules)
    system_tools(
        name = "mlf_system",
        host_constraints = "@platforms//host:constraints.bzl",
        interpreter = python.interpreter,
        interpreter_files = python.interpreter_files,
    )
    python_packages(name = "mlf_python", lock = Label("//:requirements.lock"), wheel_house = python.wheel_house)

    # Fetched where a model is quantised only.
    python_packages(
        name = "mlf_python_quantize",
        lock = Label("//:requirements-quantize.lock"),
        wheel_house = python.wheel_house,
        whole = True,
    )
    for module in mctx.modules:
        if module.is_root and module.name == "mlftool":
            development_repositories()
    for manifest, names in _manifests(mctx.modules):
        manifest_repositories(names, manifest)

mlf = module_extension(
    doc = """Defines the repositories of the rules, and those of each manifest.

```starlark
mlf = use_extension("@mlftool//rules:extensions.bzl", "mlf")
mlf.manifest(name = "models", manifest = "//:models.yaml")
use_repo(mlf, "models")
```

A module that others depend on imports the repository by its long name, since the root module may have a
manifest called `models`, too: `use_repo(mlf, models = "sensor_models")` in a module `sensor`.""",
    implementation = _mlf_impl,
    tag_classes = {
        "python": tag_class(
            doc = "The interpreter and wheels, as arguments of `mlf_dependencies`; the root module's alone counts.",
            attrs = {
                "interpreter": attr.label(doc = "The interpreter, such as `@python_3_11_host//:python`."),
                "interpreter_files": attr.label_list(doc = "All its files."),
                "wheel_house": attr.label(doc = "A file of the folder that has the wheels."),
            },
        ),
        "manifest": tag_class(
            doc = "Makes a repository of targets from a manifest, as `mlf_manifest_repository` does.",
            attrs = {
                "manifest": attr.label(mandatory = True, doc = "The manifest."),
                "name": attr.string(
                    mandatory = True,
                    doc = """The repository's name. It has a second one, `<module>_<name>`, which is the only one
when the module is not the root and another wants the same.""",
                ),
            },
        ),
    },
)
