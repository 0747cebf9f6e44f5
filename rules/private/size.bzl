"""What the models of a program take of its memory: an aspect for any program, and a rule around it."""

load(":labels.bzl", "shown")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")
load(":providers.bzl", "MlfFirmwareInfo", "MlfInfo", "MlfSizeInfo")

# Where models can hide: libraries of libraries, and the parts of our own rules.
_EDGES = ["actual", "deps", "firmware", "image", "implementation_deps", "program", "runner", "srcs"]

def _infos(ctx, provider, edges):
    found = []
    for edge in edges:
        value = getattr(ctx.rule.attr, edge, None)
        for target in value if type(value) == "list" else [value]:
            if type(target) == "Target" and provider in target:
                found.append(target[provider])
    return found

def _program(target):
    """The linked program that a target makes, if it makes one."""
    if MlfFirmwareInfo in target:
        return target[MlfFirmwareInfo].elf
    executable = target[DefaultInfo].files_to_run.executable
    return executable if executable and not executable.extension in ["sh", "py", "bat"] else None

def _mlf_size_aspect_impl(target, ctx):
    archives = depset(
        [info.archive for info in _infos(ctx, MlfInfo, ["archive"])],
        transitive = [info.archives for info in _infos(ctx, MlfSizeInfo, _EDGES)],
    )
    program = _program(target)
    if not program:
        return [MlfSizeInfo(archives = archives, json = None, text = None)]
    report = ctx.actions.declare_file(ctx.label.name + ".mlf_size.json")
    text = ctx.actions.declare_file(ctx.label.name + ".mlf_size.txt")
    args = ctx.actions.args()
    args.add(program)
    args.add(shown(ctx.label))
    args.add_all([report, text])
    args.add_all(archives)
    run_mlftool(
        ctx,
        "runtime",
        "rules.private.tools.size",
        [args],
        inputs = [program] + archives.to_list(),
        outputs = [report, text],
        mnemonic = "MlfSize",
        progress_message = "Measuring the models of %s" % ctx.label,
    )
    return [
        MlfSizeInfo(archives = archives, json = report, text = text),
        OutputGroupInfo(mlf_size = depset([report, text])),
    ]

mlf_size_aspect = aspect(
    doc = """Measures the models of any program, `cc_binary`, `cc_test` or `mlf_firmware`, without a change to
its BUILD file:

```sh
bazel build //:sensor --aspects=@mlftool//rules:defs.bzl%mlf_size_aspect --output_groups=mlf_size
```

writes `sensor.mlf_size.json` and `sensor.mlf_size.txt` next to the program: for each linked model
the bytes of code, constants, flash, RAM and arena (the model's workspace, part of its RAM). The
figures are sums over the program's symbols, so code that the linker dropped is not counted; a
stripped program has no figures.""",
    implementation = _mlf_size_aspect_impl,
    attr_aspects = _EDGES,
    toolchains = [TOOLCHAIN_TYPE],
)

def sizes_of(ctx, attribute, target):
    """What the aspect has measured of a target; fails if that is no program.

    Args:
      ctx: the rule's context.
      attribute: the attribute that names the target.
      target: the Target.

    Returns:
      File: JSON as size.py writes it.
    """
    info = target[MlfSizeInfo]
    if not info.json:
        fail("%s: error[MLF0414]: %s: %s makes no program; expected a cc_binary, cc_test or mlf_firmware" %
             (shown(ctx.label), attribute, shown(target.label)))
    return info.json

def _mlf_size_report_impl(ctx):
    sizes_of(ctx, "program", ctx.attr.program)
    info = ctx.attr.program[MlfSizeInfo]
    script = ctx.actions.declare_file(ctx.label.name + ".sh")
    ctx.actions.write(script, "#!/bin/sh\nexec cat '%s'\n" % info.text.short_path, is_executable = True)
    return [
        DefaultInfo(
            executable = script,
            files = depset([info.json, info.text]),
            runfiles = ctx.runfiles(files = [info.text]),
        ),
        OutputGroupInfo(mlf_size = depset([info.json, info.text])),
    ]

mlf_size_report = rule(
    doc = """The results of `mlf_size_aspect` for a program, as a target: `bazel build` writes the
files, `bazel run` prints the table.

```starlark
mlf_size_report(name = "sensor_size", program = ":sensor")
```""",
    implementation = _mlf_size_report_impl,
    attrs = {
        "program": attr.label(
            mandatory = True,
            aspects = [mlf_size_aspect],
            doc = "A `cc_binary`, `cc_test` or `mlf_firmware`.",
        ),
    },
    executable = True,
)
