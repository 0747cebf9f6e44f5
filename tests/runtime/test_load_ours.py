"""mlftool.load on archives of our own: executors, versions, several modules, and the docs."""

from __future__ import annotations

import itertools
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from builders import Net

import mlftool
from mlftool.backends import Backend, BackendCode, register_backend
from mlftool.cli import parser_of
from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.describe import operator_bundle
from mlftool.errors import MlfError
from mlftool.ir.graph import Graph, Node
from mlftool.mlf import Bundle, write_tar
from mlftool.mlf.metadata import MEMBER
from mlftool.mlf.records import VERSIONS
from mlftool.runtime.load import LoadedArchive
from mlftool.targets import Target

pytestmark = pytest.mark.sampled(4)

ROOT = Path(__file__).parents[2]
MODEL = ROOT / "examples" / "models" / "digits_int8.onnx"
EXECUTORS = (
    {"executor": "aot"},
    {"executor": "aot", "workspace_io": True},
    {"executor": "aot", "interface_api": "packed"},
    {"executor": "aot", "interface_api": "packed", "system_lib": True},
    {"executor": "graph"},
    {"executor": "vm"},
    {"executor": "graph", "link_params": True, "system_lib": True},
)


def image() -> np.ndarray:
    with np.load(MODEL.with_suffix(".npz")) as file:
        return np.asarray(file["image"][0])


def loaded(bundle: Bundle, path: Path) -> LoadedArchive:
    write_tar(bundle, path / "a.tar")
    return mlftool.load(path / "a.tar")


@pytest.mark.sampled(4)
@pytest.mark.parametrize("options", EXECUTORS, ids=lambda o: "-".join(map(str, o.values())))
def test_every_executor_gives_the_same_bits_in_every_version(
    options: dict[str, object], tmp_path: Path
) -> None:
    """Versions differ in names only: what is compiled is the same, and is compiled once."""
    reference = compile_modules([ModuleSpec(MODEL, "m")])
    wanted = loaded(reference, tmp_path).module().run({"image": image()})["probability"]
    libraries = set()
    for version in VERSIONS:
        bundle = compile_modules([ModuleSpec(MODEL, "m", mlf_version=version, **options)])
        archive = loaded(bundle, tmp_path)
        module = archive.module()
        assert (archive.version, module.executor) == (version, options["executor"])
        assert (module.inputs[0].scale, module.inputs[0].zero_point) == (0.0625, 0)
        result = module.run({"image": image()})["probability"]
        np.testing.assert_array_equal(result, wanted, strict=True)
        libraries.add(module.compiled().library)
    assert len(libraries) == 1


def test_several_modules_with_one_system_library(tmp_path: Path) -> None:
    specs = [ModuleSpec(MODEL, f"m{i}", **options) for i, options in enumerate(EXECUTORS)]
    archive = loaded(compile_modules(specs), tmp_path)
    assert archive.modules == tuple(f"m{i}" for i in range(len(EXECUTORS)))
    results = [archive.module(name).run({"image": image()}) for name in archive.modules]
    for a, b in itertools.pairwise(results):
        np.testing.assert_array_equal(a["probability"], b["probability"], strict=True)
    with pytest.raises(MlfError, match="the archive holds 7 modules"):
        archive.module()


@pytest.mark.parametrize("version", [4, 5, 6, 7])
@pytest.mark.parametrize("system_lib", [False, True])
def test_a_model_as_an_operator(version: int, system_lib: bool, tmp_path: Path) -> None:
    options = {"executor": "aot", "interface_api": "packed", "system_lib": system_lib}
    spec = ModuleSpec(MODEL, "m", mlf_version=version, **options)
    bundle = operator_bundle(compile_module(spec))
    assert {n for n in bundle.files if n.startswith(("codegen/host/src", "src/"))} == {
        "codegen/host/src/lib0.c",
        "codegen/host/src/lib1.c",
        "codegen/host/src/lib2.c",  # C metadata, as in every packed module
        "src/tir-1.txt",
    }
    archive = loaded(bundle, tmp_path)
    assert (archive.version, archive.modules) == (version, ("tvmgen_m_run",))
    wanted = loaded(compile_modules([ModuleSpec(MODEL, "m")]), tmp_path).module()
    np.testing.assert_array_equal(
        archive.module().run({"image": image()})["probability"],
        wanted.run({"image": image()})["probability"],
        strict=True,
    )


