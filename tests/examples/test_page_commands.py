"""The commands of pages, run one after the other as a reader would.

docs/analysis.md, first_hour.md, projects.md, tutorial.md, hermetic.md and rebuilds.md have tests of
their own.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pages import blocks
from shared import REPO

from mlftool.cli import main

pytestmark = pytest.mark.sampled(4)

MODELS = REPO / "examples" / "models"
MANIFEST = "version: 1\nmodels:\n  digits: {model: digits.onnx, targets: [host, cortex-m4]}\n"

needs_board = pytest.mark.skipif(
    not all(map(shutil.which, ("arm-none-eabi-gcc", "qemu-system-arm", "bash"))),
    reason="apt-get install gcc-arm-none-eabi libnewlib-arm-none-eabi qemu-system-arm",
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """What pages name: models, vectors, a manifest, and `mlftool` on the path."""
    copies = {
        **{"digits": "digits_int8", "vibration": "vibration_int8", "keyword": "gesture_int8"},
        **{"model": "gesture_int8", "digits_float32": "digits_float32"},
    }
    for name, model in copies.items():
        for suffix in (".onnx", ".npz"):
            shutil.copy((MODELS / model).with_suffix(suffix), tmp_path / f"{name}{suffix}")
    with np.load(tmp_path / "digits.npz") as file:
        for name in ("in", "ref"):
            np.savez(tmp_path / name, image=file["image"][:2], probability=file["probability"][:2])
    (tmp_path / "models.yaml").write_text(MANIFEST)
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "mlftool"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m mlftool "$@"\n')
    script.chmod(0o755)
    for name, made in (("digits", "old"), ("model", "model")):
        files = [str(tmp_path / f"{name}.onnx"), "-o", str(tmp_path / f"{made}.tar")]
        assert main(["compile", *files, "--target", "cortex-m4"]) == 0
    return tmp_path


def ran(folder: Path, script: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join([str(REPO), *filter(None, sys.path)])
    env = {**os.environ, "PYTHONPATH": path, "PATH": f"{folder / 'bin'}:{os.environ['PATH']}"}
    words = ["bash", "-c", script]
    return subprocess.run(words, cwd=folder, env=env, capture_output=True, text=True)


def indented(page: str) -> list[str]:
    """Its indented lines that begin with our name."""
    return re.findall(r"^    (mlftool .*)$", (REPO / page).read_text(), re.MULTILINE)


@needs_board
@pytest.mark.parametrize(
    ("page", "least"),
    [("README.md", 13), ("docs/tuning.md", 2), ("docs/vm.md", 1), ("docs/reliability.md", 2),
     ("docs/rpc.md", 2)],
)  # fmt: skip
def test_commands_of_a_page(page: str, least: int, folder: Path) -> None:
    commands = indented(page)
    assert len(commands) >= least
    for command in commands:
        done = ran(folder, command)
        # What doctor finds missing, other commands here do without.
        assert done.returncode == 0 or (command == "mlftool doctor" and done.returncode == 3), (
            command,
            done.stderr,
        )


@needs_board
def test_recipes(folder: Path) -> None:
    text = (REPO / "docs" / "recipes.md").read_text()
    said = []
    for language, block in re.findall(r"^```(\w+)\n((?:.|\n)*?)^```$", text, re.MULTILINE):
        if language == "c":
            (folder / "main.c").write_text(block)
            continue
        assert language == "sh"
        done = ran(folder, f"set -e\n{block}")
        assert done.returncode == 0, (block, done.stderr)
        said.append(done.stdout)
    together, digits, vibration = map(int, re.findall(r"\d+", said[1]))
    assert together == max(digits, vibration)
    swapped = next(out for out in said if "a caller changes" in out)
    assert "input 'image': type int8 -> float32" in swapped
    assert "unchanged" in (folder / "comment.md").read_text()


def test_the_swap_fails_for_the_pointer_s_type(folder: Path) -> None:
    """Not for another reason: with the float model's type it compiles."""
    (main,) = re.findall(r"^```c\n((?:.|\n)*?)^```$", (REPO / "docs/recipes.md").read_text(), re.M)
    setup = (
        "mlftool compile digits_float32.onnx -o n.tar --module-name digits --pool arena=16384 && "
        "mlftool compile vibration.onnx -o v.tar --pool arena=16384 && "
        "mlftool extract n.tar --all digits && mlftool extract v.tar --all vibration"
    )
    assert ran(folder, setup).returncode == 0
    build = "cc -std=c99 -Werror -Idigits/codegen/host/include -Ivibration/codegen/host/include"
    (folder / "main.c").write_text(main)
    wrong = ran(folder, f"{build} -c main.c -o main.o")
    assert wrong.returncode != 0
    assert "TVMGEN_DIGITS_IMAGE_POINTER(image)" in wrong.stderr
    fitting = main.replace("static int8_t image[", "static float image[")
    (folder / "main.c").write_text(fitting.replace(", probability[", "; static float probability["))
    assert ran(folder, f"{build} -c main.c -o main.o").returncode == 0


def block(page: str, kind: str) -> str:
    """The only block of a kind."""
    (text,) = re.findall(rf"^```{kind}\n(.*?)^```$", (REPO / page).read_text(), re.M | re.S)
    return str(text)


