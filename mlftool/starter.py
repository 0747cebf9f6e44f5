"""A new project from a model: a manifest, test vectors with expected outputs, what to do next."""

from __future__ import annotations

import os
import shlex
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto
from onnx.reference import ReferenceEvaluator

from mlftool.codegen.names import module_name_of
from mlftool.compile import compile_modules
from mlftool.errors import MlfError, Problem, one_line
from mlftool.frontends.models import TFLite, opened
from mlftool.importer.given import with_values
from mlftool.importer.load import load_model
from mlftool.mlf import write_atomically
from mlftool.mlf.bundle import refused
from mlftool.mlf.interface import Tensor
from mlftool.module import ModuleSpec
from mlftool.runtime.compare import Comparison, compare
from mlftool.runtime.execute import Place, execute
from mlftool.runtime.interface import read_interface
from mlftool.runtime.vectors import Array, save_npz

SAMPLES = 4


@dataclass(frozen=True)
class Project:
    """What was written into `folder`: the model's name, the program whose outputs are expected,
    how this computer's compare with them, and the commands to go on with."""

    folder: Path
    name: str
    reference: str
    comparison: Comparison
    files: tuple[str, ...]
    commands: tuple[str, ...]


def start(folder: Path, spec: ModuleSpec, target: str) -> Project:
    """Writes a project whole or not at all. Raises MlfError, also if the folder is not empty."""
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        text = "is there already; a project starts in a new or an empty folder"
        raise MlfError(Problem("MLF0402", text, str(folder)))
    name = module_name_of(Path(str(spec.model)))
    bundle = compile_modules([spec])
    compile_modules(
        [replace(spec, target=target)]
    )  # before anything is written: whether it compiles
    interface = read_interface(bundle, spec.module_name, str(spec.model))
    model = _model(spec)
    inputs = _samples(interface.inputs)
    expected, reference = _expected(model, inputs, interface.results, str(spec.model))
    ran, _ = execute(bundle, interface, Place("host"), inputs)
    found = compare(ran.outputs, expected)
    vectors = {
        t.name: np.stack([s[t.name] for s in samples])
        for tensors, samples in ((interface.inputs, inputs), (interface.results, expected))
        for t in tensors
    }
    files: dict[str, bytes] = {
        f"{name}.onnx": model.SerializeToString(),
        "models.yaml": _manifest(name, spec, target).encode(),
        "BUILD.bazel": f'exports_files(["models.yaml", "{name}.onnx", "{name}.npz"])\n'.encode(),
    }
    commands = (
        f"cd {shlex.quote(str(folder))}",
        f"mlftool run {name}.onnx --on {target} --inputs {name}.npz --expect {name}.npz"
        + _shapes(spec),
    )
    files["README.md"] = _readme(name, commands[1]).encode()
    _write(folder, files, f"{name}.npz", vectors)
    made = tuple(sorted((*files, f"{name}.npz")))
    return Project(folder, name, reference, found, made, commands)


def _model(spec: ModuleSpec) -> ModelProto:
    """With its weights inside. Raises MlfError for a model that no reference computes."""
    source = opened(spec.model)
    if isinstance(source, TFLite):
        text = "expected outputs are computed from ONNX models; got TensorFlow Lite"
        hint = "write a manifest by hand: docs/tutorial.md"
        raise MlfError(Problem("MLF0405", text, source.name, help=hint))
    model = load_model(source, spec.data_files, spec.only_declared)
    return with_values(model, spec.input_values, spec.input_shapes, str(spec.model))


def _samples(tensors: Sequence[Tensor]) -> list[dict[str, Array]]:
    """Floats around 0, all values of 8-bit integers, and 0 and 1 for what may be an index."""
    random = np.random.default_rng(1)
    return [{t.name: _array(random, t) for t in tensors} for _ in range(SAMPLES)]


def _array(random: np.random.Generator, t: Tensor) -> Array:
    kind = np.dtype(t.dtype)
    if kind.kind == "f":
        made: Array = random.normal(size=t.shape).astype(kind)
    elif kind.kind in "iu" and kind.itemsize == 1:
        info = np.iinfo(kind)
        made = random.integers(info.min, info.max + 1, t.shape).astype(kind)
    elif kind.kind in "biu":
        made = random.integers(0, 2, t.shape).astype(kind)
    else:
        text = f"input '{t.name}' is {kind}: write the vectors by hand"
        raise MlfError(Problem("MLF0602", text))
    return made


def _expected(
    model: ModelProto, inputs: Sequence[Mapping[str, Array]], outputs: Sequence[Tensor], file: str
) -> tuple[list[dict[str, Array]], str]:
    """The outputs that onnxruntime gives, or without it those of onnx's own reference."""
    names = [t.name for t in outputs]
    try:
        try:
            import onnxruntime

            options = onnxruntime.SessionOptions()
            options.log_severity_level = 4
            session = onnxruntime.InferenceSession(model.SerializeToString(), options)
            by = f"onnxruntime {onnxruntime.__version__}"
        except ImportError:
            session, by = ReferenceEvaluator(model), "onnx's reference implementation"
        made = [session.run(names, dict(sample)) for sample in inputs]
    except Exception as error:  # of a library, in as many kinds as it has faults
        text = f"no reference computes it: {one_line(str(error).splitlines()[0])}"
        hint = "write a manifest by hand: docs/tutorial.md"
        raise MlfError(Problem("MLF0303", text, file, help=hint)) from None
    return [dict(zip(names, values, strict=True)) for values in made], by


def _manifest(name: str, spec: ModuleSpec, target: str) -> str:
    listed = ", ".join(f"{_quoted(n)}: {list(shape)}" for n, shape in spec.input_shapes.items())
    shapes = f"    input_shapes: {{{listed}}}\n" if listed else ""
    return (
        "# Every archive, library and test of this project; docs/manifest.md has all keys.\n"
        f"version: 1\nmodels:\n  {name}:\n    model: {name}.onnx\n"
        f"    targets: [{', '.join(dict.fromkeys(('host', target)))}]\n"
        + shapes
        + f"    test: {{vectors: {name}.npz}}\n"
    )


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _shapes(spec: ModuleSpec) -> str:
    given = (f"{n}:{','.join(map(str, s))}" for n, s in spec.input_shapes.items())
    return "".join(f" --input-shape {shlex.quote(text)}" for text in given)


def _readme(name: str, command: str) -> str:
    return f"""# {name}

    {command}
    mlftool build models.yaml                 # every archive, into build/
    mlftool profile models.yaml               # what each layer costs
    mlftool memmap models.yaml                # who is where in the working memory

`models.yaml` is the manifest, `{name}.npz` has inputs and the outputs that are expected.
"""


def _write(
    folder: Path, files: Mapping[str, bytes], vectors: str, arrays: Mapping[str, Any]
) -> None:
    """All files at once: into a folder beside it, which then takes its name."""
    with refused("cannot be written", folder):
        folder.absolute().parent.mkdir(parents=True, exist_ok=True)
        made = Path(tempfile.mkdtemp(prefix=f".{folder.name[:100]}.", dir=folder.absolute().parent))
        try:
            made.chmod(0o777 & ~_umask())
            for name, data in files.items():
                write_atomically(made / name, data)
            save_npz(made / vectors, arrays)
            made.replace(folder)  # an empty folder gives way
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
