"""The peers as they run on processors of x86-64-v3, on a processor that has more.

Neither onnxruntime nor XNNPACK can be told to leave AVX-512 alone, and a virtual machine's user
cannot hide it. They choose their kernels by CPUID, so in a copy of their libraries that instruction
becomes UD2, just as long, and a preloaded handler answers for it without AVX-512 and VNNI.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from corpus import BUILT

_CPUID, _UD2 = b"\x0f\xa2", b"\x0f\x0b"
_HANDLER = Path(__file__).with_suffix(".c")
_FOLDER = BUILT / "without_avx512"


@cache
def environment(package: Path) -> dict[str, str]:
    """What a process that imports `package`, a folder of site-packages, needs to see it so."""
    handler = _FOLDER / "handler.so"
    if not handler.is_file():
        _FOLDER.mkdir(parents=True, exist_ok=True)
        command = ["gcc", "-O1", "-shared", "-fPIC", _HANDLER, "-o", handler]
        subprocess.run(command, check=True)
    if not (copy := _FOLDER / package.name).is_dir():
        unfinished = _FOLDER / f"{package.name}.unfinished"
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(package, unfinished)
        for library in unfinished.rglob("*.so*"):
            _trap(library)
        unfinished.rename(copy)
    return {"LD_PRELOAD": str(handler), "PYTHONPATH": str(_FOLDER)}


def _trap(library: Path) -> None:
    data = bytearray(library.read_bytes())
    offsets = list(_cpuid_offsets(library))
    for offset in offsets:
        assert data[offset : offset + 2] == _CPUID, f"{library}: no CPUID at {offset:#x}"
        data[offset : offset + 2] = _UD2
    if offsets:
        library.write_bytes(data)


def _cpuid_offsets(library: Path) -> Iterator[int]:
    """Where in the file: objdump tells instructions from bytes that only look like one."""
    command = ["objdump", "-d", "--no-show-raw-insn", "-j", ".text", library]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    heads = subprocess.run(
        ["objdump", "-h", "-j", ".text", library], capture_output=True, text=True, check=True
    ).stdout
    section = re.search(r"\.text\s+\S+\s+(\S+)\s+\S+\s+(\S+)", heads)
    assert section, f"{library}: no .text"
    address, offset = (int(text, 16) for text in section.groups())
    for found in re.finditer(r"^\s*([0-9a-f]+):\s+cpuid\b", listing, re.MULTILINE):
        yield int(found[1], 16) - address + offset
