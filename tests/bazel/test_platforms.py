"""Platforms of one's own: those that say their processor work, others are told what they lack."""

from __future__ import annotations

import re

import pytest
from nested import Workspace, digests

pytestmark = pytest.mark.sampled(4)

PACKAGE = """
load("@mlftool//rules:defs.bzl", "mlf_cc_library", "mlf_compile", "mlf_firmware", "mlf_model")
load("@rules_cc//cc:defs.bzl", "cc_library")

MODEL = "//:models/gesture_int8.onnx"
HEADERS = "@mlftool//crt:platform_headers"
PLAIN = {
    "arm_none": ["@platforms//cpu:arm", "@platforms//os:none"],
    "riscv64_none": ["@platforms//cpu:riscv64", "@platforms//os:none"],
    "aarch64_linux": ["@platforms//cpu:aarch64", "@platforms//os:linux"],
    "nothing": [],
}
NAMED = {
    "our_m4": PLAIN["arm_none"] + ["@mlftool//rules/platforms:cpu_cortex-m4"],
    "our_aarch64": PLAIN["aarch64_linux"] + ["@mlftool//rules/platforms:cpu_aarch64"],
    "s390x": ["@platforms//cpu:s390x", "@mlftool//rules/platforms:cpu_other"],
}
[platform(name = n, constraint_values = c) for n, c in PLAIN.items() + NAMED.items()]
toolchain(
    name = "own_toolchain",
    target_compatible_with = ["@platforms//cpu:s390x"],
    toolchain = "@local_config_cc//:cc-compiler-k8",
    toolchain_type = "@bazel_tools//tools/cpp:toolchain_type",
)
cc_library(name = "board")

# Refused, by whatever way the platform comes.
[mlf_firmware(name = "of_" + n, srcs = ["main.c"], platform = n) for n in PLAIN]
[mlf_firmware(name = "on_" + n, srcs = ["main.c"], board = "board", platform = n) for n in PLAIN]
mlf_model(
    name = "plain",
    model = MODEL,
    platform = "arm_none",
    target = "cortex-m4",
    vectors = "//:models/gesture_int8.npz",
)

mlf_firmware(
    name = "sensor",
    srcs = ["main.c"],
    copts = ["-std=c99"],
    platform = "our_m4",
    deps = [HEADERS, "@models//gesture_int8:cortex-m4"],
)
[
    mlf_model(
        name = name,
        absolute = "0",
        model = MODEL,
        platform = name[:-len("_model")],
        target = target,
        vectors = "//:models/gesture_int8.npz",
    )
    for name, target in {"our_m4_model": "cortex-m4", "our_aarch64_model": "aarch64"}.items()
]
mlf_firmware(
    name = "for_another",
    srcs = ["main.c"],
    board = "board",
    platform = "s390x",
    deps = [HEADERS, "@models//gesture_int8:host"],
)
mlf_compile(name = "m4", model = MODEL, target = "cortex-m4")
mlf_cc_library(name = "m4_lib", archive = "m4")
mlf_firmware(
    name = "wrong_model",
    srcs = ["main.c"],
    board = "board",
    platform = "s390x",
    deps = ["m4_lib"],
)
"""
PLAIN = ("arm_none", "riscv64_none", "aarch64_linux", "nothing")
TOOLCHAIN = "--extra_toolchains=//platforms:own_toolchain"


@pytest.fixture(scope="module")
def platforms(built: Workspace) -> Workspace:
    folder = built.folder / "platforms"
    folder.mkdir()
    (folder / "BUILD.bazel").write_text(PACKAGE)
    (folder / "main.c").write_text((built.folder / "main.c").read_text())
    return built


@pytest.fixture(scope="module")
def refused(platforms: Workspace) -> str:
    """What is said of images for platforms with constraints of @platforms only."""
    targets = [f"//platforms:{way}_{name}" for name in PLAIN for way in ("of", "on")]
    targets += ["//platforms:plain_test", "//platforms:wrong_model"]
    words = (*platforms.options(), TOOLCHAIN, "--nobuild", "--keep_going", *targets)
    return platforms.bazel("build", *words, fails=True)


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("way", ["of", "on"])
def test_the_missing_constraint_value_is_named(refused: str, way: str, name: str) -> None:
    said = (
        f"//platforms:{way}_{name}: error[MLF0414]: platform: got //platforms:{name}, which does "
        "not say its processor, expected one of @mlftool//rules/platforms:cpu_aarch64, cpu_armv7-a"
    )
    assert said in refused, refused
    assert "cpu_other; add it to the platform's constraint_values" in refused
    # Bazel would speak of toolchains, and of neither the attribute nor a remedy.
    assert "No matching toolchains" not in refused


def test_a_model_says_so_of_its_platform(refused: str) -> None:
    said = "//platforms:plain_firmware: error[MLF0414]: platform: got //platforms:arm_none, which"
    assert f"{said} does" in refused


def test_another_processor_takes_no_model_of_a_board(refused: str) -> None:
    assert (
        "//platforms:wrong_model: error[MLF0414]: deps: got //platforms:m4_lib, a model for "
        "cortex-m4, in an image for s390x"
    ) in refused


def test_every_name_that_is_offered_is_a_constraint_value(
    platforms: Workspace, refused: str
) -> None:
    offered = re.findall(r"expected one of (@\S+):(.*?); add", refused)[0]
    words = " ".join(f"{offered[0]}:{name}" for name in offered[1].split(", "))
    query = (*platforms.loading(), "--output=label_kind", f"set({words})")
    found = platforms.bazel("query", *query)
    kinds = [line.split()[0] for line in found.splitlines() if "rules/platforms:" in line]
    assert kinds == ["constraint_value"] * len(offered[1].split(", "))


def test_a_platform_that_says_its_processor_is_like_ours(platforms: Workspace) -> None:
    actions = platforms.build("//platforms:sensor", "//platforms:sensor.bin")

    (image,) = (p for p in digests(actions) if p.endswith("platforms/sensor.bin"))
    (ours,) = (d for p, d in platforms.first.items() if p.endswith("/bin/sensor.bin"))
    assert digests(actions)[image] == ours
    tests = [f"//platforms:our_{name}_model_test" for name in ("m4", "aarch64")]
    assert "2 tests pass" in platforms.bazel("test", *platforms.options(), *tests)


def test_a_processor_of_a_toolchain_of_ones_own(platforms: Workspace) -> None:
    words = (*platforms.options(), TOOLCHAIN, "--nobuild", "//platforms:for_another")
    assert "Build completed successfully" in platforms.bazel("build", *words)


def test_without_the_flag_the_host_compiler_is_not_taken(platforms: Workspace) -> None:
    words = (*platforms.options(), "--noincompatible_enable_cc_toolchain_resolution")
    said = platforms.bazel("build", *words, "--nobuild", "//platforms:sensor", fails=True)
    no_choice = "error[MLF0414]: the platform does not choose the C compiler: add the line"
    assert f"//platforms:sensor: {no_choice}" in said
    assert "build --incompatible_enable_cc_toolchain_resolution" in said
