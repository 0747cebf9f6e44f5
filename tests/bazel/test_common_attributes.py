"""What Bazel gives every rule reaches the right targets of a macro, and of a manifest."""

from __future__ import annotations

import re

import pytest
from nested import Workspace

PACKAGE = """
load(
    "@mlftool//rules:defs.bzl",
    "mlf_arena_test", "mlf_cc_library", "mlf_compile", "mlf_firmware", "mlf_import", "mlf_model",
    "mlf_module", "mlf_package", "mlf_tune",
)
MODEL = "//:models/gesture_int8.onnx"
[
    mlf_model(
        name = target,
        size = "large",
        copts = ["-DMINE=1"],
        deprecation = "another is better",
        exec_properties = {"Pool": "large"},
        features = ["-mine"],
        flaky = True,
        flash_bytes = 1 << 20,
        model = MODEL,
        restricted_to = [":mine"],
        tags = ["mine"],
        target = target,
        target_compatible_with = [],
        testonly = True,
        timeout = "eternal",
        vectors = "//:models/gesture_int8.npz",
        visibility = ["//visibility:private"],
    )
    for target in ["host", "cortex-m4"]
]
environment(name = "mine")
environment(name = "other")
environment_group(name = "group", defaults = ["mine", "other"], environments = ["mine", "other"])

# Of everything that is for tests only.
filegroup(name = "model", testonly = True, srcs = [MODEL])
mlf_compile(name = "tested", model = "model", target = "cortex-m4", testonly = True)
mlf_cc_library(name = "tested_lib", archive = "tested", testonly = True)
mlf_import(name = "imported", archive = "tested", modules = ["tested"], target = "cortex-m4",
           testonly = True)
mlf_module(name = "module", model = "model", testonly = True)
mlf_package(name = "package", modules = ["module"], testonly = True)
mlf_tune(name = "tuned", model = "model", targets = ["cortex-m4"], testonly = True)
mlf_firmware(
    name = "image",
    srcs = ["main.c"],
    platform = "@mlftool//rules/platforms:mps2_an386",
    tags = ["manual"],
    testonly = True,
    deps = ["tested_lib"],
)

# Not for this machine: left out, and so is what needs it.
constraint_setting(name = "setting")
constraint_value(name = "never", constraint_setting = "setting")
mlf_model(
    name = "elsewhere",
    model = MODEL,
    target_compatible_with = [":never"],
    vectors = "//:models/gesture_int8.npz",
)
mlf_compile(name = "nowhere", model = MODEL, target_compatible_with = [":never"])
"""
MANIFEST = """
  private:
    model: models/gesture_int8.onnx
    module_name: mine
    test: {vectors: models/gesture_int8.npz}
    tags: [nightly]
    size: enormous
    timeout: short
    exec_properties: {Pool: large}
    visibility: [//common:__pkg__]
"""


@pytest.fixture(scope="module")
def common(built: Workspace) -> Workspace:
    folder = built.folder / "common"
    folder.mkdir()
    (folder / "BUILD.bazel").write_text(PACKAGE)
    (folder / "main.c").write_text("int main(void) { return 0; }\n")
    return built


def rules(workspace: Workspace, pattern: str) -> dict[str, str]:
    """Name -> the rule as `query --output=build` prints it."""
    words = ("--noshow_progress", "--output=build", *workspace.loading(), pattern)
    found = workspace.bazel("query", *words)
    texts = re.findall(r"^(\w+\(\n(?:  .*\n)*\))$", found, re.MULTILINE)
    return {re.findall(r'name = "([^"]+)"', text)[0]: text for text in texts}


def test_every_attribute_reaches_the_targets_it_is_for(common: Workspace) -> None:
    found = rules(common, 'kind(rule, filter("common:(host|cortex-m4)", //common:all))')

    made = ("{}", "{}_archive", "{}_firmware", "{}_test", "{}_report", "{}_benchmark", "{}_tests")
    names = {name.format(target) for name in made for target in ("host", "cortex-m4")}
    everywhere = ("facts", "graph", "memmap", "ops", "report", "trace")
    shown = {f"{target}.{kind}" for target in ("host", "cortex-m4") for kind in everywhere}
    measured = {f"cortex-m4.{kind}" for kind in ("compare", "profile", "size")}
    assert names | shown | measured | {"cortex-m4_budget_test"} <= found.keys()
    assert not {"host.compare", "host.profile", "host.size"} & found.keys()  # no simulated board
    for name, text in found.items():
        assert "testonly = True" in text, name
        if text.startswith("test_suite"):
            continue
        assert '"mine"' in text, name
        runs = not text.startswith("filegroup")
        assert ('exec_properties = {"Pool": "large"}' in text) == runs, name
        assert 'restricted_to = ["//common:mine"]' in text, name
        is_public = name in names or name.endswith(("_runner", "_budget_test"))
        assert ("deprecation" in text) == (is_public or text.startswith("mlf_analysis(")), name
        of_tests = name.endswith("_test")
        assert ('timeout = "eternal"' in text) == of_tests, name
        assert ('size = "large"' in text) == of_tests, name
        assert ("flaky = True" in text) == of_tests, name
        of_c = text.startswith(("cc_", "_mlf_firmware", "_mlf_objects"))
        features = re.search(r"features = \[(.*)\]", text)
        assert bool(features and '"-mine"' in features[1]) == of_c, name
    assert "-DMINE=1" in found["host"]
    # No private name is asked for by a wildcard; what it is built for says so.
    hidden = [name for name in found if 'visibility = ["//visibility:private"]' in found[name]]
    assert hidden


def test_everything_may_be_for_tests_only_or_for_another_machine(common: Workspace) -> None:
    talk = common.bazel("build", *common.options(), "--nobuild", "//common/...", "//common:image")
    assert "Build completed successfully" in talk

    words = ("--nobuild", "//common:elsewhere_test", "//common:nowhere", "--keep_going")
    talk = common.bazel("build", *common.options(), *words, fails=True)
    for name in ("elsewhere_test", "nowhere"):
        assert f"//common:{name} is incompatible and cannot be built" in talk


def test_a_manifest_has_them_for_each_model(common: Workspace) -> None:
    manifest = common.folder / "models.yaml"
    text = manifest.read_text()
    manifest.write_text(text.replace("models:\n", "models:" + MANIFEST, 1))

    found = rules(common, "kind(rule, @models//private:all)")
    manifest.write_text(text)

    test = found["host_test"]
    for line in (
        'tags = ["mlf_kind=host", "nightly"]', 'size = "enormous"', 'timeout = "short"',
        'exec_properties = {"Pool": "large"}',
        'visibility = ["//common:__pkg__"]',
    ):  # fmt: skip
        assert line in test.replace('"@//common', '"//common'), test
    assert "nightly" in found["report"]
    assert "enormous" not in found["report"]
