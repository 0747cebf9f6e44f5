"""docs/adding_an_operator.md, followed word for word in a copy of the project."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from guides import copy_project, follow
from shared import REPO

from mlftool.ops import Op


def test_following_the_guide_works(tmp_path: Path) -> None:
    copy_project(tmp_path)
    ran = list(follow(REPO / "docs" / "adding_an_operator.md", tmp_path))
    assert len(ran) == 3
    for command, printed in ran:
        if "pytest" in command:
            assert printed.startswith("... "), printed
        if "conformance" in command:
            assert re.search(r"\d+ cases: \d+ pass$", printed.strip()), printed
    page = (tmp_path / "docs" / "operators.md").read_text(encoding="utf-8")
    assert "| com.example.Wave |  | kernel, elementwise |" in page
    assert "| com.example.Centre |  | rewritten |" in page


def test_the_guide_names_all_that_a_record_may_say() -> None:
    page = (REPO / "docs" / "adding_an_operator.md").read_text(encoding="utf-8")
    fields = {field.name for field in dataclasses.fields(Op)} - {"name", "kernel", "traits"}
    assert fields <= set(re.findall(r"`(\w+)`", page))
