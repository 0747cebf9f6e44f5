"""The small programs that actions and tests of the rules run."""

from __future__ import annotations

import json
import os
import re
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from elftools.elf.elffile import ELFFile

from rules.private.tools import (
    baseline,
    budget,
    compile_commands,
    image,
    limits,
    stamp,
    summary,
)

ROOT = Path(os.path.abspath(__file__)).parents[2]


def elf_with(segments: list[tuple[int, bytes]]) -> bytes:
    """A 32-bit little-endian ARM ELF whose program headers load `segments`."""
    size, count = 32, len(segments)
    header = b"\x7fELF\x01\x01\x01" + bytes(9)
    header += struct.pack("<HHIIIIIHHHHHH", 2, 40, 1, 0, 52, 0, 0, 52, size, count, 40, 0, 0)
    table, data = b"", b""
    for address, content in segments:
        offset = 52 + size * count + len(data)
        length = len(content)
        table += struct.pack("<8I", 1, offset, address, address, length, length, 5, 4)
        data += content
    return header + table + data


@pytest.mark.parametrize(
    ("segments", "expected"),
    [
        ([(0, b"abcd")], b"abcd"),
        ([(0x100, b"abcd"), (0x106, b"ef")], b"abcd\xff\xffef"),
        ([(0x20, b"ef"), (0x10, b"abcd")], b"abcd" + b"\xff" * 12 + b"ef"),
        # Vectors in one memory, code in another far away: the larger of the two.
        ([(0x10000000, b"vv"), (0x70000000, b"code")], b"code"),
    ],
)
def test_image_is_what_goes_to_the_start_of_flash(
    tmp_path: Path, segments: list[tuple[int, bytes]], expected: bytes
) -> None:
    (tmp_path / "x.elf").write_bytes(elf_with(segments))

    assert image.main([str(tmp_path / f"x.{end}") for end in ("elf", "bin", "hex")]) == 0

    assert (tmp_path / "x.bin").read_bytes() == expected


@pytest.mark.parametrize(
    "segments",
    [
        [(0, bytes(range(40)))],
        [(0xFFF5, bytes(range(33))), (0x2000_0000, b"far")],
        [(0x8000_0000, bytes(100)), (0x8002_0001, b"x" * 17)],
    ],
)
def test_the_hex_file_is_what_objcopy_reads(
    tmp_path: Path, segments: list[tuple[int, bytes]]
) -> None:
    paths = [str(tmp_path / f"x.{end}") for end in ("elf", "bin", "hex")]
    Path(paths[0]).write_bytes(elf_with(segments))
    assert image.main(paths) == 0

    # Into an ELF file, which keeps memories apart.
    again = tmp_path / "again.elf"
    program = ["arm-none-eabi-objcopy", "-I", "ihex", "-O", "elf32-littlearm", "-B", "arm"]
    subprocess.run([*program, paths[2], str(again)], check=True)

    with again.open("rb") as stream:
        sections = [s for s in ELFFile(stream).iter_sections() if s["sh_type"] == "SHT_PROGBITS"]
        found = {s["sh_addr"] + i: byte for s in sections for i, byte in enumerate(s.data())}
    assert found == {start + i: byte for start, data in segments for i, byte in enumerate(data)}


@pytest.mark.parametrize(
    "text", ["", "a b", 'say "hi"', "back\\slash", "??/ trigraph", "caf\u00e9", "a\tb"]
)
def test_version_and_commit_are_c(tmp_path: Path, text: str) -> None:
    (tmp_path / "status.txt").write_text(f"BUILD_EMBED_LABEL v1\nSTABLE_GIT_COMMIT {text}\n")
    assert stamp.main([str(tmp_path / "status.txt"), str(tmp_path / "stamp.c")]) == 0
    (tmp_path / "main.c").write_text(
        '#include <stdio.h>\n#include "mlf_firmware.h"\n'
        'int main(void) { printf("%s|%s", mlf_firmware_version, mlf_firmware_commit); return 0; }\n'
    )
    flags = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic", f"-I{ROOT}/crt/firmware"]
    for compiler in (["gcc", *flags], ["g++", "-std=c++17", "-x", "c++", f"-I{ROOT}/crt/firmware"]):
        subprocess.run(
            [*compiler, "main.c", "stamp.c", "-o", "print"], cwd=tmp_path, check=True
        )  # fmt: skip
        printed = subprocess.run([tmp_path / "print"], capture_output=True, check=True).stdout
        assert printed.decode() == f"v1|{text.encode('ascii', 'replace').decode()}"


