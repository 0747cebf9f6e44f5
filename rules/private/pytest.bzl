"""A folder of pytest files as a Bazel test: for this repository, not for users."""

load(":mlftool.bzl", "TOOLCHAIN_TYPE", "launcher_script")

def _pytest_test_impl(ctx):
    tool = ctx.toolchains[TOOLCHAIN_TYPE].mlftool
    part = "tuner" if ctx.attr.packed else None
    with_test_packages = struct(
        bytecode = tool.bytecode,
        launcher = tool.launcher,
        packages = ctx.file._packages,
        python = tool.python,
    )
    tests = [
        file.short_path
        for file in ctx.files.srcs
        if file.basename.startswith("test_") and file.extension == "py"
    ]
    arguments = ["-p", "no:cacheprovider", "-o", "addopts=--strict-markers -m 'not slow'"] + tests
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(
        script,
        launcher_script(with_test_packages, "pytest", arguments, before = [
            # Programs that a test starts find what the test itself finds.
            "export PYTHONPATH=\"$PWD:$PWD/%s\"" % ctx.file._packages.short_path.rsplit("/", 2)[0],
            # The first of them compiles our modules, as long as all that it does besides; it keeps the bytecode
            # beside the sources, in this test's sandbox.
            "unset PYTHONDONTWRITEBYTECODE",
            "export HOME=\"$TEST_TMPDIR\"",
            "set -- --basetemp=\"$TEST_TMPDIR/pytest\" --junitxml=\"${XML_OUTPUT_FILE:-/dev/null}\" \"$@\"",
        ], part = part),
        is_executable = True,
    )
    return [DefaultInfo(
        executable = script,
        runfiles = ctx.runfiles(
            files = [tool.launcher, ctx.file._interpreter] + ctx.files.srcs + ctx.files.data +
                    ([tool.bytecode[part]] if part else []),
            transitive_files = ctx.attr._test_packages[DefaultInfo].files,
        ),
    )]

pytest_test = rule(
    doc = "Runs the `test_*.py` among `srcs` with pytest, offline, with the packages of requirements-test.lock.",
    implementation = _pytest_test_impl,
    attrs = {
        "data": attr.label_list(allow_files = True, doc = "Other files the tests read."),
        "packed": attr.bool(doc = "Whether to take mlftool's modules, all of which are among `data`, from a pack."),
        "srcs": attr.label_list(mandatory = True, allow_files = True, doc = "Test files and what they import."),
        "_interpreter": attr.label(default = "@mlf_system//:python.txt", allow_single_file = True),
        "_packages": attr.label(
            default = "@mlf_python_test//:site/numpy/__init__.py",
            allow_single_file = True,
        ),
        "_test_packages": attr.label(default = "@mlf_python_test//:folder"),
    },
    test = True,
    toolchains = [TOOLCHAIN_TYPE],
)

# One call makes many targets, each named by its folder.
# buildifier: disable=unnamed-macro
def pytest_suites(shared, data, extra_data = {}, shards = {}, sizes = {}, tags = {}, timeouts = {}):
    """A `pytest_test` for each folder of tests below this package, named like the folder.

    Args:
      shared: files every suite may import: conftest.py and helpers.
      data: what every suite may read.
      extra_data: folder -> what it alone reads.
      shards: folder -> how many processes its tests are dealt out to, where it is not one.
      sizes: folder -> test size, which says how much memory it takes, where it is not `medium`.
      tags: folder -> tags.
      timeouts: folder -> timeout, where it is not `long`: ten times what a shard may take.
    """
    folders = {path.split("/")[0]: None for path in native.glob(["*/**/test_*.py", "*/test_*.py"])}
    for folder in folders:
        pytest_test(
            name = folder,
            size = sizes.get(folder, "medium"),
            timeout = timeouts.get(folder, "long"),
            srcs = shared + native.glob([folder + "/**/*"], exclude = ["**/__pycache__/**", "**/*.pyc"]),
            data = data + extra_data.get(folder, []),
            packed = True,
            shard_count = shards.get(folder),
            tags = tags.get(folder, []),
        )
