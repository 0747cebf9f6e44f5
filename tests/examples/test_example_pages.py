"""Statements of pages that can be compared with what they are about."""

from __future__ import annotations

import ast
import json
import re
import shlex
import shutil
from pathlib import Path

import onnx
import pytest
from shared import REPO

from mlftool import manifest
from mlftool.cli import main
from mlftool.errors import Problem
from mlftool.manifest import load


def page(name: str) -> str:
    return " ".join((REPO / name).read_text().split())


@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
def test_the_figures_of_the_vm_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MLFTOOL_CACHE", str(tmp_path / "cache"))
    found = re.search(
        r"takes ([\d,]+) instructions and ([\d,]+) bytes of flash with `aot`, ([\d,]+) and "
        r"([\d,]+) with `vm`",
        page("docs/vm.md"),
    )
    assert found
    stated = [int(n.replace(",", "")) for n in found.groups()]
    model = REPO / "examples/models/gesture_int8.onnx"
    measured = []
    for executor in ("aot", "vm"):
        report = tmp_path / f"{executor}.json"
        files = ["--inputs", str(model.with_suffix(".npz")), "--report", str(report)]
        words = ["run", str(model), *files, "--on", "cortex-m4", "--executor", executor]
        assert main(words) == 0
        data = json.loads(report.read_text())
        measured += [data["instructions"], data["flash_bytes"]]
    assert stated == pytest.approx(measured, rel=0.02)


def test_pages_and_package_say_the_same_of_python() -> None:
    stated = re.search(r"Python (3\.\d+) or newer", page("COMPATIBILITY.md"))
    asked = re.search(r'requires-python = ">=(3\.\d+)"', (REPO / "pyproject.toml").read_text())
    assert stated
    assert asked
    assert stated[1] == asked[1]


def example(name: str) -> str:
    """A file of the example: a repository of its own under Bazel, which puts it beside ours."""
    beside = REPO.parent / "sensor_example"
    folder = beside if beside.exists() else REPO / "examples/external_workspace"
    return (folder / name).read_text()


def test_the_tutorial_has_the_bazelrc_of_the_example() -> None:
    lines = example(".bazelrc")
    assert f"```bazelrc\n{lines}```" in (REPO / "docs/tutorial.md").read_text()


def test_the_readme_s_workspace_exports_its_manifest() -> None:
    text = page("README.md")
    exported = re.search(r"exports_files\(\[(.*?)\]\)", text)
    assert exported
    for name in ("models.yaml", "digits.onnx", "digits.npz"):
        assert f'"{name}"' in exported[1]


def test_the_style_page_has_twenty_pairs() -> None:
    rows = [r for r in (REPO / "docs/style.md").read_text().splitlines() if r.startswith("| ")]
    pairs = [row.strip("| ").split(" | ") for row in rows[1:]]
    assert len(pairs) == 20
    for before, after in pairs:
        assert before != after
    readme = page("README.md")
    assert [before for before, _ in pairs if before.rstrip(".") in readme] == []


def fenced(name: str, kind: str, begin: str) -> str:
    """The block of a page that begins like this."""
    found = re.findall(rf"^```{kind}\n({re.escape(begin)}.*?)^```$", (REPO / name).read_text(),
                       re.MULTILINE | re.DOTALL)  # fmt: skip
    assert len(found) == 1, (name, begin)
    return str(found[0])


def test_the_readme_s_workspace_is_the_one_that_is_built() -> None:
    """All of it, so that it works as it is typed: examples/external_workspace differs in its name
    and in where mlftool is."""

    def statements(text: str) -> list[str]:
        calls = [ast.unparse(node) for node in ast.parse(text).body]
        return [re.sub(r"path='[./a-z]+'", "path=MLFTOOL", c) for c in calls if "sensor" not in c]

    typed = fenced("README.md", "starlark", "local_repository(")
    assert statements(typed) == statements(example("WORKSPACE"))


def test_the_form_of_errors() -> None:
    """docs/errors.md: what is printed of a problem that has all parts."""
    problem = Problem(
        *("MLF0100", "what is wrong; got X, expected Y", "FILE", 12, 34, "KEY.PATH", "what to do")
    )
    printed = str(problem).replace("MLF0100", "MLFnnnn").replace(":12:34:", ":LINE:COL:")
    assert f"{printed}\n" == fenced("docs/errors.md", "", "FILE:")


NETWORKS = {
    "docs/state.md": "kws (float[1,4] x, float[1,4] h0, float[2] cache) => "
    "(float[1,4] y, float[1,4] hn, float[2] cache_out) {\n"
    "hn = Add(x, h0)\ny = Relu(hn)\ncache_out = Neg(cache) }",
    "docs/stream.md": "tcn (float[1,8,time] x) => (float[1,8,t] y) {\n"
    "s = Constant<value_ints: ints = [8,8,3]>()\nh = Constant<value_float: float = 0.5>()\n"
    "w = Expand(h, s)\np = Constant<value_ints: ints = [0,0,2,0,0,0]>()\n"
    "q = Pad(x, p)\ny = Conv(q, w) }",
}


@pytest.mark.parametrize("name", NETWORKS)
def test_commands_of_networks_that_remember(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """docs/state.md and docs/stream.md, with the smallest network that has what they name."""
    monkeypatch.chdir(tmp_path)
    head = '<ir_version: 9, opset_import: ["": 17]> '
    model = onnx.parser.parse_model(head + NETWORKS[name])
    command, *words = shlex.split(fenced(name, "sh", "mlftool compile"))
    assert command == "mlftool"
    onnx.save(model, words[1])
    assert main(words) == 0
    assert Path(words[words.index("-o") + 1]).is_file()


@pytest.mark.parametrize("name", ["docs/quantize.md", "docs/accelerator.md"])
def test_manifests_of_pages_load(name: str, tmp_path: Path) -> None:
    """Keys and values of docs/quantize.md and docs/accelerator.md; the files are the reader's."""
    file = tmp_path / "models.yaml"
    file.write_text(f"version: 1\n{fenced(name, 'yaml', 'models:')}")
    (model,) = load(file, check_files=False).models.values()
    assert bool(model.quantize) == ("quantize" in name)
    assert bool(model.backends) == ("accelerator" in name)


@pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)
def test_commands_of_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """examples/README.md."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").symlink_to(REPO / "examples")
    lines = fenced("examples/README.md", "sh", "mlftool ").splitlines()
    words = [shlex.split(line.removeprefix("mlftool ")) for line in lines]
    assert [main(command) for command in words] == [0, 0]


def test_keys_of_manifests_in_sentences(tmp_path: Path) -> None:
    """A page that says `key: value` of a model means what a manifest takes."""
    (tmp_path / "m.onnx").touch()
    keys = manifest.schema()["properties"]["models"]["additionalProperties"]["properties"]
    pages = [REPO / "README.md", *(REPO / "docs").glob("*.md")]
    found = [
        (page.name, key, value)
        for page in pages
        for key, value in re.findall(r"`(\w+): ([^`\n]+)`", page.read_text())
        if key in keys and key != "model" and not re.search(r"\.\.\.|->|cortex-m23", value)
    ]
    assert len(found) > 5
    for page, key, value in found:
        lines = {"model": "m.onnx", "targets": "[host]", key: value}
        text = "".join(f"    {k}: {v}\n" for k, v in lines.items())
        (tmp_path / "m.yaml").write_text(f"version: 1\nmodels:\n  m:\n{text}")
        problems = [p.message for p in manifest.read(tmp_path / "m.yaml")[1]]
        assert not problems, (page, key, value)
