"""`faulty.py SHIM FOLDER MODEL VECTORS COMMAND ERRNO,... STEP`: a command with one call failing.

The N-th writing call fails with ERRNO (faults.c), for each STEP-th N until the command needs no
N-th one; after each the command runs once more, undisturbed. The first N is 1 for the first ERRNO,
2 for the second, at most STEP: as many errors as steps, and no call is left out. Prints a JSON
object for each N.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from mlftool.cli import main

# What commands import only when they need it, once for all children.
for name in ("compile", "builder", "runtime.host", "runtime.runner", "runtime.project"):
    __import__(f"mlftool.{name}")


def commands(out: Path, model: Path, vectors: Path) -> dict[str, list[str]]:
    archive, manifest = out.with_name("given.tar"), out.with_name("models.yaml")
    if not archive.exists():
        assert main(["compile", str(model), "-o", str(archive)]) == 0
        text = f"version: 1\nmodels:\n  a: {{model: {model.name}}}\n  b: {{model: {model.name}}}\n"
        manifest.write_text(text)
    return {
        "compile": ["compile", f"{model}", "-o", f"{out}/m.tar"],
        "build": ["build", f"{manifest}", "-o", f"{out}/all", "-j", "1"],
        "extract": ["extract", f"{archive}", "--project", f"net={out}/project"],
        "run": ["run", f"{archive}", "--inputs", f"{vectors}", "-o", f"{out}/y.npz"],
    }


def tree(folder: Path) -> dict[str, str]:
    """File -> digest."""
    return {
        str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest()
        for p in sorted(folder.rglob("*"))
        if p.is_file()
    }


def in_child(work: Callable[[], int]) -> tuple[int, str, bool]:
    """Exit code, what was said on stderr, and whether the fault happened."""
    reader, writer = os.pipe()
    pid = os.fork()
    if pid == 0:
        said = io.StringIO()
        with contextlib.redirect_stderr(said), contextlib.redirect_stdout(io.StringIO()):
            code = work()
        with os.fdopen(writer, "w") as pipe:
            json.dump([code, said.getvalue(), bool(shim.mlf_fault_fired())], pipe)
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        text = pipe.read()
    os.waitpid(pid, 0)
    code, talk, fired = json.loads(text)
    return code, talk, fired


def one(arguments: list[str], out: Path, n: int, number: int) -> tuple[int, str, bool]:
    def work() -> int:
        shim.mlf_fault_set(n, number, os.fsencode(out))
        return main(arguments)

    return in_child(work)


def everything(out: Path, arguments: list[str], number: int, first: int, step: int) -> None:
    shutil.rmtree(out)  # with the cache of what this process has compiled, which children know
    out.mkdir()
    assert one(arguments, out, 0, 0)[0] == 0
    whole, n, fired = tree(out), first, True
    while fired:
        shutil.rmtree(out)
        out.mkdir()
        code, talk, fired = one(arguments, out, n, number)
        broken = tree(out)
        again, more, _ = one(arguments, out, 0, 0)
        result = {
            "errno": number, "n": n, "fired": fired, "code": code, "said": talk,
            "broken": sorted(f for f, d in broken.items() if whole.get(f, "") != d),
            "again": again, "whole": tree(out) == whole, "more": more if again else "",
        }  # fmt: skip
        print(json.dumps(result), flush=True)
        n += step


if __name__ == "__main__":
    library, base, network, samples, chosen, errors, stride = sys.argv[1:]
    shim = ctypes.CDLL(library)
    folder = Path(base) / "out"
    folder.mkdir()
    os.environ["MLFTOOL_CACHE"] = str(folder / "cache")
    arguments = commands(folder, Path(network), Path(samples))[chosen]
    step = int(stride)
    for k, error in enumerate(errors.split(",")):
        everything(folder, arguments, int(error), 1 + k % step, step)
