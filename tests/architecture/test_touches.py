"""tools/touches.py counts what somebody edited by hand, and nothing else."""

from __future__ import annotations

from tools.touches import main, parsed

LOG = """\x1e1111111 ops: all

M\tmlftool/ops/base.py
R097\tcrt/src/a.c\tcrt/src/b.c
D\tmlftool/ops/old.py
\x1e2222222 docs: Wave

A\tdocs/wave.md
M\trules/private/options.bzl
\x1e3333333 ops: Wave

M\tCHANGELOG.md
M\tdocs/operators.md
A\tmlftool/ops/wave.c.j2
A\tmlftool/ops/wave.py
M\ttests/conformance/expected.txt
A\ttests/ops/test_wave.py
"""


def test_commits_of_a_log() -> None:
    every, page, wave = parsed(LOG)
    assert (every.commit, every.subject) == ("1111111", "ops: all")
    assert every.edited == ("crt/src/b.c", "mlftool/ops/base.py", "mlftool/ops/old.py")
    assert (every.files, every.templates) == (3, 0)
    assert (page.added, page.edited) == ((), ())
    assert wave.added == ("mlftool/ops/wave.c.j2", "mlftool/ops/wave.py")
    assert (wave.files, wave.templates, wave.edited) == (1, 1, ())


def test_what_git_does_not_know(capsys) -> None:
    assert main(["no-such-revision.."]) == 2
    assert capsys.readouterr().err.startswith("touches: ")
