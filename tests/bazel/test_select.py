"""`select()` on every attribute of every public rule and macro: it works, or one line says why not.

The attributes are those that docs/rules.md has, so a new one is tried, too, or asks for a sample.
"""

from __future__ import annotations

import inspect
import os
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from nested import ROOT, Workspace

from mlftool.mlf import write_tar

sys.path.insert(0, str(ROOT / "tools"))
sys.path.insert(0, os.path.abspath(Path(__file__).parents[1] / "runtime"))
import rules_doc
from tvm_archives import graph_archive

M4 = '"@mlftool//rules/platforms:cortex-m4"'
MODEL, VECTORS = '"//:models/gesture_int8.onnx"', '"//:models/gesture_int8.npz"'
HOST = "@models//gesture_int8:host"
BOARD = "@models//gesture_int8:cortex-m4"
ARCHIVED = {"archive": f'"{HOST}_archive"', "library": f'"{HOST}"'}
RUN = {"runner": f'"{HOST}_runner"', "vectors": VECTORS}
REPORTS = {"reports": f'["{HOST}_report"]'}
# What each is called with, besides the attribute that is tried.
CALLS: dict[str, dict[str, str]] = {
    "mlf_analysis": {"archive": f'"{HOST}_archive"', "kind": '"report"', "vectors": VECTORS},
    "mlf_arena_test": {**ARCHIVED, "vectors": VECTORS},
    "mlf_baseline_test": {**REPORTS, "baseline": '"//selects:x.json"'},
    "mlf_benchmark": RUN,
    "mlf_board": {"target": '"cortex-m4"', "linker_script": '"//selects:x.ld"'},
    "mlf_budget_test": {"report": f'"{HOST}_report"', "flash_bytes": "1 << 20"},
    "mlf_cc_library": {"archive": f'"{HOST}_archive"'},
    "mlf_compile": {"model": MODEL},
    "mlf_device_test": {**RUN, "runner": f'"{BOARD}_runner"'},
    "mlf_diff_test": {"baseline": '"//selects:x.json"', "facts": f'["{HOST}.facts"]'},
    "mlf_firmware": {"platform": M4, "deps": f'["{BOARD}"]'},
    "mlf_firmware_test": {
        "firmware": f'"{BOARD}_firmware"',
        "archive": f'"{BOARD}_archive"',
        "vectors": VECTORS,
    },
    "mlf_golden_test": {"src": f'"{HOST}_report"', "golden": '"//selects:x.json"'},
    "mlf_host_test": RUN,
    "mlf_import": {"archive": '"//selects:x.tar"'},
    "mlf_manifest_test": {"manifest": '"//:models.yaml"', "generated": '"//selects:BUILD.bazel"'},
    "mlf_model": {"model": MODEL, "vectors": VECTORS},
    "mlf_module": {"model": MODEL},
    "mlf_package": {"modules": '["//selects:module"]'},
    "mlf_project": {"archive": f'"{HOST}_archive"'},
    "mlf_quantize": {"model": MODEL, "samples": VECTORS},
    "mlf_report": RUN,
    "mlf_reproducibility_test": {"archive": f'"{HOST}_archive"'},
    "mlf_runner": ARCHIVED,
    "mlf_shared_library": ARCHIVED,
    "mlf_size_report": {"program": f'"{BOARD}_firmware"'},
    "mlf_summary": REPORTS,
    "mlf_tune": {"model": MODEL, "targets": '["cortex-m4"]'},
    "mlf_vectors": {"inputs": VECTORS, "runner": f'"{HOST}_runner"'},
    "mlftool_toolchain": {},
}
# Attribute -> a value, where the kind or the call does not say one.
SAMPLES = {
    "at_least": '"97%"', "metric": '"top1"',
    "absolute": '"0"', "relative": '"0"', "tolerance": '"0"', "title": '"x"',
    "board": '"@mlftool//crt:board"', "backend_deps": '["//selects:library"]',
    "backend_files": "[]", "against": "None", "fail_on": '["ram>+0"]',
    "copts": '["-g"]', "deps": '["//selects:library"]', "executor": '"aot"', "data": "[]",
    "flash_bytes": "1 << 20", "ram_bytes": "1 << 20", "included_scripts": '["//selects:x.ld"]',
    "input_shapes": "{}", "input_values": "{}", "linkopts": '["-g"]', "module": '"gesture_int8"',
    "modules": '["default"]', "module_name": '"gesture"', "out": '"a.tar"', "parts": "[]",
    "max_constants_bytes": "1 << 20", "max_workspace_bytes": "1 << 20", "platform": M4,
    "program": '"a_program"', "soname": '"libx.so.1"',
    "simulator": '["qemu-system-arm"]', "srcs": '["//selects:x.c"]',
    "driven": "True", "workspace_bytes": "1 << 16",
    "stamp": "0", "target": '"host"', "tuning": "None", "library": '"x"', "interpreter": "None",
    "launcher": '"@mlftool//rules/private/tools:launch.py"', "python": "None", "patches": '"off"',
    "ram_budget": '"24KiB"', "packages": '"@mlf_python//:site/numpy/__init__.py"',
    "weights_budget": '"64KiB"', "inputs": VECTORS,
}  # fmt: skip
# What macros take from every rule's attributes.
COMMON = {
    "compatible_with": "[]", "deprecation": '"x"', "exec_compatible_with": "[]",
    "exec_properties": "{}", "features": "[]", "restricted_to": "[]", "tags": "[]",
    "target_compatible_with": "[]", "testonly": "True", "visibility": "[]",
}  # fmt: skip
OF_TESTS = {"flaky": "True", "local": "True", "size": '"small"', "timeout": '"short"'}
# What must be known before there is a configuration; everything else goes through.
REFUSED = {
    ("mlf_arena_test", "board"), ("mlf_arena_test", "platform"),
    ("mlf_board", "parts"), ("mlf_board", "target"),
    ("mlf_cc_library", "target"), ("mlf_compile", "out"), ("mlf_firmware", "platform"),
    ("mlf_firmware", "driven"), ("mlf_firmware", "stamp"), ("mlf_firmware", "workspace_bytes"),
    ("mlf_import", "target"), ("mlf_model", "board"),
    ("mlf_model", "optimize"), ("mlf_model", "platform"), ("mlf_model", "target"),
    ("mlf_package", "out"), ("mlf_runner", "board"), ("mlf_runner", "platform"),
    ("mlf_runner", "program"), ("mlf_shared_library", "soname"),
}  # fmt: skip
CONFIGURABLE = {"exec_properties", "target_compatible_with"}