def test_what_is_no_operator() -> None:
    with pytest.raises(MlfError, match="needs a packed function; got aot with interface c"):
        operator_bundle(compile_module(ModuleSpec(MODEL, "m")))
    specs = [ModuleSpec(MODEL, f"m{v}", mlf_version=v) for v in (6, 7)]
    with pytest.raises(MlfError, match=r"one version; got 6 of .*, 7 of"):
        compile_modules(specs)


def test_a_changed_archive_is_refused(tmp_path: Path) -> None:
    bundle = compile_modules([ModuleSpec(MODEL, "m")])
    source = "codegen/host/src/m_lib1.c"
    with pytest.raises(MlfError, match="was changed: its SHA-256") as caught:
        loaded(Bundle({**bundle.files, source: bundle.files[source] + b" "}), tmp_path)
    assert [p.path for p in caught.value.problems] == [source]


def test_the_readme_of_an_archive_builds_it(tmp_path: Path) -> None:
    """Its commands, run as they stand in the unpacked folder."""
    for options in EXECUTORS:
        bundle = compile_modules([ModuleSpec(MODEL, "m", **options)])
        folder = tmp_path / str(len(list(tmp_path.iterdir())))
        for name, data in bundle.files.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
        if "templates/crt_config.h.template" in bundle.files:  # only where a runtime is needed
            config = (folder / "templates/crt_config.h.template").read_bytes()
            (folder / "runtime/include/crt_config.h").write_bytes(config)
        command = re.findall(r"```sh\n(.*?)\n```", bundle.text("README.md"))
        assert len(command) == 1
        run = subprocess.run(command[0], cwd=folder, shell=True, capture_output=True, text=True)
        assert (run.returncode, run.stderr) == (0, ""), run.stderr


def test_the_readme_names_the_libraries_to_link(tmp_path: Path) -> None:
    """Of a model that calls C's square root."""
    net = Net()
    x = net.input("x", np.float32, (1, 8))
    y = net.node("LayerNormalization", x, net.const(np.ones(8), np.float32))
    bundle = compile_modules([ModuleSpec(net.model(y), "m")])
    for name, data in bundle.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_bytes(data)
    page = bundle.text("README.md")
    (command,) = re.findall(r"```sh\n(.*?)\n```", page)
    subprocess.run(command, cwd=tmp_path, shell=True, check=True)
    (tmp_path / "main.c").write_text("int main(void) { return 0; }\n")
    linked = "cc main.c *.o -o program"
    libraries = " ".join(re.findall(r"`(-l\w+)`", page))
    ran = [
        subprocess.run(f"{linked} {words}", cwd=tmp_path, shell=True, capture_output=True)
        for words in ("", libraries)
    ]
    assert [r.returncode == 0 for r in ran] == [False, True], ran


@pytest.mark.parametrize("options", EXECUTORS, ids=lambda o: "-".join(map(str, o.values())))
def test_the_readme_names_options_that_exist(options: dict[str, object]) -> None:
    page = compile_modules([ModuleSpec(MODEL, "m", **options)]).text("README.md")
    named = re.findall(r"--[a-z][a-z-]+", page)
    assert set(named) <= set(parser_of("compile")._option_string_actions)
    assert bool(named) == (options == {"executor": "graph"})


