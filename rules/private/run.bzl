"""Runs a runner: as a test, as a build action that measures, and against a budget."""

load(":calls.bzl", "check_call", "check_common", "check_number", "text_of")
load(":checks.bzl", "check_numbers", "info_of", "infos_of", "limits_of")
load(":cpus.bzl", "missing_simulator", "simulator_of")
load(":labels.bzl", "shown")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "launcher_script", "run_mlftool")
load(":providers.bzl", "MlfFirmwareInfo", "MlfInfo", "MlfReportInfo", "MlfRunnerInfo")
load(":simulation.bzl", "SIMULATION_ATTRS", "run_tags", "simulation_requirements")

RUN_ATTRS = {
    "absolute": attr.string(
        doc = "Largest difference allowed, plus `relative` times the reference. Without both: by " +
              "data type, 1e-5 for float32 and 0 for integers.",
    ),
    "relative": attr.string(doc = "Allowed difference as a share of the reference."),
    "runner": attr.label(
        mandatory = True,
        allow_files = True,
        doc = "The `mlf_runner` to run.",
    ),
    "vectors": attr.label(
        mandatory = True,
        allow_single_file = [".npz"],
        doc = "Inputs and expected outputs under the model's own tensor names.",
    ),
    "_qemu": attr.label(default = "@mlf_system//:simulators.txt", allow_single_file = True),
}

def require_simulator(ctx, info):
    """Fails with what to do if nothing can run a program.

    Args:
      ctx: the context of a rule that runs something on a board.
      info: the program's MlfRunnerInfo or MlfFirmwareInfo.
    """
    if info.cpu == "host":
        return
    command = simulator_of(info.cpu) if info.simulator == None else info.simulator
    if not command:
        fail("%s: error[MLF0414]: nothing simulates the board of %s; give its mlf_board a simulator, or test on the host" %
             (shown(ctx.label), info.elf.short_path))
    install = missing_simulator(command)
    if install:
        fail("%s: error[MLF0700]: the simulator of %s is not installed; run: %s" % (shown(ctx.label), info.cpu, install))

def place_of(info, path):
    """Where a program runs, as `mlftool run --on` takes it.

    Args:
      info: an MlfRunnerInfo or MlfFirmwareInfo.
      path: function that gives a File's path where the command will run.

    Returns:
      The name of a target or board of ours, or the path of a user's board.json.
    """
    return path(info.description) if info.description else info.cpu

def place_files(ctx, info):
    """The files that running on a board needs.

    Args:
      ctx: context of a rule with a `_qemu` attribute.
      info: an MlfRunnerInfo or MlfFirmwareInfo.

    Returns:
      list of Files.
    """
    found = [] if info.cpu == "host" else [ctx.file._qemu]
    return found + ([info.description] if info.description else [])

def run_arguments(ctx, path, with_runner = True):
    """`mlftool run` for this target.

    Args:
      ctx: context of a rule with RUN_ATTRS.
      path: function that gives a File's path where the command will run.
      with_runner: whether to name the program; else the caller does.

    Returns:
      list of strings.
    """
    runner = info_of(ctx, "runner", MlfRunnerInfo)
    given = [name for name in ["absolute", "relative"] if getattr(ctx.attr, name)]
    check_numbers(ctx, given)
    tolerances = [word for name in given for word in ["--" + name, getattr(ctx.attr, name)]]
    require_simulator(ctx, runner)
    return [
        "run",
        path(runner.archive),
        "--module",
        runner.module,
        "--on",
        place_of(runner, path),
        "--inputs",
        path(ctx.file.vectors),
        "--expect",
        path(ctx.file.vectors),
    ] + tolerances + (["--runner", path(runner.elf)] if with_runner else [])

def run_inputs(ctx):
    """The files that `run_arguments` names.

    Args:
      ctx: context of a rule with RUN_ATTRS.

    Returns:
      list of Files.
    """
    runner = ctx.attr.runner[MlfRunnerInfo]
    return [runner.archive, runner.elf, ctx.file.vectors] + place_files(ctx, runner)

