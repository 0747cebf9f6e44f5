"""`vectors INPUTS.npz OUT.npz ARGUMENTS OF mlftool run`: inputs with the outputs a module gives."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path

from mlftool.cli import main as mlftool
from mlftool.errors import exits
from mlftool.runtime.vectors import load_vectors, save_npz


@exits
def main(arguments: list[str]) -> int:
    """mlftool's exit code."""
    given, out, *run = arguments
    arrays = load_vectors(Path(given))
    with tempfile.TemporaryDirectory() as folder:
        outputs = Path(folder) / "outputs.npz"
        with contextlib.redirect_stdout(io.StringIO()):
            code = mlftool([*run, "--inputs", given, "-o", str(outputs)])
        if code == 0:
            save_npz(Path(out), {**arrays, **load_vectors(outputs)})
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
