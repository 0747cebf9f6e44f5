"""A new project from a model: a manifest, test vectors with expected outputs, what to do next."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto
from onnx.helper import make_node, make_tensor_value_info
from onnx.reference import ReferenceEvaluator
from onnx.reference.ops import op_dequantize_linear

from mlftool.codegen.names import module_name_of
from mlftool.compile import compile_modules
from mlftool.errors import MlfError, Problem, one_line
from mlftool.frontends.given import with_values
from mlftool.frontends.load import load_model
from mlftool.frontends.models import TFLite, opened
from mlftool.frozen import frozen, replace
from mlftool.mlf import write_atomically
from mlftool.mlf.bundle import new_folder
from mlftool.mlf.interface import Tensor
from mlftool.module import ModuleSpec
from mlftool.quantize.reference import imported, session_of
from mlftool.runtime.compare import Comparison, compare
from mlftool.runtime.execute import Place, execute
from mlftool.runtime.fill import filled
from mlftool.runtime.interface import read_interface
from mlftool.runtime.vectors import Array, save_npz, slots
from mlftool.workspace import workspace_files

SAMPLES = 4
UNCHECKED = "mlftool on this computer"  # which the project's other targets are compared with
REFERENCE = "onnx's reference implementation"


@frozen
class Project:
    """What was written into `folder`: the model's name, the program whose outputs are expected,
    how this computer's compare with them, and the commands to go on with."""

    folder: Path
    name: str
    reference: str
    comparison: Comparison
    files: tuple[str, ...]
    commands: tuple[str, ...]


def start(
    folder: Path,
    spec: ModuleSpec,
    target: str,
    rules: Path | None,
    tell: Callable[[Project], None],
) -> None:
    """Tells of a project and writes it, whole or not at all; with mlftool's sources, whose rules it
    uses, as a Bazel workspace. Raises MlfError, also if the folder is not empty."""
    if os.path.lexists(folder) and (not folder.is_dir() or any(folder.iterdir())):
        text = "is there already; a project starts in a new or an empty folder"
        hint = f"mlftool init DIR --model {shlex.quote(str(spec.model))}"
        raise MlfError(Problem("MLF0402", text, str(folder), help=hint))
    name = module_name_of(Path(str(spec.model)))
    bazel = workspace_files(name, rules) if rules else {}
    bundle = compile_modules([spec])
    compile_modules([replace(spec, target=target)])  # whether it compiles, before all is written
    interface = read_interface(bundle, spec.module_name, str(spec.model))
    model = _model(spec)
    random = np.random.default_rng(1)
    inputs = [filled(interface.inputs, "random", random) for _ in range(SAMPLES)]
    ran, _ = execute(bundle, interface, Place("host"), inputs)
    found, expected, reference = _nearest(
        ran.outputs, _expected(model, inputs, interface.results, str(spec.model))
    )
    vectors = {
        t.name: np.stack([s[t.name] for s in samples])
        for tensors, samples in ((interface.inputs, inputs), (interface.results, expected))
        for t in tensors
    }
    data = model.data if isinstance(model, TFLite) else model.SerializeToString()
    copy = name + (".tflite" if isinstance(model, TFLite) else ".onnx")
    files: dict[str, bytes] = {
        copy: data,
        "models.yaml": _manifest(name, copy, spec, target).encode(),
        "BUILD.bazel": f'exports_files(["models.yaml", "{copy}", "{name}.npz"])\n'.encode(),
    }
    commands: tuple[str, ...] = (
        f"cd {shlex.quote(str(folder))}",
        f"mlftool run {copy} --on {target} --inputs {name}.npz --expect {name}.npz" + _shapes(spec),
        *(("bazel test @models//...",) if bazel else ()),
    )
    files |= {**bazel, "README.md": _readme(name, commands[1], bool(bazel)).encode()}
    with _new(folder, files, f"{name}.npz", vectors):
        made = tuple(sorted((*files, f"{name}.npz")))
        tell(Project(folder, name, reference, found, made, commands))


def _model(spec: ModuleSpec) -> ModelProto | TFLite:
    """With its weights and the inputs that are given inside. Raises MlfError where they cannot
    be."""
    source = opened(spec.model)
    if isinstance(source, TFLite):
        if spec.input_values:
            text = "--input-value is for ONNX models where a project starts"
            hint = "leave it out, and set input_values in the new models.yaml"
            raise MlfError(Problem("MLF0405", text, source.name, help=hint))
        return source
    model = load_model(source, spec.data_files, spec.only_declared)
    return with_values(model, spec.input_values, spec.input_shapes, str(spec.model))


_Outputs = Sequence[Mapping[str, Array]]


def _nearest(
    outputs: _Outputs, references: Iterator[tuple[_Outputs, str]]
) -> tuple[Comparison, _Outputs, str]:
    """The first reference that these outputs agree with, or that with the fewest differences."""
    best: tuple[Comparison, _Outputs, str] | None = None
    for values, by in references:
        expected = values or outputs
        found = compare(outputs, expected)
        if best is None or found.mismatches < best[0].mismatches:
            best = found, expected, by
        if found.passed:
            break
    assert best is not None
    return best


