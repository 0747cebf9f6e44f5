"""Repositories of Python packages: one folder filled by pip from a hash-locked file."""

load(":system_tools.bzl", "clean_environment")

# What prints tables.
_CONSOLE = ["markdown_it", "pygments", "rich"]

def _pack(rctx, python):
    """Makes site.bytecode, which has the modules of all wheels but the console's for rules/private/tools/launch.py."""
    command = [python, "-B", "-s", "-S", rctx.path(rctx.attr._bytecode), "site.bytecode", "site", "site"]
    done = rctx.execute(
        command + ["-site/" + name for name in _CONSOLE],
        environment = clean_environment(rctx),
    )
    if done.return_code:
        fail("%s: the packages could not be compiled to bytecode\n%s" % (rctx.name, done.stderr))

def _python_packages_impl(rctx):
    lock = rctx.path(rctx.attr.lock)

    # Read so that the repository is made again when the interpreter changes: wheels depend on it.
    rctx.read(rctx.attr._interpreter)
    python = rctx.read(rctx.attr._python).strip()
    rctx.report_progress("pip installs %s" % lock.basename)
    command = [python, "-B", "-s", str(rctx.path(rctx.attr._installer)), str(lock), "site"]
    if rctx.attr.wheel_house:
        command += ["--wheels", str(rctx.path(rctx.attr.wheel_house).dirname)]
    done = rctx.execute(
        command + (["--whole"] if rctx.attr.whole else []),
        environment = clean_environment(rctx),
        timeout = 3600,
    )
    if done.return_code:
        if rctx.attr.wheel_house:
            fail("%s: wheel_house: got %s, which cannot be used\n%s" % (rctx.name, rctx.attr.wheel_house, done.stderr))
        fail(("%s: pip could not install %s. Without network, keep the wheels in your workspace and name them as " +
              "wheel_house (docs/hermetic.md), or point pip at a folder with PIP_FIND_LINKS and PIP_NO_INDEX=1.\n%s") %
             (rctx.name, lock.basename, done.stderr))
    if not rctx.attr.whole:
        _pack(rctx, python)
    rctx.file("BUILD.bazel", _BUILD.format(
        console = ", ".join(["\"site/%s/**\"" % name for name in _CONSOLE]),
        # What is in the pack, each sandbox need not link.
        modules = "**/__pycache__/**" if rctx.attr.whole else "**/*.py",
        packs = "[]" if rctx.attr.whole else "[\"site.bytecode\"]",
    ))

_BUILD = """
package(default_visibility = ["//visibility:public"])

filegroup(
    name = "files",
    srcs = glob(
        {packs} + ["site/**"],
        exclude = [
            "**/* *",
            "**/__pycache__/**",
        ],
    ),
)

# All of it as one input, a link to the folder: thousands of files take a sandbox seconds. Bazel sees
# that it changed when the repository is made again, and nothing else changes it.
filegroup(
    name = "folder",
    srcs = ["site"],
)

# What running and unpacking needs. Each file is a link in every sandbox, so fewer are faster.
filegroup(
    name = "numeric_files",
    srcs = glob(
        {packs} + [
            "site/elftools/**",
            "site/numpy/**",
            "site/numpy.libs/**",
        ],
        exclude = ["{modules}"],
    ),
)

# What the compiler needs: all but what prints tables.
filegroup(
    name = "compiler_files",
    srcs = glob(
        {packs} + ["site/**"],
        exclude = ["**/*.dist-info/**", "**/__pycache__/**", "{modules}", {console}],
    ),
)

# Their folder is what goes on the import path, of actions and of the reader of manifests.
exports_files([
    "site/numpy/__init__.py",
    "site/yaml/__init__.py",
])
"""

python_packages = repository_rule(
    doc = "The packages of a lock file, for the interpreter that @mlf_system found.",
    implementation = _python_packages_impl,
    attrs = {
        "lock": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "A requirements file with a hash for every wheel.",
        ),
        "wheel_house": attr.label(doc = "A file of a folder that has the wheels; pip is not called then."),
        "whole": attr.bool(doc = "Keep test suites, stubs and headers inside the packages."),
        "_bytecode": attr.label(default = Label("//rules/private/tools:bytecode.py")),
        "_installer": attr.label(default = Label("//rules/private/tools:install_wheels.py")),
        "_interpreter": attr.label(default = Label("@mlf_system//:python.txt")),
        "_python": attr.label(default = Label("@mlf_system//:python_path.txt")),
    },
)