DEFS = rules_doc.run_bzl("//rules:defs.bzl", {})
PUBLIC = {
    name: value for name, value in DEFS.items()
    if name.startswith("mlf") and not (isinstance(value, rules_doc.Told) and value.kind == "aspect")
}  # fmt: skip


def rule_of(name: str) -> Any:
    """The rule that a name is, or None for a macro."""
    value = PUBLIC[name]
    return value if isinstance(value, rules_doc.Told) else rules_doc.wrapped_rule(value)


def sample(name: str, attribute: str, about: Any = None) -> str:
    """A value that the attribute may have."""
    if attribute in CALLS[name]:
        return CALLS[name][attribute]
    if attribute in SAMPLES:
        return SAMPLES[attribute]
    kind = about.kind if about else ""
    given = about.given.get("default") if about else None
    if values := (about.given.get("values") if about else None):
        return repr(given if given is not None else values[0]).replace("'", '"')
    samples = {"bool": "False", "int": "5", "string_list": "[]", "label_list": "[]"}
    assert kind in samples, f"{name}: {attribute}: SAMPLES needs a value"
    return samples[kind]


def attributes_of(name: str) -> Iterator[tuple[str, str]]:
    """Every attribute or argument with a value for it."""
    rule = rule_of(name)
    if rule:
        for attribute, about in rule.given["attrs"].items():
            if not attribute.startswith("_"):
                yield attribute, sample(name, attribute, about)
    else:
        for attribute, parameter in inspect.signature(PUBLIC[name]).parameters.items():
            if attribute != "name" and parameter.kind is not parameter.VAR_KEYWORD:
                yield attribute, sample(name, attribute)
    if name == "mlf_model":
        options = rules_doc.run_bzl("//rules/private:options.bzl", {})["OPTION_ATTRS"]
        for attribute, about in options.items():
            yield attribute, sample(name, attribute, about)
        yield "executor", SAMPLES["executor"]
    if not isinstance(PUBLIC[name], rules_doc.Told):
        tests = name == "mlf_model" or name.endswith("_test")
        yield from {**COMMON, **(OF_TESTS if tests else {})}.items()


CASES = [(name, *pair) for name in sorted(PUBLIC) for pair in attributes_of(name)]
REFUSED |= {
    (name, attribute)
    for name, attribute, _ in CASES
    if attribute in (COMMON | OF_TESTS).keys() - CONFIGURABLE
}


def call(name: str, attribute: str, value: str) -> str:
    """A BUILD file with a target `a` that has a select for the attribute."""
    chosen = f'select({{"//selects:other": {value}, "//conditions:default": {value}}})'
    given = {**CALLS[name], attribute: chosen}
    lines = [f"    {key} = {text},\n" for key, text in given.items()]
    load = f'load("@mlftool//rules:defs.bzl", "{name}")\n'
    return f'{load}{name}(\n    name = "a",\n{"".join(lines)})\n'


@pytest.fixture(scope="module")
def said(built: Workspace) -> str:
    """What Bazel says of a package for each attribute."""
    folder = built.folder / "selects"
    for name, attribute, value in CASES:
        package = folder / name / attribute
        package.mkdir(parents=True)
        (package / "BUILD.bazel").write_text(call(name, attribute, value))
    write_tar(graph_archive(5), folder / "x.tar")
    shutil.copy(built.folder / "main.c", folder / "x.c")
    (folder / "x.json").write_text("{}\n")
    (folder / "x.ld").write_text("")
    (folder / "BUILD.bazel").write_text(
        'load("@mlftool//rules:defs.bzl", "mlf_module")\n'
        'load("@rules_cc//cc:defs.bzl", "cc_library")\n'
        'package(default_visibility = ["//visibility:public"])\n'
        'exports_files(glob(["*"]))\ncc_library(name = "library")\n'
        f'mlf_module(name = "module", model = {MODEL})\n'
        'config_setting(name = "other", values = {"define": "other=1"})\n'
    )
    words = (*built.options(), "--nobuild", "--keep_going", "//selects/...")
    return built.bazel("build", *words, fails=True)


@pytest.mark.parametrize(("name", "attribute"), [case[:2] for case in CASES])
def test_it_goes_through_or_one_line_says_why_not(said: str, name: str, attribute: str) -> None:
    label = f"//selects/{name}/{attribute}:a"
    about = [line for line in said.splitlines() if label.removesuffix(":a") + ":" in line]
    if (name, attribute) not in REFUSED:
        assert about == []
        return
    got = f"{label}: error[MLF0414]: {attribute}: got select("
    refused = re.escape(got) + ".*, expected a value that is no "
    assert [line for line in about if re.search(refused, line)], said
    # Nothing of Bazel's or of a traceback besides.
    assert "Error: " not in "".join(about)


def test_every_public_name_is_tried() -> None:
    assert PUBLIC.keys() == CALLS.keys()
    assert {case[:2] for case in CASES} >= REFUSED
