"""A short slice of the fuzzing in docs/fuzzing.md, with gcc and the driver of our own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from crt_build import ROOT, SANITIZE, WARNINGS, sources
from machines import BY_NAME

FUZZ = ROOT / "tests/crt/fuzz"
READERS = ("common", "graph_executor")
LINE = ("common", "microtvm_rpc_common")
PARTS = {
    "framing": LINE,
    "session": LINE,
    "rpc": (
        *("common", "microtvm_rpc_common", "microtvm_rpc_server"),
        *("aot_executor", "aot_executor_module"),
    ),
}


@pytest.mark.parametrize("name", ["framing", "graph", "params", "registry", "rpc", "session", "vm"])
def test_a_million_inputs_find_nothing(name: str, tmp_path: Path) -> None:
    program = tmp_path / name
    command = ["gcc", "-O1", *WARNINGS, *SANITIZE, f"{FUZZ}/platform.c", f"{FUZZ}/driver.c"]
    command += [*sources(f"tests/crt/fuzz/{name}.c", *PARTS.get(name, READERS)), "-o", program]
    subprocess.run(command, check=True)
    done = subprocess.run([program, "1000000"], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, "1000000 executions\n", "")
    if name in PARTS:
        kept = corpus(name, tmp_path)
        done = subprocess.run([program, *kept], capture_output=True, text=True, timeout=300)
        assert (done.returncode, done.stderr) == (0, "")


def corpus(name: str, folder: Path) -> list[Path]:
    """The inputs that libFuzzer kept, as files; each line of a corpus is one, in hexadecimal."""
    lines = (FUZZ / f"corpus/{name}.txt").read_text().split()
    assert len(lines) > 50
    files = [folder / f"input{k}" for k in range(len(lines))]
    for file, line in zip(files, lines, strict=True):
        file.write_bytes(bytes.fromhex(line))
    return files


def commands(compiler: str) -> list[str]:
    """The command lines of the block of docs/fuzzing.md that starts with `compiler`."""
    text = (ROOT / "docs/fuzzing.md").read_text().replace("\\\n", "")
    block = re.search(
        rf"(?:^    (?!apt).*\n)*^    {compiler} .*\n(?:^    .*\n)+", text, re.MULTILINE
    )
    assert block is not None
    return [line.strip() for line in block[0].splitlines() if "apt-get" not in line]


@pytest.mark.parametrize("compiler", ["gcc", "clang"])
def test_the_documented_commands_work(compiler: str, tmp_path: Path) -> None:
    if compiler == "clang":
        BY_NAME["x86-64-clang"].need()
    for name in ("crt", "tests"):
        (tmp_path / name).symlink_to(ROOT / name)
    (tmp_path / "corpus").mkdir()
    for line in commands(compiler):
        shorter = line.replace("-runs=10000000", "-runs=20000")
        done = subprocess.run(["sh", "-c", shorter], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, line + done.stderr
    assert list((tmp_path / "corpus").iterdir())
