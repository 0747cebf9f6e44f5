"""A network from its archive alone, by both executors, gives the same bits on every machine."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from crt_build import CRT, ROOT
from machines import BY_NAME, Machine

from mlftool.compile import ModuleSpec, compile_modules

MODELS = ROOT / "examples/models"
SAMPLES = 12
FORMS = {
    "graph": ModuleSpec(MODELS / "digits_int8.onnx", "digits", executor="graph", system_lib=True),
    "aot": ModuleSpec(
        MODELS / "digits_int8.onnx", "digits", interface_api="packed", system_lib=True
    ),
}
SOURCES = ("codegen/host/src/*.c", "runtime/src/runtime/crt/*/*.c")
WORKSPACE = "-DTVM_WORKSPACE_SIZE_BYTES=65536"


@dataclass(frozen=True)
class Unpacked:
    folder: Path
    expected: bytes

    def arguments(self, outputs: str) -> list[str]:
        """Of archive_client, which runs in the folder: a board has little room for long names."""
        files = sorted(self.folder.glob("executor-config/graph/*.graph"))
        files += sorted(self.folder.glob("parameters/*.params")) if files else []
        return ["inputs", outputs, *(str(file.relative_to(self.folder)) for file in files)]

    def sources(self) -> list[str]:
        own = sorted(path for pattern in SOURCES for path in self.folder.glob(pattern))
        client = [ROOT / "tests/crt/archive_client.c", self.folder / "app/platform.c"]
        return [str(path) for path in (*own, *client)]

    def flags(self) -> list[str]:
        includes = ("codegen/host/include", "runtime/include", "app")
        mine = [f"-I{self.folder / name}" for name in includes]
        return ["-std=c99", "-O1", "-ffp-contract=off", WORKSPACE, *mine, f"-I{CRT / 'platform'}"]


@pytest.fixture(scope="module", params=FORMS)
def unpacked(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Unpacked:
    folder = tmp_path_factory.mktemp(request.param)
    for name, data in compile_modules([FORMS[request.param]]).files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    (folder / "app").mkdir()
    for name in ("crt_config.h", "platform.c"):
        text = (folder / f"templates/{name}.template").read_text()
        (folder / "app" / name).write_text(text)
    with np.load(MODELS / "digits_int8.npz") as vectors:
        (folder / "inputs").write_bytes(vectors["image"][:SAMPLES].tobytes())
        return Unpacked(folder, vectors["probability"][:SAMPLES].tobytes())


# Sanitizers see most where nothing is optimised; the other machines run what is. Without SSE an x86
# computes floats with more bits than a float has, which the headers refuse.
EXTRA = {"x86-64": ["-O0"], "i386": ["-msse2", "-mfpmath=sse"]}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("machine", ["x86-64", "i386", "powerpc"])
def test_archive_runs(machine: str, unpacked: Unpacked) -> None:
    m: Machine = BY_NAME[machine]
    m.need()
    assert m.run is not None
    program = unpacked.folder / f"client-{machine}"
    command = [*m.command, *unpacked.flags(), *m.flags, *EXTRA.get(machine, [])]
    command += [*unpacked.sources(), str(CRT / "platform/host/platform.c")]
    subprocess.run([*command, "-o", program, "-lm"], check=True)
    arguments = unpacked.arguments("outputs")
    done = subprocess.run(
        [*m.run, program, *arguments],
        cwd=unpacked.folder, capture_output=True, text=True, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (unpacked.folder / "outputs").read_bytes() == unpacked.expected


@pytest.mark.skipif(not shutil.which("qemu-system-arm"), reason="apt-get install qemu-system-arm")
def test_archive_runs_on_a_cortex_m4(unpacked: Unpacked) -> None:
    m = BY_NAME["cortex-m4"]
    m.need()
    boards = CRT / "boards"
    program = unpacked.folder / "client.elf"
    command = [*m.command, *unpacked.flags(), "--specs=nosys.specs", "-ffunction-sections"]
    command += ["-fdata-sections", "-Wl,--gc-sections", "-nostartfiles", f"-L{boards}"]
    command += unpacked.sources()
    for folder in ("mps2_an386", "cortex_m", "common"):
        command += [f"-I{boards / folder}", *map(str, sorted((boards / folder).glob("*.c")))]
    command += ["-T", str(boards / "mps2_an386/link.ld"), "-o", str(program), "-lm"]
    subprocess.run(command, check=True, capture_output=True)
    words = ["client", *unpacked.arguments("outputs")]
    console = ",".join(("enable=on,target=native,chardev=console", *(f"arg={w}" for w in words)))
    qemu = ["qemu-system-arm", "-machine", "mps2-an386", "-display", "none", "-monitor", "none"]
    qemu += ["-serial", "none", "-chardev", "stdio,id=console", "-semihosting-config", console]
    done = subprocess.run(
        [*qemu, "-kernel", program],
        cwd=unpacked.folder, capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (unpacked.folder / "outputs").read_bytes() == unpacked.expected
