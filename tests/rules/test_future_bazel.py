"""What Bazel 8 and 9 ask of rules, checked without them: the one Bazel here is Debian's 4.2.3.

Bazel 9 has no C++, Python, shell, Java or protobuf rules of its own and none of their providers;
they are loaded from rules_cc and its relatives. So every name must come from a load, and every load
from rules_cc must name a file and a symbol that its releases have.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from mlftool.manifest import load as load_manifest
from mlftool.manifest.bazel import packages

ROOT = Path(os.path.abspath(__file__)).parents[2]
# A repository of its own under Bazel, which puts it beside ours.
EXAMPLE = ROOT.parent / "sensor_example"
FOLDERS = ("rules", "crt", "mlftool", "examples", "tests", "tools", "benchmarks")
# Only Bazels that have the native rules load these: they are how those rules come to be "loaded".
ONLY_FOR_OLD_BAZEL = "rules/compat"

# Symbols of rules_cc, read in its repository (bazelbuild/rules_cc): cc/defs.bzl at 013a0828 (main,
# all in Starlark), of those that 54677903 (still handing on Bazel's) has as well;
# cc/find_cc_toolchain.bzl at 13d212d3; cc/action_names.bzl at 07b20f5c; and of
# cc/cc_toolchain_config_lib.bzl what bazel's tools/cpp file of this name loads from it at 1c4e78a9.
# fmt: off
CONFIG_LIB = {
    "action_config", "artifact_name_pattern", "env_entry", "env_set", "feature", "feature_set",
    "flag_group", "flag_set", "make_variable", "tool", "tool_path", "with_feature_set",
}
KNOWN = {
    "@rules_cc//cc:defs.bzl": {
        "cc_binary", "cc_flags_supplier", "cc_import", "cc_library", "cc_proto_library", "cc_test",
        "cc_toolchain", "cc_toolchain_suite", "compiler_flag", "fdo_prefetch_hints", "fdo_profile",
        "objc_import", "objc_library",
        "CcInfo", "CcToolchainConfigInfo", "DebugPackageInfo", "cc_common",
    },
    "@rules_cc//cc:find_cc_toolchain.bzl": {
        "CC_TOOLCHAIN_TYPE", "find_cc_toolchain", "find_cpp_toolchain", "use_cc_toolchain",
    },
    "@rules_cc//cc:action_names.bzl": {"ACTION_NAMES"},
    "@rules_cc//cc:cc_toolchain_config_lib.bzl": CONFIG_LIB,
    # Still in Bazel's own repository, where they hand on what rules_cc has.
    "@bazel_tools//tools/build_defs/cc:action_names.bzl": {"ACTION_NAMES"},
    "@bazel_tools//tools/cpp:cc_toolchain_config_lib.bzl": CONFIG_LIB,
}
# fmt: on
# Repositories whose files we write ourselves.
OURS = re.compile(r"@(mlf_system|mlftool|models|executors|boards|accelerated|team_\w+)?//|//|:|@//")
# Rules and globals that Bazel 9 does not have (its release notes, and bazel#23043).
GONE = re.compile(
    r"(cc|py|sh|java|objc|proto|fdo|propeller|android|apple|aar)_\w+"
    r"|Cc(Info|ToolchainConfigInfo|SharedLibraryInfo)|cc_common|Py(Info|RuntimeInfo)|JavaInfo|java_common"
    r"|ProtoInfo|DebugPackageInfo|apple_common"
)
# The dialect of 4.2.3 has none of these, and newer ones must not creep in: (what, how it looks).
TOO_NEW = (ast.Lambda, ast.JoinedStr)


def build_files() -> list[Path]:
    """Every file of Starlark in the repository, except the workspaces' own folders of links."""
    found = [ROOT / "BUILD.bazel", *ROOT.glob("*.bzl")]
    for folder in FOLDERS:
        for pattern in ("*.bzl", "BUILD.bazel"):
            found += [
                p
                for p in (ROOT / folder).rglob(pattern)
                if "bazel-" not in str(p.relative_to(ROOT))
            ]
    return sorted(p for p in found if p.is_file())


