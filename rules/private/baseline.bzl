"""Measurements against those that are committed."""

load(":checks.bzl", "check_numbers", "check_source", "infos_of")
load(":labels.bzl", "shown")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "launcher_script")
load(":providers.bzl", "MlfReportInfo")
load(":size.bzl", "mlf_size_aspect", "sizes_of")

def _mlf_baseline_test_impl(ctx):
    check_numbers(ctx, ["tolerance"])
    programs = [(target.label.name, sizes_of(ctx, "programs", target)) for target in ctx.attr.programs]
    if programs and not ctx.attr.reports:
        infos = []
    else:
        infos = infos_of(ctx, "reports", MlfReportInfo)
    names = [name for name, _ in programs]
    for i, name in enumerate(names):
        if name in names[:i]:
            fail("%s: error[MLF0414]: programs: got two that are called %s, expected names of their own; rows are called by them" %
                 (shown(ctx.label), name))
    rows = ctx.actions.declare_file(ctx.label.name + "_rows.json")
    ctx.actions.write(rows, json.encode(struct(
        programs = [struct(sizes = sizes.short_path, title = name) for name, sizes in programs],
        reports = [
            struct(cpu = info.runner.cpu, report = info.report.short_path, title = info.title)
            for info in infos
        ],
    )))
    tool = ctx.toolchains[TOOLCHAIN_TYPE].mlftool
    baseline = check_source(ctx, "baseline")
    arguments = [rows.short_path, baseline.short_path, ctx.attr.tolerance, baseline.path, shown(ctx.label)]
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    text = launcher_script(tool, "rules.private.tools.baseline", arguments, part = "runtime")
    ctx.actions.write(script, text, is_executable = True)
    return [DefaultInfo(
        executable = script,
        runfiles = ctx.runfiles(
            files = [rows, baseline] + [info.report for info in infos] + [sizes for _, sizes in programs],
            transitive_files = tool.runtime,
        ),
    )]

mlf_baseline_test = rule(
    doc = """Fails when measurements differ from a committed file: flash, RAM, stack, workspace,
constants and instructions of each report; flash, RAM, workspace and constants of each program and of each
model in it.

```starlark
load("@models//:defs.bzl", "REPORTS")

mlf_baseline_test(name = "sizes_test", baseline = "sizes.json", reports = REPORTS)
```

Start with a file that contains `{}`. `bazel run //:sizes_test -- --update` writes the current
measurements, and `-- --markdown` prints the changes as a table, for a comment on a pull request;
`-- --markdown=comment.md` writes it to a file, without the output of `bazel run`. `programs` need no
run on a simulated board.""",
    implementation = _mlf_baseline_test_impl,
    attrs = {
        "baseline": attr.label(
            mandatory = True,
            allow_single_file = [".json"],
            doc = "The file in the source tree.",
        ),
        "programs": attr.label_list(
            aspects = [mlf_size_aspect],
            doc = "Any `cc_binary`, `cc_test` or `mlf_firmware`, each by its name: see `mlf_size_aspect`.",
        ),
        "reports": attr.label_list(
            allow_files = True,
            doc = "The `mlf_report` targets, each by its title and processor.",
        ),
        "tolerance": attr.string(
            default = "0",
            doc = "Allowed change in percent, for instance between compilers.",
        ),
    },
    test = True,
    toolchains = [TOOLCHAIN_TYPE],
)
