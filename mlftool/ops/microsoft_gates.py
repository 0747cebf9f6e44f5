"""onnxruntime's operators for parts of gated and state-space networks, in terms of the
standard's."""

from __future__ import annotations

import numpy as np

from mlftool.onnx_rules.scope import Refuse
from mlftool.onnx_rules.steps import Steps
from mlftool.ops.base import UnsupportedError
from mlftool.ops.microsoft import microsoft

GATES = {"silu": "Swish", "swish": "Swish", "sigmoid": "Sigmoid", "none": "Identity"}


def _gate(s: Steps, default: str, *words: str) -> str:
    """The operator of attribute `activation`, one of `words`."""
    word = s.attrs.get("activation", default)
    if word not in words:
        raise Refuse("MLF0303", f"activation '{word}'; expected one of {', '.join(words)}")
    return GATES[word]


@microsoft(ScaledSiLU="x? alpha", boxes=True)
def _scaled_silu(s: Steps) -> None:
    x = s.type(0).dtype.numpy
    scale = s.x(1) or s.const(s.attrs.get("alpha", 1.0), x)
    s("Swish", s("Mul", s.x(0), scale), out=0)


@microsoft(GatedAdd="xxx", boxes=True)
def _gated_add(s: Steps) -> None:
    s("Add", s.x(0), s("Mul", s.x(1), s.x(2)), out=0)


@microsoft(LinearAttentionGate="xxx?>2", boxes=True)
def _decay(s: Steps) -> None:
    """How fast a state decays, and how much of an update it takes."""
    if s.wants(0):
        s("Mul", s("Softplus", s("Add", s.x(0), s.x(1))), s.x(2), out=0)
    if s.wants(1):
        s.type(3)
        s("Sigmoid", s.x(3), out=1)


@microsoft(GatedRMSNorm="xxx activation epsilon", boxes=True)
def _gated_norm(s: Steps) -> None:
    """Each run of as many elements as there are scales is normalised, then gated."""
    gate = s(_gate(s, "silu", "silu", "swish", "sigmoid"), s.x(2))
    shape, size, value = s.shape(0, 1, -1), s.shape(1, 1)[0], s.x(0)
    if size < 1 or shape[-1] % size:
        raise Refuse("MLF0303", f"{size} scales; the last axis has {shape[-1]} elements")
    if parts := shape[-1] > size:
        value = s("Reshape", value, s.const([0] * (len(shape) - 1) + [-1, size], np.int64))
    epsilon = s.attrs.get("epsilon", 1e-5)
    value = s("RMSNormalization", value, s.x(1), axis=-1, epsilon=epsilon)
    if parts:
        value = s("Reshape", value, s.const([0] * (len(shape) - 1) + [-1], np.int64))
    s("Mul", value, gate, out=0)


@microsoft(CausalConvWithState="xx??>2 activation channels_last dilation ndim state_window")
def _causal_conv(s: Steps) -> None:
    """A depthwise convolution along time of what has come before and the input; the second output
    is what the next call convolves before its input."""
    for name, only in (("ndim", 1), ("channels_last", 0), ("state_window", 0)):
        if (given := s.attrs.get(name, only)) != only:
            raise UnsupportedError(f"CausalConvWithState with {name} {given}; supported: {only}")
    (batch, channels, time), dtype = s.shape(0, 3), s.type(0).dtype.numpy
    apart = s.attrs.get("dilation", 1)
    before = (s.shape(1, 3)[2] - 1) * apart
    past = s.x(3) or s.const(np.zeros((batch, channels, before)), dtype)
    every = s("Concat", past, s.x(0), axis=2)
    value = s("Conv", every, s.x(1), s.x(2), group=channels, dilations=[apart])
    s(_gate(s, "none", "silu", "swish", "none"), value, out=0)
    if s.wants(1):
        ends = ([time], [time + before], [2])
        s("Slice", every, *(s.const(v, np.int64) for v in ends), out=1)
