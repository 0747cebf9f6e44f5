"""What is assembly on a Cortex-M4 or a Cortex-M55 touches no byte that its C for other processors
does not touch, and gives the same: the proof of index ranges takes one for the other.

The C runs on this computer, the Cortex-M4's assembly under qemu-arm, both between pages that
nothing may touch; the Cortex-M55's on a simulated board with a memory protection unit.
"""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from calls import FLAGS, HERE, Array, Call, compile_calls

BOARDS = HERE.parents[1] / "crt" / "boards"
CASES = 4  # of each function
FORMS = {"pair_dot": 11}  # and of one that has other code for other numbers of groups
M4 = ("arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-mfloat-abi=hard", "-mfpu=fpv4-sp-d16")
M55 = ("arm-none-eabi-gcc", "-mcpu=cortex-m55", "-mthumb", "-mfloat-abi=hard")
HELIUM = 100  # where its functions begin in core_calls.h


class Some:
    """Arrays of random numbers."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.chance = random.Random(seed)
        self.rng = np.random.default_rng(seed)

    def __call__(self, least: int, most: int) -> int:
        return self.chance.randint(least, most)

    def bytes(self, count: int, dtype: type = np.int8) -> Array:
        return self.rng.integers(0, 256, count, np.uint8).view(dtype)

    def halves(self, count: int) -> Array:
        return self.rng.integers(-9, 10, count, np.int16)

    def words(self, count: int) -> Array:
        return self.rng.integers(0, 1 << 32, count, np.uint32)

    def ints(self, count: int) -> Array:
        return self.rng.integers(-999, 1000, count, np.int32)

    def floats(self, count: int) -> Array:
        return self.rng.normal(size=count).astype(np.float32)


def none(count: int, dtype: type = np.int32) -> Array:
    return np.zeros(count, dtype)


Parameters = Sequence[Array | int]


def products(
    s: Some, w: int, x: int, step: int, sums: int = 10, second: bool = False
) -> Parameters:
    """Turns of a loop over so many words of weights and halfwords, or bytes if `step` is 1."""
    turns = s(1, 5)
    inputs = s.halves(x * turns) if step == 2 else s.bytes(x * turns)
    if second:
        return s.words(w * turns), inputs, s.halves(x * turns), none(sums), x * turns
    return s.words(w * turns), inputs, x * turns, none(sums)


def sixes(s: Some, step: int) -> Parameters:
    """A step of four products for six channels, and turns of a loop of sixteen."""
    turns = s(1, 4)
    count = 4 + 16 * turns
    inputs = s.halves(count) if step == 2 else s.bytes(count)
    return s.words(6 + 6 + 24 * turns), inputs, count, none(6)


def gaps_6(s: Some, count: int, turns: int = 1) -> Parameters:
    """A channel's bias and rounds of four entries, whose distances `count` so many in a word."""
    fours = s(1, turns)
    gaps = [3 * s(0, 4) for _ in range(4 * fours)]
    entries = np.array([[count * gap, s(-9, 9)] for gap in gaps], np.int8)
    words = np.append(s.ints(1).view(np.uint32), entries.reshape(-1).view(np.uint32))
    return words, s.ints(sum(gaps) + 3), 1 + 2 * fours, none(6)


def gaps_1(s: Some) -> Parameters:
    fours = 2 * s(1, 4)
    gaps = [s(0, 200) for _ in range(4 * fours)]
    words = np.empty((fours, 2, 4), np.uint8)
    words[:, 0] = np.reshape(gaps, (fours, 4))
    words[:, 1] = s.bytes(4 * fours, np.uint8).reshape(fours, 4)
    return words.reshape(-1).view(np.uint32), s.bytes(sum(gaps) + 1), 2 * fours, none(10)


def four_pixels(s: Some) -> Parameters:
    """Of rows that have gaps between them, and pixels that are `apart` elements apart."""
    rows, run, skip, apart = s(1, 3), s(1, 9), s(0, 2), s(1, 4)
    reach = 3 * apart + rows * (run + skip) - skip
    place = (apart, 4 * skip, rows, run)
    return s.floats(reach), s.floats(4 * rows * run), s.floats(4), none(16, np.float32), *place


def one_pixel(s: Some) -> Parameters:
    n = s(1, 20)
    return s.floats(n), s.floats(8 * n), n, s.floats(8), none(8, np.float32)


