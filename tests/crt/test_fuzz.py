"""A short slice of the fuzzing in docs/fuzzing.md, with gcc and the driver of our own."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest
from crt_build import INCLUDES, ROOT, SANITIZE, WARNINGS, part
from machines import BY_NAME

FUZZ = ROOT / "tests/crt/fuzz"
EXECUTIONS = "100000"
COMPILE = ("gcc", "-O1", *WARNINGS, *SANITIZE)
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


@pytest.fixture(scope="module")
def objects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a folder of objects for each part, and one for what is around a fuzzer."""
    folder = tmp_path_factory.mktemp("objects")
    around = [f"{FUZZ}/platform.c", f"{FUZZ}/driver.c"]
    parts = {name for names in (READERS, *PARTS.values()) for name in names}
    for name, files in {"": around, **{name: part(name) for name in parts}}.items():
        (folder / f"of_{name}").mkdir()
        command = [*COMPILE, *INCLUDES, "-c", *files]
        subprocess.run(command, cwd=folder / f"of_{name}", check=True)
    return folder


@pytest.mark.parametrize("name", ["framing", "graph", "params", "registry", "rpc", "session", "vm"])
def test_random_inputs_find_nothing(name: str, objects: Path, tmp_path: Path) -> None:
    program = tmp_path / name
    made = [o for p in ("", *PARTS.get(name, READERS)) for o in (objects / f"of_{p}").glob("*.o")]
    subprocess.run([*COMPILE, *INCLUDES, FUZZ / f"{name}.c", *made, "-o", program], check=True)
    done = subprocess.run([program, EXECUTIONS], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (0, f"{EXECUTIONS} executions\n", "")
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
