"""What analysis says of targets of ours, against what docs/rules.md promises."""

load(
    "//rules:defs.bzl",
    "MlfBoardInfo",
    "MlfFirmwareInfo",
    "MlfInfo",
    "MlfModuleInfo",
    "MlfReportInfo",
    "MlfRunnerInfo",
)
load("//rules/private:cc.bzl", "CcInfo")  # buildifier: disable=bzl-visibility
load("//rules/private:simulation.bzl", "SIMULATION_ATTRS", "simulation_requirements")  # buildifier: disable=bzl-visibility
load(":analysistest.bzl", "ObservedInfo", "fields_of", "mnemonics", "observing_test", "verdict")

def _name(file):
    return file.basename if file else None

def _archive_test_impl(ctx):
    info = ctx.attr.target[MlfInfo]
    return verdict([
        ("MlfInfo", fields_of(info), ["archive", "executors", "modules", "target"]),
        ("archive", _name(info.archive), ctx.attr.archive),
        ("executors", info.executors, ctx.attr.executors),
        ("modules", info.modules, ctx.attr.modules),
        ("target", info.target, ctx.attr.compiled_for),
        ("files", [f.basename for f in ctx.attr.target[DefaultInfo].files.to_list()], [ctx.attr.archive]),
    ])

archive_test = observing_test(
    _archive_test_impl,
    archive = attr.string(mandatory = True),
    compiled_for = attr.string(),
    executors = attr.string_dict(),
    modules = attr.string_list(),
)

def _module_test_impl(ctx):
    info = ctx.attr.target[MlfModuleInfo]
    return verdict([
        ("MlfModuleInfo", fields_of(info), ["files", "spec"]),
        ("files", [f.basename for f in info.files], ["gesture_int8.onnx"]),
        ("spec", fields_of(info.spec), [
            "backend_files",
            "data_files",
            "executor",
            "input_shapes",
            "input_values",
            "mlf_version",
            "model",
            "module_name",
            "options",
            "target",
            "tuning",
        ]),
        ("spec.module_name", info.spec.module_name, "gesture"),
        ("spec.executor", info.spec.executor, "graph"),
        ("spec.options", info.spec.options, {"link_params": 1}),
        ("spec.target", info.spec.target, "cortex-m4"),
        ("actions", mnemonics(ctx.attr.target[ObservedInfo]), {}),
    ])

module_test = observing_test(_module_test_impl)

def _board_test_impl(ctx):
    info = ctx.attr.target[MlfBoardInfo]
    return verdict([
        ("MlfBoardInfo", fields_of(info), ["description", "simulator"]),
        ("description", _name(info.description), ctx.attr.description or None),
        ("simulator", info.simulator, ctx.attr.simulator),
    ])

board_test = observing_test(_board_test_impl, description = attr.string(), simulator = attr.string_list())

def _firmware_test_impl(ctx):
    info = ctx.attr.target[MlfFirmwareInfo]
    stem = ctx.attr.target.label.name
    groups = ctx.attr.target[OutputGroupInfo]
    return verdict([
        ("MlfFirmwareInfo", fields_of(info), ["bin", "cpu", "description", "elf", "hex", "map", "simulator"]),
        ("cpu", info.cpu, ctx.attr.cpu),
        ("simulator", info.simulator[0], "qemu-system-arm"),
        ("checks of limits", sorted([f.basename for f in groups._validation.to_list()]), ctx.attr.checks),
    ] + [
        (kind, _name(getattr(info, kind)), stem + "." + kind)
        for kind in ["bin", "elf", "hex", "map"]
    ] + [
        ("group " + kind, getattr(groups, kind).to_list(), [getattr(info, kind)])
        for kind in ["bin", "elf", "hex", "map"]
    ])

firmware_info_test = observing_test(_firmware_test_impl, checks = attr.string_list(), cpu = attr.string(mandatory = True))

def _runner_test_impl(ctx):
    runner = ctx.attr.target[MlfRunnerInfo]
    return verdict([
        ("MlfRunnerInfo", fields_of(runner), ["archive", "cpu", "description", "elf", "images", "module", "simulator"]),
        ("cpu", runner.cpu, ctx.attr.cpu),
        ("module", runner.module, ctx.attr.module),
        ("images", [f.extension for f in runner.images], ctx.attr.images),
    ])

runner_test = observing_test(
    _runner_test_impl,
    cpu = attr.string(mandatory = True),
    images = attr.string_list(),
    module = attr.string(mandatory = True),
)

def _report_test_impl(ctx):
    info = ctx.attr.target[MlfReportInfo]
    return verdict([
        ("MlfReportInfo", fields_of(info), ["report", "runner", "title"]),
        ("report", _name(info.report), ctx.attr.target.label.name + ".json"),
        ("title", info.title, ctx.attr.title),
    ])

report_test = observing_test(_report_test_impl, title = attr.string(mandatory = True))

def _headers_test_impl(ctx):
    # Those that code may include which depends on the library, where `layering_check` is on.
    own = ctx.attr.target[CcInfo].compilation_context.direct_public_headers
    names = {f.basename: None for f in own}
    return verdict([("headers", [n for n in ctx.attr.headers if n in names], ctx.attr.headers)])

headers_test = observing_test(_headers_test_impl, headers = attr.string_list(mandatory = True))

def _actions_test_impl(ctx):
    found = mnemonics(ctx.attr.target[ObservedInfo])
    return verdict([("actions", found, {name: int(count) for name, count in ctx.attr.actions.items()})])

actions_test = observing_test(_actions_test_impl, actions = attr.string_dict())

def _kind_test_impl(ctx):
    observed = ctx.attr.target[ObservedInfo]
    return verdict([
        ("kind", observed.kind, ctx.attr.kind),
        # Whatever is hidden is manual, and may have been before.
        ("tags", sorted({tag: None for tag in observed.tags}), sorted(ctx.attr.wanted)),
        ("testonly", observed.testonly, ctx.attr.only_tests),
    ])

kind_test = observing_test(
    _kind_test_impl,
    kind = attr.string(mandatory = True),
    only_tests = attr.bool(),
    wanted = attr.string_list(),
)

def _requirements_test_impl(ctx):
    attributes = struct(tags = ctx.attr.own, _simulators = ctx.attr._simulators)
    return verdict([(
        "execution requirements",
        simulation_requirements(struct(attr = attributes), ctx.attr.simulated),
        ctx.attr.wanted,
    )])

requirements_test = rule(
    implementation = _requirements_test_impl,
    attrs = dict(
        SIMULATION_ATTRS,
        own = attr.string_list(doc = "Tags of a target."),
        simulated = attr.bool(),
        wanted = attr.string_dict(),
    ),
    analysis_test = True,
)

def _anywhere_impl(_settings, _attr):
    return {"//rules/settings:simulators": "anywhere"}

_anywhere = transition(
    implementation = _anywhere_impl,
    inputs = [],
    outputs = ["//rules/settings:simulators"],
)

requirements_anywhere_test = rule(
    implementation = _requirements_test_impl,
    attrs = {
        "own": attr.string_list(),
        "simulated": attr.bool(),
        "wanted": attr.string_dict(),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
        "_simulators": attr.label(default = "//rules/settings:simulators"),
    },
    analysis_test = True,
    cfg = _anywhere,
)
