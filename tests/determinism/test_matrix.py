"""64 worlds make the same archives, static library, ELF images and report.

A world is a folder, a clock, a user, a locale and whatever else may not matter. `-m slow` runs all
of them (in Bazel: //tests:determinism_full), otherwise a few run that differ in everything.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MODELS = ROOT / "examples" / "models"
CHAIN = Path(__file__).parent / "chain.py"
TOOLS = ("arm-none-eabi-gcc", "qemu-system-arm", "faketime", "taskset", "make")
COUNT = 64


@dataclass(frozen=True)
class World:
    """The six choices of two are the bits of `number`, the three of three change with it."""

    number: int

    def pick(self, bit: int, *choices: str) -> str:
        return choices[self.number >> bit & 1]

    def turn(self, divisor: int, *choices: str) -> str:
        return choices[self.number // divisor % 3]

    @property
    def folder(self) -> str:
        return self.pick(0, f"w{self.number}", f"ein-Häuschen/with-a-longer-name/w{self.number}")

    @property
    def clock(self) -> str:
        """What faketime takes: the past keeps running, too."""
        return self.pick(1, "@1999-12-31 23:59:58", "@2037-06-05 04:03:02")

    @property
    def umask(self) -> int:
        return int(self.pick(2, "022", "077"), 8)

    @property
    def backwards(self) -> bool:
        return self.pick(5, "", "yes") == "yes"

    @property
    def cores(self) -> str:
        """For taskset: one, two if there are two, or all."""
        most = (os.cpu_count() or 1) - 1
        return self.turn(9, "0", f"0-{min(1, most)}", f"0-{most}")

    def variables(self) -> dict[str, str]:
        user = self.pick(3, "root", "mallory")
        return {
            "HOME": self.pick(3, "/", "/nonexistent"),
            "LOGNAME": user,
            "USER": user,
            "TZ": self.pick(4, "UTC", "Pacific/Kiritimati"),
            "PYTHONHASHSEED": self.turn(1, "0", "1", "4294967295"),
            "LC_ALL": self.turn(3, "C", "C.UTF-8", "tr_TR.UTF-8"),
            "LANG": self.turn(3, "de_DE", "C", "tr_TR"),
        }


@pytest.fixture(scope="module")
def backwards(tmp_path_factory: pytest.TempPathFactory) -> Path:
    library = tmp_path_factory.mktemp("shim") / "backwards.so"
    source = Path(__file__).with_name("backwards.c")
    flags = ("-Wall", "-Wextra", "-Werror", "-O1", "-shared", "-fPIC")
    subprocess.run(["cc", *flags, source, "-o", library, "-ldl"], check=True)
    return library


def live(world: World, base: Path, shim: Path) -> dict[str, str]:
    """The digests of what this world makes."""
    folder = base / world.folder
    folder.mkdir(parents=True)
    model, vectors = folder / f"m{world.number}.onnx", folder / "v.npz"
    shutil.copyfile(MODELS / "gesture_int8.onnx", model)
    shutil.copyfile(MODELS / "gesture_int8.npz", vectors)
    kept = {k: v for k, v in os.environ.items() if k in ("PATH", "LD_LIBRARY_PATH")}
    packages = os.pathsep.join([str(ROOT), *filter(None, sys.path)])
    command = ["taskset", "-c", world.cores, "faketime", "-f", world.clock]
    if world.backwards:
        command += ["env", f"LD_PRELOAD={shim}:{_faketime()}"]
    run = subprocess.run(
        [*command, sys.executable, CHAIN, model, vectors, folder / "out"],
        cwd=folder, env={**kept, "PYTHONPATH": packages, **world.variables()},
        umask=world.umask, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, f"{world}: {run.stderr}"
    found: dict[str, str] = json.loads(run.stdout)
    return found


def _faketime() -> str:
    """What faketime itself preloads."""
    command = ["faketime", "-f", "+0", "sh", "-c", "echo $LD_PRELOAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def check(numbers: Sequence[int], base: Path, shim: Path) -> None:
    missing = [t for t in TOOLS if shutil.which(t) is None]
    if missing:
        pytest.skip(f"did not run: {', '.join(missing)} is not installed")
    worlds = [World(n) for n in numbers]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda w: live(w, base, shim), worlds))
    first = results[0]
    assert {"host.tar", "libnet.a", "firmware.elf", "report.json"} <= first.keys()
    different = {
        str(w): [name for name in first if found[name] != first[name]]
        for w, found in zip(worlds, results, strict=True)
        if found != first
    }
    assert different == {}


def test_opposite_worlds_agree(tmp_path: Path, backwards: Path) -> None:
    """Each is what the first is not, in everything: 63 has all six bits."""
    check([0, 63, 22], tmp_path, backwards)


@pytest.mark.slow
def test_every_world_agrees(tmp_path: Path, backwards: Path) -> None:
    check(range(COUNT), tmp_path, backwards)


def test_the_worlds_differ() -> None:
    """No two are alike, and each pair of choices occurs together somewhere."""
    worlds = [World(n) for n in range(COUNT)]
    shown = [
        {**w.variables(), "umask": w.umask, "clock": w.clock, "cores": w.turn(9, "1", "2", "all"),
         "backwards": w.backwards, "folder": w.folder.removesuffix(str(w.number))}
        for w in worlds
    ]  # fmt: skip
    assert len({json.dumps(s) for s in shown}) == COUNT
    independent = [k for k in shown[0] if k not in ("LOGNAME", "USER", "LANG")]
    for a in independent:
        for b in independent:
            pairs = {(s[a], s[b]) for s in shown}
            most = len({s[a] for s in shown}) * len({s[b] for s in shown})
            assert len(pairs) == (most if a != b else len({s[a] for s in shown})), (a, b)
