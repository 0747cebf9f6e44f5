"""C that calls CMSIS-NN 7: the parameters of one operator, and buffers that its library asks for.

Bytes of buffers are known here for the library's three kinds of cores; the code asks the library,
too, and fails if that wants more.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from mlftool.backends.cmsis.forms import Binary, Extents, Factor, Form, Pool, Softmax, Sums
from mlftool.ir.external import BackendCode
from mlftool.ir.graph import Array
from mlftool.targets import Target

VERSION = "7"
# Of other major versions this function has other parameters.
CHECK = """
typedef arm_cmsis_nn_status (*mlf_cmsis_nn_7)(
    const cmsis_nn_context *, const cmsis_nn_conv_params *,
    const cmsis_nn_per_channel_quant_params *, const cmsis_nn_dims *, const int8_t *,
    const cmsis_nn_dims *, const int8_t *, const cmsis_nn_dims *, const int32_t *,
    const cmsis_nn_dims *, const cmsis_nn_dims *, int8_t *);
#if defined(__GNUC__) && !defined(__cplusplus)
// This array has a negative size where the headers are not those of CMSIS-NN 7.
typedef char mlf_needs_cmsis_nn_7
    [__builtin_types_compatible_p(__typeof__(&arm_convolve_s8), mlf_cmsis_nn_7) ? 1 : -1];
#endif
"""
INCLUDES = ("<stddef.h>", '"arm_nnfunctions.h"')


def code_of(form: Form, target: Target, inputs: Sequence[str]) -> BackendCode:
    """`inputs` are the tensors that in0, in1 ... point to."""
    match form:
        case Sums():
            return _dense(form, target) if form.window is None else _convolution(form, target)
        case Pool():
            return _pool(form, target)
        case Softmax():
            return _softmax(form)
        case Binary():
            return _binary(form, inputs)


def _made(
    lines: Sequence[str], constants: Mapping[str, Array], workspace: int = 0, macs: int = 0
) -> BackendCode:
    body = "\n".join(f"  {line}" for line in (*lines, "return 0;"))
    return BackendCode(body, INCLUDES, CHECK, constants, workspace, macs=macs)


def _checked(call: str, *arguments: str) -> list[str]:
    given = (",\n" + " " * (len(call) + 7)).join(arguments)
    return [f"if ({call}({given}) != ARM_CMSIS_NN_SUCCESS) {{", "  return -1;", "}"]


def _dims(name: str, extents: Sequence[int]) -> str:
    n, h, w, c = extents
    return f"const cmsis_nn_dims {name} = {{.n = {n}, .h = {h}, .w = {w}, .c = {c}}};"


def _tile(name: str, pair: tuple[int, int]) -> str:
    return f".{name} = {{.w = {pair[1]}, .h = {pair[0]}}}"


def _limits(pair: tuple[int, int]) -> str:
    return f".activation = {{.min = {pair[0]}, .max = {pair[1]}}}"


def _context(buffer: str, size: str, most: int) -> list[str]:
    """The library's buffer, if what it asks for is not more than there is."""
    return [
        f"const int32_t needed = {size};",
        f"const cmsis_nn_context ctx = {{.buf = needed > 0 ? {buffer} : NULL, .size = needed}};",
        f"if (needed < 0 || needed > {most}) {{",
        "  return -1;",
        "}",
    ]


def _buffer(most: int) -> str:
    return "(void *)workspace" if most else "NULL"


def _factors(factors: Sequence[Factor]) -> dict[str, Array]:
    m, shift = zip(*factors, strict=True)
    return {"multiplier": np.array(m, np.int32), "shift": np.array(shift, np.int32)}


