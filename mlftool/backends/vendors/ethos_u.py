"""Arm's Ethos-U: commands that Vela has written into a TensorFlow Lite model, as they are.

The application has TVM's function for it, which calls the processor's driver:

    int32_t TVMEthosULaunch(void *context, void *commands, size_t bytes, uint64_t *addresses,
                            size_t *sizes, int count);

Addresses are those of the constants, of the scratch memory, of the fast one, of each input and of
each output: the order of TensorFlow Lite Micro's operator.
"""

from __future__ import annotations

import numpy as np

from mlftool.backends.base import Backend
from mlftool.ir.external import BackendCode, Library
from mlftool.ir.graph import Graph, Node
from mlftool.targets import Target

ALIGNED = 16  # bytes, which the processor's base addresses have to be


def accepts(graph: Graph, node: Node, target: Target) -> tuple[Node, ...] | str:
    """Only what Vela has made: there is no compiler for other layers here."""
    return (node,) if node.op == "mlf.EthosU" else ""


def compile(part: Graph, target: Target) -> BackendCode:
    """Copies of what the commands expect in the scratch memory, and the launch between them."""
    (node,) = part.nodes
    scratch, fast, at = (node.attrs[name] for name in ("scratch", "fast", "at"))
    stream, constants = (part.consts[name] for name in node.inputs[:2])
    values = [*node.inputs[2:], *node.outputs]
    sizes = [part.types[name].bytes for name in values]
    names = [f"in{part.inputs.index(n)}" for n in node.inputs[2:]]
    names += [f"out{k}" for k in range(len(node.outputs))]
    at_fast = -(-scratch // ALIGNED) * ALIGNED if fast else 0
    regions = [
        ("constants", constants.nbytes),
        ("workspace", scratch),
        (f"workspace + {at_fast}" if fast else "workspace", fast or scratch),
        *zip(names, sizes, strict=True),
    ]
    placed = [
        (name, f"workspace + {place}", size)
        for name, place, size in zip(names, at, sizes, strict=True)
        if place >= 0
    ]
    into = [f"  memcpy({p}, {name}, {n});" for name, p, n in placed if name.startswith("in")]
    back = [f"    memcpy({name}, {p}, {n});" for name, p, n in placed if name.startswith("out")]
    addresses = ",\n                          ".join(f"(uintptr_t)({a})" for a, _ in regions)
    lines = [
        f"  uint64_t addresses[] = {{{addresses}}};",
        f"  size_t sizes[] = {{{', '.join(str(n) for _, n in regions)}}};",
        "  int32_t status;",
        *into,
        f"  status = TVMEthosULaunch(context, (void *)(uintptr_t)commands, {stream.nbytes},",
        f"                           addresses, sizes, {len(regions)});",
        *(["  if (status == 0) {", *back, "  }"] if back else []),
        "  return status;",
    ]
    return BackendCode(
        "\n".join(lines),
        ("<stdint.h>", "<string.h>", '"tvm_ethosu_runtime.h"'),
        constants={"commands": _bytes(stream), "constants": _bytes(constants)},
        workspace_bytes=at_fast + fast if fast else scratch,
    )


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array, np.uint8).reshape(-1)


BACKEND = Backend(
    "ethos-u",
    accepts,
    compile,
    device="ethos-u",
    libraries=(
        Library(
            "ethos-u-core-driver", "", "https://gitlab.arm.com/artificial-intelligence/ethos-u"
        ),
    ),
)