def path(file):
    """Where a file is for an action, as a function.

    Args:
      file: the File.

    Returns:
      Its path.
    """
    return file.path

def short_path(file):
    """Where a file is in runfiles, as a function.

    Args:
      file: File.

    Returns:
      string.
    """
    return file.short_path

def executable(ctx, module, arguments, files, part = "runtime", before = []):
    """A program that runs a module of ours.

    Args:
      ctx: context of a rule that is executable and declares TOOLCHAIN_TYPE.
      module: dotted name.
      arguments: list of strings.
      files: list of Files it reads.
      part: which of the toolchain's files it needs.
      before: lines of shell to run first.

    Returns:
      DefaultInfo.
    """
    tool = ctx.toolchains[TOOLCHAIN_TYPE].mlftool
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(script, launcher_script(tool, module, arguments, before, part), is_executable = True)
    return DefaultInfo(
        executable = script,
        runfiles = ctx.runfiles(files = files, transitive_files = getattr(tool, part)),
    )

_CACHE = "export MLFTOOL_CACHE=\"$TEST_TMPDIR/cache\""

def _mlf_test_impl(ctx):
    on_host = info_of(ctx, "runner", MlfRunnerInfo).cpu == "host"
    if on_host == ctx.attr.on_board:
        fail("%s: error[MLF0414]: runner: got %s, which runs on %s; take %s" % (
            shown(ctx.label),
            shown(ctx.attr.runner.label),
            "the host" if on_host else "a board",
            "mlf_host_test, or give the mlf_runner a platform" if on_host else "mlf_device_test",
        ))
    return [executable(
        ctx,
        "mlftool",
        run_arguments(ctx, short_path),
        run_inputs(ctx),
        "runner",
        [_CACHE],
    )]

_mlf_run_test = rule(
    implementation = _mlf_test_impl,
    attrs = dict(RUN_ATTRS, on_board = attr.bool()),
    test = True,
    toolchains = [TOOLCHAIN_TYPE],
)

def _run_test(name, kind, runner, vectors, absolute, relative, size, common):
    check_call(name, runner = (runner, "label"), vectors = (vectors, "label"))
    check_number(name, absolute = absolute, relative = relative)
    check_common(name, common)
    common = dict(common, size = common.get("size", size), tags = run_tags(kind) + (common.get("tags") or []))
    _mlf_run_test(
        name = name,
        absolute = text_of(absolute),
        on_board = kind == "device",
        relative = text_of(relative),
        runner = runner,
        vectors = vectors,
        **common
    )

def mlf_host_test(name, runner, vectors, absolute = "", relative = "", **kwargs):
    """Runs a module on the host and compares every output with the reference.

    Args:
      name: the test's name.
      runner: an `mlf_runner` without platform.
      vectors: `.npz` file with inputs and expected outputs.
      absolute: largest difference allowed; "0" means equal. Without it and `relative` the data type
        decides: 1e-5 and 1e-5 for float32, 0 for integers.
      relative: allowed difference as a share of the reference, added to `absolute`.
      **kwargs: `tags` in addition to `mlf_kind=host`, `size`, `visibility` and so on.
    """
    _run_test(name, "host", runner, vectors, absolute, relative, "small", kwargs)

def mlf_device_test(name, runner, vectors, absolute = "", relative = "", **kwargs):
    """Runs a module on a simulated board and compares every output with the reference.

    Args:
      name: the test's name.
      runner: an `mlf_runner` with a platform.
      vectors: `.npz` file with inputs and expected outputs.
      absolute: largest difference allowed; "0" means equal. Without it and `relative` the data type
        decides: 1e-5 and 1e-5 for float32, 0 for integers.
      relative: allowed difference as a share of the reference, added to `absolute`.
      **kwargs: `tags` in addition to `mlf_kind=device`, `size`, `visibility` and so on.
    """
    _run_test(name, "device", runner, vectors, absolute, relative, "medium", kwargs)

