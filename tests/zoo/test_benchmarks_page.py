"""What docs/benchmarks.md says of instructions on Cortex-M4 is what is counted today.

`python benchmarks/bench.py --markdown docs/benchmarks.md` writes the page. This counts one column,
of our networks and of MLPerf Tiny's where those are. README.md has figures of the page, and
docs/performance.md of a pass.
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


def column(table: str, head: str) -> dict[str, str]:
    """Network -> its cell under `head` in a table of the page."""
    text = (REPO / "docs" / "benchmarks.md").read_text()
    inner = text.partition(f"<!-- table {table} -->")[2].partition("<!-- end -->")[0]
    top, _, *rows = ([c.strip() for c in x.split("|")[1:-1]] for x in inner.strip().splitlines())
    return {row[0]: row[top.index(head)] for row in rows}


def shown() -> dict[str, str]:
    """Network -> millions of instructions on Cortex-M4."""
    return column("instructions", "cortex-m4")


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


TINY = ("kws", "vww", "ic", "ad")  # in the order of README.md
INT8, FLOATS = [f"{n}_int8" for n in TINY], [f"{n}_fp32" for n in TINY]


def test_the_readme_compares_with_figures_of_the_page() -> None:
    """README.md's table and sentences, rounded as it rounds them."""
    text = " ".join((REPO / "README.md").read_text().split())

    def row(title: str) -> list[str]:
        (cells,) = re.findall(
            rf"\| {re.escape(title)} ((?:\| [\d.,-]+ )+)\|", text.replace("**", "")
        )
        return [c.strip().replace(",", "") for c in cells.split("|")[1:]]

    def rounded(values: list[str], like: list[str]) -> list[str]:
        places = [len(x.partition(".")[2]) for x in like]
        return [f"{float(v):.{n}f}" for v, n in zip(values, places, strict=True)]

    ours = [shown()[n] for n in (*INT8, *FLOATS)]
    assert row("mlftool") == rounded(ours, row("mlftool"))
    fused = [column("fused", "fused, cortex-m4")[n] for n in FLOATS]
    assert row("with `--float-mode fused`")[4:] == rounded(
        fused, row("with `--float-mode fused`")[4:]
    )
    assert row("arena, bytes") == [column("memory", "arena B")[n] for n in (*INT8, *FLOATS)]
    (said,) = re.findall(
        r"On a Cortex-M55 int8 takes ([\d.]+), ([\d.]+), ([\d.]+) and ([\d.]+\d)", text
    )
    assert [*said] == rounded([column("instructions", "cortex-m55")[n] for n in INT8], [*said])
    (code,) = re.findall(
        r"code without weights is ([\d.]+), ([\d.]+), ([\d.]+) and ([\d.]+) KB", text
    )
    own = [int(column("size", "size: own code B")[n]) / 1024 for n in INT8]
    assert [*code] == [f"{b:.1f}" for b in own]
    (least, most) = re.findall(r"at ([\d.]+) to ([\d.]+) times the instructions", text)[0]
    times = sorted(float(column("size", "times")[n]) for n in INT8)
    assert (least, most) == (f"{times[0]:.1f}", f"{times[-1]:.1f}")


@needs_board
@pytest.mark.parametrize("network", [n for n in NETWORKS if n.name == "vww_int8"], ids=str)
def test_what_the_pass_for_channels_gains(network: Network) -> None:
    """The sentences of README.md and docs/performance.md, as `mlftool run` counts."""
    pages = [" ".join((REPO / p).read_text().split()) for p in ("README.md", "docs/performance.md")]
    found = []
    for disabled in ((), ("drop_constant_channels",)):
        spec = ModuleSpec(network.path, "bench", "cortex-m4", disabled_pass=disabled)
        bundle = compile_modules([spec])
        interface = read_interface(bundle, "bench")
        elf = link_firmware(bundle, interface, BOARDS["cortex-m4"], optimise="-O2")
        counted = run_on_board(elf, BOARDS["cortex-m4"], interface, network.samples()[0][:1])
        figures = counted.figures["instructions"] / 1e6, interface.constants_bytes
        found.append((f"{figures[0]:.2f}", f"{figures[1]:,}", f"{figures[1] / 1000:.0f} KB"))
    (with_it, bytes_with, kilobytes), (without, bytes_without, _) = found
    assert f"{without} instead of {with_it} million instructions" in pages[0]
    assert f"takes {kilobytes} of constants" in pages[0]
    assert f"{with_it} instead of {without} million instructions" in pages[1]
    assert f"{bytes_with} instead of {bytes_without} bytes of constants" in pages[1]
