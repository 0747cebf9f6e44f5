"""A program of ours that `bazel run` starts, with what is written after `--`."""

load(":mlftool.bzl", "TOOLCHAIN_TYPE")
load(":run.bzl", "executable")

def _mlf_program_impl(ctx):
    return [executable(ctx, ctx.attr.module, [], [])]

mlf_program = rule(
    implementation = _mlf_program_impl,
    attrs = {"module": attr.string(mandatory = True, doc = "Dotted name.")},
    executable = True,
    toolchains = [TOOLCHAIN_TYPE],
)
