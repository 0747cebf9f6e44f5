"""The commands of crt/README.md do what it says."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

CRT = Path(__file__).absolute().parents[2] / "crt"
README = (CRT / "README.md").read_text()


@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
def test_the_program_on_a_board_runs(tmp_path: Path) -> None:
    (tmp_path / "crt").symlink_to(CRT)
    text = '#include "platform.h"\nint main(int argc, char **argv) {\n'
    text += "  platform_print(argv[argc - 1]);\n  return 3;\n}\n"
    (tmp_path / "main.c").write_text(text)
    build, run = re.findall(r"^    ((?:arm-none|qemu)(?:.*\\\n)*.*)\n", README, re.MULTILINE)
    subprocess.run(["sh", "-c", build], cwd=tmp_path, check=True)
    done = subprocess.run(["sh", "-c", run], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (3, "firmware", "")


def test_the_table_of_boards_is_true() -> None:
    from mlftool.runtime.boards import BOARDS

    rows = re.findall(r"^\| `(\w+)` \| [^|]+ \| `([\w-]+)` \|", README, re.MULTILINE)
    boards = {board.name: board.machine for board in BOARDS.values() if not board.hosted}
    assert rows == list(boards.items())
