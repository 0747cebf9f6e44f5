"""Committed copies of what a build makes: compared by a test, written by `bazel run`."""

load(":checks.bzl", "check_source", "info_of")
load(":labels.bzl", "shown")
load(":mlftool.bzl", "TOOLCHAIN_TYPE", "run_mlftool")
load(":providers.bzl", "MlfRunnerInfo")
load(":run.bzl", "RUN_ATTRS", "executable", "path", "place_files", "place_of", "require_simulator")

def _mlf_vectors_impl(ctx):
    runner = info_of(ctx, "runner", MlfRunnerInfo)
    require_simulator(ctx, runner)
    files = [runner.archive, runner.elf, ctx.file.inputs] + place_files(ctx, runner)
    vectors = ctx.actions.declare_file(ctx.label.name + ".npz")
    args = ctx.actions.args()
    args.add_all([ctx.file.inputs, vectors, "run", runner.archive])
    args.add_all(["--module", runner.module, "--on", place_of(runner, path)])
    args.add("--runner", runner.elf)
    run_mlftool(
        ctx,
        "runner",
        "rules.private.tools.vectors",
        [args],
        inputs = files,
        outputs = [vectors],
        mnemonic = "MlfVectors",
        progress_message = "Running %s on %s for its outputs" % (runner.module, runner.cpu),
    )
    return [DefaultInfo(files = depset([vectors]))]

mlf_vectors = rule(
    doc = """Test vectors from a run of a module: an `.npz` with the inputs and the module's outputs.

These outputs do not prove that a module is correct. With an `mlf_golden_test`, which compares the
file with a committed one, they show that its outputs do not change.""",
    implementation = _mlf_vectors_impl,
    attrs = {
        "inputs": attr.label(
            mandatory = True,
            allow_single_file = [".npz"],
            doc = "Inputs under the model's own tensor names. Other arrays, such as `labels`, are kept.",
        ),
        "runner": RUN_ATTRS["runner"],
        "_qemu": RUN_ATTRS["_qemu"],
    },
    toolchains = [TOOLCHAIN_TYPE],
)

def _mlf_golden_test_impl(ctx):
    golden, made = check_source(ctx, "golden"), ctx.file.src
    if made.short_path == golden.short_path:
        # Among the runfiles one would stand for both, and the test could not fail.
        made = ctx.actions.declare_file("%s.files/%s" % (ctx.label.name, made.basename))
        ctx.actions.symlink(output = made, target_file = ctx.file.src)
    arguments = [made.short_path, golden.short_path, golden.path, shown(ctx.label)]
    return [executable(ctx, "rules.private.tools.golden", arguments, [made, golden])]

mlf_golden_test = rule(
    doc = """Fails when a file of the build differs from the committed one, and shows the differences.

```starlark
mlf_vectors(name = "keyword_vectors", inputs = "keyword.npz", runner = ":keyword_runner")

mlf_golden_test(name = "keyword_golden_test", src = ":keyword_vectors", golden = "keyword.npz")
```

`bazel run //:keyword_golden_test -- --update` writes the committed file; start with an empty one.
Arrays of `.npz` files are compared one by one, other files as text or bytes.""",
    implementation = _mlf_golden_test_impl,
    attrs = {
        "golden": attr.label(mandatory = True, allow_single_file = True, doc = "The file in the source tree."),
        "src": attr.label(mandatory = True, allow_single_file = True, doc = "The target that makes the file."),
    },
    test = True,
    toolchains = [TOOLCHAIN_TYPE],
)
