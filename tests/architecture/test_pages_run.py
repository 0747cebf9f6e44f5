"""Every block of every page runs in a test, or is printed by one, or is here with the reason.

A test that follows a page names it. Commands of mlftool, scripts and labels are looked up wherever
they stand, also in blocks that nothing runs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

import pytest
from pages import Block, blocks, pages
from shared import REPO

from mlftool.cli import COMMANDS, parser_of

# Page -> the test that follows it, and which kinds of its blocks; those without one are plain.
FOLLOWED = {
    "README.md": [
        ("examples/test_page_commands.py", "indented yaml c"),
        ("examples/test_example_pages.py", "starlark"),
        ("examples/test_readme.py", "indented"),
    ],
    "crt/README.md": [("crt/test_crt_readme.py", "indented")],
    "docs/accelerator.md": [
        ("examples/test_accelerator.py", "sh text c"),
        ("micro/test_projects_page.py", "sh"),
        ("examples/test_example_pages.py", "yaml"),
    ],
    "docs/adding_a_kernel.md": [("architecture/test_guides.py", "python jinja sh")],
    "docs/adding_a_pass.md": [("architecture/test_guides.py", "python sh")],
    "docs/adding_a_target.md": [("architecture/test_guides.py", "diff sh")],
    "docs/adding_an_operator.md": [("architecture/test_operator_guide.py", "python jinja sh")],
    "docs/adding_an_option.md": [("architecture/test_guides.py", "diff python sh")],
    "docs/adding_other_parts.md": [("architecture/test_guides.py", "diff python sh")],
    "docs/analysis.md": [("insight/test_analysis_page.py", "sh")],
    "docs/backends.md": [("examples/test_page_commands.py", "python sh c")],
    "docs/boards.md": [
        ("bazel/test_walkthroughs.py", "starlark ld c yaml sh text"),
        ("rules/test_consistency.py", "json"),
    ],
    "docs/errors.md": [("examples/test_example_pages.py", "plain")],
    "docs/first_hour.md": [("packaging/test_first_hour.py", "console")],
    "docs/fuzzing.md": [("crt/test_fuzz.py", "indented")],
    "docs/hermetic.md": [("bazel/test_offline.py", "sh starlark")],
    "docs/json.md": [("insight/test_json_page.py", "plain")],
    "docs/library.md": [("runtime/test_shared_library.py", "sh python c")],
    "docs/manifest.md": [
        ("manifest/test_manifest_docs.py", "yaml"),
        ("examples/test_page_commands.py", "plain"),
    ],
    "docs/migration.md": [("compat/test_migration_page.py", "python sh")],
    "docs/migration_genrules.md": [("bazel/test_walkthroughs.py", "starlark sh c text yaml")],
    "docs/mlf.md": [("examples/test_page_commands.py", "python")],
    "docs/projects.md": [("micro/test_projects_page.py", "python indented")],
    "docs/quantize.md": [
        ("quantize/test_quantize_page.py", "sh"),
        ("examples/test_page_commands.py", "indented"),
        ("examples/test_example_pages.py", "yaml"),
    ],
    "docs/rebuilds.md": [
        ("bazel/test_walkthroughs.py", "sh text"),
        ("bazel/test_sanitizers.py", "indented"),
    ],
    "docs/recipes.md": [("examples/test_page_commands.py", "sh c")],
    "docs/reliability.md": [("examples/test_page_commands.py", "sh indented")],
    "docs/rpc.md": [("examples/test_page_commands.py", "indented")],
    "docs/state.md": [("examples/test_example_pages.py", "sh")],
    "docs/stream.md": [("examples/test_example_pages.py", "sh")],
    "docs/tuning.md": [("examples/test_page_commands.py", "indented")],
    "docs/tutorial.md": [
        ("bazel/test_walkthroughs.py", "starlark sh yaml text c"),
        ("examples/test_example_pages.py", "bazelrc"),
    ],
    "examples/README.md": [("examples/test_example_pages.py", "sh")],
    "docs/vm.md": [("examples/test_page_commands.py", "indented")],
}
# What no test runs: the page, how the block begins, and why.
PLACES = "addresses and names are the reader's own"
LONG = "takes minutes to days; a slice of the same runs in the suite"
TESTS = "runs tests, which the suite runs"
NOT_RUN = {
    ("README.md", "models.yaml ──┐"): "a drawing",
    ("README.md", "./bazelw run //examples:tour"): "the last step of .ci/run",
    ("README.md", "bazel test @models//..."): "docs/first_hour.md has the same",
    ("docs/DESIGN.md", ""): "a drawing",
    (
        "docs/boards.md",
        "rv32imc: error[MLF0700]: ",
    ): "what a machine without the compiler prints",
    ("docs/layers.md", "python benchmarks/layers.py"): LONG,
    ("docs/library.md", "library = tvm."): "needs TVM; tests/runtime runs it where that is",
    ("docs/migration_genrules.md", "build --"): "a line of .bazelrc, a matter of taste",
    ("docs/published.md", "python benchmarks/"): LONG,
    ("docs/reliability.md", "pytest "): TESTS,
    ("docs/reliability.md", "python -m tests."): LONG,
    ("docs/remote.md", ""): PLACES,
    ("docs/rpc.md", "#include"): "a loop on a device, as the example programs of tests/crt have",
    ("docs/rpc.md", "from mlftool.micro"): "a session with firmware; tests/micro has the same",
    ("docs/rpc.md", "python "): LONG,
    (
        "docs/safety.md",
        "cppcheck ",
    ): "tests/codegen/test_misra.py calls cppcheck",
    ("docs/stream.md", "python benchmarks/"): LONG,
    ("docs/testing.md", ""): TESTS,
    ("docs/tuning.md", "mlf_tune("): "rules of docs/rules.md, which tests/rules calls",
    ("examples/README.md", "./bazelw "): "targets of this repository, which the suite builds",
    ("examples/monorepo/README.md", ""): "tests/examples/test_monorepo.py runs its targets",
    ("examples/training/README.md", "python3 -m venv"): "trains networks, for minutes",
}
# Generated pages are compared with what their tools write.
GENERATED = {"docs/rules.md": "tools/rules_doc.py"}

MISSPELT = {"profle"}  # docs/first_hour.md shows what is said of it

BLOCKS = [block for page in pages() for block in blocks(page)]


def is_followed(block: Block) -> bool:
    return any(
        (block.kind or "plain") in kinds.split() for _, kinds in FOLLOWED.get(block.page, ())
    )


def excepted(block: Block) -> tuple[str, str] | None:
    found = (key for key in NOT_RUN if block.page == key[0] and block.first.startswith(key[1]))
    return max(found, default=None)


def test_each_block_runs_or_says_why_not() -> None:
    left = [
        (b.page, b.kind, b.first)
        for b in BLOCKS
        if not (is_followed(b) or excepted(b) or b.page in GENERATED)
    ]
    assert left == []


def test_tables_have_no_more_than_the_pages() -> None:
    used = {excepted(b) for b in BLOCKS}
    assert set(NOT_RUN) - used == set()
    kinds = {(b.page, b.kind or "plain") for b in BLOCKS}
    for page, tests in FOLLOWED.items():
        for test, words in tests:
            assert [k for k in words.split() if (page, k) not in kinds] == [], page
            text = (REPO / "tests" / test).read_text()
            stem = page.rpartition("/")[2].removesuffix(".md")
            assert stem in text, f"{test} does not name {page}"


def commands() -> Iterator[tuple[str, str]]:
    """Lines of blocks that are commands, without prompts and comments; continued ones are one."""
    for block in BLOCKS:
        if block.kind not in ("sh", "console", "indented"):
            continue
        for line in block.text.replace("\\\n", " ").splitlines():
            yield block.page, line.strip().removeprefix("$ ")


def test_commands_of_mlftool_are_those_that_there_are() -> None:
    count = 0
    for page, line in commands():
        if not re.match(r"mlftool [a-z]+( |$)", line) or line.split()[1] in MISSPELT:
            continue
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words = list(lexer)[1:]
        end = next((k for k, w in enumerate(words) if re.fullmatch(r"[|&;<>]+", w)), len(words))
        assert words[0] in COMMANDS, (page, line)
        if not {"--help", "-h"} & set(words):
            parser_of(words[0]).parse_args(words[1:end])
        count += 1
    assert count > 60


def test_scripts_and_their_options_are_there() -> None:
    count = 0
    for page, line in commands():
        found = re.match(r"python3? (?:-m (tests[\w.]+)|((?:tests|benchmarks)/\S+\.py))", line)
        if not found or (not (REPO / line.split()[1].split("/")[0]).exists() and not found[1]):
            continue  # benchmarks/ is no input of this test under Bazel
        path = REPO / (found[2] or found[1].replace(".", "/") + ".py")
        assert path.exists(), (page, line)
        text = path.read_text()
        missing = [w for w in re.findall(r"(?<= )--[\w-]+", line) if f'"{w}"' not in text]
        assert missing == [], (page, line)
        count += 1
    assert count >= 5


@pytest.mark.parametrize("page", GENERATED)
def test_generated_pages_name_their_tool(page: str) -> None:
    assert GENERATED[page] in (REPO / page).read_text()
