"""Products of matrices that are both computed, of any element type, in batches that broadcast.

The kernels of ops/contract.py want constant weights, which they pack; what they decline comes here.
MatMul, Gemm, MatMulInteger and QLinearMatMul are one loop nest with three holes: an element of each
operand, and what is stored. Float products are added as everywhere, in blocks of at most BLOCK.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from mlftool.ir.dtype import DType, float32, int32, int64
from mlftool.ir.edit import Editor
from mlftool.ir.graph import Node, TensorType, View
from mlftool.ir.holes import Number
from mlftool.ir.operations import of_text, times
from mlftool.ir.relay import Site, dense, requantise, scale_of, zero_point
from mlftool.onnx_rules.boxes import of_integer_products, of_products
from mlftool.ops.base import Contracts, Facts, Kernel, Layout, Trait, UnsupportedError, op, shown
from mlftool.ops.contraction import BLOCK, ONE_FOR_Y, contracts_of
from mlftool.ops.elementwise import broadcast_strides, index_text, row_major
from mlftool.ops.reduce import joined
from mlftool.ops.scalar import Store, around, fetch, grouped, number, read_by, settle


def _shapes(v: View, b: int) -> tuple[tuple[int, ...], tuple[int, ...], int, int]:
    """Batches of A and B, rows and columns of the product; vectors are matrices here."""
    x, w = v.x(0).shape, v.x(b).shape
    x = (1, *x) if len(x) == 1 else x
    w = (*w, 1) if len(w) == 1 else w
    rows, columns = x[-2], w[-2] if v.attr("transB", 0) else w[-1]
    return x[:-2], w[:-2], rows, columns


def product(
    v: View, name: str, acc: DType, a: str, b: str, finish: str, reads: dict[str, int], at: int = 1
) -> Kernel:
    """y[batch, m, n] = finish(sum over k of a * b). `a` and `b` are C texts of the values of the
    elements `ai` of x and `bi` of w; `reads` are further operands by their place in the inputs."""
    left, right, rows, columns = _shapes(v, at)
    depth = v.x(0).shape[-1]
    batch = np.broadcast_shapes(left, right)
    loops = [(f"i{k}", n) for k, n in enumerate(batch)]
    steps = [grouped(index_text(broadcast_strides(s, batch))) for s in (left, right)]
    target = grouped(index_text(row_major(batch)))
    last = "n" if len(v.x(at).shape) > 1 else "m"  # a vector B leaves no columns
    store = Store(v, finish, f"({target} * {rows} + m) * {columns} + n", last)
    turned = v.attr("transB", 0)
    # An element of the output, and a product.
    each = of_text(finish, v.y.dtype) + times(loop=2, store=1, whole=6)
    step = of_text("acc + a * b", acc) + times(load=2, loop=1, whole=2)
    return Kernel(
        f"portable.{name}",
        "matmul.c.j2",
        {
            "loops": loops,
            "rows": rows,
            "columns": columns,
            "depth": depth,
            "type": acc.c,
            "zero": "0.0f" if acc.c == "float" else "0",
            "block": BLOCK if acc.is_float and depth > BLOCK else 0,
            "a_from": f"({steps[0]} * {rows} + m) * {depth}",
            "b_from": f"{steps[1]} * {columns * depth} + n{f' * {depth}' if turned else ''}",
            "b_step": 1 if turned else columns,
            "step": joined("Add", acc, "acc", settle(acc, joined("Mul", acc, a, b))),
            "part": joined("Add", acc, "part", settle(acc, joined("Mul", acc, a, b))),
            "join": joined("Add", acc, "acc", "part"),
            "store": store,
            "y": f"({target} * {rows} + m) * {columns} + n",
        },
        around(v, *read_by(v, {"w": at, **reads}), *store.operands),
        operations=math.prod(batch) * rows * columns * (depth * step + each),
        macs=math.prod(batch) * rows * columns * depth,
        includes=("mlf/kernel.h", *store.includes),
        inplace=store.inplace,
    )


def matmul(v: View) -> Kernel:
    """Also Gemm, whose C is one value or one for each column here; alpha, beta, transA and any
    other C are nodes of their own."""
    row, finish, reads = v.y.dtype, "acc", {}
    if v.has(2):
        reads["c"] = 2
        c = fetch(row, "c", "0" if v.x(2).elements == 1 else "n")
        finish = settle(row, joined("Add", row, c, "acc"))
    if row.packed or row.codec:
        raise UnsupportedError(f"{v.core.op} on {row}; supported: types that C has, 16-bit floats")
    return product(v, "matmul", row, fetch(row, "x", "ai"), fetch(row, "w", "bi"), finish, reads)


def whole_factors(f: Facts) -> str:
    """Factors of integers are integers of their type: no system says what others would give."""
    row = f.output.dtype
    for name in ("alpha", "beta") if row.kind in "iu" else ():
        factor = float(f.attrs.get(name, 1.0))
        if not (factor.is_integer() and row.range[0] <= factor <= row.range[1]):
            return f"{name} {factor:g} of {row}; expected a whole number that the type has"
    return ""


def without_factors(e: Editor, node: Node) -> None:
    """A Gemm's alpha and beta go into constant weights and bias, transA into a Transpose. beta of 0
    leaves out C, which may be infinite, as in every BLAS."""
    alpha, beta = node.attrs.get("alpha", 1.0), node.attrs.get("beta", 1.0)
    attrs = {"transB": node.attrs.get("transB", 0)}
    inputs = list(node.inputs[:2] if beta == 0 else node.inputs)
    news = []
    for i, factor in ((1, alpha), (2, beta)):
        if i >= len(inputs) or factor == 1.0:
            continue
        if inputs[i] in e.consts:
            inputs[i] = e.const(
                inputs[i] + ".scaled", e.consts[inputs[i]] * e.consts[inputs[i]].dtype.type(factor)
            )
        else:
            by = e.const(inputs[i] + ".factor", np.array(factor, e.types[inputs[i]].dtype.numpy))
            scaled = e.fresh(inputs[i] + ".scaled", e.types[inputs[i]])
            news.append(e.add("Mul", (inputs[i], by), node, scaled))
            inputs[i] = scaled
    if node.attrs.get("transA", 0):
        x = e.types[inputs[0]]
        turned = e.fresh(inputs[0] + ".T", TensorType(x.dtype, x.shape[::-1]))
        news.append(e.add("Transpose", (inputs[0],), node, turned, {"perm": [1, 0]}))
        inputs[0] = turned
    e.substitute([node], [*news, replace(node, inputs=tuple(inputs), attrs=attrs)])


def _relay_matmul(s: Site) -> str | None:
    a, b = s.type(0).shape, s.type(1).shape
    if len(a) == 2 and len(b) == 2:
        return dense(s, s.arg(0), s.arg(1), b[1], False)
    if len(a) < 2 or len(b) < 2:
        return None
    if len(b) == 2:  # every row of a, whatever its other axes
        rows = s.type(0).elements // max(a[-1], 1)
        flat = s.call("reshape", s.arg(0), newshape=[rows, a[-1]])
        return s.call("reshape", dense(s, flat, s.arg(1), b[1], False), newshape=list(s.out.shape))
    if a[:-2] != b[:-2]:
        return None
    batch = s.type(0).elements // max(a[-1] * a[-2], 1)
    x, y = s.arg(0), s.arg(1)
    if len(a) > 3:
        x = s.call("reshape", x, newshape=[batch, *a[-2:]])
        y = s.call("reshape", y, newshape=[batch, *b[-2:]])
    z = s.call("nn.batch_matmul", x, y, transpose_a=False, transpose_b=False)
    return s.call("reshape", z, newshape=list(s.out.shape)) if len(a) > 3 else z


def _relay_qlinear_matmul(s: Site) -> str | None:
    a, b = s.type(0).shape, s.type(3).shape
    if len(a) != 2 or len(b) != 2 or s.type(4).elements > 1 or s.type(1).elements > 1:
        return None
    if str(s.type(1).dtype) != "float32":
        return None
    w = s.call("transpose", s.arg(3), axes=[1, 0])
    y = s.call(
        "qnn.dense",
        *(s.arg(0), w, zero_point(s, 2), zero_point(s, 5), scale_of(s, 1), scale_of(s, 4)),
        units=b[1],
        out_dtype="int32",
    )
    return requantise(s, y, (1, 4), (6, 7))


def same_depth(f: Facts) -> str:
    """Rows of a Gemm's first matrix are as long as columns of its second."""
    a, b = f.x, f.shape(1) or ()
    if (len(a), len(b)) != (2, 2):
        return f"matrices of {shown(a)} and {shown(b)}; expected 2 axes each"
    depths = a[1 - bool(f.attrs.get("transA", 0))], b[bool(f.attrs.get("transB", 0))]
    return "" if depths[0] == depths[1] else f"{depths[0]} products for {depths[1]} weights"