@pytest.mark.parametrize(
    ("given", "code", "said"),
    [
        (["flash_bytes=1000"], 0, "flash_bytes: 1,000 of 1,000 (100.0 %): fits"),
        (["flash_bytes=999"], 1, "flash_bytes: 1,000 of 999 (100.1 %): over by 1"),
        (["flash_bytes=1000", "ram_bytes=1"], 1, "ram_bytes: 20 of 1 (2000.0 %): over by 19"),
        (["instructions=5"], 1, "instructions: not measured on host; limit 5"),
    ],
)
def test_budget(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], given: list[str], code: int, said: str
) -> None:
    report = {"module": "m", "target": "host", "flash_bytes": 1000, "ram_bytes": 20}
    (tmp_path / "r.json").write_text(json.dumps(report))

    assert budget.main([str(tmp_path / "r.json"), *given]) == code

    out = capsys.readouterr().out
    assert said in out
    assert ("\n  help: " in out) == (code != 0)


def test_every_limit_has_a_remedy() -> None:
    rules = (ROOT / "rules/private/run.bzl").read_text()
    named = re.search(r"_LIMITS = \{(.*?)\}", rules, re.DOTALL)[1]  # type: ignore[index]
    assert set(re.findall(r'"(\w+)":', named)) <= limits.REMEDIES.keys()


@pytest.mark.parametrize(
    ("old", "tolerance", "said"),
    [
        ({"m host": {"flash_bytes": 1000, "ram_bytes": 0}}, "0", []),
        ({"m host": {"flash_bytes": 990, "ram_bytes": 0}}, "2", []),
        ({"m host": {"flash_bytes": 990, "ram_bytes": 0}}, "1",
         ["m host: flash_bytes: 1,000, baseline 990 (+1.0 %)"]),
        ({"m host": {"flash_bytes": 1250, "ram_bytes": 8}}, "0",
         ["m host: flash_bytes: 1,000, baseline 1,250 (-20.0 %)",
          "m host: ram_bytes: 0, baseline 8 (-100.0 %)"]),
        ({"m host": {"ram_bytes": 0}}, "0", ["m host: flash_bytes: 1000, baseline none"]),
        ({"gone host": {}}, "0",
         ["gone host: not measured any more", "m host: not in the baseline"]),
    ],
)  # fmt: skip
def test_baseline(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], old: object, tolerance: str, said: list[str]
) -> None:
    report = {"passed": True, "flash_bytes": 1000, "ram_bytes": 0, "accuracy": 1.0}
    (tmp_path / "r.json").write_text(json.dumps(report))
    rows = [{"title": "m", "cpu": "host", "report": str(tmp_path / "r.json")}]
    (tmp_path / "rows.json").write_text(json.dumps({"reports": rows, "programs": []}))
    (tmp_path / "old.json").write_text(json.dumps(old))
    files = [str(tmp_path / "rows.json"), str(tmp_path / "old.json")]

    assert baseline.main([*files, tolerance, "old.json", "//:t"]) == bool(said)

    accept = ["to accept this: bazel run //:t -- --update"] if said else []
    assert capsys.readouterr().out.splitlines() == said + accept


SIZES = {
    "models": [
        {"module": "kws", "arena_bytes": 64, "flash_bytes": 1200, "ram_bytes": 80, "bss_bytes": 80},
        {"module": "tap", "arena_bytes": 16, "flash_bytes": 700, "ram_bytes": 16, "bss_bytes": 16},
    ],
    "total": {"flash_bytes": 4000, "ram_bytes": 900, "arena_bytes": 80},
}
KWS = {"flash_bytes": 1200, "ram_bytes": 80, "workspace_bytes": 64}
TAP = {"flash_bytes": 700, "ram_bytes": 16, "workspace_bytes": 16}
TOTAL = {"flash_bytes": 4000, "ram_bytes": 900}


