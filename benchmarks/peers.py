"""What others need, and what we want to reach: constants.

The peers' figures were counted once, for the project's performance anchors (gcc 12 -O3, whole
inference, counted by QEMU in the same way as ours). The date and the revisions of TensorFlow Lite
Micro, CMSIS-NN and onnx2c were not recorded; microTVM is 0.14. No package registry has the first
three, so they are not counted again here. emx-onnx-cgen is on PyPI, and emx.py counts it anew in
each run. To reproduce one: build its C for Cortex-M4 with -O3, link it with crt/runner and run it
as `mlftool run --runner` does.
"""

from __future__ import annotations

# Millions of instructions on Cortex-M4, the best of all peers there: TensorFlow Lite Micro with
# CMSIS-NN for int8; for float the lowest of TFLM, onnx2c, emx-onnx-cgen and microTVM.
PEERS_M4 = {
    "kws_int8": 7.42, "vww_int8": 23.44, "ic_int8": 28.62, "ad_int8": 0.574,
    "kws_fp32": 15.58, "vww_fp32": 46.91, "ic_fp32": 59.03, "ad_fp32": 1.177,
}  # fmt: skip

# TensorFlow Lite Micro with its reference kernels on Cortex-M4. They use nothing that Cortex-M3
# and M0 lack but the wide multiplication, so they need no less there.
TFLM_M4 = {"kws_int8": 48.62, "vww_int8": 116.62, "ic_int8": 131.96, "ad_int8": 1.953}

# Bytes alive at the worst step, inputs and outputs included, nothing in place.
LIVENESS = {
    "kws_int8": 16000, "vww_int8": 55296, "ic_int8": 49152, "ad_int8": 768,
    "kws_fp32": 64000, "vww_fp32": 221184, "ic_fp32": 196608, "ad_fp32": 3072,
}  # fmt: skip

# Bytes of code beside the weights that we allow ourselves: optimised for speed, and for size.
CODE = {
    "kws_int8": (24000, 4000), "vww_int8": (40000, 8000),
    "ic_int8": (32000, 6000), "ad_int8": (12000, 2500),
}  # fmt: skip

_WANTED = (
    ("int8", "cortex-m4", "exact", (4.5, 12.0, 18.0, 0.40)),
    ("int8", "cortex-m55", "exact", (1.2, 3.6, 3.8, 0.11)),
    ("fp32", "cortex-m4", "fused", (7.0, 20.0, 30.0, 0.65)),
    ("fp32", "cortex-m55", "fast", (1.9, 5.5, 7.0, 0.2)),
)
# network, core, float mode, millions of instructions
BARS = tuple(
    (f"{name}_{kind}", core, mode, bar)
    for kind, core, mode, bars in _WANTED
    for name, bar in zip(("kws", "vww", "ic", "ad"), bars, strict=True)
)
