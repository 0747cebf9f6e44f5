"""The module extension `mlf`: what MODULE.bazel uses where a WORKSPACE calls repositories.bzl.

Written against the documentation of Bazel 7 and newer and not run: the one Bazel this project is tested
with is 4.2.3, which has no modules.
"""

load("//rules/private:manifest_repository.bzl", "manifest_repository")
load("//rules/private:python_packages.bzl", "python_packages")
load("//rules/private:system_tools.bzl", "system_tools")

def _mlf_impl(mctx):
    system_tools(name = "mlf_system")
    python_packages(name = "mlf_python", lock = Label("//:requirements.lock"))
    python_packages(name = "mlf_python_test", lock = Label("//:requirements-test.lock"), whole = True)
    python_packages(name = "mlf_python_remote", lock = Label("//:requirements-remote.lock"), whole = True)
    owners = {}
    for module in mctx.modules:
        for tag in module.tags.manifest:
            if tag.name in owners:
                fail("mlf.manifest(name = \"%s\"): modules '%s' and '%s' both use this name; choose another" %
                     (tag.name, owners[tag.name], module.name))
            owners[tag.name] = module.name
            manifest_repository(name = tag.name, manifest = tag.manifest)

mlf = module_extension(
    doc = """Defines the repositories of the rules, and one for each manifest.

```starlark
mlf = use_extension("@mlftool//rules:extensions.bzl", "mlf")
mlf.manifest(name = "models", manifest = "//:models.yaml")
use_repo(mlf, "models")
```""",
    implementation = _mlf_impl,
    tag_classes = {
        "manifest": tag_class(
            doc = "Makes a repository of targets from a manifest, as `mlf_manifest_repository` does.",
            attrs = {
                "manifest": attr.label(mandatory = True, doc = "The manifest."),
                "name": attr.string(mandatory = True, doc = "The repository's name."),
            },
        ),
    },
)
