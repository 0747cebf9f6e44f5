"""What the console script does around a command, so that it starts and ends quickly."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import onnx
import onnx.parser
import pytest

ROOT = Path(__file__).parents[2]
# What an exit handler finds, after a command that ended in the given way.
RUN = """
import atexit, gc, os, sys
def told():
    print(gc.get_freeze_count() > 10_000, os.environ["OPENBLAS_NUM_THREADS"])
atexit.register(told)
from mlftool.start import main
sys.argv[1:] = {words}
sys.exit(main())
"""


@pytest.mark.parametrize("words", [["explain", "MLF0400"], ["--version"], ["no-such"]])
@pytest.mark.parametrize(("given", "threads"), [({}, "1"), ({"OPENBLAS_NUM_THREADS": "3"}, "3")])
def test_objects_are_frozen_at_the_end(
    words: list[str], given: dict[str, str], threads: str
) -> None:
    """Python then looks for no circles among them; numpy gets one thread unless told otherwise."""
    known = {k: v for k, v in os.environ.items() if k != "OPENBLAS_NUM_THREADS"}
    paths = os.pathsep.join(filter(None, [str(ROOT), *sys.path]))
    run = subprocess.run(
        [sys.executable, "-c", RUN.replace("{words}", repr(words))],
        env={**known, "PYTHONPATH": paths, **given},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert run.stdout.splitlines()[-1:] == [f"True {threads}"], run.stderr


RESIDUAL = """
<ir_version: 8, opset_import: ["" : 17]>
residual (int8[1, 64] a, int8[1, 64] b) => (int8[1, 64] y)
<float one = {0.047}, float two = {0.031}, float three = {0.059}, int8 zero = {3}>
{
  x = DequantizeLinear(a, one, zero)
  z = DequantizeLinear(b, two, zero)
  sum = Add(x, z)
  y = QuantizeLinear(sum, three, zero)
}
"""
# Each of them takes longer to import than a layer to compile.
LEFT_OUT = ("asyncio", "elftools", "logging", "multiprocessing", "numpy.ma", "numpy.random")
LEFT_OUT += ("onnx.reference", "onnxruntime", "ssl", "unittest", "xml", "yaml")
COMPILE = """
import sys
from mlftool.start import main
sys.argv[1:] = {words}
assert main() == 0
print(*(name for name in {left_out} if name in sys.modules))
"""


def test_a_compile_imports_what_it_needs(tmp_path: Path) -> None:
    """A residual's sum in integers, too: np.unique would import numpy's masked arrays."""
    path = tmp_path / "residual.onnx"
    onnx.save(onnx.parser.parse_model(RESIDUAL), path)
    words = ["compile", str(path), "--target", "cortex-m4", "-o", str(tmp_path / "m.tar")]
    code = COMPILE.replace("{words}", repr(words)).replace("{left_out}", repr(LEFT_OUT))
    paths = os.pathsep.join(filter(None, [str(ROOT), *sys.path]))
    env = {**os.environ, "PYTHONPATH": paths}
    run = subprocess.run(
        [sys.executable, "-c", code], env=env, capture_output=True, text=True, timeout=60
    )
    assert run.stdout.splitlines()[-1:] == [""], run.stdout + run.stderr