def _driven(ctx, firmware):
    """A host of the image: `mlftool run --driven` with the vectors."""
    if not ctx.attr.archive or not ctx.file.vectors:
        fail("%s: error[MLF0414]: archive, vectors: got one of them, expected both: what the image contains, and what it must compute" %
             shown(ctx.label))
    if ctx.attr.arguments:
        fail("%s: error[MLF0414]: arguments: got some, expected none: a host drives the image" % shown(ctx.label))
    info = info_of(ctx, "archive", MlfInfo)
    module = ctx.attr.module or info.modules[0]
    vectors = ctx.file.vectors.short_path
    words = ["run", info.archive.short_path, "--module", module, "--driven", "--inputs", vectors, "--expect", vectors]
    arguments = words + ["--on", place_of(firmware, short_path), "--runner", firmware.elf.short_path]
    files = [firmware.elf, info.archive, ctx.file.vectors] + place_files(ctx, firmware)
    return [executable(ctx, "mlftool", arguments, files, "runner", [_CACHE])]

def _mlf_firmware_test_impl(ctx):
    firmware = info_of(ctx, "firmware", MlfFirmwareInfo)
    require_simulator(ctx, firmware)
    if ctx.attr.archive or ctx.file.vectors:
        return _driven(ctx, firmware)
    return [executable(
        ctx,
        "rules.private.tools.simulate",
        [place_of(firmware, short_path), firmware.elf.short_path] + ctx.attr.arguments,
        [firmware.elf] + place_files(ctx, firmware),
        "runner",
    )]

mlf_firmware_test = rule(
    doc = """Runs a firmware image on the simulated board and passes when its `main` returns 0.

```starlark
mlf_firmware_test(
    name = "sensor_test",
    firmware = ":sensor",
)
```

An image with `driven` waits for a host. With `archive` and `vectors` the test acts as the host on
the board's UART, and compares outputs as `mlf_device_test` does:

```starlark
mlf_firmware_test(
    name = "bench_test",
    archive = ":keyword",
    firmware = ":bench",
    vectors = "keyword.npz",
)
```

The test's log has the text that the program prints with `platform_print` (`//crt:platform_headers`).""",
    implementation = _mlf_firmware_test_impl,
    attrs = {
        "archive": attr.label(doc = "The archive whose module a driven image has."),
        "arguments": attr.string_list(doc = "The program's `argv`, from `argv[1]` on."),
        "firmware": attr.label(
            mandatory = True,
            allow_files = True,
            doc = "The `mlf_firmware` to run; its platform is one of `//rules/platforms` with a board.",
        ),
        "module": attr.string(doc = "Which module of `archive` is driven. Default: its first."),
        "vectors": attr.label(
            allow_single_file = [".npz"],
            doc = "Inputs and expected outputs for a driven image, under the model's own tensor names.",
        ),
        "_qemu": attr.label(default = "@mlf_system//:simulators.txt", allow_single_file = True),
    },
    test = True,
    toolchains = [TOOLCHAIN_TYPE],
)

def _mlf_report_impl(ctx):
    runner = info_of(ctx, "runner", MlfRunnerInfo)
    report = ctx.actions.declare_file(ctx.label.name + ".json")
    args = ctx.actions.args()
    args.add_all(run_arguments(ctx, path))
    args.add("--report", report)
    run_mlftool(
        ctx,
        "runner",
        "rules.private.tools.report",
        [args],
        inputs = run_inputs(ctx),
        outputs = [report],
        mnemonic = "MlfReport",
        progress_message = "Running %s on %s" % (runner.module, runner.cpu),
        execution_requirements = simulation_requirements(ctx, runner.cpu != "host"),
    )
    return [
        DefaultInfo(files = depset([report])),
        MlfReportInfo(
            report = report,
            runner = runner,
            title = ctx.attr.title or runner.module,
        ),
    ]

