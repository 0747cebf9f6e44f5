"""What a program takes of a board's memories, against what binutils say of the same file."""

from __future__ import annotations

import random
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from mlftool.errors import MlfError
from mlftool.runtime import elf
from mlftool.runtime.link import footprint
from rules.private.tools import image, size

needs_gcc = pytest.mark.skipif(
    not shutil.which("arm-none-eabi-gcc"), reason="apt-get install gcc-arm-none-eabi"
)
SOURCE = """
__attribute__((used, section(".flash_rodata"))) static const char table[5000] = {1};
__attribute__((used, section(".ram_code"))) static int hot(int x) { return x * 3 + table[x]; }
__attribute__((used, section(".settings"))) static char settings[700] = {1, 2, 3};
__attribute__((used, section(".scratch"))) static char scratch[900];
__attribute__((section(".program"))) int entry(void) { return hot(settings[0]) + scratch[1]; }
"""
# No name that a list of section names would know; code that is copied to RAM, too.
SCRIPT = """
MEMORY
{
  FLASH (rx) : ORIGIN = 0x08000000, LENGTH = 64K
  RAM (rwx) : ORIGIN = 0x20000000, LENGTH = 64K
}
%s
ENTRY(entry)
SECTIONS {
  .program : { KEEP(*(.program)) } > FLASH %s
  .constants_of_mine : { KEEP(*(.flash_rodata)) } > FLASH %s
  .fast : { KEEP(*(.ram_code)) } > RAM AT > FLASH %s
  .settings : { KEEP(*(.settings)) } > RAM AT > FLASH
  .scratch (NOLOAD) : { KEEP(*(.scratch)) } > RAM
  .stack (NOLOAD) : { . += 2048; } > RAM
  /DISCARD/ : { *(.ARM.exidx*) *(.ARM.attributes) *(.comment) }
}
"""
PLAIN = SCRIPT % ("", "", "", "")
WITH_HEADERS = SCRIPT % (
    "PHDRS { rom PT_LOAD FILEHDR PHDRS; ram PT_LOAD; }",
    ":rom",
    ":rom",
    ":ram",
)


def linked(folder: Path, script: str = PLAIN) -> Path:
    (folder / "a.c").write_text(SOURCE)
    (folder / "a.ld").write_text(script)
    command = ["arm-none-eabi-gcc", "-mcpu=cortex-m4", "-mthumb", "-Os", "-nostdlib", "a.c"]
    subprocess.run([*command, "-Wl,-T,a.ld", "-o", "a.elf"], cwd=folder, check=True)
    return folder / "a.elf"


def loaded(program: Path) -> bytes:
    """The image of flash as objcopy makes it."""
    out = program.with_suffix(".objcopy")
    subprocess.run(["arm-none-eabi-objcopy", "-O", "binary", program, out], check=True)
    return out.read_bytes()


@needs_gcc
@pytest.mark.parametrize("script", [PLAIN, WITH_HEADERS], ids=["plain", "headers in a segment"])
def test_flash_does_not_depend_on_names_of_sections(tmp_path: Path, script: str) -> None:
    program = linked(tmp_path, script)
    expected = loaded(program)
    found = footprint(program)
    assert len(expected) > 5700
    assert abs(found.flash - len(expected)) < 8  # objcopy fills the gaps between segments
    code = 0
    text = subprocess.check_output(["arm-none-eabi-readelf", "-SW", program], text=True)
    for name, bytes_ in re.findall(r"\] (\.\w+) +\w+ +\w+ +\w+ +(\w+)", text):
        code += int(bytes_, 16) if name == ".fast" else 0
    assert code > 4
    assert found.ram == pytest.approx(code + 700 + 900, abs=8)
    assert found.stack_reserved == 2048
    image.main([str(program), str(tmp_path / "a.bin"), str(tmp_path / "a.hex")])
    assert (tmp_path / "a.bin").read_bytes()[:5000] == expected[:5000]
    _, total = size.measure(program, [])
    assert total == {"flash_bytes": found.flash, "ram_bytes": found.ram}


@needs_gcc
def test_flash_is_known_without_sections(tmp_path: Path) -> None:
    program = linked(tmp_path)
    before = footprint(program)
    data = bytearray(program.read_bytes())
    data[32:36] = data[48:52] = bytes(4)  # e_shoff; e_shnum and e_shstrndx
    stripped = tmp_path / "stripped.elf"
    stripped.write_bytes(data)
    after = footprint(stripped)
    assert after.flash == before.flash
    assert after.ram >= before.ram  # what is reserved cannot be told from the rest


@needs_gcc
def test_files_that_are_cut_or_changed_are_refused_or_measured(tmp_path: Path) -> None:
    """Never another exception, and never more flash than the file has bytes."""
    data = linked(tmp_path).read_bytes()
    chance = random.Random(3)
    cases = [data[:n] for n in (*range(0, 120, 7), *range(0, len(data), 331))]
    for _ in range(300):
        changed = bytearray(data)
        for _ in range(chance.randint(1, 4)):
            # Headers are at both ends.
            at = chance.choice([chance.randrange(180), len(data) - 1 - chance.randrange(500)])
            changed[at] = chance.choice([0, 1, 0x7F, 0xFF, chance.randrange(256)])
        cases.append(bytes(changed))
    refused = [message for message in map(measured, cases) if message]
    assert len(refused) > 20
    assert not [message for message in refused if "\n" in message]


def measured(data: bytes) -> str:
    """The message that refuses the file, if one does."""
    try:
        found = elf.memories(data)
    except ValueError as error:
        return str(error)
    assert 0 <= found.flash <= 4 * len(data)
    return ""


def test_what_is_no_program_is_told_in_one_line(tmp_path: Path) -> None:
    for data in (b"", b"\x7fELF", b"hello" * 100):
        (tmp_path / "x.elf").write_bytes(data)
        with pytest.raises(MlfError, match="cannot be measured: is not a valid ELF file"):
            footprint(tmp_path / "x.elf")