def test_the_readme_s_manifest_python_and_c(folder: Path) -> None:
    """What README.md shows beside its commands."""
    (folder / "models.yaml").write_text(block("README.md", "yaml"))
    done = ran(folder, "mlftool check models.yaml && mlftool compile digits.onnx -o digits.tar")
    assert done.returncode == 0, done.stderr
    (line,) = re.findall(r"^    (outputs = .*)$", (REPO / "README.md").read_text(), re.M)
    load = 'import mlftool, numpy as np; image = np.load("in.npz")["image"][0]'
    same = 'assert (outputs["probability"] == np.load("in.npz")["probability"][0]).all()'
    done = ran(folder, f"{sys.executable} -c '{load}; {line}; {same}'")
    assert done.returncode == 0, done.stderr
    arrays = "static int8_t image[64], probability[10];"
    main = f'#include "tvmgen_digits.h"\n{arrays}\nint main(void) {{\n{block("README.md", "c")}'
    (folder / "main.c").write_text(f"{main}return TVMGEN_DIGITS_WORKSPACE_SIZE == 0;\n}}\n")
    build = "cc -std=c99 -Wall -Werror -Id/codegen/host/include main.c d/codegen/host/src/*.c -o m"
    done = ran(folder, f"mlftool extract digits.tar --all d && {build} && ./m")
    assert done.returncode == 0, done.stderr


def test_the_archive_page_s_python(folder: Path) -> None:
    """docs/mlf.md, with an archive whose executor has a graph and parameters."""
    script = block("docs/mlf.md", "python")
    (folder / "script.py").write_text(
        f"import numpy as np\nimage = np.load('in.npz')['image'][0]\n{script}"
        "assert (outputs['probability'] == np.load('in.npz')['probability'][0]).all()\n"
    )
    compile_ = "mlftool compile digits.onnx -o model.tar --executor graph"
    done = ran(folder, f"{compile_} && {sys.executable} script.py")
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[:2] == ["image", "int8"]


def test_the_backend_of_the_page_is_taken(folder: Path) -> None:
    """docs/backends.md."""
    (folder / "npu.py").write_text(block("docs/backends.md", "python"))
    words = "compile vibration.onnx -o made.tar --backend npu --backend-file npu.py"
    done = ran(folder, f"mlftool {words}")
    assert done.returncode == 0, done.stderr
    assert "npu" in done.stdout


@needs_board
@pytest.mark.parametrize(
    ("page", "model", "calls"),
    [("docs/vm.md", "gesture_int8", [("--executor", "aot"), ("--executor", "vm")]),
     ("docs/rpc.md", "digits_int8", [(), ("--driven",)])],
)  # fmt: skip
def test_figures_that_two_calls_print(
    page: str, model: str, calls: list[tuple[str, ...]], capsys: pytest.CaptureFixture[str]
) -> None:
    """Instructions; of docs/vm.md also the flash."""
    text = (REPO / page).read_text()
    vectors = MODELS / f"{model}_few.npz"
    given = vectors if vectors.exists() else MODELS / f"{model}.npz"
    words = ["run", str(MODELS / f"{model}.onnx"), "--on", "cortex-m4", "--inputs", str(given)]
    for more in calls:
        assert main([*words, *more, "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        assert f"{data['instructions']:,}" in text, (page, more)
        assert page == "docs/rpc.md" or f"{data['flash_bytes']:,}" in text, more


def test_the_backend_page_s_command_and_declarations(folder: Path) -> None:
    """docs/backends.md: the compiler needs no CMSIS-NN, only who compiles its C does."""
    shutil.copy(folder / "keyword.onnx", folder / "kws.onnx")
    done = ran(folder, block("docs/backends.md", "sh"))
    assert done.returncode == 0, done.stderr
    assert "nodes are for cmsis-nn" in done.stdout
    declared = [b.text for b in blocks(REPO / "docs" / "backends.md") if b.kind == "c"]
    assert len(declared) == 2
    (folder / "d.c").write_text("#include <stddef.h>\n#include <stdint.h>\n" + "".join(declared))
    done = ran(folder, "cc -std=c99 -Wall -Wextra -Werror -fsyntax-only d.c")
    assert done.returncode == 0, done.stderr


def test_the_manifest_page_s_commands_and_message(folder: Path) -> None:
    """docs/manifest.md: what check and build do, and what check says of a wrong name."""
    commands, message = (b.text for b in blocks(REPO / "docs" / "manifest.md") if not b.kind)
    lines = ("version: 1", "models:", "  kws:", "    model: digits.onnx", "    targets: [host, {}]")
    manifest = folder / "models.yaml"
    manifest.write_text("\n".join(lines).format("cortex-m4") + "\n")
    done = ran(folder, commands)
    assert done.returncode == 0, done.stderr
    said = re.findall(r"out/\S+\.tar", commands)
    assert sorted(said) == sorted(str(p.relative_to(folder)) for p in folder.glob("out/*/*.tar"))
    manifest.write_text("\n".join(lines).format("cortexm4") + "\n")
    done = ran(folder, "mlftool check models.yaml 2>&1 | grep -v '^ '")
    assert done.stdout == message


def test_the_quantize_page_s_first_commands(folder: Path) -> None:
    """docs/quantize.md: all but pip's, on samples that are here."""
    text = (REPO / "docs" / "quantize.md").read_text()
    (commands,) = re.findall(r"^    pip install .*\n((?:    mlftool .*\n)+)", text, re.MULTILINE)
    shutil.copy(MODELS / "gesture_float32.onnx", folder / "keyword.onnx")
    shutil.copy(MODELS / "gesture_float32.npz", folder / "train_sample.npz")
    done = ran(folder, "set -e\n" + commands)
    assert done.returncode == 0, done.stderr
    assert (folder / "keyword.tar").is_file()
