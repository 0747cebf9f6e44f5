"""What each model takes of a program, read from its symbols."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlftool.mlf import write_tar
from rules.private.tools import size

sys.path.insert(0, os.path.abspath(Path(__file__).parents[1] / "runtime"))
from tvm_archives import graph_archive

KEYWORD = """
static unsigned char global_workspace[1024];
static const char weights[512] = {1};
static char state[8] = {1};
static char helper(int i) { return weights[i] + state[i & 7]; }
int tvmgen_keyword_run(int i) { global_workspace[i]++; return helper(i) + global_workspace[i]; }
"""
# A module whose name begins like the other's, and a symbol of no model.
LONGER = """
static unsigned char global_workspace[64];
const char tvmgen_keyword_two_weights[256] = {1};
int tvmgen_keyword_two_run(int i) { return ++global_workspace[i] + tvmgen_keyword_two_weights[i]; }
"""
MAIN = """
int tvmgen_keyword_run(int); int tvmgen_keyword_two_run(int);
static char helper[4096];
int main(int n, char **v) {
  (void)v; helper[n] = 1;
  return tvmgen_keyword_run(n) + tvmgen_keyword_two_run(n) + helper[n + 1];
}
"""
MODELS = [
    size.Model("keyword", "host", 1024, frozenset({"keyword_lib0"})),
    size.Model("keyword_two", "host", 64, frozenset({"keyword_two_lib0"})),
    size.Model("unused", "host", 7, frozenset({"unused_lib0"})),
]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("program")
    sources = {"keyword_lib0.c": KEYWORD, "keyword_two_lib0.c": LONGER, "main.c": MAIN}
    for name, text in sources.items():
        (folder / name).write_text(text)
    subprocess.run(["gcc", "-O0", "-o", "program", *sources], cwd=folder, check=True)
    return folder / "program"


def test_every_symbol_has_one_owner(program: Path) -> None:
    parts, total = size.measure(program, MODELS)

    keyword, two = parts["keyword"].row(), parts["keyword_two"].row()
    assert (keyword["constants_bytes"], keyword["data_bytes"], keyword["bss_bytes"]) == (
        512,
        8,
        1024,
    )
    assert keyword["flash_bytes"] == keyword["code_bytes"] + 512 + 8
    assert keyword["ram_bytes"] == 1032
    assert (two["constants_bytes"], two["bss_bytes"]) == (256, 64)
    assert keyword["code_bytes"] > two["code_bytes"] > 20
    # The helper of main.c is nobody's, though it is called like the model's.
    assert total["ram_bytes"] >= 4096 + 1032 + 64
    assert set(parts["unused"].row().values()) == {0}


def test_the_table_adds_up(program: Path) -> None:
    data = size.report("//:program", program, MODELS)

    for figure in ("flash_bytes", "ram_bytes"):
        rows = [row[figure] for row in data["models"]]
        assert sum(rows) + data["other"][figure] == data["total"][figure]
    assert data["total"]["arena_bytes"] == 1024 + 64 + 7
    lines = size.table(data).splitlines()
    assert lines[0] == "//:program"
    assert lines[1].split() == ["code", "constants", "flash", "ram", "arena"]
    assert [line.split()[0] for line in lines[2:]] == [
        "keyword", "keyword_two", "unused", "other", "total",
    ]  # fmt: skip
    assert lines[-2].split()[-1] == "-"


def test_files_are_written_from_an_archive(program: Path, tmp_path: Path) -> None:
    archive, out = tmp_path / "a.tar", [tmp_path / "s.json", tmp_path / "s.txt"]
    write_tar(graph_archive(5), archive)

    assert size.main([str(program), "//:p", *map(str, out), str(archive)]) == 0

    assert [row["module"] for row in json.loads(out[0].read_text())["models"]] == ["default"]
    assert out[1].read_text().startswith("//:p\n")


def test_a_file_that_is_no_program(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "x").write_text("#!/bin/sh\n")

    assert size.main([str(tmp_path / "x"), "//:x", *[str(tmp_path / n) for n in "jt"]]) == 2

    assert "error[MLF0609]: cannot be measured: is not a valid ELF file" in capsys.readouterr().err
    assert not (tmp_path / "j").exists()
