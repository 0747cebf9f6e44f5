"""Float models to integer ones, with the accuracy asked for."""

load(":calls.bzl", "check_attributes", "check_call", "check_common", "check_new")
load(":checks.bzl", "SHARED", "check_extension", "check_shapes", "check_values", "public_label", "public_name")
load(":cpus.bzl", "device_of")
load(":inputs.bzl", "INPUT_ATTRS", "add_inputs")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")
load(":options.bzl", "OPTIONS")
load(":shared.bzl", "make_shared", fetch_quantized = "mlf_quantize")
load(":transitions.bzl", "ALLOWLIST", "model_transition")

def _mlf_quantize_impl(ctx):
    label, attr = public_label(ctx), ctx.attr
    check_extension(ctx, "model", ["onnx"])
    check_extension(ctx, "samples", ["npz"])
    check_shapes(ctx)
    check_values(ctx)
    device_of(attr.target, "%s: error[MLF0414]: target" % label)
    name = public_name(ctx)
    model = ctx.actions.declare_file("{0}.files/{0}.onnx".format(name))
    report = ctx.actions.declare_file("{0}.files/{0}.json".format(name))
    args = ctx.actions.args()
    args.add("quantize")
    args.add(ctx.file.model)
    args.add("--data", ctx.file.samples)
    args.add("-o", model)
    args.add("--report", report)
    args.add("--target", attr.target)
    args.add("--optimize", attr.optimize)

    # No compiler is among the inputs; the simulation is the same numbers.
    args.add("--simulate")
    if attr.metric:
        args.add("--metric", attr.metric)
    if attr.at_least:
        args.add("--at-least", attr.at_least)
    if attr.flash_bytes:
        args.add("--flash", str(attr.flash_bytes))
    args.add_all(ctx.files.data, before_each = "--model-data")
    add_inputs(args, attr)
    run_mlftool(
        ctx,
        "tuner",
        "mlftool",
        [args],
        inputs = [ctx.file.model, ctx.file.samples] + ctx.files.data + ctx.files._quantize_packages,
        outputs = [model, report],
        mnemonic = "MlfQuantize",
        packages = ctx.file._packages,
        progress_message = "Quantising %s" % ctx.file.model.short_path,
    )
    return [DefaultInfo(files = depset([model])), OutputGroupInfo(report = depset([report]))]

_QUANTIZE_ATTRS = dict(INPUT_ATTRS, **{
    "at_least": attr.string(
        doc = """The accuracy to keep, such as `"97%"`, of `sqnr` `"30dB"`; of `mse` at most this. Default: 0.3 points
less than the float model has.""",
    ),
    "flash_bytes": attr.int(doc = "The most bytes of constants. Default: no limit."),
    "metric": attr.string(
        doc = "The metric of accuracy: `top1`, `auc`, `agreement`, `sqnr` or `mse`. Default: `top1` with labels, else `agreement`.",
    ),
    "model": attr.label(mandatory = True, allow_single_file = True, doc = "The float ONNX file."),
    "optimize": attr.string(
        default = "speed",
        values = OPTIONS["optimize"].values,
        doc = "As in `mlf_compile`: costs are those of such an archive.",
    ),
    "samples": attr.label(
        mandatory = True,
        allow_single_file = True,
        doc = "`.npz` with samples of the inputs by name, and `labels` or expected outputs.",
    ),
    "target": attr.string(default = "cortex-m4", doc = "The target whose costs are used."),
    "_allowlist_function_transition": attr.label(default = ALLOWLIST),
    "_packages": attr.label(
        default = Label("@mlf_python_quantize//:site/numpy/__init__.py"),
        allow_single_file = True,
    ),
    "_quantize_packages": attr.label(default = Label("@mlf_python_quantize//:folder")),
})

_quantized_model = rule(
    doc = """An integer ONNX model from a float one, within limits of accuracy and flash.

```starlark
mlf_quantize(name = "keyword_int8", model = "keyword.onnx", samples = "train_sample.npz", at_least = "97%")

mlf_compile(name = "keyword", model = ":keyword_int8", target = "cortex-m4")
```

The output group `report` has the report of `mlftool quantize`, as JSON. docs/quantize.md describes
the method. The action uses no compiler and no network, and is cached like any other; the same
inputs give the same bytes.""",
    implementation = _mlf_quantize_impl,
    attrs = _QUANTIZE_ATTRS,
    cfg = model_transition,
    toolchains = [TOOLCHAIN_TYPE],
)

def mlf_quantize(name, **attributes):
    """`_quantized_model` for all configurations; its attributes are documented there.

    Args:
      name: of the target.
      **attributes: those of `_quantized_model`, and what Bazel gives every rule.
    """
    check_call(name)
    check_new(name, [name, name + SHARED])
    check_attributes(name, attributes, _QUANTIZE_ATTRS)
    check_common(name, attributes)
    make_shared(_quantized_model, fetch_quantized, name, attributes, name + ".onnx")
