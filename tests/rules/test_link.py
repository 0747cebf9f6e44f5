"""What a build of firmware says when its linker fails."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from rules.private.tools import link

MAP = """Memory Configuration

Name             Origin             Length             Attributes
FLASH            0x0000000000000000 0x0000000000010000 xr
RAM              0x0000000020000000 0x0000000000004000 xrw
"""


def linked(tmp_path: Path, says: str, status: int, has_map: bool = True) -> int:
    """What the tool returns for a linker that says this."""
    (tmp_path / "says").write_text(says)
    (tmp_path / "out").write_text(MAP)
    program = tmp_path / "ld"
    copy = f'cp "{tmp_path}/out" "$1"\n' if has_map else ""
    program.write_text(f'#!/bin/sh\n{copy}cat "{tmp_path}/says" >&2\nexit {status}\n')
    program.chmod(0o755)
    out = str(tmp_path / "made.map")
    return link.main(["//app:image", out, str(program), out])


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ("RAM=1000", "RAM is 16,384 bytes, 17,384 are needed: 1,000 too many"),
        ("FLASH=8", "FLASH is 65,536 bytes, 65,544 are needed: 8 too many"),
        (
            "FLASH=8 RAM=4",
            "FLASH is 65,536 bytes, 65,544 are needed: 8 too many; "
            "RAM is 16,384 bytes, 16,388 are needed: 4 too many",
        ),
        ("TCM=70000", "TCM is 70,000 bytes too small"),
    ],
)
def test_memories_that_are_too_small(
    over: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pairs = (word.split("=") for word in over.split())
    lines = [f"/x/ld: region `{name}' overflowed by {count} bytes" for name, count in pairs]
    text = "/x/ld: image section `.bss' will not fit\n" + "\n".join(lines)
    assert linked(tmp_path, f"{text}\ncollect2: error: ld returned 1 exit status\n", 1) == 1
    first, second = capsys.readouterr().err.splitlines()
    assert first == f"//app:image: error[MLF0608]: does not fit: {said}"
    assert second.startswith("help: ")


def test_without_a_map_the_difference_is_known(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert linked(tmp_path, "region `RAM' overflowed by 5 bytes\n", 1, has_map=False) == 1
    assert "RAM is 5 bytes too small" in capsys.readouterr().err


@pytest.mark.parametrize(("says", "status"), [("x.c: undefined reference to `f'\n", 2), ("", 0)])
def test_everything_else_is_the_linker_s(
    says: str, status: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert linked(tmp_path, says, status) == status
    assert capsys.readouterr().err == says


@pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None, reason="apt-get install gcc-arm-none-eabi"
)
def test_a_real_linker(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x.ld").write_text(
        "MEMORY { ROM (rx) : ORIGIN = 0, LENGTH = 1K\n"
        "SRAM (rwx) : ORIGIN = 0x20000000, LENGTH = 1K }\n"
        "SECTIONS { .text : { *(.text*) } > ROM  .bss (NOLOAD) : { *(.bss*) } > SRAM }\n"
    )
    (tmp_path / "x.c").write_text("char big[5000]; int main(void) { return big[7]; }\n")
    gcc = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-nostdlib"]
    subprocess.run([*gcc, "-c", "x.c", "-o", "x.o"], cwd=tmp_path, check=True)
    command = [*gcc, "-T", str(tmp_path / "x.ld"), str(tmp_path / "x.o"), "-Wl,-e,main"]
    made = ["-Wl,-Map=" + str(tmp_path / "x.map"), "-o", str(tmp_path / "x.elf")]
    assert link.main(["//:x", str(tmp_path / "x.map"), *command, *made]) == 1
    assert "SRAM is 1,024 bytes, 5,000 are needed: 3,976 too many" in capsys.readouterr().err


MAIN = '#include <stdio.h>\nint main(void) { return printf("%d\\n", (int)(long)&main); }\n'
OTHER = "int other(void);\n" + MAIN.replace("return ", "return other() + ")


def built(folder: Path, source: str, *options: str) -> int:
    (folder / "main.c").write_text(source)
    gcc = ["arm-none-eabi-gcc", "-mcpu=cortex-m3", "-mthumb", "-nostartfiles", "-Wl,-emain"]
    gcc += [str(folder / "main.c"), "-o", str(folder / "x.elf"), *options]
    return link.main(["//app:x", str(folder / "x.map"), *gcc])


@pytest.mark.skipif(
    shutil.which("arm-none-eabi-gcc") is None, reason="apt-get install gcc-arm-none-eabi"
)
def test_system_calls_that_a_board_has_not(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """One line with a remedy that works; the linker's words if anything else is missing, too."""
    assert built(tmp_path, MAIN) == 1
    said, help = capfd.readouterr().err.strip().splitlines()
    assert said.startswith("//app:x: error[MLF0608]: printf, malloc or exit of the C library needs")
    assert "_write" in said or " more" in said
    assert '["--specs=nosys.specs"]' in help
    assert built(tmp_path, MAIN, "--specs=nosys.specs") == 0
    capfd.readouterr()
    assert built(tmp_path, OTHER) == 1
    assert "undefined reference to `other'" in capfd.readouterr().err
