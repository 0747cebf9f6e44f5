"""Time on this computer beside onnxruntime, LiteRT and emx-onnx-cgen: one thread, in turns.

onnxruntime and LiteRT run twice: as they are, and as they would on a processor of x86-64-v3.
LiteRT and emx-onnx-cgen are asked where build/peers has them:
    python -m venv build/peers && build/peers/bin/pip install ai-edge-litert emx-onnx-cgen
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import emx
import without_avx512
from corpus import BUILT, ROOT, VENV, Network
from device import MODULE, Setting, compiled
from peer_turns import CALLS, write

from mlftool.describe import bundle as bundle_of
from mlftool.runtime.host import build_runner
from mlftool.runtime.interface import read_interface
from mlftool.runtime.runner import run_on_host

TARGETS = ("host", "x86-64-v3", "x86-64-v4")
PEERS = ("onnxruntime", "LiteRT")
V3 = "without AVX-512"  # what follows a peer's name then
TURNS = 9  # of fifty; the fastest of all counts, so that others on the computer matter little
Turn = Callable[[], float]  # microseconds of the fastest inference of some

# As our baseline is compiled: for any x86-64.
_EMX_FLAGS = ("-O3", "-shared", "-fPIC", "-w")
_EMX_TIMER = """
#include <time.h>
double bench_turn(const void *x, void *y, void *z, int calls) {{
  struct timespec a, b;
  double best = 1e30, took;
  for (int k = 0; k < calls; k++) {{
    clock_gettime(CLOCK_MONOTONIC, &a);
    model({arguments});
    clock_gettime(CLOCK_MONOTONIC, &b);
    took = ((b.tv_sec - a.tv_sec) * 1e9 + (b.tv_nsec - a.tv_nsec)) / 1e3;
    best = took < best ? took : best;
  }}
  return best;
}}
"""


def measure(network: Network, setting: Setting) -> dict[str, float]:
    """Microseconds of our targets and of the peers that know the network."""
    with ExitStack() as stack:
        makers: Mapping[str, Callable[[], Turn | None]] = {
            **{t: lambda t=t: _ours(network, t, setting) for t in TARGETS},
            **{name: lambda n=name: _peer(network, stack, n) for name in PEERS},
            **{f"{name} {V3}": lambda n=name: _peer(network, stack, n, V3) for name in PEERS},
            emx.NAME: lambda: _emx(network),
        }
        turns = {name: turn for name, make in makers.items() if (turn := make())}
        best = dict.fromkeys(turns, float("inf"))
        for _ in range(TURNS):
            for name, turn in turns.items():
                best[name] = min(best[name], turn())
    return best


def _ours(network: Network, target: str, setting: Setting) -> Turn:
    bundle = bundle_of([compiled(network.path, target, setting)])
    interface = read_interface(bundle, MODULE)
    program = build_runner(bundle, interface, optimise="-O3")

    def turn() -> float:
        ran = run_on_host(program, interface, [network.sample], repetitions=CALLS)
        if setting.float_mode == "exact":
            network.check(ran.outputs[0], target)
        return ran.figures["microseconds_min"]

    return turn


def _peer(network: Network, stack: ExitStack, name: str, processor: str = "") -> Turn | None:
    """A process of the peer's, which answers every line with microseconds."""
    python, script, package = {
        "onnxruntime": (Path(sys.executable), "ort_peer.py", "onnxruntime"),
        "LiteRT": (VENV / "python", "litert_peer.py", "ai_edge_litert"),
    }[name]
    if not python.exists():
        return None
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
    write(folder, network.sample, network.wanted[0])
    changes = without_avx512.environment(_package(python, package)) if processor else {}
    command = [str(python), str(ROOT / "benchmarks" / script), str(network.path), str(folder)]
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env={**os.environ, **changes},
    )
    stack.callback(process.kill)
    assert process.stdin
    assert process.stdout
    stdin, stdout = process.stdin, process.stdout
    if stdout.readline().strip() != "ready":
        return None

    def turn() -> float:
        stdin.write("turn\n")
        stdin.flush()
        return float(stdout.readline())

    return turn


@cache
def _package(python: Path, package: str) -> Path:
    find = f"import importlib.util as u; print(u.find_spec({package!r}).origin)"
    command = [str(python), "-c", find]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return Path(done.stdout.strip()).parent


def _emx(network: Network) -> Turn | None:
    source, library = emx.source(network), BUILT / f"{network.name}.emx.so"
    if source is None:
        return None
    arguments = "x, y" if len(network.wanted[0]) == 1 else "x, y, z"
    timer = _EMX_TIMER.format(arguments=arguments)
    command = ["gcc", *_EMX_FLAGS, "-x", "c", "-", "-o", library, "-lm"]
    subprocess.run(command, input=source + timer, text=True, check=True)
    function = ctypes.CDLL(str(library)).bench_turn
    function.restype = ctypes.c_double
    x, results = next(iter(network.sample.values())), network.wanted[0]
    buffers = [value.copy() for value in results.values()]

    def turn() -> float:  # holds the arrays that it hands over
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (x, buffers[0], buffers[-1])]
        return float(function(*pointers, CALLS))

    try:
        turn()
        network.check(dict(zip(results, buffers, strict=True)), emx.NAME)
    except AssertionError:
        return None
    return turn