@pytest.mark.parametrize(
    ("old", "said"),
    [
        ({"m4": TOTAL, "m4 kws": KWS, "m4 tap": TAP}, ["`//:t`: no size changed (3 rows).", ""]),
        (
            {"m4": {**TOTAL, "flash_bytes": 3990}, "m4 old": TAP,
             "m4 kws": {**KWS, "flash_bytes": 1000, "ram_bytes": 0}},
            [
                "`//:t`: 4 of 4 rows changed",
                "",
                "| | flash | ram | workspace |",
                "|---|---:|---:|---:|",
                "| m4 | 4,000 (+10, +0.3 %) | 900 |  |",
                "| m4 old, **gone** |  |  |  |",
                "| m4 kws | **1,200 (+200, +20.0 %)** | **80 (+80)** | 64 |",
                "| m4 tap, **new** | 700 | 16 | 16 |",
                "",
            ],
        ),
    ],
)  # fmt: skip
def test_sizes_of_programs_for_a_review(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    old: object,
    said: list[str],
) -> None:
    (tmp_path / "m4.json").write_text(json.dumps(SIZES))
    programs = [{"title": "m4", "sizes": str(tmp_path / "m4.json")}]
    (tmp_path / "rows.json").write_text(json.dumps({"reports": [], "programs": programs}))
    (tmp_path / "old.json").write_text(json.dumps(old))
    files = [str(tmp_path / "rows.json"), str(tmp_path / "old.json")]

    assert baseline.main([*files, "5", "old.json", "//:t", "--markdown"]) == 0

    assert capsys.readouterr().out.splitlines() == said

    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    assert baseline.main([*files, "5", "old.json", "//:t", "--markdown=comment.md"]) == 0
    assert capsys.readouterr().out == ""
    assert (tmp_path / "comment.md").read_text() == "\n".join(said).rstrip("\n") + "\n"
    # It was taken for no option at all.
    with pytest.raises(SystemExit):
        baseline.main([*files, "5", "old.json", "//:t", "--markdwn"])


def test_summary_shows_every_run_and_fails_with_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = {"max_abs_error": 0, "passed": True, "accuracy": 0.975, "flash_bytes": 12345,
            "ram_bytes": 678, "instructions": 1234567.4}  # fmt: skip
    bad = {"max_abs_error": 0.25, "passed": False, "flash_bytes": 1, "ram_bytes": 2}
    rows = []
    for name, report in {"good": good, "bad": bad}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(report))
        paths: dict[str, Any] = {"archive": f"out/{name}/m4.tar"}
        if name == "good":
            paths["images"] = [f"out/{name}/m4.elf", f"out/{name}/m4.bin"]
        else:
            paths["images"] = [f"out/{name}/host"]
        paths["report"] = str(tmp_path / f"{name}.json")
        rows.append({"title": name, "cpu": "cortex-m4", **paths})
    (tmp_path / "rows.json").write_text(json.dumps(rows))

    assert summary.main([str(tmp_path / "rows.json")]) == 1

    out = capsys.readouterr().out
    good_line = next(line for line in out.splitlines() if line.split()[:1] == ["good"])
    assert good_line.split()[1:] == [
        "cortex-m4",
        "exact",
        "97.50",
        "%",
        "12,345",
        "678",
        "1,234,567",
    ]
    assert "0.25 FAILED" in out
    assert out.splitlines()[-3:] == [
        "  out/*/*.tar",
        "  out/*/m4.{elf,bin}",
        "  out/*/host",
    ]


def test_launch_imports_only_what_it_is_given(tmp_path: Path) -> None:
    launch = Path(budget.__file__).with_name("launch.py")
    (tmp_path / "probe_module.py").write_text("import sys; print(sys.path, sys.argv)")

    def run(*arguments: str) -> str:
        start = [sys.executable, "-B", "-s", "-S", str(launch), *arguments]
        return subprocess.run(start, capture_output=True, text=True, check=True, env={}).stdout

    out = run(f"{tmp_path}:/nowhere", "probe_module", "one", "two")

    assert out.startswith(f"['{tmp_path}', '/nowhere', ")
    assert out.rstrip().endswith("'one', 'two']")
    assert "-packages" not in out
    assert str(launch.parent) not in out


def test_the_server_that_runs_a_program_is_asked(tmp_path: Path) -> None:
    """Its startup options may have been on a command line, which a second call does not see."""
    base = tmp_path / "root" / "5f3c"
    folder = base / "execroot" / "sensor" / "bazel-out" / "k8-fastbuild" / "bin" / "x.runfiles"

    assert compile_commands.server_of(folder) == [f"--output_base={base}"]
    (tmp_path / "root" / "install").mkdir(parents=True)
    assert compile_commands.server_of(folder) == [
        f"--output_user_root={tmp_path / 'root'}",
        f"--output_base={base}",
    ]
    assert compile_commands.server_of(Path("/home/somebody/sensor")) == []
    inner = folder / "_tmp/server/77aa/execroot/main/bazel-out/bin"
    assert compile_commands.server_of(inner) == [f"--output_base={inner.parents[3]}"]
