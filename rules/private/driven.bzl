"""Firmware that a host drives over a line: the server, and memory for its sessions."""

load(":cc.bzl", "cc_library")
load(":common.bzl", "for_hidden")

def driven_library(name, board, workspace_bytes, given):
    """The library with `main` that makes an image a driven one.

    Args:
      name: of the library.
      board: whether the user's own board has the functions of `rpc_line.h`.
      workspace_bytes: the memory of sessions.
      given: dict: what the macro was called with.
    """
    cc_library(
        name = name,
        srcs = [Label("//crt:rpc/rpc_main.c"), Label("//crt:rpc/rpc_platform.c")],
        copts = [
            "-std=c99",
            "-O2",
            "-ffp-contract=off",
            "-DTVM_WORKSPACE_SIZE_BYTES=%d" % workspace_bytes,
        ],
        # A host finds functions by their names: nothing else refers to them.
        linkopts = ["-Wl,-u,TVMSystemLibEntryPoint"],
        linkstatic = True,
        deps = [
            Label("//crt:platform_headers"),
            Label("//crt:rpc_headers"),
            Label("//crt:runtime"),
        ] + ([] if board else [Label("//crt:rpc_line")]),
        alwayslink = True,
        **for_hidden(given, c = True)
    )
