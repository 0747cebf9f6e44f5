"""The quantised model is the same in processes with other hashes and numbers of threads."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
from float_nets import residual, samples

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
RUN = "import sys; from mlftool.cli import main; sys.exit(main(sys.argv[1:]))"


def test_hashes_and_threads_change_no_byte(tmp_path: Path) -> None:
    """Sums of many terms are those that several threads of BLAS would share."""
    onnx.save(residual(), tmp_path / "net.onnx")
    np.savez(tmp_path / "data.npz", x=samples(count=24))
    given = [str(tmp_path / "net.onnx"), "--data", str(tmp_path / "data.npz"), "--simulate"]
    paths, runs = os.pathsep.join(filter(None, sys.path)), []
    for seed, threads in (("1", "1"), ("77", "4")):
        changed = {"PYTHONHASHSEED": seed, "PYTHONPATH": paths, **dict.fromkeys(THREADS, threads)}
        ends = ["-o", str(tmp_path / f"{seed}.onnx"), "--report", str(tmp_path / f"{seed}.json")]
        line = [sys.executable, "-c", RUN, "quantize", *given, *ends]
        runs.append(subprocess.Popen(line, env={**os.environ, **changed}))
    assert [run.wait() for run in runs] == [0, 0]
    for kind in ("onnx", "json"):
        first, second = ((tmp_path / f"{seed}.{kind}").read_bytes() for seed in ("1", "77"))
        assert first == second
