"""The remedies of `mlftool explain MLF04nn` to `MLF07nn`: each mends a command that has failed."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from remedies import Trial, covered, trial

__all__ = ["trial"]

COMPILE = "compile m.onnx -o m.tar"
RUN = "run m.tar --inputs m.npz"

# code -> what fails, and the line that its remedy makes of it
LINES = {
    "MLF0400": (f"{COMPILE} --targte host", f"{COMPILE} --target host"),
    "MLF0402": ("compile m.onnx -o m.npz/m.tar", COMPILE),
    "MLF0403": (f"{COMPILE} --target cortex-m44", f"{COMPILE} --target cortex-m4"),
    "MLF0404": (f"{COMPILE} --module-name my-m", f"{COMPILE} --module-name my_m"),
    "MLF0405": (f"{COMPILE} --executor graph --state x=y", f"{COMPILE} --executor aot --state x=y"),
    "MLF0406": (f"{COMPILE} --target 'c -mcqu=cortex-m4'", f"{COMPILE} --target cortex-m4"),
    "MLF0410": (f"{COMPILE} --backend nope", COMPILE),
    "MLF0501": ("inspect k.tar", "inspect m.tar"),
    "MLF0502": ("inspect m.npz", "inspect m.tar"),
    "MLF0504": ("extract m.tar --member other.c=c", "extract m.tar --member README.md=c"),
    "MLF0511": ("run m.npz.so --inputs m.npz", "run m.so --inputs m.npz"),
    "MLF0600": ("run m.tar --inputs m.tar", RUN),
    "MLF0601": ("run m.tar --inputs other.npz", RUN),
    "MLF0602": ("run m.tar --inputs wide.npz", RUN),
    "MLF0603": ("run m.tar --inputs m.npz --expect two.npz", f"{RUN} --expect good.npz"),
    "MLF0604": (f"{RUN} --expect near.npz", f"{RUN} --expect near.npz --absolute 0.1"),
    "MLF0606": (f"{RUN} --module other", f"{RUN} --module m"),
    "MLF0609": (f"{RUN} --runner missing.elf", RUN),
    "MLF0610": (f"{RUN} --on cortex-m44", f"{RUN} --on host"),
    "MLF0613": ("library board.tar -o b.so", "library m.tar -o b.so"),
}


@pytest.fixture
def made(trial: Trial) -> Trial:
    trial.model("m")
    x = np.ones((1, 1, 4), np.float32)
    trial.vectors("m", x=x)
    trial.vectors("good", y=x)
    trial.vectors("near", y=x + np.float32(0.01))
    trial.vectors("two", y=np.ones((2, 1, 4), np.float32))
    trial.vectors("other", z=x)
    trial.vectors("wide", x=x.astype(np.float64))
    (trial.folder / "m.npz.so").write_bytes(b"no library")
    trial.says("MLF0900", False, COMPILE, "compile m.onnx -o board.tar --target cortex-m55")
    return trial


@pytest.mark.parametrize("code", LINES)
def test_lines(code: str, made: Trial) -> None:
    if ".so" in LINES[code][1]:
        made.says(code, False, "library m.tar -o m.so")
    for line, there in zip(LINES[code], (True, False), strict=True):
        made.says(code, there, line)


def edited(folder: Path, name: str, change: Callable[[bytes], bytes]) -> None:
    """m.tar with another content of a file in it, which is left out if that is nothing."""
    path = folder / "m.tar"
    out = io.BytesIO()
    with tarfile.open(path) as old, tarfile.open(fileobj=out, mode="w", format=old.format) as new:
        for member in old:
            data = old.extractfile(member)
            content = data.read() if data else b""
            if member.name.removeprefix("./") == name:
                content = change(content)
                member.size = len(content)
                if not content:
                    continue
            new.addfile(member, io.BytesIO(content) if data else None)
    path.write_bytes(out.getvalue())


DAMAGE: dict[str, tuple[str, str, str, Callable[[bytes], bytes]]] = {
    "MLF0505": ("", "inspect m.tar", "metadata.json", lambda b: b.replace(b'"memory"', b'"memry"')),
    "MLF0507": ("", "inspect m.tar", "README.md", lambda b: b + b"!"),
    "MLF0508": (
        "--executor graph",
        "run m.tar --inputs m.npz",
        "parameters/m.params",
        lambda b: b[:-1],
    ),
    "MLF0509": (
        "--executor graph",
        "run m.tar --inputs m.npz",
        "executor-config/graph/m.graph",
        lambda b: b.replace(b'"heads"', b'"haeds"'),
    ),
    "MLF0510": ("--verify", "verify m.tar", "executor-config/aot/m.certificate", lambda b: b""),
}


@pytest.mark.parametrize("code", DAMAGE)
def test_damage_is_mended_by_making_it_again(code: str, made: Trial) -> None:
    options, line, name, change = DAMAGE[code]
    if code in ("MLF0508", "MLF0509"):
        made.model("m", "w = Constant<value = float[4] {1,2,3,4}>() y = Add(x, w)")
    made.says(code, False, f"{COMPILE} {options}")
    edited(made.folder, name, change)
    if code != "MLF0507":
        edited(made.folder, "checksums.sha256", lambda _: b"")
    assert made.says(code, True, line).count("\nhelp: ") == 1
    made.says(code, False, f"{COMPILE} {options}")
    made.says(code, False, line)


def test_names_in_one_archive(made: Trial) -> None:
    file = made.folder / "m.yaml"
    same = "    module_name: net\n"
    head = f"version: 1\nmodels:\n  a:\n    model: m.onnx\n{same}  b:\n    model: m.onnx\n"
    tail = "archives:\n  all: {target: host, models: [a, b]}\n"
    file.write_text(head + same + tail)
    made.says("MLF0111", True, "check m.yaml")
    file.write_text(head + tail)
    made.says("MLF0503", False, "check m.yaml")


def test_environment(made: Trial, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOURCE_DATE_EPOCH", "today")
    made.says("MLF0401", True, COMPILE)
    monkeypatch.delenv("SOURCE_DATE_EPOCH")
    made.says("MLF0401", False, COMPILE)
    monkeypatch.setenv("MLFTOOL_CACHE", str(made.folder / "m.onnx"))
    made.says("MLF0702", True, RUN)
    monkeypatch.setenv("MLFTOOL_CACHE", str(made.folder / "cache"))
    made.says("MLF0702", False, RUN)
    monkeypatch.setenv("PATH", str(made.folder))
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("MLFTOOL_CACHE", str(made.folder / "cache2"))
    said = made.says("MLF0700", True, RUN)
    assert "install" in said


def test_diff(made: Trial) -> None:
    made.model("n", "y = Softmax(x)")
    made.says("MLF0616", True, "diff m.onnx n.onnx --no-run --fail-on 'layers>0'")
    made.says("MLF0616", False, "diff m.onnx n.onnx --no-run --fail-on 'layers>1'")


def test_every_code_is_here() -> None:
    assert covered(Path(__file__)) == []