def dots(
    s: Some, x: int, w: int, bias: int, sums: int, dtype: type = np.int8, groups: int = 0
) -> Parameters:
    """Groups of so many elements and weights."""
    groups = groups or s(1, 9)
    inputs = s.bytes(x * groups) if dtype is np.int8 else s.halves(x * groups)
    return inputs, s.bytes(w * groups), groups, s.ints(bias), none(sums)


def scaled(s: Some, scales: int) -> Parameters:
    """Sums whose products are within 2^15 - 512, many of them ties, and a zero point."""
    scale = s.rng.uniform(1e-4, 1, scales).astype(np.float32)
    scale = np.where(s.rng.integers(0, 2, scales) == 1, np.exp2(np.floor(np.log2(scale))), scale)
    near = s.rng.choice([100, 300, 2**15 - 513], 8)
    acc = np.rint((np.floor(s.rng.uniform(-1, 1, 8) * near) + 0.5) / np.resize(scale, 8))
    return acc.astype(np.int32), scale.astype(np.float32), s(-128, 127), 0, none(8)


def known(s: Some) -> Parameters:
    n = s.rng.choice([8, 40, *range(16, 513, 16)])
    return none(n, np.int8), s.bytes(n), int(n)


def turned(s: Some, dtype: type, lanes: int, most: int, scatters: bool) -> Parameters:
    """Elements so many of which `apart` are on one side, one after the other on the other."""
    n, apart, size = s(1, 3 * lanes), s(1, most), np.dtype(dtype).itemsize
    far = (n - 1) * apart + 1
    to, x = none(far if scatters else n, dtype), s.bytes(size * (n if scatters else far))
    return to, x.view(dtype), apart * size, n


TURNED: Mapping[str, dict[str, Any]] = {
    "near": {"dtype": np.int8, "lanes": 16, "most": 17},
    "bytes": {"dtype": np.int8, "lanes": 8, "most": 40},
    "halves": {"dtype": np.int16, "lanes": 8, "most": 40},
    "words": {"dtype": np.int32, "lanes": 4, "most": 40},
}


def softmax(s: Some) -> tuple[Array, int, Array, int, int]:
    """Bytes, how many, a table, their most and its last entry."""
    last, n = s(0, 60), s(1, 40)
    x = s.rng.integers(-128, 100, n, np.int8)
    x[s(0, n - 1)] = -128
    return x, n, s.ints(last + 1).view(np.uint32) >> 8, int(x.max()) + last, last


def windows(s: Some) -> Parameters:
    step, n = s(8, 20), s(1, 6)
    return s.bytes((n - 1) * step + 8), step, n, 0, none(8)


