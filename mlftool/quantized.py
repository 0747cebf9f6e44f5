"""The quantised models of a manifest: each is made once for all entries, and kept with its report.

FOLDER/<model>/quantized.onnx    what the entries of the model compile
FOLDER/<model>/quantized.json    the report of `mlftool quantize`
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from mlftool.errors import MlfError, Problem
from mlftool.files import read_plain
from mlftool.frozen import frozen, replace
from mlftool.manifest import Manifest, Model
from mlftool.manifest.quantize import cost_target
from mlftool.stamps import Stamp

if TYPE_CHECKING:
    from onnx import ModelProto

    from mlftool.frontends.models import Source
    from mlftool.quantize.quantizer import Quantized

NAME, REPORT = "quantized.onnx", "quantized.json"


@frozen
class Accuracy:
    """What quantising `model` cost: the accuracy of the float model, and of the quantised one."""

    model: str
    metric: str
    before: float
    after: float


def quantized_model(
    manifest: Manifest, model: Model, folder: Path | None, compiler: str
) -> ModelProto:
    """What is compiled of a model with the key `quantize`. It is in `folder` then, unless that is
    None; if it is there and nothing that it is made of has changed, it is read. `compiler` is the
    digest of the compiler. Raises MlfError."""
    import onnx

    if folder is None:
        return _made(manifest, model).model
    from mlftool.mlf import make_folder, write_atomically
    from mlftool.quantize import report

    # Everything that decides it, so that a new target of the model is no new quantisation.
    asked = (model.quantize, model.optimize, model.input_shapes, model.input_values)
    settings = [compiler, quantized_for(manifest, model), *map(repr, asked)]
    source = (manifest.locate(model.model), [manifest.locate(f) for f in model.data_files])
    stamp = Stamp(folder, f"{model.name}/{NAME}", settings, [source], [_samples(manifest, model)])
    if stamp.holds() and (folder / model.name / REPORT).is_file():
        return onnx.load_model_from_string(read_plain(stamp.archive))
    before = stamp.before()
    made = _made(manifest, model)
    make_folder(folder / model.name)
    said = json.dumps({"schema_version": 1, **report.to_json(made)}, indent=2)
    write_atomically(folder / model.name / REPORT, f"{said}\n".encode())
    write_atomically(stamp.archive, made.model.SerializeToString(deterministic=True))
    stamp.write(before)
    return made.model


def has_reports(manifest: Manifest, names: Sequence[str], folder: Path) -> bool:
    """Whether those models that are quantised have theirs."""
    return all((folder / n / REPORT).is_file() for n in names if manifest.models[n].quantize)


def accuracies(manifest: Manifest, names: Sequence[str], folder: Path) -> Iterator[Accuracy]:
    """Of those models that are quantised, from the reports in `folder`."""
    for name in names:
        if manifest.models[name].quantize:
            with suppress(OSError, ValueError, KeyError, TypeError):  # a report that was edited
                said = json.loads(read_plain(folder / name / REPORT))
                values = float(said["accuracy_before"]), float(said["accuracy_after"])
                yield Accuracy(name, said["metric"], *values)


def quantized_for(manifest: Manifest, model: Model) -> str:
    """The built-in target whose costs decide how a model is quantised."""
    bases = [own.base if (own := manifest.targets.get(t)) else t for t in model.targets]
    return cost_target(bases)


@contextmanager
def named_by_file(sources: Mapping[Path, Source]) -> Iterator[None]:
    """What is wrong with a quantised model is said of the file that it is made of: in memory it is
    called by its graph's name. `sources` has what is compiled, by the file."""
    try:
        yield
    except MlfError as error:
        from mlftool.frontends.models import model_name

        found = {str(model_name(source)): str(file) for file, source in sources.items()}
        problems = [replace(p, file=found.get(p.file, p.file)) for p in error.problems]
        raise MlfError(problems, error.exit_code) from None


def in_manifest(manifest: Manifest, names: Sequence[str], problem: Problem) -> Problem:
    """What cannot be reached is asked for in the manifest, so its place is there."""
    for name in names if problem.code == "MLF0412" else ():
        at = f"models.{name}.quantize"
        if problem.file == str(manifest.locate(manifest.models[name].model)) and (
            at in manifest.places
        ):
            keys = (f"{at}.accuracy.at_least", f"{at}.budget.flash", at)
            path = next(key for key in keys if key in manifest.places)
            line, column = manifest.place(path)
            return replace(problem, file=str(manifest.file), line=line, column=column, path=path)
    return problem


def _samples(manifest: Manifest, model: Model) -> Path:
    assert model.quantize is not None
    return manifest.locate(model.quantize.data)


def _made(manifest: Manifest, model: Model) -> Quantized:
    from mlftool.frontends.given import with_values
    from mlftool.frontends.load import load_model
    from mlftool.quantize.quantizer import Request, quantized
    from mlftool.runtime.vectors import load_vectors

    file, samples, asked = manifest.locate(model.model), _samples(manifest, model), model.quantize
    assert asked is not None
    loaded = load_model(file, [manifest.locate(f) for f in model.data_files])
    given = with_values(loaded, model.input_values, model.input_shapes, str(file))
    request = Request(
        *(str(file), str(samples), quantized_for(manifest, model), asked.metric, asked.at_least),
        *(asked.flash, model.optimize),
        shapes=model.input_shapes,
        on_device=False,  # the simulation is the same numbers, and no compiler is needed
    )
    return quantized(given, load_vectors(samples), request)
