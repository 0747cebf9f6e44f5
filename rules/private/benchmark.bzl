"""What an inference costs, printed by `bazel run`."""

load(":labels.bzl", "shown")
load(":mlftool.bzl", "TOOLCHAIN_TYPE")
load(":run.bzl", "RUN_ATTRS", "executable", "run_arguments", "run_inputs", "short_path")

def _mlf_benchmark_impl(ctx):
    if ctx.attr.repetitions < 1:
        fail("%s: error[MLF0414]: repetitions: got %d, expected 1 or more" % (shown(ctx.label), ctx.attr.repetitions))
    arguments = run_arguments(ctx, short_path) + ["--repetitions", str(ctx.attr.repetitions)]
    return [executable(ctx, "mlftool", arguments, run_inputs(ctx), "runner")]

mlf_benchmark = rule(
    doc = """A program (`bazel run`) that prints what an inference costs: microseconds on the host, instructions
on a simulated board, and there also flash, RAM and the deepest stack.

```starlark
mlf_benchmark(
    name = "keyword_benchmark",
    runner = ":keyword_runner",
    vectors = "keyword.npz",
)
```

`bazel run -c opt //:keyword_benchmark -- --json` prints the same for scripts. The program compares
the outputs with the vectors first.""",
    implementation = _mlf_benchmark_impl,
    attrs = dict(RUN_ATTRS, repetitions = attr.int(
        default = 10,
        doc = "Counted inferences per sample. On a simulated board all take the same.",
    )),
    executable = True,
    toolchains = [TOOLCHAIN_TYPE],
)
