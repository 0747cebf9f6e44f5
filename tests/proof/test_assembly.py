"""Functions with a contract read and write what it says, and no byte more: each buffer ends where a
page does that nothing may touch, or begins where one ends. The C of assembly.c runs on this
computer, and the assembly of Cortex-M0 under qemu-arm, since Linux has such pages.
"""

from __future__ import annotations

import random
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import pytest
from calls import Call, compile_calls

from mlftool.proof.touches import CONTRACTS, Given

NAMES = ("mlf_eights", "mlf_words", "mlf_pixel_8", "mlf_pixel_4", "mlf_take_bytes")
CASES = 6  # of each function
# Machine -> how programs are compiled for it, and what runs them.
MACHINES: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "host": (("gcc",), ()),
    "cortex-m0": (
        ("arm-none-eabi-gcc", "-mcpu=cortex-m0", "-mthumb", "-nostartfiles"),
        ("qemu-arm",),
    ),
}
# What the C does not read, because it needs less than the assembly.
UNREAD = {"host": {("mlf_words", "totals")}, "cortex-m0": set()}


@dataclass(frozen=True)
class Case(Call):
    """A call with what its contract says."""

    def extents(self) -> dict[str, int]:
        """How many bytes of each array the contract has."""
        arrays = self.arrays
        given = {n: Given(rest=v.tolist()) for n, v in arrays.items()}
        for name, value in self.parameters.items():
            if isinstance(value, tuple):
                base, at = value
                given[base] = Given(None, {name: at}, given[base].rest)
                given[name] = Given()
            elif isinstance(value, int):
                given[name] = Given(value)
        counts = dict.fromkeys(arrays, 0) | dict(CONTRACTS[NAMES[self.function]](given))
        return {n: count * arrays[n].itemsize for n, count in counts.items()}


def case(name: str, parameters: Mapping[str, np.ndarray | int | tuple[str, int]]) -> Case:
    return Case(NAMES.index(name), parameters)


def some(count: int, of: type) -> np.ndarray:
    return np.zeros(count, of)


def parts(rng: random.Random, count: int, step: int) -> list[int]:
    """Numbers whose sum is `count`, each a multiple of `step`."""
    found: list[int] = []
    while sum(found) < count:
        found.append(step * rng.randint(1, (count - sum(found)) // step))
    return found


def multipliers(rng: random.Random, k: np.ndarray, at: Sequence[int]) -> np.ndarray:
    """The last channel has an output, others may be rare; at least one is if there are two."""
    k[list(at)] = [rng.choice((-1, 65536)) for _ in at]
    k[at[0]], k[at[-1]] = -1, 65536
    return k


def eights(rng: random.Random) -> Case:
    channels, products, stride = rng.randint(1, 5), rng.randint(1, 9), rng.randint(1, 9)
    w: list[int] = []
    for _ in range(channels):
        for part in parts(rng, products, 1):
            w += [-part, *(rng.randint(-9, 9) for _ in range(part))]
    k = multipliers(rng, some(3 * channels, np.int32), range(1, 3 * channels, 3))
    return case(
        "mlf_eights",
        {
            **{"y": some(channels + 7 * stride, np.uint8), "k": k, "w": np.array(w, np.int8)},
            **{"x": some(4 * products, np.uint32), "end": ("x", 4 * products)},
            **{"form": some(4, np.int32), "stride": stride, "y_end": ("y", channels)},
            "rare": some(8 * channels, np.uint32),
        },
    )


def words(rng: random.Random) -> Case:
    channels, inputs = 8 * rng.randint(1, 3), 2 * rng.randint(1, 6)
    w: list[int] = []
    for _ in range(channels // 8):
        for part in parts(rng, inputs, 2):
            w += [4 * part, *(rng.getrandbits(32) for _ in range(2 * part))]
    signs = [24 * (c // 8) + 8 + 2 * (c % 8) for c in range(channels)]
    return case(
        "mlf_words",
        {
            "y": some(channels, np.uint8),
            "k": multipliers(rng, some(3 * channels, np.int32), signs),
            **{"w": np.array(w, np.uint32), "x": some(inputs, np.int32), "end": ("x", inputs)},
            **{"form": some(4, np.int32), "totals": some(2, np.uint32), "y_end": ("y", channels)},
            "rare": some(channels, np.uint32),
        },
    )


def pixel(rng: random.Random, block: int) -> Case:
    channels, inputs = block * rng.randint(1, 4), 32 // block * rng.randint(1, 4)
    signs = [3 * (c - c % block) + block + 2 * (c % block) for c in range(channels)]
    return case(
        f"mlf_pixel_{block}",
        {
            "y": some(channels, np.uint8),
            "k": multipliers(rng, some(3 * channels, np.int32), signs),
            **{"w": some(channels * inputs, np.uint8), "x": some(inputs, np.uint8)},
            **{"end": ("x", inputs), "form": some(3, np.int32), "more": 0},
            **{"y_end": ("y", channels), "rare": some(channels, np.uint32)},
        },
    )


def take_bytes(rng: random.Random) -> Case:
    count = rng.choice((1, 3, 4, 64, 512, 516, 1030))
    arrays = {"to": some(count, np.uint8), "from": some(count, np.uint8)}
    return case("mlf_take_bytes", {**arrays, "count": count, "flip": 128})


MADE: Mapping[str, Callable[[random.Random], Case]] = {
    "mlf_eights": eights,
    "mlf_words": words,
    "mlf_pixel_8": lambda rng: pixel(rng, 8),
    "mlf_pixel_4": lambda rng: pixel(rng, 4),
    "mlf_take_bytes": take_bytes,
}


@pytest.fixture(scope="module", params=MACHINES)
def run(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> tuple[str, Callable[[bytes], int]]:
    """A machine, and what gives the status of a call there."""
    compiler, emulator = MACHINES[request.param]
    program = tmp_path_factory.mktemp(request.param) / "calls"
    subprocess.run(compile_calls(compiler, "narrow_calls.h", program), check=True)

    def status(text: bytes) -> int:
        done = subprocess.run([*emulator, program], input=text, capture_output=True)
        return done.returncode

    return request.param, status


def test_each_contract_is_run() -> None:
    assert set(CONTRACTS) == set(MADE) == set(NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_functions_touch_what_their_contracts_say(
    name: str, run: tuple[str, Callable[[bytes], int]]
) -> None:
    """Nothing beyond; and with an element less of an array some case goes beyond, so no contract
    is larger than it must be, and none that is too small would pass."""
    machine, status = run
    cases = [MADE[name](random.Random(seed)) for seed in range(CASES)]
    fit = [one.text(one.extents(), begins) for one in cases for begins in (False, True)]
    arrays = [n for n, v in cases[0].parameters.items() if isinstance(v, np.ndarray)]
    less = [(array, shorter(one, array)) for array in arrays for one in cases]
    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(status, fit)) == {0}
        found = pool.map(lambda one: status(one[1]), less)
        beyond = {a for (a, _), code in zip(less, found, strict=True) if code == -signal.SIGSEGV}
    assert beyond == set(arrays) - {a for n, a in UNREAD[machine] if n == name}


def shorter(one: Case, array: str) -> bytes:
    extents, value = one.extents(), one.arrays[array]
    return one.text({**extents, array: max(0, extents[array] - value.itemsize)}, False)
