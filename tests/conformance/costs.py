"""What an operator costs in code: python -m tests.conformance.costs [--update]

The code bytes of the plainest passing case of each operator, for a Cortex-M4 at -Os: its kernels
and the elementary functions they call, not its weights. `--update` writes costs.txt, from which
docs/operators.md has its column.
"""

from __future__ import annotations

import argparse
import functools
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from elftools.elf.constants import SH_FLAGS
from elftools.elf.elffile import ELFFile

from mlftool.targets import CFLAGS, TARGETS
from tests.conformance.compiling import compile_case
from tests.conformance.expectations import expectations
from tests.conformance.suite import SuiteCase, load_suite, subject
from tests.conformance.trials import Trial

sys.path.append(str(Path(__file__).parents[1] / "support"))

from programs import WARNINGS
from units import INCLUDE, Program, write_program

COSTS = Path(__file__).with_name("costs.txt")
TARGET = "cortex-m4"
FLAGS = ("-Os", *CFLAGS, *TARGETS[TARGET].cflags, *WARNINGS, f"-I{INCLUDE}", "-c")
COMPILE = ("arm-none-eabi-gcc", *FLAGS)


@functools.cache
def committed() -> dict[str, int]:
    """Operator -> code bytes, as costs.txt has them."""
    rows = (line.split() for line in COSTS.read_text(encoding="utf-8").splitlines())
    return {row[0]: int(row[1]) for row in rows if row and row[0] != "#"}


def measured() -> dict[str, int]:
    """Operator -> code bytes, of every operator that some passing case is about."""
    with warnings.catch_warnings(), tempfile.TemporaryDirectory() as folder:
        warnings.simplefilter("ignore")
        work = Path(folder)
        programs = {name: _program(case) for name, case in _plainest().items()}
        with ThreadPoolExecutor(2) as pool:
            sizes = pool.map(partial(_code_bytes, work), programs.values())
            return dict(zip(programs, sizes, strict=True))


def _plainest() -> Mapping[str, SuiteCase]:
    """Operator -> its passing case with the fewest nodes, the first of those by name."""
    found: dict[str, SuiteCase] = {}
    cases = (c for c in load_suite() if c.name not in expectations())
    for case in sorted(cases, key=lambda c: (len(c.model.graph.node), c.name)):
        found.setdefault(subject(case), case)
    return dict(sorted(found.items()))


def _program(case: SuiteCase) -> Program:
    trial = compile_case(case, TARGET)
    assert isinstance(trial, Trial), trial.line
    return trial.program


def _code_bytes(work: Path, program: Program) -> int:
    """Instructions and literal pools of the module's functions."""
    made = work / f"{program.name}.o"
    subprocess.run([*COMPILE, write_program(program, work), "-o", made], cwd=work, check=True)
    with made.open("rb") as file:
        sections = ELFFile(file).iter_sections()
        return sum(s["sh_size"] for s in sections if s["sh_flags"] & SH_FLAGS.SHF_EXECINSTR)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.costs", description=__doc__)
    parser.add_argument("--update", action="store_true", help="write costs.txt")
    update = parser.parse_args().update
    lines = [f"{name} {size}" for name, size in measured().items()]
    if update:
        head = (
            "# Code bytes by operator: `python -m tests.conformance.costs --update` writes this.\n"
        )
        COSTS.write_text(head + "".join(f"{line}\n" for line in lines), encoding="utf-8")
    else:
        print("\n".join(lines))


if __name__ == "__main__":
    main()
