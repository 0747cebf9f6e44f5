"""The standard's backend suite as Bazel targets: one action compiles all cases, groups of them run."""

load("@mlf_system//:tools.bzl", "PYTHON")
load("//rules/private:mlftool.bzl", "ENVIRONMENT", "FLAGS", "TOOLCHAIN_TYPE", "import_path")  # buildifier: disable=bzl-visibility
load("//rules/private:pytest.bzl", "pytest_test")  # buildifier: disable=bzl-visibility

def _conformance_programs_impl(ctx):
    tool = ctx.toolchains[TOOLCHAIN_TYPE].mlftool
    arguments = ctx.actions.args()
    arguments.add_all(FLAGS)
    arguments.add(tool.launcher)
    arguments.add(import_path(tool.launcher, ctx.file._packages))
    arguments.add("tests.conformance.compiling")
    arguments.add_all(ctx.outputs.outs)
    ctx.actions.run(
        executable = PYTHON,
        arguments = [arguments],
        inputs = depset(
            [tool.launcher, ctx.file._interpreter] + ctx.files.srcs,
            transitive = [ctx.attr._test_packages[DefaultInfo].files],
        ),
        outputs = ctx.outputs.outs,
        env = dict(ENVIRONMENT, MLFTOOL_TEST_CACHE = "off"),  # all that it reads is declared
        mnemonic = "MlfConformance",
        progress_message = "Compiling the backend cases of the onnx package",
    )
    return [DefaultInfo(files = depset(ctx.outputs.outs))]

_conformance_programs = rule(
    doc = "Compiles every backend case of the installed onnx package and writes them in groups.",
    implementation = _conformance_programs_impl,
    attrs = {
        "outs": attr.output_list(mandatory = True, doc = "One file for each group."),
        "srcs": attr.label_list(mandatory = True, allow_files = True, doc = "Our compiler and the suite's reader."),
        "_interpreter": attr.label(default = "@mlf_system//:python.txt", allow_single_file = True),
        "_packages": attr.label(
            default = "@mlf_python_test//:site/numpy/__init__.py",
            allow_single_file = True,
        ),
        "_test_packages": attr.label(default = "@mlf_python_test//:folder"),
    },
    toolchains = [TOOLCHAIN_TYPE],
)

def conformance_tests(name, groups, compiler, judges):
    """A test for each group of cases; it runs again when the C of one of its cases changes.

    Args:
      name: the suite of all of them.
      groups: how many.
      compiler: what it takes to compile cases.
      judges: what it takes to run and judge them.
    """
    numbers = [("0%d" % k)[-2:] for k in range(groups)]
    _conformance_programs(
        name = name + "_programs",
        testonly = True,
        srcs = compiler,
        outs = ["%s_%s.trials" % (name, number) for number in numbers],
    )
    for number in numbers:
        trials = "%s_%s.trials" % (name, number)
        pytest_test(
            name = "%s_%s" % (name, number),
            srcs = judges,
            args = ["--trials=$(rootpath %s)" % trials],
            data = [trials],
            timeout = "long",
        )
    native.test_suite(
        name = name,
        tests = ["%s_%s" % (name, number) for number in numbers],
    )
