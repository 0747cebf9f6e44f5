"""docs/adding_*.md, followed word for word, and how many sources each step edits."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from guides import BLOCK, copy_project, follow
from shared import REPO

from tools.touches import TEMPLATE, is_source

# Page -> how many commands it has, and how many cases its tests.
GUIDES = {
    "adding_a_kernel": (1, 4),
    "adding_a_pass": (1, None),
    "adding_a_target": (5, 0),
    "adding_an_option": (3, 2),
    "adding_other_parts": (5, 0),
}
# Page and heading -> the sources edited by hand for one of its kind, and its templates.
TOUCHES = {
    ("adding_a_kernel", "Adding a kernel"): (1, 1),
    ("adding_a_pass", "Adding a pass"): (1, 0),
    ("adding_a_target", "A core of a known toolchain"): (1, 0),
    ("adding_a_target", "A core with another toolchain"): (2, 0),
    ("adding_an_operator", "An elementwise operator"): (1, 0),
    ("adding_an_operator", "A kernel of its own"): (1, 1),
    ("adding_an_operator", "An operator that combines others"): (1, 0),
    ("adding_an_option", "Adding a compiler option"): (1, 0),
    ("adding_other_parts", "A command"): (1, 0),
    ("adding_other_parts", "An executor"): (1, 0),
    ("adding_other_parts", "A manifest key"): (2, 0),
}


@pytest.mark.sampled(2)
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


def test_what_each_part_touches() -> None:
    found = {}
    for page in sorted((REPO / "docs").glob("adding_*.md")):
        # A `#` within a block is a comment.
        parts = re.split(r"^##? ([A-Z].*)$", page.read_text(encoding="utf-8"), flags=re.MULTILINE)
        for heading, text in zip(parts[1::2], parts[2::2], strict=True):
            files = {name for _, name, _ in BLOCK.findall(text) if name and is_source(name)}
            if files:
                templates = sum(name.endswith(TEMPLATE) for name in files)
                found[page.stem, heading] = (len(files) - templates, templates)
    assert found == TOUCHES