mlf_report = rule(
    doc = """Runs a module during the build and writes the measurements: a JSON file with errors
against the reference, accuracy, flash, RAM, stack and instructions per inference.

Wrong results do not fail the build; the report lists them. `mlf_host_test` and `mlf_device_test`
fail.

A board is simulated on the machine where Bazel runs, also with remote execution, unless you set
`--@mlftool//rules/settings:simulators=anywhere`; `tags` such as `local` or `no-cache` apply to the
action.""",
    implementation = _mlf_report_impl,
    attrs = dict(
        dict(RUN_ATTRS, **SIMULATION_ATTRS),
        title = attr.string(doc = "Name in tables. Default: the module's."),
    ),
    provides = [MlfReportInfo],
    toolchains = [TOOLCHAIN_TYPE],
)

_LIMITS = {
    "flash_bytes": "Code and constants of the whole program.",
    "instructions": "Instructions per inference on the simulated board.",
    "ram_bytes": "Static data of the whole program, the model's workspace included.",
    "stack_bytes": "Deepest stack during an inference.",
    "workspace_bytes": "The model's own working memory.",
}

def _mlf_budget_test_impl(ctx):
    limits = limits_of(ctx, sorted(_LIMITS))
    if not limits:
        fail("%s: error[MLF0414]: a budget needs at least one of: %s" % (shown(ctx.label), ", ".join(sorted(_LIMITS))))
    report = info_of(ctx, "report", MlfReportInfo).report
    arguments = [report.short_path] + ["%s=%d" % item for item in sorted(limits.items())]
    return [executable(ctx, "rules.private.tools.budget", arguments, [report])]

mlf_budget_test = rule(
    doc = """Fails when a report exceeds a limit.

```starlark
mlf_budget_test(
    name = "keyword_fits",
    flash_bytes = 96 * 1024,
    ram_bytes = 24 * 1024,
    report = ":keyword_report",
)
```""",
    implementation = _mlf_budget_test_impl,
    attrs = dict(
        {name: attr.int(default = -1, doc = text) for name, text in _LIMITS.items()},
        report = attr.label(
            mandatory = True,
            allow_files = True,
            doc = "The `mlf_report` to check.",
        ),
    ),
    test = True,
    toolchains = [TOOLCHAIN_TYPE],
)

def _mlf_summary_impl(ctx):
    infos = infos_of(ctx, "reports", MlfReportInfo)
    requests = {}
    for kind in ["run", "table"]:
        rows = [
            struct(
                archive = info.runner.archive.path,
                cpu = info.runner.cpu,
                images = [file.path for file in [info.runner.elf] + info.runner.images],
                report = info.report.short_path if kind == "run" else info.report.path,
                title = info.title,
            )
            for info in infos
        ]
        requests[kind] = ctx.actions.declare_file("%s_%s.json" % (ctx.label.name, kind))
        ctx.actions.write(requests[kind], json.encode(rows))
    reports = [info.report for info in infos]
    table = ctx.actions.declare_file(ctx.label.name + ".txt")
    run_mlftool(
        ctx,
        "console",
        "rules.private.tools.summary",
        [requests["table"].path, table.path],
        inputs = [requests["table"]] + reports,
        outputs = [table],
        mnemonic = "MlfSummary",
        progress_message = "Writing the table %s" % ctx.label.name,
    )
    made = [file for info in infos for file in [info.runner.archive, info.runner.elf] + info.runner.images]
    files = [requests["run"]] + reports + made
    words = [requests["run"].short_path]
    return [
        executable(ctx, "rules.private.tools.summary", words, files, "console"),
        OutputGroupInfo(table = depset([table])),
    ]

mlf_summary = rule(
    doc = """A program (`bazel run`) that prints a table of reports and the paths of archives and images.

The output group `table` has the table as a file, for an `mlf_golden_test`.""",
    implementation = _mlf_summary_impl,
    attrs = {
        "reports": attr.label_list(
            mandatory = True,
            allow_files = True,
            doc = "The `mlf_report` targets, a row each.",
        ),
    },
    executable = True,
    toolchains = [TOOLCHAIN_TYPE],
)
