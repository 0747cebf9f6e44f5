"""Every key of a manifest, once: validator, JSON Schema and reference page all read this table.

To add a key, add a field here. The classes are also what `load` returns.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mlftool.errors import did_you_mean
from mlftool.frozen import field, frozen, replace
from mlftool.keywords import KEYWORDS
from mlftool.manifest import known
from mlftool.manifest.boards import USER_TARGET, UserTarget
from mlftool.manifest.kinds import (
    NAME,
    Constant,
    File,
    Integer,
    Number,
    Numbers,
    OneOf,
    Reading,
    Size,
    Text,
)
from mlftool.manifest.matrix import Matrix
from mlftool.manifest.nodes import TOP, Place
from mlftool.manifest.quantize import QUANTIZE, Quantize
from mlftool.manifest.records import ListOf, MapOf, OneOrMany, Record, Shape, key
from mlftool.manifest.targets import ForBazel
from mlftool.manifest.together import check_together
from mlftool.options import CompilerOptions

MAX_ELEMENTS = (1 << 31) - 1

_ENTRY_NAME = Text(
    "a name of at most 63 lower-case letters, digits, '-' and '_', beginning with a letter",
    NAME,
    code="MLF0110",
)
_MODULE_NAME = Text(
    "a C identifier of at most 63 lower-case letters, digits and '_' that is not a keyword",
    r"[a-z_][a-z0-9_]{0,62}",
    code="MLF0110",
    reserved=KEYWORDS,
)
_TENSOR_NAME = Text("the name of an input of the model", r"[\s\S]+", code="MLF0110")

_TARGET = OneOf("a target", known.targets, "MLF0112", section="targets")
_EXECUTOR = OneOf("an executor", known.executors, "MLF0113")
_MODEL = OneOf("a model of this manifest", lambda: (), "MLF0114", section="models")


def _names(item: OneOf, expected: str) -> ListOf:
    return ListOf(item, expected, minimum=1, unique=True)


_TARGETS = OneOrMany(_names(_TARGET, "a list of targets"))
_EXECUTORS = OneOrMany(_names(_EXECUTOR, "a list of executors"))
_SHAPE = Shape(
    ListOf(Integer(1, MAX_ELEMENTS), "a list of whole numbers such as [1, 3, 32, 32]", maximum=8),
    MAX_ELEMENTS,
)


@frozen(kw_only=True)
class Test:
    """Input tensors with the outputs they must give, and how far off these may be.

    An output passes where |got - expected| <= absolute + relative x |expected|.
    """

    vectors: str = key(
        File((".npz",)),
        "NumPy archive with the model's inputs and expected outputs, under the names the model "
        "gives them; each has the tensor's shape, or one more leading axis that counts samples. A "
        "first axis of extent 1 may count them itself.",
        example="kws.npz",
    )
    absolute: float | None = key(
        Number(),
        "Largest error that passes, plus `relative` times the expected value; `0` alone means "
        "equal.",
        example="1e-5",
        default=None,
        default_text="`0` with `relative`, else by the data type: `1e-9` for float64, `1e-5` for "
        "float32, `1e-3` for float16, `1e-2` for bfloat16, `0` for others",
    )
    relative: float | None = key(
        Number(),
        "Largest error as a share of the expected value that passes, plus `absolute`.",
        example="1e-5",
        default=None,
        default_text="`0` with `absolute`, else by the data type, as for `absolute`",
    )


@frozen(kw_only=True)
class TestDefaults:
    """Defaults for tests of models."""

    vectors: str | None = key(
        File((".npz",)),
        "Test vectors of models without `test`.",
        example="kws.npz",
        default=None,
        default_text="no test",
    )
    absolute: float | None = key(
        Number(),
        "`absolute` of tests that set neither it nor `relative`.",
        example="1e-5",
        default=None,
        default_text="by the data type",
    )
    relative: float | None = key(
        Number(),
        "`relative` of tests that set neither it nor `absolute`.",
        example="1e-5",
        default=None,
        default_text="by the data type",
    )


@frozen(kw_only=True)
class Limits:
    """The most memory a model may take, in bytes."""

    flash: int | None = key(
        Size(),
        "Code, constants and weights.",
        example="64KiB",
        default=None,
        default_text="no limit",
    )
    ram: int | None = key(
        Size(),
        "Working memory, inputs, outputs and states. If the usual plan takes more, the compiler "
        "searches for one that fits.",
        example="16KiB",
        default=None,
        default_text="no limit",
    )


@frozen(kw_only=True)
class Budget(Limits):
    """The most memory a model may take, and limits for single targets."""

    targets: Mapping[str, Limits] = key(
        MapOf(
            _ENTRY_NAME,
            Record(Limits, "limits of a target", any_of=("flash", "ram")),
            "a mapping from targets of the model to their limits",
        ),
        "Limits for single targets, instead of those above.",
        example="{cortex-m0: {flash: 32KiB}}",
        default={},
        default_text="the same for all targets",
    )

    def limit(self, target: str, name: str) -> tuple[int | None, str]:
        """The limit of `flash` or `ram` on a target, and the keys that say it."""
        own = getattr(self.targets.get(target), name, None)
        if own is not None:
            return own, f"targets.{target}.{name}"
        common: int | None = getattr(self, name)
        return common, name


@frozen(kw_only=True)
class Defaults:
    """Defaults for models and archives."""

    targets: tuple[str, ...] = key(
        _TARGETS,
        "The targets of models without `targets`.",
        example="[host, cortex-m4]",
        default=("host",),
        default_text="`host`",
    )
    executors: tuple[str, ...] = key(
        _EXECUTORS,
        "The executors of models without `executor`; an archive uses the first.",
        example="aot",
        default=("aot",),
        default_text="`aot`",
        yaml="executor",
    )
    test: TestDefaults | None = key(
        Record(TestDefaults, "defaults of tests", any_of=("vectors", "absolute", "relative")),
        "Defaults for tests.",
        default=None,
        default_text="nothing",
    )
    budget: Budget | None = key(
        Record(Budget, "a budget", any_of=("flash", "ram", "targets")),
        "The budget of models without `budget`.",
        default=None,
        default_text="no limit",
    )


@frozen(kw_only=True)
class Named:
    """The model, and its targets."""

    name: str
    model: str = key(
        File((".onnx", ".tflite")), "The ONNX or TensorFlow Lite file.", example="kws.onnx"
    )
    module_name: str = key(
        _MODULE_NAME,
        "The name in the generated C: the model runs as `tvmgen_<module_name>_run`. It must be "
        "unique, so that any models can be linked into one program.",
        example="kws",
        default="",
        default_text="the model's name, with `-` as `_`",
    )
    targets: tuple[str, ...] = key(
        _TARGETS,
        "The targets to compile the model for: one or a list.",
        example="[host, cortex-m4]",
        default=(),
        default_text="`defaults.targets`",
    )
    executors: tuple[str, ...] = key(
        _EXECUTORS,
        "How the generated program runs the model: one executor or a list.",
        example="aot",
        default=(),
        default_text="`defaults.executor`",
        yaml="executor",
    )


@frozen(kw_only=True)
class Model(ForBazel, CompilerOptions, Named):
    """One ONNX model and everything to build from it.

    Its keys are those of Named, the compiler's options, those for Bazel, and these.
    """

    input_shapes: Mapping[str, tuple[int, ...]] = key(
        MapOf(_TENSOR_NAME, _SHAPE, "a mapping from input names to shapes"),
        "Shapes for inputs with open extents in the ONNX file; for an inner tensor whose shape is "
        "computed, its largest shape.",
        example="{image: [1, 3, 32, 32]}",
        default={},
        default_text="the shapes in the file",
    )
    input_values: Mapping[str, tuple[int | float, ...]] = key(
        MapOf(_TENSOR_NAME, Numbers(), "a mapping from input names to numbers"),
        "Inputs to turn into constants, such as a sampling rate: one number for all elements, or "
        "one for each. The application does not pass them.",
        example="{sr: 16000}",
        default={},
        default_text="none",
    )
    data_files: tuple[str, ...] = key(
        ListOf(File(), "a list of files at or below the manifest's folder", 1, unique=True),
        "The external data files of the ONNX model. Bazel needs this list; without Bazel they are "
        "found in the model's folder, unless they are links.",
        example="[kws.onnx.data]",
        default=(),
        default_text="none",
    )
    backend_files: tuple[str, ...] = key(
        ListOf(File((".py",)), "a list of Python files", 1, unique=True),
        "Python files that define backends for `backends`. mlftool runs them when it compiles the "
        "model.",
        example="[npu/backend.py]",
        default=(),
        default_text="none",
    )
    tuning: str | None = key(
        File((".json",)),
        "A record of `mlftool tune`, which chooses kernels by counting instructions. Targets that "
        "are not in it are compiled as if there were no record. For `optimize: speed` without "
        "`patches` and `ram_budget`.",
        example="kws.tuning.json",
        default=None,
        default_text="none",
    )
    quantize: Quantize | None = key(
        QUANTIZE,
        "Quantises the float model before it is compiled, as `mlftool quantize` does "
        "(docs/quantize.md). Costs are those of the first target that is not the host.",
        example="{data: train_sample.npz, accuracy: {metric: top1, at_least: 97%}}",
        default=None,
        default_text="the model as it is",
    )
    test: Test | None = key(
        Record(Test, "a test"),
        "Test vectors to check the built model with.",
        default=None,
        default_text="`defaults.test`, if that has `vectors`",
    )
    budget: Budget | None = key(
        Record(Budget, "a budget", any_of=("flash", "ram", "targets")),
        "The limit for the model's memory.",
        default=None,
        default_text="`defaults.budget`",
    )
    matrix: None = key(
        Matrix(),
        "Options of the compiler and their values: the entry becomes one model for each "
        "combination, at most 64, named `<name>-<value>` in lower case, with a value of `true` or "
        "`false` as `<option>` or `no-<option>` and a number as `<option>-<number>`.",
        example="{optimize: [speed, size]}",
        default=None,
        default_text="one model",
    )

    @property
    def files(self) -> tuple[str, ...]:
        """All that are named."""
        named = [self.model, *self.data_files, self.test.vectors if self.test else None]
        named += [self.tuning, *self.backend_files, self.quantize.data if self.quantize else None]
        return tuple(dict.fromkeys(name for name in named if name))


@frozen(kw_only=True)
class Archive:
    """Several models in one Model Library Format archive, for one target."""

    name: str
    models: tuple[str, ...] = key(
        _names(_MODEL, "a list of models of this manifest"),
        "The models in the archive, by their names in `models`.",
        example="[kws, vww]",
    )
    target: str = key(_TARGET, "The target of the archive.", example="cortex-m4")
    executor: str = key(
        _EXECUTOR,
        "How the generated programs run the models.",
        example="aot",
        default="",
        default_text="the first executor of each model",
    )


def _finish_defaults(values: dict[str, Any], path: str, reading: Reading) -> None:
    reading.inherited.update(values)


def _inherit_checks(values: dict[str, Any], path: str, reading: Reading) -> None:
    """The test and budget of `defaults`, where the model has none of its own."""
    common, own = reading.inherited.get("test"), values.get("test")
    if common and common.vectors and f"{path}.test" not in reading.places:
        values["test"] = Test(**vars(common))
    elif common and own and own.absolute is None and own.relative is None:
        values["test"] = replace(own, absolute=common.absolute, relative=common.relative)
    if "budget" not in values and f"{path}.budget" not in reading.places:
        if reading.inherited.get("budget"):
            values["budget"] = reading.inherited["budget"]
        return
    for target in values["budget"].targets if values.get("budget") else ():
        if target not in values.get("targets", ()):
            place = f"{path}.budget.targets.{target}"
            message = f"not a target of the model; got '{target}', expected one of its targets"
            hint = did_you_mean(target, values.get("targets", ()))
            reading.report("MLF0112", reading.places[place], message, hint, place)


def _finish_model(values: dict[str, Any], path: str, reading: Reading) -> None:
    values["name"] = name = path.split(".", 1)[1]
    for attribute in ("targets", "executors"):
        values.setdefault(attribute, reading.inherited[attribute])
    _inherit_checks(values, path, reading)
    check_together(values, path, reading)
    at = f"{path}.module_name" if f"{path}.module_name" in reading.places else path
    if at == path:
        values["module_name"] = name.replace("-", "_")
    module = values.get("module_name")
    owner = reading.modules.setdefault(module, path) if module else path
    if owner != path:
        message = f"module name taken; got '{module}', expected a name other than that of {owner}"
        reading.report("MLF0111", reading.places[at], message, "set module_name", at)
    elif at == path and module in KEYWORDS:
        message = f"not a module name; got '{module}', expected {_MODULE_NAME.expected}"
        reading.report("MLF0110", reading.places[at], message, "set module_name", path)


def _finish_archive(values: dict[str, Any], path: str, reading: Reading) -> None:
    values["name"] = name = path.split(".", 1)[1]
    if name in (reading.declared["models"] or ()):
        message = f"name taken; got '{name}', expected a name other than that of models.{name}"
        reading.report("MLF0111", reading.places[path], message, path=path)


MODEL = Record(Model, "a model", _finish_model)
ARCHIVE = Record(Archive, "an archive", _finish_archive)


@frozen(kw_only=True)
class Manifest:
    """A whole manifest, checked, with defaults applied."""

    file: Path
    version: int = key(Constant(1, "MLF0117"), "The version of this format.", example="1")
    defaults: Defaults = key(
        Record(Defaults, "defaults", _finish_defaults),
        "Defaults for models and archives.",
        default=Defaults(),
        default_text="see there",
    )
    models: Mapping[str, Model] = key(
        MapOf(_ENTRY_NAME, MODEL, "a mapping from names to models", minimum=1),
        "The models, by name.",
    )
    archives: Mapping[str, Archive] = key(
        MapOf(_ENTRY_NAME, ARCHIVE, "a mapping from names to archives"),
        "Archives that hold several models, by name.",
        default={},
        default_text="none",
    )
    targets: Mapping[str, UserTarget] = key(
        MapOf(_ENTRY_NAME, USER_TARGET, "a mapping from names to targets"),
        "Your own boards, by name.",
        default={},
        default_text="none",
    )
    places: Mapping[str, Place] = field(default_factory=dict, repr=False, compare=False)

    def locate(self, path: str) -> Path:
        """The file that the manifest calls `path`."""
        return self.file.parent / path

    def place(self, path: str) -> Place:
        """Where the value of key path `path` stands: there, or else at what encloses it."""
        while path and path not in self.places:
            path = path.rpartition(".")[0]
        return self.places.get(path, TOP)


MANIFEST = Record(Manifest, "a manifest")
