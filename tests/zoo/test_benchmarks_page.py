"""What docs/benchmarks.md says of instructions on Cortex-M4 is what is counted today.

`python benchmarks/bench.py --markdown docs/benchmarks.md` writes the page. This counts one column,
of our networks and of MLPerf Tiny's where those are.
"""

from __future__ import annotations

import re
import shutil

import pytest
from shared import NETWORKS, REPO, Network

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.runtime.boards import BOARDS
from mlftool.runtime.interface import read_interface
from mlftool.runtime.link import link_firmware
from mlftool.runtime.runner import run_on_board

needs_board = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)


def shown() -> dict[str, str]:
    """Network -> millions of instructions on Cortex-M4."""
    text = (REPO / "docs" / "benchmarks.md").read_text()
    table = text.partition("<!-- table instructions -->")[2].partition("<!-- end -->")[0]
    head, _, *rows = ([c.strip() for c in x.split("|")[1:-1]] for x in table.strip().splitlines())
    column = head.index("cortex-m4")
    return {row[0]: row[column] for row in rows}


@needs_board
@pytest.mark.parametrize("network", NETWORKS, ids=str)
def test_instructions(network: Network) -> None:
    board = BOARDS["cortex-m4"]
    bundle = compile_modules([ModuleSpec(network.path, "bench", "cortex-m4")])
    interface = read_interface(bundle, "bench")
    elf = link_firmware(bundle, interface, board, optimise="-O3")
    feeds, _ = network.samples()
    counted = run_on_board(elf, board, interface, feeds[:1]).figures["instructions"]
    # Floats take other ways for other values; the page counts a sample of bench.py's own.
    assert float(shown()[network.name]) == pytest.approx(counted / 1e6, abs=0.00051)


def test_the_page_has_every_network() -> None:
    assert {n.name for n in NETWORKS} <= set(shown())
    assert all(re.fullmatch(r"\d+\.\d{3}", figure) for figure in shown().values())
