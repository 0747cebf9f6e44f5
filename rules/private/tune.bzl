"""Tuning records made by the build: which kernels need the fewest instructions on a simulated board."""

load("@mlf_system//:machines.bzl", "TOOLCHAINS")
load(":calls.bzl", "check_attributes", "check_call", "check_common", "check_new")
load(":checks.bzl", "SHARED", "check_extension", "check_shapes", "check_values", "public_label", "public_name")
load(":cpus.bzl", "CPUS", "is_bare", "missing_simulator", "simulator_of")
load(":inputs.bzl", "INPUT_ATTRS", "add_inputs")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")
load(":options.bzl", "OPTIONS")
load(":shared.bzl", "make_shared", fetch_tuning = "mlf_tune")
load(":simulation.bzl", "SIMULATION_ATTRS", "simulation_requirements")
load(":transitions.bzl", "ALLOWLIST", "model_transition")

def _mlf_tune_impl(ctx):
    label = public_label(ctx)
    check_extension(ctx, "model", ["onnx"])
    check_shapes(ctx)
    check_values(ctx)
    if not ctx.attr.targets:
        fail("%s: error[MLF0414]: targets: got none, expected targets with a simulated board" % label)
    for target in ctx.attr.targets:
        # Simulators of boards count, those of an operating system do not.
        if not is_bare(target):
            known = ", ".join(sorted([name for name in CPUS if is_bare(name)]))
            fail("%s: error[MLF0414]: targets: got '%s', expected targets with a simulated board: %s" % (label, target, known))
        install = missing_simulator(simulator_of(target))
        if install:
            fail("%s: error[MLF0700]: the simulator of %s is not installed; run: %s" % (label, target, install))
    record = ctx.actions.declare_file("{0}.files/{0}.json".format(public_name(ctx)))
    args = ctx.actions.args()
    args.add("tune")
    args.add(ctx.file.model)
    args.add("-o", record)
    args.add_all(ctx.attr.targets, before_each = "--target")
    args.add("--float-mode", ctx.attr.float_mode)
    args.add("--flags=" + ctx.attr.optimisation)
    args.add_all(ctx.files.data, before_each = "--data")
    add_inputs(args, ctx.attr)
    inputs = [ctx.file.model, ctx.file._qemu] + ctx.files.data + ctx.files._compilers
    if ctx.file.inputs:
        args.add("--inputs", ctx.file.inputs)
        inputs.append(ctx.file.inputs)
    run_mlftool(
        ctx,
        "tuner",
        "mlftool",
        [args],
        inputs = inputs,
        outputs = [record],
        mnemonic = "MlfTune",
        progress_message = "Counting instructions of kernels for %s" % ctx.file.model.short_path,
        execution_requirements = simulation_requirements(ctx, True),
    )
    return [DefaultInfo(files = depset([record]))]

_TUNE_ATTRS = dict(INPUT_ATTRS, **{
    "float_mode": attr.string(
        default = "exact",
        values = OPTIONS["float_mode"].values,
        doc = "As in `mlf_compile`; a record is for one mode.",
    ),
    "inputs": attr.label(
        allow_single_file = [".npz"],
        doc = "Instructions are counted on the first sample. Default: a fixed pattern.",
    ),
    "model": attr.label(mandatory = True, allow_single_file = True, doc = "The ONNX or TensorFlow Lite file."),
    "optimisation": attr.string(
        default = "-O2",
        values = ["-O2", "-O3", "-Os"],
        doc = "The optimisation level for the C: use that of the final build. The default is that of `mlf_cc_library`.",
    ),
    "targets": attr.string_list(mandatory = True, doc = "Targets with a simulated board."),
    "_allowlist_function_transition": attr.label(default = ALLOWLIST),
    "_compilers": attr.label_list(
        default = ["@mlf_system//:%s.txt" % name for name in sorted(TOOLCHAINS)],
        allow_files = True,
    ),
    "_qemu": attr.label(default = "@mlf_system//:simulators.txt", allow_single_file = True),
})

_tuning_record = rule(
    doc = """A tuning record: which of the kernels that can compute a layer needs the fewest instructions.

```starlark
mlf_tune(name = "keyword_tuned", model = "keyword.onnx", targets = ["cortex-m4"])

mlf_golden_test(name = "keyword_tuned_test", src = ":keyword_tuned", golden = "keyword.tuning.json")

mlf_compile(name = "keyword", model = "keyword.onnx", target = "cortex-m4", tuning = "keyword.tuning.json")
```

A build action counts the kernels on the simulated boards, so the record is cached like any other
output. A committed record saves everyone else the simulation; `bazel run //:keyword_tuned_test --
--update` writes it, and the test fails if a new model, compiler or mlftool changes the counts. With
`tuning = ":keyword_tuned"` you need no committed copy.""",
    implementation = _mlf_tune_impl,
    attrs = dict(_TUNE_ATTRS, **SIMULATION_ATTRS),
    cfg = model_transition,
    toolchains = [TOOLCHAIN_TYPE],
)

def mlf_tune(name, **attributes):
    """`_tuning_record` for all configurations; its attributes are documented there.

    Args:
      name: of the target.
      **attributes: those of `_tuning_record`, and what Bazel gives every rule.
    """
    check_call(name)
    check_new(name, [name, name + SHARED])
    check_attributes(name, attributes, _TUNE_ATTRS)
    check_common(name, attributes)
    make_shared(_tuning_record, fetch_tuning, name, attributes, name + ".json")
