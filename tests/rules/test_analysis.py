"""What mlf_analysis makes of a module, and the test that compares two builds, without Bazel."""

from __future__ import annotations

import json
import os
import shutil
import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import onnx
import pytest
from families import gemm_s8
from shared import REPO

from mlftool.cli import GROUPED
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.errors import CHECK_FAILED
from mlftool.insight.facts import Facts, read_facts, save
from mlftool.mlf import write_tar
from rules.private.tools import analyse, differences

sys.path.insert(0, str(REPO / "tools"))
sys.path.insert(0, os.path.abspath(Path(__file__).parents[1] / "runtime"))
import rules_doc
from tvm_archives import graph_archive

import docs

RULES = rules_doc.run_bzl("//rules/private:analysis.bzl", {})
LOOKS = ("check", "facts", "graph", "graph_before", "inspect", "memmap", "ops", "provenance")
LOOKS += ("report", "sbom", "trace", "verify")
needs_board = pytest.mark.skipif(
    not (shutil.which("arm-none-eabi-gcc") and shutil.which("qemu-system-arm")),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)


@pytest.fixture(scope="module")
def request_of_rule(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """As the rule writes it, for a target without a simulated board: nothing is run."""
    folder = tmp_path_factory.mktemp("request")
    onnx.save(gemm_s8(), folder / "net.onnx")
    spec = ModuleSpec(folder / "net.onnx", "net", verify=True)
    write_tar(compile_modules([spec]), folder / "net.tar")
    given = {
        **{name: [] for name in ("backend_files", "data_files")},
        **{name: {} for name in ("input_shapes", "input_values")},
        **{"model": str(spec.model), "module_name": "net", "tuning": None, "target": "host"},
        **{"executor": "aot", "options": {"verify": True}, "mlf_version": 7},
    }
    return {
        **{"archive": str(folder / "net.tar"), "module": "net", "name": "nets/net"},
        **{"label": "//nets:net.look", "against": None, "vectors": None, "spec": given},
    }


def looked_at(folder: Path, request: dict[str, Any], kind: str) -> dict[str, str]:
    """Form -> what is written in it."""
    (folder / "request.json").write_text(json.dumps(request))
    files = [folder / f"x.{form}" for form in RULES["_KINDS"][kind]]
    assert analyse.main([kind, str(folder / "request.json"), *map(str, files)]) == 0
    return {file.suffix[1:]: file.read_text() for file in files}


def test_the_rule_knows_the_kinds_of_the_tool() -> None:
    assert list(RULES["_KINDS"]) == list(analyse.KINDS)


def test_the_page_of_commands_names_rules_that_exist() -> None:
    """And all that the rule of many kinds stands for."""
    made = (REPO / "rules" / "defs.bzl").read_text() + (REPO / "rules/repositories.bzl").read_text()
    for command, rules in docs.RULES.items():
        assert all(f"{rule} = _{rule}" in made or f'"{rule}"' in made for rule in rules), command
    kinds = {"facts": "diff", "graph_before": "graph", "provenance": "sbom"}
    shown = {kinds.get(kind, kind) for kind in RULES["_KINDS"]}
    assert shown == {c for c, rules in docs.RULES.items() if "mlf_analysis" in rules}
    at_a_terminal = {"completion", "doctor", "explain", "init", "man", "schema", "watch"}
    listed = {command for found in GROUPED.values() for command in found}
    assert listed - docs.RULES.keys() == at_a_terminal


@pytest.mark.parametrize("kind", LOOKS)
def test_what_a_module_shows(tmp_path: Path, request_of_rule: dict[str, Any], kind: str) -> None:
    made = looked_at(tmp_path, request_of_rule, kind)
    assert json.loads(made["json"])
    assert all(text.endswith("\n") for text in made.values())
    for form, sign in (
        ("svg", "<svg"),
        ("html", "</html>"),
        ("txt", "net"),
        ("sarif", "2.1.0"),
    ):
        assert sign in made.get(form, sign)


def test_texts_have_no_paths_of_bazel(tmp_path: Path, request_of_rule: dict[str, Any]) -> None:
    """These name an action's outputs, which differ between configurations."""
    for kind in LOOKS:
        for form, text in looked_at(tmp_path, request_of_rule, kind).items():
            assert request_of_rule["archive"] not in text, (kind, form)


@needs_board
def test_what_an_inference_takes(tmp_path: Path, request_of_rule: dict[str, Any]) -> None:
    spec = {**request_of_rule["spec"], "target": "cortex-m4"}
    made = looked_at(tmp_path, {**request_of_rule, "vectors": None, "spec": spec}, "bench")
    (found,) = json.loads(made["json"])["benches"]
    assert f"{found['instructions']:,}" in made["txt"]
    assert f",{found['instructions']}," in made["csv"]
    assert f" {found['instructions']:,} |" in made["md"]


@needs_board
def test_what_changed_in_flash_and_ram(
    tmp_path: Path, request_of_rule: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """Against the trees of a file, and against an archive; the JSON is the same as without."""
    spec = {**request_of_rule["spec"], "target": "cortex-m4"}
    request = {**request_of_rule, "spec": spec}
    small = ModuleSpec(Path(spec["model"]), "net", target="cortex-m4", optimize="size")
    write_tar(compile_modules([small]), tmp_path / "old.tar")
    alone = looked_at(tmp_path, request, "size")
    (tmp_path / "x.json").rename(tmp_path / "old.json")
    for older, sign in (("old.json", "net -> "), ("old.tar", "old.tar -> ")):
        made = looked_at(tmp_path, {**request, "against": str(tmp_path / older)}, "size")
        assert sign in made["txt"]
        assert made["json"] == alone["json"]
        assert ("kernels" in made["txt"]) == (older == "old.tar")  # others for --optimize size
    two = json.loads(alone["json"])
    two["sizes"] = [{**two["sizes"][0], "name": name} for name in ("a", "b")]
    (tmp_path / "two.json").write_text(json.dumps(two))
    (tmp_path / "r.json").write_text(json.dumps({**request, "against": str(tmp_path / "two.json")}))
    assert analyse.main(["size", str(tmp_path / "r.json"), str(tmp_path / "x.txt")]) == 2
    assert "error[MLF0405]: has no program 'nets/net': a, b" in capsys.readouterr().err


def test_what_changed_since_another_build(tmp_path: Path, request_of_rule: dict[str, Any]) -> None:
    """Against an archive, of which less is known, and against figures, which have all."""
    looked_at(tmp_path, request_of_rule, "facts")
    (tmp_path / "x.json").rename(tmp_path / "old.json")
    for older in (request_of_rule["archive"], str(tmp_path / "old.json")):
        made = looked_at(tmp_path, {**request_of_rule, "against": older}, "diff")
        (found,) = json.loads(made["json"])["differences"]
        weights = found["figures"]["weights"]
        assert weights["before"] == weights["after"] > 0
        assert "1 build unchanged" in made["md"]


@pytest.mark.parametrize("kind", ["facts", "graph", "inspect", "memmap", "ops", "report"])
def test_what_an_archive_of_tvm_shows(
    tmp_path: Path, request_of_rule: dict[str, Any], kind: str
) -> None:
    write_tar(graph_archive(7), tmp_path / "tvm.tar")
    foreign = {"archive": str(tmp_path / "tvm.tar"), "module": "default", "spec": None}
    made = looked_at(tmp_path, {**request_of_rule, **foreign}, kind)
    assert json.loads(made["json"])


def test_an_archive_from_elsewhere_against_a_model(
    tmp_path: Path, request_of_rule: dict[str, Any]
) -> None:
    """It has no layers' results, so its outputs are compared."""
    against = {"spec": None, "against": request_of_rule["spec"]["model"]}
    made = looked_at(tmp_path, {**request_of_rule, **against}, "compare")
    found = json.loads(made["json"])
    assert [layer["differing"] for layer in found["layers"]] == [0]
    assert found["missing"] == ["layers: an archive has the results of its outputs alone"]


def test_a_certificate_that_is_not_there(
    tmp_path: Path, request_of_rule: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    write_tar(graph_archive(7), tmp_path / "tvm.tar")
    request = {**request_of_rule, "archive": str(tmp_path / "tvm.tar")}
    (tmp_path / "r.json").write_text(json.dumps(request))
    assert analyse.main(["verify", str(tmp_path / "r.json"), str(tmp_path / "x.txt")]) == 2
    assert "MLF0510" in capsys.readouterr().err
    assert not (tmp_path / "x.txt").exists()


@pytest.fixture
def figures(tmp_path: Path, request_of_rule: dict[str, Any]) -> Facts:
    looked_at(tmp_path, request_of_rule, "facts")
    (found,) = read_facts(tmp_path / "x.json")
    assert found.name == "nets/net"
    return replace(found, figures={**found.figures, "flash": 1000})


def judged(folder: Path, old: list[Facts], new: list[Facts], *more: str) -> int:
    save(folder / "old.json", old)
    for k, one in enumerate(new):
        save(folder / f"new{k}.json", [one])
    files = [str(folder / f"new{k}.json") for k in range(len(new))]
    words = [str(folder / "old.json"), "sizes/old.json", "//x:diff", "--fail-on", "flash>+2%"]
    return differences.main([*words, *files, *more])


def test_growth_fails_beyond_the_limit(
    tmp_path: Path, figures: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    assert judged(tmp_path, [figures], [figures]) == 0
    assert capsys.readouterr().out == ""
    larger = replace(figures, figures={**figures.figures, "flash": 1020})
    assert judged(tmp_path, [figures], [larger]) == 0
    assert "bazel run //x:diff -- --update" in capsys.readouterr().out
    larger = replace(figures, figures={**figures.figures, "flash": 1021})
    assert judged(tmp_path, [figures], [larger]) == CHECK_FAILED
    assert "nets/net: error[MLF0616]: flash: was 1,000, is 1,021" in capsys.readouterr().err


def test_what_is_new_or_gone_fails_and_two_of_a_name_are_told(
    tmp_path: Path, figures: Facts, capsys: pytest.CaptureFixture[str]
) -> None:
    other = replace(figures, name="nets/other")
    assert judged(tmp_path, [figures], [other]) == CHECK_FAILED
    said = capsys.readouterr().out
    assert "nets/other: is new" in said
    assert "nets/net: is gone" in said
    assert judged(tmp_path, [figures], [figures, figures]) == 2
    assert "two modules have this name" in capsys.readouterr().err


def test_a_table_for_a_review_and_the_new_file(
    tmp_path: Path,
    figures: Facts,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    larger = replace(figures, figures={**figures.figures, "flash": 2000})
    assert judged(tmp_path, [figures], [larger], "--markdown") == 0
    table = capsys.readouterr().out
    assert "| nets/net | 2,000 (+100.0 %) |" in table
    monkeypatch.setenv("BUILD_WORKING_DIRECTORY", str(tmp_path))
    assert judged(tmp_path, [figures], [larger], "--markdown=comment.md") == 0
    assert (tmp_path / "comment.md").read_text() == table
    assert capsys.readouterr().out == ""
    assert judged(tmp_path, [figures], [larger], "--markdown=no/comment.md") != 0
    assert "MLF" in capsys.readouterr().err
    assert judged(tmp_path, [figures], [larger], "--update") == 3
    assert "start it with: bazel run //x:diff -- --update" in capsys.readouterr().err
    (tmp_path / "sizes").mkdir()
    monkeypatch.setenv("BUILD_WORKSPACE_DIRECTORY", str(tmp_path))
    assert judged(tmp_path, [figures], [larger], "--update") == 0
    assert [asdict(f) for f in read_facts(tmp_path / "sizes/old.json")] == [asdict(larger)]
    (tmp_path / "empty.json").touch()
    assert differences.committed(tmp_path / "empty.json") == ()
