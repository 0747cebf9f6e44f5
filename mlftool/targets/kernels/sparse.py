"""int8 contractions whose weights are mostly zero: only the others are stored and multiplied.

A weight that is loaded with its place is multiplied with that input of several pixels, which are
gathered so that they are next to each other. One pixel is read where it is. How weights are stored
is in sparse_weights.py; the integers that are added are those of the dense kernels without zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from mlftool.frozen import frozen, replace
from mlftool.ir.dtype import of
from mlftool.ir.holes import Number
from mlftool.ops.base import Operand
from mlftool.ops.contraction import Contraction, Quantisation, Stored
from mlftool.ops.nibbles import are_nibbles
from mlftool.ops.scalar import Store
from mlftool.targets.kernels.dsp import MOST_TIMES
from mlftool.targets.kernels.dsp_stream import numbers_of
from mlftool.targets.kernels.integers import in_integers
from mlftool.targets.kernels.parts import Tile, Walk, bias_of, byte_kernel, constants, walk
from mlftool.targets.kernels.sparse_weights import (
    Stream,
    gaps,
    group_of,
    grouped,
    in_words,
    is_sparse,
    streamed,
)
from mlftool.targets.requantise.forms import Form, form

GAPS = "of each weight that is not zero the distance to the one before, and the weight"
GROUPS = "for two groups of {} each a byte with the places of their weights, and the weights"
FOURS = "of four weights that are not zero the distances to the one before, then the weights"
PAIR = 2**23  # the second of two sums in one of 64 bits is so many times itself
WORDS = 3  # of two pixels each: one LDM, and the sums leave registers for the pointers
BYTEWISE = 4 * WORDS  # a place's bytes
MOST_ENTRIES = 2 * MOST_TIMES  # that a round repeats
STREAM = "of each channel the bias, its entries, the numbers of its requantisation; " + GAPS


@frozen
class Costs:
    """Instructions as counted: of an entry and of its product with a pixel; of an output channel
    and of its result at a pixel; of gathering an input of a pixel that is there whole, or of a
    window."""

    entry: float
    product: float
    channel: float
    result: float
    gather: float
    window: float


# What one step of the loop over entries multiplies: sparse.c.j2.
@frozen
class Dot:
    form: str  # "single", "words" or "pairs"
    rows: int  # pixels
    stride: int  # elements of `columns` from an input to the next
    unit: int  # a place in what distances count
    every: int  # entries in a round
    cost: Costs

    @property
    def ctype(self) -> str:
        """Of gathered inputs, if not that of the input."""
        return "int32_t" if self.form == "pairs" else ""

    @property
    def streamed(self) -> bool:
        """Whether a channel's bias and numbers are before and after its entries: where one pointer
        passes, no register is left for others."""
        return self.form == "pairs" and self.unit > 1


Make = Callable[[Contraction, bool, bool], Dot]  # in groups, for few bytes
Finishes = Callable[[Contraction, Quantisation], Form | None]


def _tile(
    c: Contraction, q: Quantisation, dot: Dot, finishes: Finishes, groups: bool
) -> Tile | None:
    size, finish = group_of(c) if groups else 0, finishes(c, q)
    if finish is None or (groups and not size) or (dot.form == "pairs" and not _pairs_fit(c, q)):
        return None
    kept = grouped(c, size) if size else gaps(c, dot.unit, dot.every)
    entries, twice = _entries(c, dot, finish)
    store, many = entries[0].store, dot.rows > 1 or not c.dense
    ctype = dot.ctype or c.v.x(0).dtype.c
    width = 4 if dot.ctype else 1
    column = dot.stride * c.depth
    columns = Operand("columns", ctype, "scratch", bytes=width * column)
    order = walk(c, dot.rows, column, columns, store.operands) if many else Walk.in_place()
    note = GROUPS.format(size) if size else GAPS
    stored, note = (in_words(kept), FOURS) if dot.form == "words" else (kept.entries, note)
    if dot.streamed:
        numbers = numbers_of(c, q, finish, 1)
        stored, note = streamed(kept, bias_of(c, q), numbers), STREAM
    weights = Operand("w", of(stored).c, "const", array=stored, note=note)
    apart = () if dot.streamed else constants(b=bias_of(c, q))
    ends = () if dot.streamed and finish.hoists else finish.operands
    return Tile(
        f"sparse.{'groups' if size else 'gaps'}.{dot.form}",
        "sparse.c.j2",
        c,
        (weights, *_counts(kept), *apart, *ends),
        order.scratch,
        store,
        {
            "batch": c.batch,
            "rows": dot.rows,
            "dot": dot.form,
            "stride": dot.stride,
            "step": dot.stride // dot.unit if dot.form == "single" else 1,
            "streamed": dot.streamed,
            "bytewise": dot.unit == BYTEWISE,
            "held": [f"{o.name}0" for o in finish.hoists],
            "twice": twice,
            "every": dot.every,
            "group": size,
            "rounds": None if not kept.even else Number(int(kept.rounds[0])),
            "stores": entries,
            "fused": bool(store.statements),
            "fill": q.x_zero_point,
            "times": PAIR,
        },
        cost=_cost(c, dot, kept.weights),
        header="mlf/sparse.h",
        walk=order,
    )


def _counts(kept: Stream) -> tuple[Operand, ...]:
    """How many rounds each output channel takes, if not all take as many."""
    if kept.even:
        return ()
    kind = np.uint16 if kept.rounds.max() < 2**16 else np.int32
    return constants(n=np.asarray(kept.rounds.astype(kind)))


def _entries(c: Contraction, dot: Dot, finish: Form) -> tuple[list[Stored], bool]:
    """Stores of the pixels' sums from element `at`, or from a pointer if the store reads no other.
    Pixels that all blocks have need no condition; whether others are stored where the last one
    is, at d<pixel>."""
    found = []
    held, plain = "0" if dot.streamed else "", Store(c.v, "", "at", "oc")
    twice = dot.streamed and not plain.statements and not plain.inplace
    for j in range(dot.rows):
        distance = Number(c.oc) * j
        index = f"at + {distance}" if j else "at"
        store = Store(c.v, f"({c.v.y.dtype.c}){finish.text(f'acc{j}0', 'oc', held)}", index, "oc")
        missing = j > (c.pixels - 1) % dot.rows
        guard = f"p + {j} < {Number(c.pixels)}" if missing and not twice else ""
        place = f"d{j}" if missing and twice else str(distance)
        found.append(Stored(guard, index if store.statements else place, store))
    return found, twice


def _cost(c: Contraction, dot: Dot, entries: int) -> float:
    k, blocks = dot.cost, -(-c.pixels // dot.rows)
    block = entries * (k.entry + k.product * dot.rows) + c.oc * (k.channel + k.result * dot.rows)
    gathered = c.depth * dot.rows * (k.gather if c.dense else k.window)
    return blocks * (block + (gathered if dot.rows > 1 or not c.dense else 0.0))


def _single(c: Contraction, most: int, cost: Costs) -> Dot:
    """As many pixels as there are, and as leave sums in registers."""

    def work(rows: int) -> float:
        return -(-c.pixels // rows) * (cost.entry + rows * cost.product)

    rows = min((n for n in (most, 4, 2, 1) if n <= max(1, c.pixels)), key=work)
    return Dot("single", rows, rows, 1, 4 if rows == 1 else 2, cost)


def _pairs_fit(c: Contraction, q: Quantisation) -> bool:
    """Whether the lower sum of two in 64 bits stays in its half, whatever the input."""
    raw = np.abs(bias_of(c, q).astype(np.int64)) + 128 * np.abs(
        c.weights.reshape(c.oc, -1).astype(np.int64)
    ).sum(axis=1)
    return bool(raw.max(initial=0) < PAIR // 2)


def _with_fpu(c: Contraction, q: Quantisation) -> Form | None:
    return form(c, q)


def _without(c: Contraction, q: Quantisation) -> Form | None:
    return in_integers(c, q, 1)


_SINGLE = Costs(3.0, 2.8, 3.0, 8.0, 1.5, 3.6)
_FEW_REGISTERS = Costs(3.0, 5.3, 10.0, 36.0, 4.0, 7.8)
_REGISTERS = Costs(3.0, 3.8, 4.0, 9.0, 1.5, 3.5)
_PAIRS = Costs(3.5, 0.5, 17.0, 6.0, 1.9, 4.0)
_WORDS = Costs(3.9, 0.0, 11.0, 0.0, 0.0, 1.5)
_PAIRS_IN_C = Costs(7.0, 0.75, 20.0, 11.0, 2.2, 4.0)


def _register(needs: str, unless: str, make: Make, finish: Finishes, signed: bool = False) -> None:
    """Distances take the fewest instructions. For `optimize: size` what takes the fewest bytes
    bids, if they are fewer than the dense form's."""

    def fast(c: Contraction, q: Quantisation) -> Tile | None:
        return _tile(c, q, make(c, False, False), finish, False) if is_sparse(c) else None

    def small(c: Contraction, q: Quantisation) -> Tile | None:
        if not is_sparse(c):
            return None
        ways = (_tile(c, q, make(c, groups, True), finish, groups) for groups in (False, True))
        least = min(filter(None, ways), key=_constant_bytes, default=None)
        if least is None or _constant_bytes(least) >= _dense_bytes(c, q, finish):
            return None
        scratch = [replace(o, planned=True) for o in least.scratch]
        return replace(least, scratch=scratch, small=2)

    byte_kernel(needs, f"{unless} size", signed=signed)(fast)
    byte_kernel(f"{needs} size", unless, signed=signed)(small)


