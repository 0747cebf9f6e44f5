"""`python -m pytest tests` imports every test file by its name alone, so each has its own."""

from __future__ import annotations

from collections import Counter

from shared import REPO


def test_test_files_have_names_of_their_own() -> None:
    names = Counter(p.name for p in (REPO / "tests").rglob("test_*.py"))
    assert names["test_backend.py"] == names["test_golden.py"] == 1  # of other folders
    assert [name for name, count in names.items() if count > 1] == []