def _up(n: int, to: int) -> int:
    return -(-n // to) * to


def convolution_bytes(f: Sums, target: Target) -> int:
    """What version 7 asks for at most."""
    assert f.window is not None
    w, features = f.window, target.features
    area, channels = math.prod(w.kernel), f.x[3]
    if f.multiplied:
        if "mve" in features:
            return 4 * 124 * area
        return 2 * channels * area if "dsp" in features else 0
    if w.kernel == (1, 1) and w.pads == (0, 0) and w.dilations == (1, 1):
        return 4 * channels if "dsp" in features and "mve" not in features else 0
    depth = area * channels
    return 4 * _up(depth, 16) if "mve" in features else 4 * _up(depth, 4)


def beyond(f: Form, target: Target) -> str:
    """Why the size of a buffer is not known, or ""."""
    if not isinstance(f, Sums) or f.window is None or "mve" not in target.features:
        return ""
    w = f.window
    if f.multiplied:
        return "has several outputs for each channel, on Helium" if f.multiplied > 1 else ""
    row = f.x[1] == 1 and w.kernel[0] == 1 and w.dilations == (1, 1) and w.kernel[1] > 1
    return "is a convolution of one row, on Helium" if row else ""


def _convolution(f: Sums, target: Target) -> BackendCode:
    w, most = f.window, convolution_bytes(f, target)
    assert w is not None
    kind, call = "conv", "arm_convolve_wrapper_s8"
    if f.multiplied:
        kind, call = "dw_conv", "arm_depthwise_conv_wrapper_s8"
    fields = [
        f".input_offset = {-f.input_zero}",
        f".output_offset = {f.output_zero}",
        *([f".ch_mult = {f.multiplied}"] if f.multiplied else []),
        _tile("stride", w.strides),
        _tile("padding", w.pads),
        _tile("dilation", w.dilations),
        _limits(f.activation),
    ]
    lines = [
        f"const cmsis_nn_{kind}_params params = {{{', '.join(fields)}}};",
        "const cmsis_nn_per_channel_quant_params quant = "
        "{.multiplier = (int32_t *)multiplier, .shift = (int32_t *)shift};",
        *_shapes(f.x, f.weights.shape, f.y),
        *_context(
            _buffer(most),
            f"{call}_get_buffer_size(&params, &input_dims, &filter_dims, &output_dims)",
            most,
        ),
        *_checked(call, *ARGUMENTS),
    ]
    constants = {"weights": f.weights, "bias": f.bias, **_factors(f.factors)}
    depth = math.prod(w.kernel) * (1 if f.multiplied else f.x[3])
    return _made(lines, constants, most, math.prod(f.y) * depth)


ARGUMENTS = (
    *("&ctx", "&params", "&quant", "&input_dims", "in0", "&filter_dims", "weights"),
    *("&bias_dims", "bias", "&output_dims", "out0"),
)


def _shapes(x: Extents, weights: Sequence[int], y: Extents) -> list[str]:
    return [
        _dims("input_dims", x),
        _dims("filter_dims", weights),
        _dims("bias_dims", (1, 1, 1, y[3])),
        _dims("output_dims", y),
    ]


def _dense(f: Sums, target: Target) -> BackendCode:
    """With Helium the library reads the sums of rows of weights, which are constants."""
    depth, outputs = f.x[3], f.y[3]
    call = "arm_fully_connected_s8"
    constants = {"weights": f.weights, "bias": f.bias}
    quant = (
        f"const cmsis_nn_per_tensor_quant_params quant = {{.multiplier = {f.factors[0][0]}, "
        f".shift = {f.factors[0][1]}}};"
    )
    if len(f.factors) > 1:
        call = "arm_fully_connected_per_channel_s8"
        constants |= _factors(f.factors)
        quant = (
            "const cmsis_nn_per_channel_quant_params quant = "
            "{.multiplier = (int32_t *)multiplier, .shift = (int32_t *)shift};"
        )
    most, buffer = 0, "NULL"
    if "mve" in target.features:
        sums = f.bias.astype(np.int64) - f.input_zero * f.weights.astype(np.int64).sum(axis=1)
        constants["sums"], most, buffer = sums.astype(np.int32), 4 * outputs, "(void *)sums"
    lines = [
        f"const cmsis_nn_fc_params params = {{.input_offset = {-f.input_zero}, "
        f".filter_offset = 0, .output_offset = {f.output_zero}, {_limits(f.activation)}}};",
        quant,
        *_shapes(f.x, (depth, 1, 1, outputs), f.y),
        *_context(buffer, "arm_fully_connected_s8_get_buffer_size(&filter_dims)", most),
        *_checked(call, *ARGUMENTS),
    ]
    return _made(lines, constants, 0, math.prod(f.y) * depth)


def _pool(f: Pool, target: Target) -> BackendCode:
    call = "arm_avgpool_s8" if f.average else "arm_max_pool_s8"
    most = 4 * f.x[3] if f.average and "dsp" in target.features else 0
    size = f"arm_avgpool_s8_get_buffer_size({f.y[2]}, {f.x[3]})" if f.average else "0"
    lines = [
        f"const cmsis_nn_pool_params params = {{{_tile('stride', f.window.strides)}, "
        f"{_tile('padding', f.window.pads)}, {_limits(f.activation)}}};",
        _dims("input_dims", f.x),
        _dims("filter_dims", (1, *f.window.kernel, 1)),
        _dims("output_dims", f.y),
        *_context(_buffer(most), size, most),
        *_checked(
            call, "&ctx", "&params", "&input_dims", "in0", "&filter_dims", "&output_dims", "out0"
        ),
    ]
    return _made(lines, {}, most)


def _softmax(f: Softmax) -> BackendCode:
    m, left = f.factor
    least = -math.floor(math.ldexp(31, 26 - left))
    numbers = f"{f.rows}, {f.length}, {m}, {left}, {least}"
    return _made([f"arm_softmax_s8(in0, {numbers}, out0);"], {})


def _binary(f: Binary, inputs: Sequence[str]) -> BackendCode:
    a, b, y = f.zeros
    first, second = (f"in{inputs.index(name)}" for name in f.operands)
    limits = f"{f.activation[0]}, {f.activation[1]}, {f.elements}"
    pairs = [f"{m}, {shift}" for m, shift in f.factors]
    if f.left:
        given = [f"{first}, {second}", f"{-a}, {pairs[0]}", f"{-b}, {pairs[1]}", str(f.left)]
        given += [f"out0, {y}, {pairs[2]}", limits]
        return _made(_checked("arm_elementwise_add_s8", *given), {})
    given = [f"{first}, {second}, {-a}, {-b}", f"out0, {y}, {pairs[0]}", limits]
    return _made(_checked("arm_elementwise_mul_s8", *given), {})