def _constant_bytes(tile: Tile) -> int:
    return _array_bytes(tile.constants)


def _dense_bytes(c: Contraction, q: Quantisation, finishes: Finishes) -> int:
    finish = finishes(c, q)
    beside = _array_bytes((*constants(b=bias_of(c, q)), *(finish.operands if finish else ())))
    return beside + c.weights.size // (2 if are_nibbles(c, q) else 1)


def _array_bytes(operands: Iterable[Operand]) -> int:
    return sum(o.array.nbytes for o in operands if o.array is not None)


def _pairs(c: Contraction, groups: bool, small: bool) -> Dot:
    if c.pixels == 1:
        return _single(c, 1, _SINGLE) if groups else Dot("words", 1, 1, 1, 8, _WORDS)
    if groups:
        return Dot("pairs", 2 * WORDS, WORDS, 1, 2, _PAIRS_IN_C)
    unit, every = (WORDS, 2) if small else _steps(c)
    return Dot("pairs", 2 * WORDS, WORDS, unit, every, _PAIRS)


def _steps(c: Contraction) -> tuple[int, int]:
    """What distances count and how many entries a round takes, so that the loop takes the fewest
    instructions: a distance in bytes takes one less than one in words, but does not reach as
    far, and one round needs no end."""

    def work(unit: int, every: int) -> float:
        kept = gaps(c, unit, every)
        entry = 6.5 if unit == BYTEWISE else 7.5
        return float(kept.rounds.sum()) * (every * entry + (3.0 if kept.rounds.max() > 1 else 0.0))

    most = int(np.count_nonzero(c.weights.reshape(c.oc, -1), axis=1).max(initial=1))
    once = [] if most > MOST_ENTRIES else [most + most % 2]
    ways = [(unit, every) for unit in (BYTEWISE, WORDS) for every in (*once, 8, 4, 2)]
    return min(ways, key=lambda way: work(*way))


def _at_most(rows: int, cost: Costs) -> Make:
    return lambda c, groups, small: _single(c, rows, cost)


_register("dsp", "mve", _pairs, _with_fpu, signed=True)
_register("fpu", "mve vector registers", _at_most(4, _SINGLE), _with_fpu)
_register("fpu registers", "", _at_most(8, _REGISTERS), _with_fpu)
_register("registers", "fpu", _at_most(8, _REGISTERS), _without)
_register("", "fpu registers narrow", _at_most(4, _SINGLE), _without)
_register("narrow", "fpu", _at_most(4, _FEW_REGISTERS), _without)