def same_inner(f: Facts) -> str:
    """The same of stacks of matrices and of vectors, whose extents a run may decide."""
    a, b = f.x, f.shape(3 if f.op == "QLinearMatMul" else 1)
    if not a or not b:
        return ""
    depths = a[-1], b[-2 if len(b) > 1 else 0]
    return "" if depths[0] == depths[1] else f"{depths[0]} products for {depths[1]} weights"


def fitting_bias(f: Facts) -> str:
    bias = f.shape(2)
    if bias is None:
        return ""
    try:
        fits = np.broadcast_shapes(bias, f.output.shape) == f.output.shape
    except ValueError:
        fits = False
    return "" if fits else f"bias {shown(bias)} does not broadcast to {shown(f.output.shape)}"


op(
    "MatMul",
    Trait.EPILOGUE,
    contracts=Contracts(Layout.MATRICES, rows="Gemm", computed="QLinearMatMul"),
    quantised="com.microsoft.QGemm",
    checks=(same_inner,),
    extents=of_products,
    relay=_relay_matmul,
)(matmul)


def _less_zero(
    v: View, i: int, name: str, element: str, index: str, reads: dict[str, int], row: DType = int32
) -> str:
    """An element without its zero point, which stands at `index` of input `i`."""
    value = v.const(i)
    if not v.has(i) or (value is not None and not value.any()):
        return f"({row.c}){element}"
    reads[name] = i
    return f"(({row.c}){element} - ({row.c}){name}[{index}])"


