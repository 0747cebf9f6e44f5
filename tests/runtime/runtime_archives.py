"""Archives written by hand: the runtime is tested without the compiler, and with C that misbehaves.

Module `toy` has two inputs, of int8 and float, and two outputs; the names of its tensors hold what
an ONNX file may put there.
"""

from __future__ import annotations

import json

import numpy as np

from mlftool.mlf import Bundle

HOSTILE = 'y"\\n??/*/ %s\x01ü'  # quote, backslash, trigraph, comment end, format, control, UTF-8

HEADER = """#include <stdint.h>
struct tvmgen_toy_inputs { void *a; void *b; };
struct tvmgen_toy_outputs { void *sum; void *scaled; };
int32_t tvmgen_toy_run(struct tvmgen_toy_inputs *inputs, struct tvmgen_toy_outputs *outputs);
"""

# sum = 2 * a as int16, scaled = b * 0.5; EXTRA is where a test puts its fault.
SOURCE = """#include "tvmgen_toy.h"
int32_t tvmgen_toy_run(struct tvmgen_toy_inputs *inputs, struct tvmgen_toy_outputs *outputs) {
  int8_t *a = inputs->a;
  float *b = inputs->b;
  int16_t *sum = outputs->sum;
  float *scaled = outputs->scaled;
  int i;
  for (i = 0; i < 4; i++) sum[i] = (int16_t)(2 * a[i]);
  for (i = 0; i < 6; i++) scaled[i] = b[i] * 0.5f;
  (void)sum;
  EXTRA
}
"""


def tensor(name: str, c_name: str, dtype: str, shape: tuple[int, ...]) -> dict[str, object]:
    size = int(np.dtype(dtype).itemsize * np.prod(shape))
    return {"name": name, "c_name": c_name, "dtype": dtype, "shape": shape, "size_bytes": size}


def interface_json(**changes: object) -> bytes:
    data: dict[str, object] = {
        "schema_version": 1,
        "module": "toy",
        "target": "host",
        "inputs": [tensor("a:0", "a", "int8", (1, 4)), tensor(HOSTILE, "b", "float32", (2, 3))],
        "outputs": [
            tensor("sum", "sum", "int16", (4,)),
            tensor("s/c", "scaled", "float32", (2, 3)),
        ],
        "workspace_bytes": 0,
        "constants_bytes": 0,
    }
    return json.dumps(data | changes).encode()


def metadata(*names: str) -> bytes:
    """metadata.json of AOT modules of these names."""
    module = {
        "executors": ["aot"],
        "export_datetime": "2021-01-02 03:04:05Z",
        "memory": {"functions": {"main": [], "operator_functions": []}},
        "style": "full-model",
        "target": ["c -keys=cpu"],
    }
    modules = {name: {"model_name": name, **module} for name in names}
    return json.dumps({"version": 7, "modules": modules}).encode()


def toy(extra: str = "return 0;", **changes: object) -> Bundle:
    """The archive; `extra` replaces the end of the run function, `changes` entries of its JSON."""
    return Bundle(
        {
            "metadata.json": metadata("toy"),
            "codegen/host/include/tvmgen_toy.h": HEADER.encode(),
            "codegen/host/src/toy_lib0.c": SOURCE.replace("EXTRA", extra).encode(),
            "executor-config/aot/toy.json": interface_json(**changes),
        }
    )


def vectors(samples: int = 3) -> dict[str, np.ndarray]:
    """Inputs of `toy` and what it makes of them."""
    random = np.random.default_rng(7)
    a = random.integers(-128, 128, (samples, 1, 4), np.int8)
    b = random.standard_normal((samples, 2, 3)).astype(np.float32)
    doubled = (2 * a.astype(np.int16)).reshape(samples, 4)
    return {"a:0": a, HOSTILE: b, "sum": doubled, "s/c": b * np.float32(0.5)}