def _expected(
    model: ModelProto | TFLite,
    inputs: _Outputs,
    outputs: Sequence[Tensor],
    file: str,
) -> Iterator[tuple[list[dict[str, Array]], str]]:
    """The outputs that onnxruntime gives, or without it those of onnx's own reference. None for
    TensorFlow Lite, whose interpreter is no package that we ask for. Raises MlfError."""
    if isinstance(model, TFLite):
        yield [], UNCHECKED
        return
    names = [t.name for t in outputs]
    try:
        for session, by in _sessions(_without_maps(model)):
            made = [session.run(names, dict(sample)) for sample in inputs]
            stored = [
                {t.name: slots(np.asarray(v), t) for t, v in zip(outputs, values, strict=True)}
                for values in made
            ]
            yield stored, by
    except Exception as error:  # of a library, in as many kinds as it has faults
        # onnx ends its first line with "in", and lists all operators after it.
        text = str(error).partition("\n")[0].removesuffix(" in")
        hint = "write a manifest by hand: docs/tutorial.md"
        if "onnxruntime" not in sys.modules:  # newer than what onnx's own reference knows
            hint = "onnxruntime computes more: pip install onnxruntime"
        problem = Problem("MLF0303", f"no reference computes it: {one_line(text)}", file, help=hint)
        raise MlfError(problem) from None


def _sessions(model: ModelProto) -> Iterator[tuple[Any, str]]:
    """onnxruntime as it is by default, where tables of its own take the place of some int8 layers,
    such as Softmax, and are off by one; and without optimisations, as the standard computes."""
    try:
        onnxruntime = imported()
        by = f"onnxruntime {onnxruntime.__version__}"
        yield session_of(model, lambda options: None), by
    except ImportError:
        yield _reference(model), REFERENCE
        return
    none = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    plain = session_of(model, lambda options: setattr(options, "graph_optimization_level", none))
    yield plain, f"{by} without optimisations"


def _without_maps(model: ModelProto) -> ModelProto:
    """The model whose outputs are rows of scores where ZipMap makes maps of them, as on a device;
    onnx's own reference has no ZipMap."""
    if all(node.op_type != "ZipMap" for node in model.graph.node):
        return model
    plain = ModelProto()
    plain.CopyFrom(model)
    rows = set()
    for node in plain.graph.node:
        if (node.domain, node.op_type) == ("ai.onnx.ml", "ZipMap"):
            rows |= set(node.output)
            node.CopyFrom(make_node("Identity", node.input, node.output, node.name))
    for output in plain.graph.output:
        if output.name in rows:
            output.CopyFrom(make_tensor_value_info(output.name, TensorProto.FLOAT, None))
    return plain


def _reference(model: ModelProto) -> ReferenceEvaluator:
    """It has no DequantizeLinear of before opset 19, which is the newest for all that those models
    can say."""
    name = "DequantizeLinear"
    made = {k: v for k, v in vars(op_dequantize_linear).items() if k.startswith(f"{name}_")}
    newest = made[max(made, key=lambda k: int(k.rpartition("_")[2]))]
    return ReferenceEvaluator(model, new_ops=[type(name, (newest,), {"op_domain": ""})])


def _manifest(name: str, model: str, spec: ModuleSpec, target: str) -> str:
    listed = ", ".join(f"{_quoted(n)}: {list(shape)}" for n, shape in spec.input_shapes.items())
    shapes = f"    input_shapes: {{{listed}}}\n" if listed else ""
    return (
        "# Every archive, library and test of this project; docs/manifest.md has all keys.\n"
        f"version: 1\nmodels:\n  {name}:\n    model: {model}\n"
        f"    targets: [{', '.join(dict.fromkeys(('host', target)))}]\n"
        + shapes
        + f"    test: {{vectors: {name}.npz}}\n"
    )


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _shapes(spec: ModuleSpec) -> str:
    given = (f"{n}:{','.join(map(str, s))}" for n, s in spec.input_shapes.items())
    return "".join(f" --input-shape {shlex.quote(text)}" for text in given)


def _readme(name: str, command: str, has_rules: bool) -> str:
    bazel = "bazel test @models//...                   # the same and more, by Bazel's rules"
    if not has_rules:
        bazel = "mlftool init --help                       # --workspace: for Bazel, too"
    return f"""# {name}

    {command}
    mlftool build models.yaml                 # every archive, into build/
    mlftool profile models.yaml               # what each layer costs
    mlftool memmap models.yaml                # which tensor is where in RAM
    {bazel}

`models.yaml` is the manifest, `{name}.npz` has inputs and expected outputs.
"""


@contextmanager
def _new(
    folder: Path, files: Mapping[str, bytes], vectors: str, arrays: Mapping[str, Any]
) -> Iterator[None]:
    """All files at once, after what is done within."""
    with new_folder(folder) as made:
        for name, data in files.items():
            write_atomically(made / name, data)
        save_npz(made / vectors, arrays)
        yield