def loads(tree: ast.AST) -> Iterator[tuple[str, str, str]]:
    """(file, symbol, name here) of every symbol that is loaded."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "load":
            source = ast.literal_eval(node.args[0])
            for arg in node.args[1:]:
                yield source, ast.literal_eval(arg), ast.literal_eval(arg)
            for keyword in node.keywords:
                yield source, ast.literal_eval(keyword.value), str(keyword.arg)


def problems(text: str, name: str) -> Iterator[str]:
    """What a newer Bazel, or the oldest, would refuse in this file."""
    tree = ast.parse(text)
    known = {here for _source, _symbol, here in loads(tree)}
    for source, symbol, _here in loads(tree):
        if source in KNOWN and symbol not in KNOWN[source]:
            yield f"{name}: {source} has no {symbol}"
        elif source not in KNOWN and not OURS.match(source):
            yield f"{name}: {source} is not among the files that are known to exist"
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign):
            known |= {t.id for t in node.targets if isinstance(t, ast.Name)}
        is_native = isinstance(node, ast.Attribute) and getattr(node.value, "id", "") == "native"
        if is_native and GONE.fullmatch(node.attr):
            yield f"{name}:{node.lineno}: native.{node.attr} is not in Bazel 9"
        if isinstance(node, TOO_NEW):
            yield f"{name}:{node.lineno}: {type(node).__name__} is not in Bazel 4"
    for node in ast.walk(tree):
        is_read = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        if is_read and GONE.fullmatch(node.id) and node.id not in known:
            yield f"{name}: {node.id} is not loaded"


def test_every_file_of_the_rules_is_looked_at() -> None:
    names = {str(p.relative_to(ROOT)) for p in build_files()}
    assert {"rules/defs.bzl", "rules/private/cc.bzl", "crt/BUILD.bazel"} <= names
    assert len(names) > 30


@pytest.mark.parametrize(
    "path",
    [p for p in build_files() if p.parent.relative_to(ROOT).as_posix() != ONLY_FOR_OLD_BAZEL],
    ids=lambda p: str(p.relative_to(ROOT)),
)
def test_nothing_needs_what_bazel_9_has_removed(path: Path) -> None:
    assert list(problems(path.read_text(), str(path.relative_to(ROOT)))) == []


@pytest.mark.parametrize(
    "manifest", ["models.yaml", "executors.yaml", "boards.yaml", "accelerated.yaml"]
)
def test_what_a_manifest_becomes_needs_nothing_removed(manifest: str) -> None:
    made = packages(load_manifest(str(ROOT / "examples" / manifest)), "@//x:m.yaml", "@mlftool")
    assert [p for name, text in made.items() for p in problems(text, name)] == []


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("cc_library(name = 'a')", "x: cc_library is not loaded"),
        ("native.cc_test(name = 'a')", "x:1: native.cc_test is not in Bazel 9"),
        ("def f(dep):\n    return dep[CcInfo]", "x: CcInfo is not loaded"),
        ("load('@rules_cc//cc:defs.bzl', 'cc_lib')", "x: @rules_cc//cc:defs.bzl has no cc_lib"),
        ("load('@rules_cc//cc:private.bzl', 'a')",
         "x: @rules_cc//cc:private.bzl is not among the files that are known to exist"),
        ("sh_test(name = 'a')", "x: sh_test is not loaded"),
        ("f = lambda x: x", "x:1: Lambda is not in Bazel 4"),
    ],
)  # fmt: skip
def test_what_is_removed_is_found(text: str, found: str) -> None:
    assert list(problems(text, "x")) == [found]
    good = "load('@rules_cc//cc:defs.bzl', 'cc_library')\ncc_library(name = 'a')"
    assert list(problems(good, "x")) == []


def actions_without_toolchain(text: str) -> list[int]:
    """Lines of the actions that do not say which toolchain their program is of.

    With --incompatible_auto_exec_groups Bazel 7 and newer refuse one whose
    program or tools come of a toolchain.
    """
    return [
        node.lineno
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("run", "run_shell")
        and getattr(node.func.value, "attr", "") == "actions"
        and not any(
            keyword.arg is None and "of_toolchain(" in ast.unparse(keyword.value)
            for keyword in node.keywords
        )
    ]


def test_every_action_says_which_toolchain_its_program_is_of() -> None:
    rules = [p for p in build_files() if p.is_relative_to(ROOT / "rules")]
    assert sum(p.read_text().count("actions.run(") for p in rules) > 3
    assert {
        p.name: found for p in rules if (found := actions_without_toolchain(p.read_text()))
    } == {}
    assert actions_without_toolchain("ctx.actions.run(executable = 'a')") == [1]


def test_the_shim_of_rules_cc_has_what_is_loaded_from_it() -> None:
    """Bazel 4 gets the shim, newer ones the real thing: both must have all that we load."""
    used = {
        (source, symbol)
        for path in build_files()
        for source, symbol, _here in loads(ast.parse(path.read_text()))
        if source.startswith("@rules_cc//cc:")
    }
    assert used
    for source, symbol in sorted(used):
        shim = ROOT / "rules" / "compat" / f"rules_cc_{source.rpartition(':')[2]}"
        assigned = {
            target.id
            for node in ast.parse(shim.read_text()).body
            if isinstance(node, ast.Assign)
            for target in node.targets
            if isinstance(target, ast.Name)
        }
        assert symbol in assigned, f"{source} {symbol}"


def calls(file: Path, function: str) -> list[dict[str, object]]:
    """The literal keyword arguments of every call of `function` in a file of Starlark."""
    return [
        {str(k.arg): ast.literal_eval(k.value) for k in node.keywords}
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == function
    ]


def test_the_central_registry_gets_what_it_wants() -> None:
    """The files of .bcr, against the module's own and against what COMPATIBILITY.md says."""
    bcr = ROOT / ".bcr"
    metadata = json.loads((bcr / "metadata.template.json").read_text())
    assert {"homepage", "maintainers", "repository", "versions", "yanked_versions"} == set(metadata)
    assert metadata["versions"] == []
    source = json.loads((bcr / "source.template.json").read_text())
    assert {"integrity", "strip_prefix", "url"} == set(source)
    assert "{TAG}" in source["url"]
    module = yaml.safe_load((bcr / "presubmit.yml").read_text())["bcr_test_module"]
    example = EXAMPLE if EXAMPLE.exists() else ROOT / module["module_path"]
    assert module["module_path"] == "examples/external_workspace"
    task = module["tasks"]["consumer"]
    models = yaml.safe_load((example / "models.yaml").read_text())["models"]
    for label in task["build_targets"] + task["test_targets"]:
        assert label.removeprefix("@models//").partition(":")[0] in models
    versions = [str(v).removesuffix(".x") for v in module["matrix"]["bazel"]]
    (ours,) = calls(ROOT / "MODULE.bazel", "module")
    assert ours["bazel_compatibility"] == [f">={versions[0]}.0.0"]
    table = (ROOT / "COMPATIBILITY.md").read_text()
    assert [v for v in versions if f"\n| {v} |" not in table] == []


def test_the_example_of_a_module_asks_for_what_there_is() -> None:
    example = EXAMPLE if EXAMPLE.exists() else ROOT / "examples" / "external_workspace"
    (ours,) = calls(ROOT / "MODULE.bazel", "module")
    wanted = {d["name"]: d["version"] for d in calls(example / "MODULE.bazel", "bazel_dep")}
    have = {d["name"]: d["version"] for d in calls(ROOT / "MODULE.bazel", "bazel_dep")}
    assert wanted == {"mlftool": ours["version"], "rules_cc": have["rules_cc"]}