def line(s: Some) -> Parameters:
    n, pitch = s(1, 40), 4 * s(1, 3)
    return none((n + 15) // 16 * 64, np.int8), s.bytes((n - 1) * pitch + 4), n, pitch


def patches(s: Some) -> Parameters:
    rows, pitch, stride, n = s(1, 4), 4 * s(10, 12), 4 * s(1, 2), s(1, 5)
    x = s.bytes((rows - 1) * pitch + (n - 1) * stride + 4)
    row = s(max(-1, rows - 2), rows - 1)  # the last one is read
    return s.bytes(16 * ((n + 3) // 4 * 4)), x, row, rows, 0, pitch, stride, n


def spread(s: Some) -> Parameters:
    step, n = s(1, 40), s(1, 5)
    return none(16 * n, np.int8), s.bytes((n - 1) * step + 16), step, n


def window(s: Some) -> Array:
    """Taps of 3 x 3 among zeros."""
    taps = none(21, np.int8)
    taps[[5 + 4 * i + r for i in range(3) for r in range(3)]] = s.bytes(9)
    return taps


def float_taps(s: Some, lanes: int, width: int) -> Parameters:
    """A window's taps for `lanes` channels of a pixel that has some more."""
    rows, columns, step, skip, w_skip = s(1, 3), s(1, 3), lanes + s(0, 2), s(0, 3), s(0, 2)
    reach = rows * columns * step + (rows - 1) * skip - (step - lanes)
    weights = rows * columns * width + (rows - 1) * w_skip
    sizes = (rows, columns, 4 * step, 4 * skip, 4 * w_skip)
    start = s.floats(width)  # what lanes that are no channels keep
    return s.floats(reach), s.floats(weights), lanes, start, start.copy(), *sizes


DSP: Mapping[str, Callable[[Some], Parameters]] = {
    "widen_s8_pairs": lambda s: (s.bytes(4 * (n := s(1, 9))), none(4 * n, np.int16), 4 * n),
    "dot_2x2": lambda s: (s.words(2), s.halves(4), s.halves(4), none(10)),
    "dot_2x2_s4": lambda s: (s.words(1), s.halves(4), s.halves(4), none(10)),
    "dot_1x4_s4": lambda s: (s.words(2), s(-99, 99), s(-99, 99), none(10)),
    "DOTS_2X2_S4": lambda s: products(s, 1, 4, 2, second=True),
    "DOTS_1X4_S4": lambda s: products(s, 2, 4, 2),
    "DOTS_1X4_S4 of bytes": lambda s: products(s, 2, 4, 1),
    "DOTS_3X2": lambda s: products(s, 4, 24, 2, 6),
    "DOTS_1X4": lambda s: products(s, 8, 8, 2),
    "DOTS_1X4 of bytes": lambda s: products(s, 4, 4, 1),
    "DOTS_1X4 of unsigned bytes": lambda s: products(s, 4, 4, 1),
    "START_1X4": lambda s: (s.words(4), 0, 0, none(10)),
    "DOTS_WIDE_3X2": lambda s: products(s, 2, 12, 2, 6),
    "DOTS_WIDE_1X4": lambda s: products(s, 4, 4, 2),
    "copy_s16": lambda s: (s.halves(n := s(1, 9)), none(n, np.int16), n),
    "copy_s16_triples": lambda s: (s.halves(4 * (n := s(1, 4))), none(12 * n - 4, np.int16), 4 * n),
    "GAPS_6": lambda s: gaps_6(s, 4, 3),
    "GAPS_1": gaps_1,
    "exact_1x8": one_pixel,
    "exact_4x4": four_pixels,
    "NEXT_2": lambda s: (s.words(2), 0, 0, none(10)),
    "DOTS_1X6": lambda s: sixes(s, 2),
    "DOTS_1X6 of bytes": lambda s: sixes(s, 1),
    "DOTS_1X6 of unsigned bytes": lambda s: sixes(s, 1),
    "exact_taps_8": lambda s: float_taps(s, 8, 8),
    "exact_taps_4": lambda s: float_taps(s, 4, 4),
    "GAPS_6 of far places": lambda s: gaps_6(s, 1, 3),
    "GAPS_6 in one round": lambda s: gaps_6(s, 4),
    "join_6": lambda s: (none(3 * (n := s(1, 9))), s.bytes(6 * n), n),
}
HELIUMS: Mapping[str, Callable[[Some], Parameters]] = {
    "mve_copy": lambda s: (none(n := s(1, 70), np.int8), s.bytes(n), n),
    "mve_fill": lambda s: (none(n := s(1, 70), np.int8), s(-128, 127), n),
    "mve_table": lambda s: (
        s.bytes(256, np.uint8),
        np.append(s.bytes((n := s(1, 40)) - 1, np.uint8), np.uint8(255)),
        none(n, np.uint8),
        n,
    ),
    "quad_dot": lambda s: dots(s, 16, 64, 4, 4),
    "pair_dot": lambda s: dots(s, 32, 64, 4, 8, groups=1 + s.seed),
    "row_dot": lambda s: dots(s, 16, 128, 8, 8),
    "row_dot_u8": lambda s: dots(s, 16, 128, 8, 8),
    "halves_run": windows,
    "mve_fill_s16": lambda s: (none(n := s(1, 40), np.int16), s(-999, 999), n),
    "quad_dot_s16": lambda s: dots(s, 8, 32, 4, 4, np.int16),
    "pair_dot_s16": lambda s: dots(s, 16, 32, 4, 8, np.int16),
    "mve_most": lambda s: (s.bytes(n := s(1, 40)), n, 0, 0, none(1)),
    "mve_worths": lambda s: (*(v := softmax(s))[:4], none(2), v[4]),
    "mve_shares": lambda s: (*(v := softmax(s))[:4], none(v[1], np.int8), v[4]),
    "line_push": line,
    "line_dot": lambda s: (s.bytes(68), s.bytes(n := s(1, 13)), n, 0, none(8)),
    "patch_push": patches,
    "patch_dot": lambda s: (s.bytes(84), window(s), 0, 0, none(8)),
    "mve_spread": spread,
    "fast_1x8": one_pixel,
    "fast_4x4": four_pixels,
    "OCTET_MADD": lambda s: (s.bytes(16), s.bytes(8), 0, 0, none(8)),
    "fast_taps_16": lambda s: float_taps(s, 16, 16),
    "fast_taps_4": lambda s: float_taps(s, s(1, 4), 4),
    "octet_scaled_small": lambda s: scaled(s, 8),
    "octet_scaled_by": lambda s: scaled(s, 1),
    "mve_copy_known": known,
    **{
        f"mve_{('gather', 'scatter')[scatters]}_{name}": partial(turned, **how, scatters=scatters)
        for name, how in TURNED.items()
        for scatters in (False, True)
    },
}


def calls_of(name: str) -> list[Call]:
    """Random calls of a function."""
    made = {**DSP, **HELIUMS}[name]
    number = [*DSP].index(name) if name in DSP else HELIUM + [*HELIUMS].index(name)
    return [
        Call(number, {f"p{k}": v for k, v in enumerate(made(Some(seed)))})
        for seed in range(FORMS.get(name, CASES))
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("calls")


@pytest.fixture(scope="module")
def here(folder: Path) -> Callable[[bytes], bytes | int]:
    """The arrays after a call of the C on this computer, or the signal that ended it."""
    return linux(("gcc", "-ffp-contract=off"), (), folder / "here")


@pytest.fixture(scope="module")
def m4(folder: Path) -> Callable[[bytes], bytes | int]:
    compiler = (*M4, "-nostartfiles", "-fomit-frame-pointer")
    return linux(compiler, ("qemu-arm",), folder / "m4")


def linux(
    compiler: Sequence[str], emulator: Sequence[str], program: Path
) -> Callable[[bytes], bytes | int]:
    subprocess.run(compile_calls(compiler, "core_calls.h", program), check=True)

    def run(text: bytes) -> bytes | int:
        done = subprocess.run([*emulator, program], input=text, capture_output=True)
        return done.returncode or done.stdout

    return run


@pytest.fixture(scope="module")
def m55(folder: Path) -> Callable[[Sequence[bytes]], list[bytes | int]]:
    """The same of many calls."""
    elf, texts = folder / "m55.elf", folder / "m55.bin"
    script = (f"-L{BOARDS}", f"-T{BOARDS}/mps3_an547/link.ld", "-nostartfiles")
    subprocess.run([*M55, *FLAGS, *script, HERE / "core_board.c", "-o", elf], check=True)
    machine = ("qemu-system-arm", "-machine", "mps3-an547", "-display", "none", "-monitor", "none")
    console = ("-serial", "none", "-chardev", "stdio,id=c", "-semihosting-config")
    loader = f"loader,file={texts},addr=0x70800000,force-raw=on"
    command = (*machine, *console, "enable=on,target=native,chardev=c", "-kernel", elf)

    def run(calls: Sequence[bytes]) -> list[bytes | int]:
        sized = (len(text).to_bytes(4, "little") + text for text in calls)
        texts.write_bytes(b"".join(sized) + bytes(4))
        done = subprocess.run(
            [*command, "-device", loader], stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
        lines = done.stdout.decode().splitlines()
        return [-1 if line == "fault" else bytes.fromhex(line) for line in lines]

    return run


@pytest.mark.parametrize("name", [*DSP, *HELIUMS])
def test_the_c_touches_all_of_its_arrays(name: str, here: Callable[[bytes], bytes | int]) -> None:
    """Nothing beyond, and with an element less of an array some call goes beyond: so the arrays of
    the other tests are what the C touches."""
    calls = calls_of(name)
    fit = [call.text(call.extents(), begins) for call in calls for begins in (False, True)]
    assert not [code for code in map(here, fit) if isinstance(code, int)]
    for array in calls[0].arrays:
        less = (
            {**c.extents(), array: c.extents()[array] - c.arrays[array].itemsize} for c in calls
        )
        texts = [call.text(extents, False) for call, extents in zip(calls, less, strict=True)]
        assert -signal.SIGSEGV in map(here, texts), array


@pytest.mark.parametrize("name", DSP)
def test_the_assembly_of_a_cortex_m4_touches_no_more(
    name: str, here: Callable[[bytes], bytes | int], m4: Callable[[bytes], bytes | int]
) -> None:
    texts = [c.text(c.extents(), begins) for c in calls_of(name) for begins in (False, True)]
    with ThreadPoolExecutor(2) as pool:
        assert [*pool.map(m4, texts)] == [*map(here, texts)]


def test_the_assembly_of_a_cortex_m55_touches_no_more(
    here: Callable[[bytes], bytes | int], m55: Callable[[Sequence[bytes]], list[bytes | int]]
) -> None:
    texts = {
        (name, k, begins): call.text(call.extents(), begins)
        for name in HELIUMS
        for k, call in enumerate(calls_of(name))
        for begins in (False, True)
    }
    found = dict(zip(texts, m55([*texts.values()]), strict=True))
    assert {k: v for k, v in found.items() if v != here(texts[k])} == {}
