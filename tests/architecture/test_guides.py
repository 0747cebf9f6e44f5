"""docs/adding_a_*.md, followed word for word."""

from __future__ import annotations

from pathlib import Path

import pytest
from guides import copy_project, follow
from shared import REPO

# Page -> how many commands it has, and how many cases its tests.
GUIDES = {
    "adding_a_kernel": (1, 4),
    "adding_a_pass": (1, None),
    "adding_a_target": (3, 0),
    "adding_an_option": (3, 2),
}


@pytest.mark.parametrize("name", GUIDES)
def test_following_the_guide_works(name: str, tmp_path: Path) -> None:
    copy_project(tmp_path)
    ran = list(follow(REPO / "docs" / f"{name}.md", tmp_path))
    commands, cases = GUIDES[name]
    assert len(ran) == commands
    for command, printed in ran:
        if "pytest" in command and cases is not None:
            assert printed.startswith("." * cases + " "), printed


def test_every_guide_is_followed() -> None:
    pages = {p.stem for p in (REPO / "docs").glob("adding_*.md")}
    assert pages == {*GUIDES, "adding_an_operator"}