def _along(v: View, i: int, other: int) -> str:
    """C index of a parameter of operand `other`: there is one, or one for each row of the first or
    column of the second, in stacks one for each of those. Raises UnsupportedError for others."""
    if not v.has(i) or v.x(i).elements == 1:
        return "0"
    second, shape, matrix = other != 0, v.x(i).shape, v.x(other).shape
    axis = -1 if (second and not v.attr("transB", 0)) or len(matrix) == 1 else -2
    var, count = "n" if second else "m", matrix[axis]
    left, right, *_ = _shapes(v, contracts_of(v).weights)
    if shape == (count,):
        return var
    stacks, ends = shape[:-2], [1, 1]
    ends[axis] = count
    fits = len(shape) == len(matrix) and list(shape[-2:]) in (ends, [1, 1])
    if not fits or any(n not in (1, m) for n, m in zip(stacks, matrix, strict=False)):
        raise UnsupportedError(f"{v.core.op} with parameters {v.x(i)}; supported: 1 or per channel")
    which = index_text(broadcast_strides(stacks, np.broadcast_shapes(left, right)))
    return f"({which}) * {count} + {var}" if list(shape[-2:]) == ends else which


@op(
    "MatMulInteger",
    Trait.EPILOGUE,
    contracts=Contracts(Layout.MATRICES),
    extents=of_integer_products,
    checks=(same_inner,),
)
def matmul_integer(v: View) -> Kernel:
    """int32 sums of 8-bit products, zero points subtracted."""
    reads: dict[str, int] = {}
    a = _less_zero(v, 2, "az", "x[ai]", _along(v, 2, 0), reads)
    b = _less_zero(v, 3, "bz", "w[bi]", _along(v, 3, 1), reads)
    return product(v, "matmul_integer", int32, a, b, "acc", reads)