def test_what_the_docs_say_works(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (ROOT / "docs" / "mlf.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    write_tar(compile_modules([ModuleSpec(MODEL, "m")]), tmp_path / "model.tar")
    monkeypatch.chdir(tmp_path)
    scope = {"image": image()}
    exec(code, scope)
    assert list(scope["outputs"]) == ["probability"]
    assert capsys.readouterr().out == "image int8 (1, 1, 8, 8)\nprobability int8 (1, 10)\n"


def renamed_executor(bundle: Bundle) -> dict[str, bytes]:
    """The archive's files with an executor that a later mlftool may have."""
    moved = {n.replace("/aot/", "/later/"): d for n, d in bundle.files.items()}
    del moved["checksums.sha256"]
    metadata = json.loads(moved[MEMBER])
    for module in metadata["modules"].values():
        module["executors"] = ["later"]
    return moved | {MEMBER: json.dumps(metadata).encode()}


def test_an_executor_we_do_not_know_is_called_by_its_interface() -> None:
    """A module with a C header says all that a caller needs; without one it cannot be run."""
    ours = compile_modules([ModuleSpec(MODEL, "m")])
    made = renamed_executor(ours)
    module = LoadedArchive(Bundle(made)).module()
    assert module.executor == "later"
    wanted = LoadedArchive(ours).module().run({"image": image()})["probability"]
    result = module.run({"image": image()})["probability"]
    np.testing.assert_array_equal(result, wanted, strict=True)
    bare = {n: d for n, d in made.items() if not n.endswith((".h", ".json")) or n == MEMBER}
    with pytest.raises(MlfError, match="modules of the later executor cannot be run"):
        LoadedArchive(Bundle(bare)).module()


def device_of_dense_layers() -> None:
    """Makes the backend `readme` known, which has a device."""

    def accepts(graph: Graph, node: Node, target: Target) -> tuple[Node, ...] | str:
        return (node,) if "Gemm" in node.op else ""

    def compile(part: Graph, target: Target) -> BackendCode:
        return BackendCode("return 0;")

    register_backend(Backend("readme", accepts, compile, "readme-npu"))


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"workspace_io": True},
        {"pools": ("fast=1KiB", "slow=16KiB")},
        {"pools": ("slow=16KiB",), "workspace_io": True},
        {"backends": ("readme",)},
        {"backends": ("readme",), "workspace_io": True},
    ],
    ids=lambda o: "-".join(o) or "plain",
)
def test_the_readme_s_call_compiles(options: dict[str, Any], tmp_path: Path) -> None:
    """Its C, with arrays of the names that it uses, and not with arrays of another type."""
    device_of_dense_layers()
    bundle = compile_modules([ModuleSpec(MODEL, "m", **options)])
    assert ("struct tvmgen_m_devices" in bundle.text("README.md")) == ("backends" in options)
    for name, data in bundle.files.items():
        if "/include/" in name:
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(data)
    (block,) = re.findall(r"```c\n(.*?)\n```", bundle.text("README.md"), re.DOTALL)
    include, _, call = block.partition("\n")
    arrays = "static TYPE image[64], probability[10]; static char fast[1024], slow[9000];"
    used = "(void)image; (void)probability; (void)fast; (void)slow; (void)outputs; (void)inputs;"
    body = f"{arrays}\nint main(void) {{\n{call}\n{used}\nreturn status;\n}}\n"
    (tmp_path / "call.c").write_text(f"#include <stddef.h>\n{include}\n{body}")
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "-fsyntax-only", "call.c"]
    command += ["-I", "codegen/host/include"]
    for version, type_ in itertools.product(("c99", "c11"), ("signed char", "float")):
        flags = [f"-std={version}", f"-DTYPE={type_}"]
        done = subprocess.run([*command, *flags], cwd=tmp_path, capture_output=True, text=True)
        is_given = type_ == "float" and not options.get("workspace_io")
        assert (done.returncode != 0) == is_given, (flags, done.stderr)
