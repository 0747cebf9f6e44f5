"""What an instruction costs on a core, in cycles, after the one before it.

Memory answers at once; `Flash` says what slower program memory adds. `Core.source` says whose table
it is, and `Core.checked` what it was compared with. No board was measured. Of Cortex-M7, M33 and
M55 Arm publishes no table, so those are rules of ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Protocol

from mlftool.frozen import frozen


class Executed(Protocol):
    """An instruction as objdump prints it: its name without .w, .f32 and the like."""

    @property
    def name(self) -> str: ...
    @property
    def operands(self) -> str: ...


Price = Callable[[Executed, Executed | None], float]


@frozen
class Core:
    """`price` of an instruction after the one before it, a branch with a condition as if it were
    not taken; `taken` is added if it is."""

    price: Price
    taken: float
    source: str
    checked: str = ""


@frozen
class Flash:
    """Program memory that gives `line_bytes` every `wait_states` + 1 cycles, without a cache. What
    it adds to loads of constants is not known, since their addresses are not traced."""

    wait_states: int = 0
    line_bytes: int = 16

    def fetched(self, cycles: float, size: int) -> float:
        """Cycles of an instruction of `size` bytes: no fewer than its bytes take to arrive."""
        return max(cycles, size * (self.wait_states + 1) / self.line_bytes)

    def jumped(self, taken: float) -> float:
        """Cycles that a branch adds if it is taken: the line it goes to is not there yet."""
        return taken + self.wait_states


FAST = Flash()
_BRANCH = re.compile(
    r"(bl?x?|cbn?z|tb[bh]|b(eq|ne|cs|cc|hs|lo|mi|pl|vs|vc|hi|ls|ge|lt|gt|le))(\.n)?$"
)
_ALWAYS = ("b", "bl", "bx", "blx", "tbb", "tbh")
_MANY = re.compile(r"v?(ldm|stm|pop|push)")
_PAIR = re.compile(r"[ls][td]rd")
_LOAD = re.compile(r"v?ldr")
_SINGLE = re.compile(r"v?ldr(?!d)")  # nothing overlaps with a pair, or comes early after a store
_STORE = re.compile(r"v?str")
_REGISTER = re.compile(
    r"\b(?:r1[0-5]|r[0-9]|sl|fp|ip|sp|lr|pc|[sdq][0-9]+|[agstx][0-9]+|ra|gp|tp)\b"
)


def may_fall(i: Executed) -> bool:
    """Whether it is a branch with a condition, which may go on with the next instruction."""
    name = i.name.removesuffix(".n")
    return bool(_BRANCH.match(name) or _RISC_BRANCH.match(name)) and name not in _ALWAYS


def registers(operands: str) -> int:
    """How many a list such as {r4, r5-r7, lr} has."""
    count = 0
    for part in operands[operands.index("{") + 1 : operands.index("}")].split(","):
        ends = re.findall(r"\d+", part)
        count += int(ends[1]) - int(ends[0]) + 1 if len(ends) == 2 else 1
    return count


def _waits(i: Executed, before: Executed | None, load: re.Pattern[str]) -> bool:
    """Whether it reads what the load before it has loaded."""
    if before is None or not load.match(before.name):
        return False
    loaded = _REGISTER.search(before.operands)
    read = _REGISTER.findall(i.operands)
    stores = bool(_STORE.match(i.name) or _RISC_STORE.match(i.name))
    return loaded is not None and loaded[0] in (read if stores or may_fall(i) else read[1:])


def _listed(i: Executed, table: Mapping[str, float], usual: float = 1) -> float:
    """By the first pattern that matches the whole name."""
    return next((n for pattern, n in table.items() if re.fullmatch(pattern, i.name)), usual)


# DDI 0432C, table 3-1, with the multiplier of one cycle.
_M0 = {
    r"(ldr|str)(b|h|sb|sh)?": 2,
    r"b(\.n)?|bx": 3,
    r"blx": 3,
    r"bl": 4,
    r"mrs|msr|dsb|isb|dmb": 4,
}


def _cortex_m0(i: Executed, before: Executed | None) -> float:
    if _MANY.match(i.name):
        returns = i.name.startswith("pop") and "pc" in i.operands
        return (4 if returns else 1) + registers(i.operands)
    return _listed(i, _M0)


# DDI 0439D, table 3-1, and its notes on pairs of loads; divisions at the middle of 2 to 12.
_M4 = {
    r"[su]div": 7,
    r"v(div|sqrt)": 14,
    r"v(fma|fms|fnm|mla|mls|nmla|nmls).*": 3,
}
# DDI 0337I, table 3-1: what is slower there, at the middle of the ranges.
_M3 = {r"ml[as]": 2, r"[su]mull": 4, r"[su]mlal": 5, **_M4}


def _of_three_stages(table: Mapping[str, float]) -> Price:
    def price(i: Executed, before: Executed | None) -> float:
        if _BRANCH.match(i.name):
            return 1 if may_fall(i) else 3
        if _PAIR.match(i.name):
            return 3
        if _MANY.match(i.name):
            return 1 + registers(i.operands)
        if _LOAD.match(i.name):
            return 1 if before is not None and _SINGLE.match(before.name) else 2
        return _listed(i, table)

    return price


def _cortex_m33(i: Executed, before: Executed | None) -> float:
    """A load costs a cycle more only if the next instruction wants it."""
    late = 1 if _waits(i, before, _LOAD) else 0
    if _BRANCH.match(i.name):
        return late + (1 if may_fall(i) else 2)
    if _PAIR.match(i.name):
        return late + 2
    if _MANY.match(i.name):
        return late + registers(i.operands)
    return late + _listed(i, _M4)


_SIMPLE = re.compile(r"(add|sub|mov|and|orr|eor|bic|mvn|cmp|cmn|tst|rsb|adc|sbc)[swt]?(\.n)?$")
_VECTOR = re.compile(r"v(ldr|str|ldm|stm|ld[24]|st[24])")
_APART = re.compile(r"\[.*\bq[0-7]\b")  # elements are where a vector says
_LANES = re.compile(r"\bq[0-7]\b")


def _cortex_m7(i: Executed, before: Executed | None) -> float:
    """Two instructions in a cycle: half a cycle each where the second is simple arithmetic or a
    load, another kind than the first, and reads nothing of it."""
    if _MANY.match(i.name):
        return 1 + registers(i.operands) / 2
    slow = _listed(i, {r"[su]div": 7, r"v(div|sqrt)": 14}, 0)
    if slow or before is None:
        return slow or 1
    late = 1 if _waits(i, before, _LOAD) else 0
    written = _REGISTER.search(before.operands)
    depends = written is not None and written[0] in _REGISTER.findall(i.operands)[1:]
    kinds = [
        "memory"
        if _LOAD.match(x.name) or _STORE.match(x.name)
        else "branch"
        if _BRANCH.match(x.name)
        else "simple"
        if _SIMPLE.match(x.name)
        else "other"
        for x in (before, i)
    ]
    together = not depends and (kinds[0] != kinds[1] or kinds[0] == "simple")
    return late + (0.5 if together and kinds[1] != "other" else 1)


def _cortex_m55(i: Executed, before: Executed | None) -> float:
    """Vectors take two cycles, of which one overlaps with a neighbour of the other kind: loads and
    stores, and arithmetic. Loads and stores of elements that are apart take a cycle for each of
    four words or eight shorter ones. The rest as on Cortex-M33."""
    if i.name in ("le", "letp"):
        return 1
    if not _LANES.search(i.operands):
        return _cortex_m33(i, before)
    if _APART.search(i.operands):
        return 8 if i.name.startswith(("vldrb", "vstrb", "vldrh", "vstrh")) else 4
    near = before is not None and bool(_LANES.search(before.operands))
    other = before is not None and bool(_VECTOR.match(i.name)) != bool(_VECTOR.match(before.name))
    return 1 if near and other else 2


_RISC_BRANCH = re.compile(r"b(eq|ne|lt|ge|gt|le)u?z?$")
_RISC_LOAD = re.compile(r"(l[bhw]u?|flw)$")
_RISC_STORE = re.compile(r"(s[bhw]|fsw)$")
# Ibex with its writeback stage, the multiplier of one cycle and an adder for branches' targets.
_RISC = {r"mulhs?u?": 2, r"(div|rem)u?": 37, r"j|jal|jalr|jr|ret|call|tail": 2}


def _rv32imc(i: Executed, before: Executed | None) -> float:
    return (1 if _waits(i, before, _RISC_LOAD) else 0) + _listed(i, _RISC)


_RULES = "rules of mlftool's"
_PAIRS = "the pairs of loads and stores in the notes on its table"
CORES: Mapping[str, Core] = {
    "cortex-m0": Core(_cortex_m0, 2, "Arm DDI 0432C, table 3-1"),
    "cortex-m3": Core(_of_three_stages(_M3), 2, "Arm DDI 0337I, table 3-1", _PAIRS),
    "cortex-m4": Core(_of_three_stages(_M4), 2, "Arm DDI 0439D, table 3-1", _PAIRS),
    "cortex-m7": Core(
        _cortex_m7,
        0,
        _RULES,
        "MLPerf Tiny v1.2: X-CUBE-AI takes 0.55 to 0.63 of Cortex-M4's cycles, ours are estimated "
        "at 0.73 to 0.81, so too slow by a quarter",
    ),
    "cortex-m33": Core(
        _cortex_m33,
        1,
        _RULES,
        "MLPerf Tiny v1.2: X-CUBE-AI takes 0.87 to 0.90 of Cortex-M4's cycles, ours are estimated "
        "at 0.88 to 0.94",
    ),
    "cortex-m55": Core(_cortex_m55, 1, _RULES),
    "rv32imc": Core(_rv32imc, 1, "Ibex Reference Guide, pipeline details"),
}
