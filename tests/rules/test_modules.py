"""What Bazel 7.6, 8 and 9 would load: modules, the extension, every file, every label.

None of them can be had here. A Starlark interpreter runs the files with what those versions
document (support/modern_bazel), and refuses what they would refuse; the second half shows that.
"""

from __future__ import annotations

import ast
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import starlark
import yaml
from modern_bazel.evaluator import Evaluator
from modern_bazel.facts import VERSIONS
from modern_bazel.labels import Mention, RefusedError

ROOT = Path(os.path.abspath(__file__)).parents[2]
# A repository of its own under Bazel, which puts it beside ours.
OUTSIDE = ROOT.parent / "sensor_example"
EXAMPLE = OUTSIDE if OUTSIDE.exists() else ROOT / "examples" / "external_workspace"
SITE = Path(yaml.__file__).parents[1]
WRITTEN_LABEL = re.compile(r"(@@?[\w.-]*)?//[\w./-]*(:[\w./+-]+)?|@[\w-]+")
# What 4.2.3 alone loads: newer ones have the real repositories.
OLD = "rules/compat"


def evaluate(version: str, root: Path, out: Path, **others: Path) -> Evaluator:
    made = Evaluator(version, root, others, out, SITE)
    made.load_all()
    return made


@pytest.fixture(scope="module", params=VERSIONS)
def own(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Evaluator:
    """This repository as the root module."""
    return evaluate(request.param, ROOT, tmp_path_factory.mktemp("own"))


@pytest.fixture(scope="module", params=VERSIONS)
def consumer(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Evaluator:
    """The module that .bcr/presubmit.yml names, which depends on ours."""
    return evaluate(request.param, EXAMPLE, tmp_path_factory.mktemp("consumer"), mlftool=ROOT)


def repository(made: Evaluator, name: str) -> str:
    """The canonical name of what the root module sees as @name."""
    return made.resolve("", "", f"@{name}//:x").repo


@pytest.mark.sampled(4)
def test_this_repository_loads(own: Evaluator) -> None:
    kinds = {t.kind for package in own.packages.values() for t in package.targets.values()}
    assert {"cc_library", "toolchain", "platform", "label_flag", "output", "test_suite"} <= kinds
    assert {"crt", "examples", "mlftool", "rules/platforms"} <= {
        n for r, n in own.packages if not r
    }
    for name in ("models", "executors", "boards", "accelerated"):
        assert len([p for repo, p in own.packages if repo == repository(own, name)]) > 2
    assert "digits_cortex-m55_clang_test" in own.packages["", "examples"].targets
    assert len(own.mentions) > 1000


def test_other_repositories_among_the_files_are_no_packages(tmp_path: Path) -> None:
    """Where Bazel runs this test, external/ has the files of the repositories it depends on."""
    files = {
        "MODULE.bazel": "module(name = 'm')\n",
        "BUILD.bazel": "filegroup(name = 'a')\n",
        "external/other/BUILD.bazel": "filegroup(name = 'b', srcs = ['//of:other'])\n",
        "inner/external/BUILD.bazel": "filegroup(name = 'c')\n",
    }
    for path, text in files.items():
        (tmp_path / "m" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "m" / path).write_text(text)
    made = evaluate(VERSIONS[0], tmp_path / "m", tmp_path / "out")
    assert {name for repo, name in made.packages if not repo} == {"", "inner/external"}


def strings(node: ast.AST) -> Iterator[str]:
    """The strings of a file, without those that others are put together from."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.BinOp) or isinstance(child.left, ast.List):
            yield from strings(child)


def test_every_label_that_is_written_means_something(own: Evaluator) -> None:
    """Also those that loading does not come to: in branches, in the bodies of rules, as text."""
    looked_at = set()
    for package in sorted(name for repo, name in own.packages if not repo):
        for file in [*(ROOT / package).glob("*.bzl"), ROOT / package / "BUILD.bazel"]:
            for text in strings(ast.parse(file.read_text())):
                if (
                    package == OLD
                    or not WRITTEN_LABEL.fullmatch(text)
                    or text.startswith(("//command_line_option:", "//visibility:", "//conditions:"))
                    or text.endswith(("//", ":all", ":__subpackages__", ":__pkg__", ".bzl"))
                    or text in ONLY_OLD
                ):
                    continue
                label = own.resolve("", package, text)
                own.check(Mention(f"{file}: {text}", "", package, label, target=False))
                looked_at.add(package)
    # Where Bazel runs this, there are fewer: packages of tests have no build files there.
    assert looked_at >= {"", "examples", "rules", "rules/private", "rules/toolchains"}


# Labels for WORKSPACE, and names that messages and marks are made of.
ONLY_OLD = {
    "@local_config_platform//:constraints.bzl",
    "@mlftool",
    "@mlftool//rules/platforms",
    "//",
}


def test_the_module_of_the_registry_loads(consumer: Evaluator) -> None:
    task = yaml.safe_load((ROOT / ".bcr" / "presubmit.yml").read_text())["bcr_test_module"]["tasks"]
    wanted = task["consumer"]["build_targets"] + task["consumer"]["test_targets"]
    for text in [*wanted, "//:sensor", "//:sensor_test"]:
        consumer.check(Mention(text, "", "", consumer.resolve("", "", text)))
    assert consumer.toolchains
    rules = next(repo for repo, name in consumer.packages if name == "rules/toolchains")
    assert "mlftool" in consumer.packages[rules, "rules/toolchains"].targets


def test_a_consumer_gets_nothing_for_our_own_tests(consumer: Evaluator) -> None:
    made = {name for names in consumer.made.values() for name in names}
    assert made == {
        "mlf_python", "mlf_python_quantize", "mlf_system",
        "models", "sensor_models", "models_manifest",
    }  # fmt: skip


def module(folder: Path, name: str, repos: str, deps: tuple[str, ...] = ()) -> Path:
    """A copy of the example with another name and another way to see its models."""
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("bazel-*"))
    more = "".join(f'bazel_dep(name = "{dep}", version = "1")\n' for dep in deps)
    text = (EXAMPLE / "MODULE.bazel").read_text()
    text = text.replace('name = "sensor"', f'name = "{name}"')
    assert 'use_repo(mlf, "models")' in text
    (folder / "MODULE.bazel").write_text(text.replace('"models")', repos + ")") + more)
    return folder


@pytest.mark.parametrize("version", VERSIONS)
def test_two_modules_may_call_their_manifests_the_same(tmp_path: Path, version: str) -> None:
    library = module(tmp_path / "library", "library", 'models = "library_models"')
    product = module(tmp_path / "product", "product", '"models"', ("library",))
    manifest = product / "models.yaml"
    manifest.write_text(manifest.read_text().replace("gesture_int8:", "wave:"))
    for file in [product / "BUILD.bazel"]:
        file.write_text(
            file.read_text().replace("@models//gesture_int8:", "@models//wave:")
            + 'alias(name = "theirs", actual = "@library//:sensor")\n'
        )
    built = library / "BUILD.bazel"
    built.write_text(
        'package(default_visibility = ["//visibility:public"])\n'.join(
            [built.read_text().split("\n\n")[0] + "\n", built.read_text().partition("\n\n")[2]]
        )
    )

    made = evaluate(version, product, tmp_path / "out", library=library, mlftool=ROOT)

    packages = {name: {p for repo, p in made.packages if repo == name} for name, _ in made.packages}
    theirs = made.resolve(made.canonical("library"), "", "@models//:x").repo
    assert repository(made, "models") != theirs
    assert {"wave", "vibration_int8"} <= packages[repository(made, "models")]
    assert "gesture_int8" in packages[theirs]
    assert "wave" not in packages[theirs]


@pytest.mark.parametrize("version", VERSIONS)
def test_one_name_for_two_manifests_of_a_module_is_refused(tmp_path: Path, version: str) -> None:
    twice = module(tmp_path / "twice", "twice", '"models"')
    file = twice / "MODULE.bazel"
    file.write_text(
        file.read_text() + 'mlf.manifest(name = "models", manifest = "//:models.yaml")\n'
    )
    said = (
        "mlf.manifest(name = \"models\") of module 'twice': got repository 'models' twice, "
        "the other of module 'twice'; choose another name"
    )
    with pytest.raises(starlark.StarlarkError, match=re.escape(said)):
        evaluate(version, twice, tmp_path / "out", mlftool=ROOT)


# What is refused: files of a small module -> what is said, by which versions.
ALL = VERSIONS
MISTAKES = {
    "native_rule": (
        {"a.bzl": "def f():\n    native.cc_library(name = 'a')\n",
         "BUILD.bazel": "load(':a.bzl', 'f')\nf()\n"},
        "Object of type `struct` has no attribute `cc_library`", ("9",),
    ),
    "rule_of_build_file": (
        {"BUILD.bazel": "cc_library(name = 'a')\n"}, "Variable `cc_library` not found", ("9",),
    ),
    "provider": (
        {"a.bzl": "X = [CcInfo]\n", "BUILD.bazel": "load(':a.bzl', 'X')\n"},
        "Variable `CcInfo` not found", ("9",),
    ),
    "host_platform": (
        {"BUILD.bazel": "platform(name = 'a', parents = ['@local_config_platform//:host'])\n"},
        "no repository is visible as '@local_config_platform' here", ("9",),
    ),
    "invisible_repository": (
        {"BUILD.bazel": "alias(name = 'a', actual = '@mlf_python//:files')\n"},
        "no repository is visible as '@mlf_python' here", ALL,
    ),
    "built_in_label": (
        {"BUILD.bazel": "alias(name = 'a', actual = '@bazel_tools//tools/cpp:compiler_of_mine')\n"},
        "no such target '@@bazel_tools//tools/cpp:compiler_of_mine'", ALL,
    ),
    "foreign_file": (
        {"BUILD.bazel": "load('@rules_cc//cc:nothing.bzl', 'a')\n"},
        "cc:nothing.bzl: there is no such file", ALL,
    ),
    "foreign_symbol": (
        {"BUILD.bazel": "load('@rules_cc//cc:defs.bzl', 'cc_nothing')\n"}, "cc_nothing", ALL,
    ),
    "target": (
        {"BUILD.bazel": "alias(name = 'a', actual = ':b')\n"}, "no such target '@@//:b'", ALL,
    ),
    "package": (
        {"BUILD.bazel": "alias(name = 'a', actual = '//b')\n"}, "no such package '@@//b'", ALL,
    ),
    "private": (
        {"BUILD.bazel": "alias(name = 'a', actual = '//b:c')\n",
         "b/BUILD.bazel": "filegroup(name = 'c')\n"},
        "'@@//b:c' is not visible from '@@//'", ALL,
    ),
    "not_exported": (
        {"BUILD.bazel": "filegroup(name = 'a', srcs = ['//b:c.txt'])\n", "b/c.txt": "",
         "b/BUILD.bazel": ""},
        "'@@//b:c.txt' is a file its package does not export", ALL,
    ),
    "testonly": (
        {"BUILD.bazel": "filegroup(name = 'a', testonly = True)\n"
                        "alias(name = 'b', actual = ':a')\n"},
        "'@@//:a' is testonly", ALL,
    ),
    "attribute": (
        {"BUILD.bazel": "filegroup(name = 'a', nothing = 1)\n"}, "no attribute 'nothing'", ALL,
    ),
    "twice": (
        {"BUILD.bazel": "filegroup(name = 'a')\nfilegroup(name = 'a')\n"},
        "there is a target of this name already", ALL,
    ),
    "glob": ({"BUILD.bazel": "glob(['*.nothing'])\n"}, "matched nothing", ("8", "9")),
    "host_configuration": (
        {"a.bzl": "X = attr.label(cfg = 'host')\n", "BUILD.bazel": "load(':a.bzl', 'X')\n"},
        "is not in this Bazel", ALL,
    ),
    "parameter_of_rule": (
        {"a.bzl": "X = rule(implementation = len, host_fragments = [])\n",
         "BUILD.bazel": "load(':a.bzl', 'X')\n"},
        "rule has no parameter 'host_fragments'", ALL,
    ),
    "function_in_build_file": ({"BUILD.bazel": "def f():\n    pass\n"}, "def", ALL),
    "repository_rule_outside": (
        {"a.bzl": "r = repository_rule(implementation = len)\nr(name = 'a')\n",
         "BUILD.bazel": "load(':a.bzl', 'r')\n"},
        "was called outside of a module extension", ALL,
    ),
    "extension_of_dev_tag": (
        {"MODULE.bazel": "module(name = 'm')\nbazel_dep(name = 'mlftool', version = '0.1.0')\n"
                         "mlf = use_extension('@mlftool//rules:extensions.bzl', 'mlf')\n"
                         "use_repo(mlf, 'mlf_python_test')\n", "BUILD.bazel": ""},
        "the extension does not generate repository 'mlf_python_test'", ALL,
    ),
    "tag": (
        {"MODULE.bazel": "module(name = 'm')\nbazel_dep(name = 'mlftool', version = '0.1.0')\n"
                         "mlf = use_extension('@mlftool//rules:extensions.bzl', 'mlf')\n"
                         "mlf.manifest(name = 'a', file = 'b')\n", "BUILD.bazel": ""},
        "mlf.manifest has no attribute 'file'", ALL,
    ),
}  # fmt: skip


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", MISTAKES)
def test_what_a_version_refuses_is_refused(tmp_path: Path, name: str, version: str) -> None:
    files, said, versions = MISTAKES[name]
    root = tmp_path / "m"
    files = {
        "MODULE.bazel": "module(name = 'm')\nbazel_dep(name = 'rules_cc', version = '0.0.17')\n",
        **files,
    }
    for path, text in files.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    others = {"mlftool": ROOT} if "mlftool" in files["MODULE.bazel"] else {}
    if version in versions:
        with pytest.raises((RefusedError, starlark.StarlarkError), match=re.escape(said)):
            evaluate(version, root, tmp_path / "out", **others)
    else:
        evaluate(version, root, tmp_path / "out", **others)
