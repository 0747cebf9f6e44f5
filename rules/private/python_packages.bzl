"""Repositories of Python packages: one folder filled by pip from a hash-locked file."""

def _python_packages_impl(rctx):
    lock = rctx.path(rctx.attr.lock)

    # Read so that the repository is made again when the interpreter changes: wheels depend on it.
    rctx.read(rctx.attr._interpreter)
    python = rctx.read(rctx.attr._python).strip()
    rctx.report_progress("pip installs %s" % lock.basename)
    command = [python, "-B", "-s", str(rctx.path(rctx.attr._installer)), str(lock), "site"]
    done = rctx.execute(command + (["--whole"] if rctx.attr.whole else []), timeout = 3600)
    if done.return_code:
        fail(("%s: pip could not install %s. Without network, point pip at a folder of wheels with " +
              "PIP_FIND_LINKS and PIP_NO_INDEX=1.\n%s") % (rctx.name, lock.basename, done.stderr))
    rctx.file("BUILD.bazel", """
package(default_visibility = ["//visibility:public"])

filegroup(
    name = "files",
    srcs = glob(["site/**"], exclude = ["**/* *"]),
)

# What running and unpacking needs. Each file is a link in every sandbox, so fewer are faster.
filegroup(
    name = "numeric_files",
    srcs = glob([
        "site/elftools/**",
        "site/numpy/**",
        "site/numpy.libs/**",
    ]),
)

# What the compiler needs: all but what prints tables.
filegroup(
    name = "compiler_files",
    srcs = glob(
        ["site/**"],
        exclude = [
            "site/markdown_it/**",
            "site/pygments/**",
            "site/rich/**",
            "**/*.dist-info/**",
        ],
    ),
)

# Its folder is what goes on the import path.
exports_files(["site/numpy/__init__.py"])
""")

python_packages = repository_rule(
    doc = "The packages of a lock file, for the interpreter that @mlf_system found.",
    implementation = _python_packages_impl,
    attrs = {
        "lock": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "A requirements file with a hash for every wheel.",
        ),
        "whole": attr.bool(doc = "Keep test suites, stubs and headers inside the packages."),
        "_installer": attr.label(default = Label("//rules/private/tools:install_wheels.py")),
        "_interpreter": attr.label(default = Label("@mlf_system//:python.txt")),
        "_python": attr.label(default = Label("@mlf_system//:python_path.txt")),
    },
)
