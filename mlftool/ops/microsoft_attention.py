"""onnxruntime's attention operators, which its transformer optimiser and its quantiser write, in
terms of products of matrices and Softmax."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx

from mlftool.onnx_rules.scope import CONSTANT, Refuse
from mlftool.onnx_rules.steps import Steps
from mlftool.ops.base import UnsupportedError
from mlftool.ops.microsoft import microsoft

_HEADS = "mask_filter_value num_heads scale unidirectional"
_PAST = f"{_HEADS} do_rotary past_present_share_buffer"


def _num_heads(s: Steps) -> int:
    heads = int(s.attrs["num_heads"])
    if heads < 1:
        raise Refuse("MLF0303", f"num_heads is {heads}; expected 1 or more")
    return heads


def _heads(s: Steps, value: str, batch: int, time: int, width: int) -> str:
    """[batch, time, width] as [batch, head, time, width of a head]."""
    heads = _num_heads(s)
    split = s("Reshape", value, s.const([batch, time, heads, width // heads], np.int64))
    return s("Transpose", split, perm=[0, 2, 1, 3])


def _added(s: Steps, keep: str, axes: list[int]) -> str:
    """What is added to scores: 0 where `keep` is 1, a large negative number where it is 0."""
    to = onnx.TensorProto.FLOAT
    counts = s("Greater", s("Cast", keep, to=to), s.const(0.0))  # as onnxruntime reads a mask
    lacks = s("Sub", s("Cast", counts, to=to), s.const(1.0))
    size = -s.attrs.get("mask_filter_value", -10000.0)
    return s("Unsqueeze", s("Mul", lacks, s.const(size)), s.const(axes, np.int64))


def _mask(s: Steps, i: int, batch: int, total: int) -> str:
    """Input `i`: for each key (and query) whether it counts, or for each batch how many keys do."""
    shape = s.type(i).shape
    if len(shape) == 3:
        return _added(s, s.x(i), [1])
    if len(shape) == 2 and shape[1] == total:
        return _added(s, s.x(i), [1, 2])
    if shape == (batch,):
        lengths = s("Unsqueeze", s.x(i), s.const([1], np.int64))
        return _added(s, s("Less", s.const(np.arange(total), np.int32), lengths), [1, 2])
    raise UnsupportedError(f"an attention mask of shape {list(shape)}; supported: 1 to 3 axes")


def _attend(s: Steps, parts: list[str], adds: list[str], sizes: tuple[int, ...]) -> None:
    """softmax(q @ k.T * scale + what is added) @ v for each head, joined again: the first output.
    `parts` are queries q, keys k and values v; `sizes` are batch, queries, keys of the past, all
    keys, widths of a query and of all values."""
    q, k, v = parts
    batch, time, past, total, width, values = sizes
    if width < 1:
        raise Refuse("MLF0303", f"{_num_heads(s)} heads do not fit the width of its queries")
    scores = s("MatMul", q, s("Transpose", k, perm=[0, 1, 3, 2]))
    scores = s("Mul", scores, s.const(s.attrs.get("scale", 0.0) or width**-0.5))
    if s.attrs.get("unidirectional", 0):
        future = np.arange(total) > np.arange(past, past + time)[:, None]
        future[-1:] = False  # the last query sees all that there is, as in onnxruntime
        adds = [*adds, s.const(np.where(future, np.finfo(np.float32).min, 0))]
    for add in adds:
        scores = s("Add", scores, add)
    mixed = s("MatMul", s("Softmax", scores, axis=-1), v)
    joined = s("Transpose", mixed, perm=[0, 2, 1, 3])
    s("Reshape", joined, s.const([batch, time, values], np.int64), out=0)


def _own(s: Steps, product: str, widths: list[int], mask: int, past: int, bias: int) -> None:
    """Attention of a sequence to itself: `product` holds queries, keys and values side by side;
    `mask`, `past` and `bias` are places of inputs."""
    batch, time, _ = s.shape(0, 3)
    if s.attrs.get("do_rotary", 0) or s.attrs.get("past_present_share_buffer", 0):
        raise UnsupportedError("rotary attention or a shared cache; supported: neither")
    total, ends = time, np.cumsum([0, *widths])
    parts = []
    for j, width in enumerate(widths):
        place = (s.const([int(n)], np.int64) for n in (ends[j], ends[j + 1], 2))
        parts.append(_heads(s, s("Slice", product, *place), batch, time, width))
    if s.x(past):
        total += s.shape(past, 5)[3]
        for j in (0, 1):
            before = s("Gather", s.x(past), s.const(j, np.int64), axis=0)
            parts[j + 1] = s("Concat", before, parts[j + 1], axis=2)
    if s.wants(1):
        axis = s.const([0], np.int64)
        s("Concat", *(s("Unsqueeze", p, axis) for p in parts[1:]), out=1, axis=0)
    adds = [_mask(s, mask, batch, total)] if s.x(mask) else []
    adds += [s.x(bias)] if s.x(bias) else []
    head = widths[0] // _num_heads(s)
    _attend(s, parts, adds, (batch, time, total - time, total, head, widths[2]))


@microsoft(Attention=f"xx?????>2 {_PAST} qkv_hidden_sizes rotary_embedding_dim")
def _attention(s: Steps) -> None:
    product = s("MatMul", s.x(0), s.x(1))
    if s.x(2):
        product = s("Add", product, s.x(2))
    widths = list(s.attrs.get("qkv_hidden_sizes") or [s.shape(1, 2)[1] // 3] * 3)
    if len(widths) != 3:
        raise Refuse("MLF0303", f"qkv_hidden_sizes has {len(widths)} numbers; expected 3")
    _own(s, product, widths, 3, 4, 5)


@microsoft(QAttention=f"xxxxx????>2 {_PAST}")
def _quantised_attention(s: Steps) -> None:
    """The product with the weights is one of integers; what follows is float."""
    sides = []
    for at, scale, zero in ((0, 3, 6), (1, 4, 7)):
        attrs = {"axis": 1} if len(s.type(scale).shape) and s.type(scale).shape != (1,) else {}
        parameters = [s.x(scale)] + ([s.x(zero)] if s.x(zero) else [])
        if not attrs:
            empty = s.const([], np.int64)
            parameters = [s("Reshape", name, empty) for name in parameters]
        sides.append(s("DequantizeLinear", s.x(at), *parameters, **attrs))
    product = s("Add", s("MatMul", *sides), s.x(2))
    _own(s, product, [s.shape(1, 2)[1] // 3] * 3, 5, 8, 99)


@microsoft(MultiHeadAttention=f"x?????????>4 {_HEADS}")
def _multi_head(s: Steps) -> None:
    """Queries, keys and values apart, each [batch, time, width]. Keys and values that do not change
    from call to call come by heads, [batch, head, time, width of a head], without bias."""
    ranks = [len(s.type(k).shape) if s.x(k) else 0 for k in range(3)]
    if ranks not in ([3, 3, 3], [3, 4, 4]):
        raise UnsupportedError(
            "packed or cached keys and values; supported: three tensors of 3 axes, or keys and "
            "values of 4, by heads"
        )
    batch, time, width = s.type(0).shape
    total, heads = s.type(1).shape[-2], _num_heads(s)
    values = s.type(2).shape[-1] * (heads if ranks[2] == 4 else 1)
    widths, ends = (width, width, values), np.cumsum([0, width, width, values])
    parts = []
    for j in range(3):
        value = s.x(j)
        if s.x(3) and ranks[j] == 3:
            place = (s.const([int(n)], np.int64) for n in (ends[j], ends[j + 1]))
            value = s("Add", value, s("Slice", s.x(3), *place))
        if ranks[j] == 3:
            value = _heads(s, value, batch, s.type(j).shape[1], widths[j])
        parts.append(value)
    for j in (1, 2):
        if s.x(5 + j):
            parts[j] = s("Concat", s.x(5 + j), parts[j], axis=2)
        if s.wants(j):
            s("Identity", parts[j], out=j)
    past = s.shape(6, 4)[2] if s.x(6) else 0
    total += past
    adds = [_mask(s, 4, batch, total)] if s.x(4) else []
    adds += [s.x(5)] if s.x(5) else []
    _attend(s, parts, adds, (batch, time, past, total, width // heads, values))


@microsoft(
    RotaryEmbedding="xxxx interleaved is_packed_batching num_heads rotary_embedding_dim scale"
)
def _rotary(s: Steps) -> None:
    """One position is that of the first of a sequence; otherwise each element has its own."""
    shape = s.type(0).shape
    if s.attrs.get("is_packed_batching", 0) or len(shape) not in (3, 4):
        raise UnsupportedError(f"packed batches of {len(shape)} axes; supported: 3 or 4, unpacked")
    batch, time = shape[0], shape[-2]
    places, half = s.x(1), s.shape(2, 2)[1]
    if s.type(1).shape != (batch, time):
        ahead = s("Add", places, s.const(np.arange(time)[None], np.int64))
        places = s("Expand", ahead, s.const([batch, time], np.int64))
    heads = s.attrs.get("num_heads", 0) or shape[-1] // (2 * half)
    _turned(s, s.x(0), (s.x(2), s.x(3)), places, heads if len(shape) == 3 else 0, out=0)


def _turned(
    s: Steps, x: str, tables: tuple[str, str], places: str, heads: int = 0, out: int | None = None
) -> str:
    """`x` by the cosines and sines in the rows of `tables` that `places` names."""
    attrs = {"rotary_embedding_dim": s.attrs.get("rotary_embedding_dim", 0)}
    attrs["interleaved"] = s.attrs.get("interleaved", 0) or s.attrs.get("rotary_interleaved", 0)
    attrs |= {"num_heads": heads} if heads else {}
    return s("RotaryEmbedding", x, *tables, places, out=out, **attrs)


_GROUPS = "do_rotary kv_num_heads local_window_size num_heads qk_output rotary_interleaved scale"
_GROUPS += " causal kv_cache_bit_width k_quant_type v_quant_type qk_norm_epsilon smooth_softmax"


@microsoft(GroupQueryAttention=f"x????xx?????????>4 {_GROUPS} sliding_window_cache softcap")
def _group_query(s: Steps) -> None:
    """Several heads of queries share one of keys and values. What the cache holds ends, for each
    batch, where the new keys begin: at the length in input 5, which counts them but one."""
    if (total := s.consts.get(s.x(6))) is None or np.size(total) != 1:
        text = "a total_sequence_length that is not one constant; supported: one"
        raise Refuse("MLF0302", text, CONSTANT)
    flags = s.attrs.get("smooth_softmax", 0), s.attrs.get("sliding_window_cache", 0)
    if any(flags) or not s.attrs.get("causal", 1) or any(map(s.x, range(11, 16))) or s.wants(3):
        text = "sinks, quantised or sliding caches, norms, queries that look ahead or scores as an"
        raise UnsupportedError(f"{text} output; supported: none of them")
    if not s.type(0).dtype.is_float:
        raise Refuse("MLF0303", f"queries of {s.type(0).dtype.name}; expected floats")
    room = int(np.asarray(total).item())
    batch, time, width = s.shape(0, 3)
    heads, groups = _num_heads(s), int(s.attrs["kv_num_heads"])
    if groups < 1 or heads % groups or (not s.x(1) and width % (heads + 2 * groups)):
        raise Refuse("MLF0303", f"{heads} heads and {groups} of keys; expected a whole number each")
    head = width // (heads if s.x(1) else heads + 2 * groups)
    q, k, v = _apart(s, (heads, groups, groups), head)
    last = s.x(5) if room == time else s.const(time - 1, np.int32)
    begins = s("Cast", s("Sub", s.x(5), last), to=onnx.TensorProto.INT64)
    begins = s("Reshape", begins, s.const([batch, 1], np.int64))
    own = s("Add", begins, s.const(np.arange(time), np.int64))  # [batch, time]
    if s.attrs.get("do_rotary", 0):
        tables, places = (s.x(7), s.x(8)), s.x(9) or own
        q, k = _turned(s, q, tables, places), _turned(s, k, tables, places)
    room, cached = max(s.shape(3, 4)[2] if s.x(3) else 0, room), []
    for j, new in enumerate((k, v)):
        before = s.shape(3 + j, 4)[2] if s.x(3 + j) else 0
        empty = s.const(np.zeros((batch, groups, room - before, head)), s.type(0).dtype.numpy)
        held = s("Concat", *([s.x(3 + j)] if before else []), empty, axis=2)
        if before or room > time:
            at = s("Reshape", begins, s.const([batch], np.int64))
            new = s("TensorScatter", held, new, at, out=1 + j if s.wants(1 + j) else None)
        elif s.wants(1 + j):
            s("Identity", new, out=1 + j)
        cached.append(new)
    _seen(s, q, cached, own, (batch, time, room, heads * head))


def _apart(s: Steps, counts: tuple[int, int, int], head: int) -> list[str]:
    """Queries, keys and values, each [batch, heads, time, width of a head]."""
    parts, ends = [], np.cumsum([0, *counts]) * head
    for j, count in enumerate(counts):
        value = s.x(j)
        if not s.x(1):
            place = (s.const([int(n)], np.int64) for n in (ends[j], ends[j + 1], 2))
            value = s("Slice", s.x(0), *place)
        split = s("Reshape", value, s.const([0, 0, count, head], np.int64))
        parts.append(s("Transpose", split, perm=[0, 2, 1, 3]))
    return parts


def _seen(s: Steps, q: str, cached: list[str], own: str, sizes: tuple[int, int, int, int]) -> None:
    """The first output: each query sees what is not after it, and no more than the window."""
    batch, time, room, width = sizes
    place, keys = s("Unsqueeze", own, s.const([1, 3], np.int64)), s.const(np.arange(room), np.int64)
    seen = s("LessOrEqual", keys, place)
    if (window := s.attrs.get("local_window_size", -1)) > 0:
        oldest = s("Sub", place, s.const(window - 1, np.int64))
        seen = s("And", seen, s("GreaterOrEqual", keys, oldest))
    number = s.type(0).dtype.numpy
    mask = s("Where", seen, s.const(0, number), s.const(ml_dtypes.finfo(number).min, number))  # type: ignore[no-untyped-call]
    mask = s("Add", mask, s.x(10)) if s.x(10) else mask
    attrs = {"softcap": s.attrs.get("softcap", 0.0)}
    attrs |= {"scale": s.attrs["scale"]} if s.attrs.get("scale", 0.0) else {}
    mixed = s("Transpose", s("Attention", q, *cached, mask, **attrs), perm=[0, 2, 1, 3])
    s("Reshape", mixed, s.const([batch, time, width], np.int64), out=0)
