"""What the operations of a kernel take on a processor, in instructions: one table of prices.

Prices were counted on the simulated boards, in loops over one operator (`mlftool profile`), with
gcc -O2; those of functions are means over random numbers for which they are defined. Without an
FPU, or without one for doubles, each operation on them is a call of gcc's library.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache

from mlftool.frozen import replace
from mlftool.ir.graph import View
from mlftool.ir.operations import DOUBLE, NOTHING, Operations, times
from mlftool.ops import Kernel, Trait, is_a
from mlftool.ops.base import contracts
from mlftool.ops.scalar import Load, Store
from mlftool.targets import Target

# Eight registers and no long product (Cortex-M0); thirty-two registers (rv32imc); neither, nor an
# FPU (Cortex-M3); an FPU for floats (Cortex-M4); one for doubles, too (Cortex-M55).
_TABLE = """
              narrow  registers  plain  single  double
whole              1          1      1       1       1
times              1          1      1       1       1
divide            37          1      1       1       1
load               1          2      1       1       1
store              1          2      1       1       1
choose             2        1.5      2       2       2
loop             3.5        1.3      2       2       1
call              18         18     14      14      14
memcpy            50          5      4       4       4
byte            0.85          6    0.7     0.7     0.7
short             45          2      3       3       3
short_byte         2        2.3    0.5     0.5     0.5
add               65         68     46       1       1
mul              105        100     29       1       1
div              379        103    149       1       1
less              34         22     36       2       2
convert           46         46     26       2       2
wide add           8          8      5       5       4
wide times        50         10      8       8       8
wide divide      250        120     80      80      80
fabs               1          1      1       1       1
sqrt             149        130    120       1       1
clamp_f32         85         52     77       7       7
quantize         142        118    127      16      16
float_of_finite_f16  16      16     16       7       7
float_of_bf16      2          2      2       2       2
clamp_i32          6          4      3       1       1
min_i32            3          3      3       3       3
shift_clamp_i32    7          6      4       2       2
multiply_high     16          2      2       1       1
high_word         22          1      1       1       1
shift_even         6          6      5       5       5
requantize       140         60     60       6       6
requantize_wide  320        260    190      20      20
requantize_soft  140         60     60      60      60
softmax_worth     40         14      7       7       7
softmax_share     45          8      6       6       6
softmax_factor   500        350    110     110     110
one_over_root    600        300    120     120     120
i32_of_float     100         69     91       8       8
floor            251        204    216      20      18
ceil             251        204    216      20      18
rint             247        213    197      11      10
exp             1817       1736    824      29      29
expm1           4900       4800   2500      78      78
tanh            7100       6313   3627      92      92
erf             2411       2249   1165      47      47
log             6000       4000   2640    2340      70
log1p           7780       5170   3238    3185      85
pow            22500      15800  10200    9900     220
sin             7667       5363   3168    3009      68
cos             7617       5320   3120    2990      68
tan            12220       8312   5231    5046      86
atan            6574       4343   2852    2730      51
asin            5900       4100   2350    2260      54
acos            5900       4100   2350    2260      54
sinh            8675       5783   3640    3552      74
cosh            8675       5783   3640    3552      74
asinh           8000       5500   3500    3400      80
acosh           8000       5500   3500    3400      80
atanh           8000       5500   3500    3400      80
"""
_DOUBLES = 1.7  # an operation of gcc's library on doubles, for each on floats


@cache
def _columns() -> Mapping[str, Mapping[str, float]]:
    """The prices by family and kind."""
    head, *rows = (line.split("  ") for line in _TABLE.strip("\n").splitlines())
    families = [cell.strip() for cell in head if cell]
    made: dict[str, dict[str, float]] = {family: {} for family in families}
    for name, *cells in rows:
        prices = (float(cell) for cell in cells if cell.strip())
        for family, price in zip(families, prices, strict=True):
            made[family][name] = price
    return made


def family(target: Target) -> str:
    """The column of a target."""
    if "fpu" in target.features:
        return "double" if "doubles" in target.features else "single"
    return next((f for f in ("narrow", "registers") if f in target.features), "plain")


def instructions(work: Operations, target: Target) -> float:
    """What it takes the target."""
    return sum(n * price(kind, family(target)) for kind, n in work.counts.items())


@cache
def price(kind: str, of: str) -> float:
    """Of one operation. A function that is not in the table is a call."""
    prices = _columns()[of]
    if kind in prices:
        return prices[kind]
    if not kind.startswith(DOUBLE):
        return prices["call"]
    kind = kind.removeprefix(DOUBLE)
    return price(kind, of) if of == "double" else _DOUBLES * price(kind, _SOFT.get(of, of))


_SOFT = {"single": "plain"}


def priced(kernel: Kernel, v: View, target: Target) -> Kernel:
    """The kernel with its cost on the target, which has that of what is fused with it."""
    fused = v.once("fused operations", lambda: _fused(v))
    work = kernel.operations + fused * (1 / kernel.lanes)
    return replace(kernel, cost=kernel.cost + instructions(work, target), operations=NOTHING)


def _fused(v: View) -> Operations:
    """Of the elementwise nodes around a core, and of what makes floats of its integer sums."""
    of_core, made = contracts(v.core), NOTHING
    if of_core and of_core.quantised and v.y.dtype.is_float:
        made = v.y.elements * times(convert=1, mul=1)
    if not v.node.body or is_a(v.core, Trait.ELEMENTWISE):
        return made
    store, load = Store(v, "acc", "p", "c"), Load(v)
    made += store.operations * v.out.elements
    return made + load.operations * v.type(load.tensor).elements
