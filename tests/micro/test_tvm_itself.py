"""TVM's own host with our firmware, and our host with firmware that has TVM's own C runtime.

No registry has TVM with microTVM. MLFTOOL_TVM_PYTHON is a Python that imports TVM 0.10 to 0.18, of
which the runtime is enough; MLFTOOL_TVM_BUILD is the folder in which `make tvm_runtime
standalone_crt` built it, with USE_MICRO. docs/rpc.md says which versions this was done with.
"""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import numpy as np
import pytest
from shared import REPO

from mlftool.cli import main
from mlftool.micro import Session, create_aot_executor, create_local_graph_executor
from mlftool.micro.transport import ProcessTransport

DIGITS = REPO / "examples/models/digits_int8"
SAMPLES = 20

pytestmark = pytest.mark.skipif(
    not {"MLFTOOL_TVM_PYTHON", "MLFTOOL_TVM_BUILD"} <= {*os.environ},
    reason="an outside check: MLFTOOL_TVM_PYTHON imports tvm, MLFTOOL_TVM_BUILD is its build",
)

# tvm.micro needs Relay, which a TVM without its compiler does not have, to write archives. A host
# writes none.
DRIVE = """
import sys, types
import numpy as np
import tvm
for name in ("tvm.micro", "tvm.relay", "tvm.micro.model_library_format"):
    sys.modules[name] = types.ModuleType(name)
sys.modules["tvm.micro"].__path__ = [tvm.__path__[0] + "/micro"]
sys.modules["tvm.relay"].param_dict = None
written = sys.modules["tvm.micro.model_library_format"]
written.ExportableModule, written.export_model_library_format = object, None
from tvm.micro import project, session

folder, kind, graph, params, vectors = sys.argv[1:]
made = project.GeneratedProject.from_directory(folder, {})
made.build()
made.flash()
images = np.load(vectors)["image"]
with session.Session(made.transport()) as s:
    if kind == "aot":
        module = session.create_local_aot_executor(s)
    else:
        text = open(graph).read()
        module = session.create_local_graph_executor(text, s.get_system_lib(), s.device)
        module.load_params(open(params, "rb").read())
    outputs = []
    for image in images:
        module.set_input("image", tvm.nd.array(image))
        module.run()
        outputs.append(module.get_output(0).numpy())
    if kind == "aot":
        assert module.module.time_evaluator("run", s.device, number=2, repeat=2)().mean > 0
np.save(folder + "/outputs.npy", np.stack(outputs))
"""


def tvm(*arguments: object) -> None:
    command = [os.environ["MLFTOOL_TVM_PYTHON"], "-c", DRIVE, *map(str, arguments)]
    environment = {**os.environ, "TVM_LIBRARY_PATH": os.environ["MLFTOOL_TVM_BUILD"]}
    environment.pop("PYTHONPATH", None)
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


@pytest.fixture(scope="module")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, np.ndarray]:
    """The inputs of a few samples, as a file, and what onnxruntime's outputs are."""
    path = tmp_path_factory.mktemp("vectors") / "few.npz"
    with np.load(f"{DIGITS}.npz") as all_of_them:
        images, expected = (all_of_them[n][:SAMPLES] for n in ("image", "probability"))
    np.savez(path, image=images)
    return path, expected


@pytest.fixture(params=["aot", "graph"])
def archive(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path]:
    """The executor, and an archive named as TVM's hosts expect it."""
    kind, tar = str(request.param), tmp_path / "digits.tar"
    words = ["--executor", kind, "--module-name", "default", "--runtime-crt-system-lib", "1"]
    words += ["--interface-api", "packed"] if kind == "aot" else []
    assert main(["compile", f"{DIGITS}.onnx", "-o", str(tar), *words]) == 0
    return kind, tar


def member(tar: Path, suffix: str) -> bytes:
    """A file of the archive by how its name ends; nothing if there is none."""
    with tarfile.open(tar) as files:
        names = [n for n in files.getnames() if n.endswith(suffix)]
        stream = files.extractfile(names[0]) if names else io.BytesIO()
        assert stream
        return stream.read()


def test_tvms_host_drives_our_firmware(
    archive: tuple[str, Path], vectors: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    (kind, tar), (samples, expected) = archive, vectors
    folder, graph, params = tmp_path / "project", tmp_path / "graph", tmp_path / "params"
    assert main(["micro", "create", str(folder), str(tar), "host"]) == 0
    graph.write_bytes(member(tar, "default.graph"))
    params.write_bytes(member(tar, ".params"))
    tvm(folder, kind, graph, params, samples)
    np.testing.assert_array_equal(np.load(folder / "outputs.npy"), expected)


def generate(folder: Path, tar: Path) -> None:
    """What TVM's template for this computer makes, whose server needs all of TVM. It has no folder
    for headers of a model."""
    build = Path(os.environ["MLFTOOL_TVM_BUILD"])
    template = build / "microtvm_template_projects/crt"
    for name in ("src", "crt_config"):
        shutil.copytree(template / name, folder / name)
    shutil.copytree(build / "standalone_crt", folder / "crt")
    with tarfile.open(tar) as files:
        files.extractall(folder / "model")  # an archive of our own
    shutil.copytree(folder / "model/codegen/host/include", folder / "include")
    size = "target_compile_definitions(main PUBLIC -DTVM_WORKSPACE_SIZE_BYTES=2097152)\n"
    lists = (template / "CMakeLists.txt.template").read_text() + size
    (folder / "CMakeLists.txt").write_text(lists)


def test_our_host_drives_tvms_firmware(
    archive: tuple[str, Path], vectors: tuple[Path, np.ndarray], tmp_path: Path
) -> None:
    (kind, tar), (samples, expected) = archive, vectors
    folder = tmp_path / "project"
    generate(folder, tar)
    for words in (["cmake", "-S", ".", "-B", "build"], ["cmake", "--build", "build"]):
        subprocess.run(words, cwd=folder, check=True, capture_output=True)
    with Session(ProcessTransport([folder / "build/main"])) as session:
        if kind == "aot":
            module = create_aot_executor(session)
        else:
            text, library = member(tar, "default.graph").decode(), session.get_system_lib()
            module = create_local_graph_executor(text, library, session.device)
            module.load_params(member(tar, ".params"))
        with np.load(samples) as given:
            for image, wanted in zip(given["image"], expected, strict=True):
                module.set_input("image", image)
                module.run()
                np.testing.assert_array_equal(module.get_output(0).numpy(), wanted)