@op(
    "QLinearMatMul",
    Trait.EPILOGUE,
    contracts=Contracts(Layout.MATRICES, 3, y_scale=6, rows="com.microsoft.QGemm"),
    forms=ONE_FOR_Y,
    extents=of_integer_products,
    checks=(same_inner,),
    relay=_relay_qlinear_matmul,
)
def quantised_matmul(v: View) -> Kernel:
    return quantised_products(v, "")


def quantised_products(v: View, known_finish: str) -> Kernel:
    """The sums of MatMulInteger, requantised by a_scale * b_scale / y_scale, in float32 and in this
    order; without an output scale a float. Sums of 16-bit activations are int64. `known_finish`: C
    text of an output of sum `acc`, if it is int32 and scales are known."""
    rows = [v.x(0).dtype, v.x(3).dtype]
    to_float = not v.has(6)
    if any(row.packed or row.bits > 16 for row in (*rows, *(() if to_float else (v.y.dtype,)))):
        raise UnsupportedError(f"QLinearMatMul to {v.y.dtype}; supported: 8 and 16 bits")
    bits = sum(row.bits for row in rows) + v.x(0).shape[-1].bit_length()
    acc = int32 if bits <= 31 else int64
    scale = one_scale(v)
    known = scale is not None and acc is int32
    reads = {} if known else {"as": 1, "bs": 4} | ({} if to_float else {"ys": 6, "yz": 7})
    a = _less_zero(v, 2, "az", "x[ai]", _along(v, 2, 0), reads, acc)
    b = _less_zero(v, 5, "bz", "w[bi]", _along(v, 5, 3), reads, acc)
    scaled = f"as[{_along(v, 1, 0)}] * bs[{_along(v, 4, 3)}]"
    if to_float:
        finish = f"((float)acc * ({scaled}))"
    else:
        lo, hi = (Number(n) for n in v.attr("activation", v.y.dtype.range))
        finish = f"mlf_quantize((float)acc * ({scaled} / ys[0]), yz[0], {lo}, {hi})"
        if known:
            finish = known_finish or requantised(v, "mlf_requantize_wide")
        finish = f"({v.y.dtype.c}){finish}"
    return product(v, "quantised_matmul", acc, a, b, finish, reads, at=3)


def requantised(v: View, name: str) -> str:
    """C text of what function `name` makes of sum `acc`, where there is one scale that is known."""
    lo, hi = (Number(n) for n in v.attr("activation", v.y.dtype.range))
    numbers = f"{number(one_scale(v), float32)}, {Number(v.known(7).item())}"
    return f"{name}(acc, {numbers}, {lo}, {hi})"


def one_zero_point(v: View, i: int) -> int | None:
    """None where it is not one number that is known."""
    if not v.has(i):
        return 0
    value = v.const(i)
    return int(value.item()) if value is not None and value.size == 1 else None


def one_scale(v: View) -> np.float32 | None:
    """What a sum is multiplied by, where it is one number that is known."""
    scales = [v.const(i) if v.has(i) else None for i in (1, 4, 6)]
    if not v.has(7) or v.const(7) is None or any(s is None or s.size != 1 for s in scales):
        return None
    a, b, y = (np.float32(s.item()) for s in scales if s is not None)
    return np.float32(a * b / y)
