"""The generator of C that PyPI has, emx-onnx-cgen, where build/peers holds it: its C of a network,
and what that costs on Cortex-M4."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from functools import cache

from corpus import BUILT, VENV, Network
from device import MODULE, Setting, board_of, compiled, counted

from mlftool.describe import bundle as bundle_of
from mlftool.errors import MlfError
from mlftool.mlf.bundle import Bundle
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware

NAME = "emx-onnx-cgen"
_M4 = "cortex-m4"

# Its larger temporaries come from malloc, which our firmware does not have. Nothing is freed before
# the end, so the next piece of one array will do.
_HEAP = """
#pragma GCC optimize("-ffp-contract=fast") /* gcc's default, which our own C goes without */
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wextra"
#include <stddef.h>
#include <stdlib.h>
static _Alignas(8) unsigned char peer_heap[3200000];
static size_t peer_used;
static void *peer_malloc(size_t bytes) {
  void *const at = peer_heap + peer_used;
  peer_used += (bytes + 7) / 8 * 8;
  return peer_used <= sizeof peer_heap ? at : NULL;
}
#define malloc peer_malloc
#define free(at) ((void)(at))
"""
_ENTRY = """
int tvmgen_{module}___tvm_main__(const void *x, void *y, unsigned char *workspace) {{
  (void)workspace;
  peer_used = 0;
  model(x, y);
  return 0;
}}
"""


@cache
def source(network: Network) -> str | None:
    """Its C; None without it, and for networks that it does not know or that are more than one x
    and up to two y."""
    tool, file = VENV / NAME, BUILT / f"{network.name}.emx.c"
    if not tool.exists() or len(network.sample) != 1 or len(network.wanted[0]) > 2:
        return None
    options = ("--model-name", "model", "--large-weight-threshold", "0")
    command = [tool, "compile", network.path, file, *options]
    done = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False
    )
    return file.read_text() if done.returncode == 0 else None


def instructions(network: Network) -> float | None:
    """Of one inference of its C on Cortex-M4, gcc -O3, inside our firmware. None if it does not fit
    the board, or if its results are not onnxruntime's."""
    text = source(network)
    if text is None or len(network.wanted[0]) > 1:
        return None
    ours = bundle_of([compiled(network.path, _M4, Setting())])
    files = {**ours.files, f"codegen/host/src/{MODULE}_lib1.c": _module(text)}
    del files["checksums.sha256"]
    theirs: Bundle = replace(ours, files=files)
    interface = read_interface(theirs, MODULE)
    try:
        elf = link_firmware(theirs, interface, board_of(_M4), optimise="-O3")
        return counted(network, elf, board_of(_M4), interface, True)["instructions"]
    except (MlfError, AssertionError):
        return None


def _module(text: str) -> bytes:
    return (_HEAP + text + _ENTRY.format(module=MODULE)).encode()
