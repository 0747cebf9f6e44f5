"""The accelerator's backend: which layers it takes, and the C that drives it for one of them."""

from __future__ import annotations

import numpy as np

from mlftool.backends import Backend, BackendCode

MEMORY_BYTES = 2048  # NPU_MEMORY_BYTES of npu.h


def places(depth: int, outputs: int) -> dict[str, int]:
    """Where x, y, the bias, the factors and the weights lie in its memory, and the bytes of all."""
    sizes = {"x": depth, "y": outputs, "bias": 4 * outputs, "factor": 4 * outputs}
    at, found = 0, {}
    for name, size in {**sizes, "w": depth * outputs}.items():
        found[name] = at
        at += -(-size // 4) * 4
    return {**found, "bytes": at}


def accepts(graph, node, target):
    """Dense layers of one row of int8 whose weights are known and fit into its memory."""
    if node.op != "com.microsoft.QGemm":
        return ""
    known = all(not name or name in graph.consts for name in node.inputs[1:])
    if not known or len(node.inputs) < 9 or not node.inputs[7]:
        return "has weights that are computed, or no quantised output"
    x, y = graph.types[node.inputs[0]], graph.types[node.outputs[0]]
    if (x.dtype.name, y.dtype.name, x.shape[0]) != ("int8", "int8", 1):
        return f"is {x} to {y}; supported: one row of int8"
    if np.any(graph.consts[node.inputs[5]]) or "mlf.rounding" in node.attrs:
        return "has weights with a zero point, or rounds in fixed point"
    size = places(x.shape[1], y.shape[1])["bytes"]
    return (node,) if size <= MEMORY_BYTES else f"needs {size} bytes; the device has {MEMORY_BYTES}"


def compile(part, target):
    (node,) = part.nodes
    (depth,), (outputs,) = (
        part.types[part.inputs[0]].shape[1:],
        part.types[part.outputs[0]].shape[1:],
    )
    _, x_scale, x_zero, w, w_scale, _, bias, y_scale, y_zero = (
        part.consts.get(name) for name in node.inputs
    )
    w = np.ascontiguousarray(w if node.attrs.get("transB", 0) else w.T)
    # sum over (x - zero) * w = sum over x * w - zero * sum over w
    sums = w.astype(np.int64).sum(axis=1) * int(x_zero)
    start = (0 if bias is None else bias.reshape(-1).astype(np.int64)) - sums
    factor = np.broadcast_to((x_scale * w_scale / y_scale).reshape(-1), (outputs,))
    constants = {
        "bias": start.astype(np.int32),
        "factor": np.ascontiguousarray(factor, np.float32),
        "w": w,
    }
    at = places(depth, outputs)
    low, high = node.attrs.get("activation", (-128, 127))
    writes = [("x", "in0", depth), *((n, n, a.nbytes) for n, a in constants.items())]
    fields = ", ".join(f".{name} = {at[name]}" for name in ("x", "w", "bias", "factor", "y"))
    numbers = f".depth = {depth}, .outputs = {outputs}, .zero = {int(y_zero)}"
    numbers += f", .low = {low}, .high = {high}"
    steps = [f"npu_write({at[to]}, {name}, {size})" for to, name, size in writes]
    steps += ["npu_push(&command)", "npu_wait()", f"npu_read(out0, {at['y']}, {outputs})"]
    body = [
        f"  const struct npu_dense command = {{{fields}, {numbers}}};",
        "  const int failed = " + " ||\n      ".join(f"{step} != 0" for step in steps) + ";",
        "  return failed ? -1 : 0;",
    ]
    return BackendCode("\n".join(body), ('"npu.h"',), constants=constants, macs=depth * outputs)


BACKEND = Backend("npu", accepts, compile, device="npu")
