"""Boards by their names and folders, and what is said of a folder that describes none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from mlftool.errors import MlfError
from mlftool.runtime.boards import BOARDS, defaults, find, read_board

GOOD: dict[str, Any] = {
    "title": "Somebody's board",
    "targets": ["cortex-m3", "cortex-m4"],
    "simulator": ["simulate", "-machine", "mine"],
}


def folder(path: Path, content: str) -> Path:
    path = path / "mine"
    path.mkdir()
    (path / "board.json").write_text(content)
    return path


def test_a_target_a_name_and_a_folder_mean_boards(tmp_path: Path) -> None:
    mine = folder(tmp_path, json.dumps(GOOD))
    (mine / "link.ld").write_text("")

    assert find("cortex-m4") == find("mps2_an386") == BOARDS["cortex-m4"]
    assert find("cortex-m9") is None
    for wanted in (str(mine), str(mine / "board.json")):
        board = find(wanted)
        assert board
        assert (board.name, board.target, board.machine) == ("mine", "cortex-m3", "mine")
        assert (board.hosted, board.folder) == (False, mine)
    board = find(str(mine), "cortex-m4")
    assert board
    assert board.target == "cortex-m4"


def test_without_a_linker_script_it_is_a_computer(tmp_path: Path) -> None:
    board = find(str(folder(tmp_path, json.dumps(GOOD))))
    assert board
    assert board.hosted


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"title": None}, "title: got null, expected text"),
        ({"targets": []}, "targets: the list is empty"),
        ({"targets": "cortex-m3"}, 'targets: got "cortex-m3", expected a list of texts'),
        ({"targets": ["cortex-m5"]}, "targets: unknown target 'cortex-m5'; did you mean 'cortex-m"),
        ({"targets": ["host"]}, "targets: unknown target 'host'"),
        ({"simulator": [1]}, "simulator: got [1], expected a list of texts"),
        ({"parts": ["cortex"]}, "parts: crt/boards has no folder 'cortex'"),
        ({"simulators": []}, "unknown key 'simulators'; did you mean 'simulator'?"),
    ],
)
def test_a_wrong_description_is_refused(tmp_path: Path, change: dict[str, Any], said: str) -> None:
    mine = folder(tmp_path, json.dumps({**GOOD, **change}))
    with pytest.raises(MlfError) as refused:
        find(str(mine))
    (problem,) = refused.value.problems
    assert (problem.code, problem.file) == ("MLF0614", str(mine / "board.json"))
    assert said in problem.message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "cannot be read: Expecting property name"),
        ("[]", "expected an object with the keys title, targets, simulator"),
        ("{}", "the key 'title' is missing"),
    ],
)
def test_what_is_no_description(tmp_path: Path, content: str, said: str) -> None:
    with pytest.raises(MlfError) as refused:
        find(str(folder(tmp_path, content)))
    assert said in refused.value.problems[0].message


def test_which_of_two_boards_is_a_targets_default_is_said(tmp_path: Path) -> None:
    """Not decided by their names."""
    first, second = ({**GOOD, "targets": ["cortex-m4"], "second": s} for s in ([], ["cortex-m4"]))
    for name, content in (("a", first), ("b", second), ("c", first)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "board.json").write_text(json.dumps(content))
    a, b, c = (read_board(tmp_path / name)[0] for name in "abc")
    assert defaults([a, b]) == defaults([b, a]) == {"cortex-m4": a}
    with pytest.raises(MlfError, match="cortex-m4 is run by a, too"):
        defaults([a, b, c])
