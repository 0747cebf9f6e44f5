"""The compiler's options, each defined once.

`ModuleSpec`, manifests, the command line and the Bazel rules all have these, under one name. To add
one, add a field to `CompilerOptions` and run `tools/options_bzl.py`. Its record also says how it is
obeyed, by features that kernels ask for or by what it refuses; only an option that changes how a
stage works is read elsewhere, by that stage.
Imports the standard library only: manifests are read before any package has been fetched.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

from mlftool.errors import Problem
from mlftool.frozen import field, frozen, replace
from mlftool.sizes import SIZE
from mlftool.targets.pools import EXPECTED, PATTERN
from mlftool.version import FORMATS

# Each is a file of this folder, which has all other facts about it.
EXECUTORS = tuple(
    sorted(
        file.stem
        for file in (Path(__file__).parent / "codegen" / "executors").glob("*.py")
        if file.stem != "__init__"
    )
)


@frozen
class Choice:
    """One of several words."""

    noun: str  # for messages: "expected the name of <noun>"
    values: tuple[str, ...]


@frozen
class Switch:
    """Yes or no; with the default None the executor decides."""


@frozen
class Whole:
    """A whole number between two bounds."""

    first: int
    last: int


@frozen
class Word:
    """Text of one form."""

    expected: str
    pattern: str
    shown: str  # its form in the help of a command


@frozen
class Several:
    """A list of words, none of them twice. Of `pairs` a word is KEY=VALUE, and a manifest may have
    a mapping in its place, whose values may be whole numbers where there are `numbers`."""

    item: Word
    expected: str
    pairs: bool = False
    numbers: bool = False


@frozen
class Need:
    """A value that another option must have; with `when`, only if this one has that value."""

    option: str
    value: Any
    when: Any = None


class Memory(Protocol):
    """What a program works in, without its constants."""

    @property
    def size_bytes(self) -> int: ...


class Machine(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def big_endian(self) -> bool: ...


class Planned(Protocol):
    """What an option may judge: the model with every decision taken, before its C is written."""

    @property
    def target(self) -> Machine: ...

    @property
    def memory(self) -> Memory: ...


# Of an option's value and a program: what is wrong, or None.
Judge = Callable[[Any, Planned], Problem | None]


@frozen
class Option:
    """`flag` is its name in `mlftool compile`; TVM's options are read with TVM's others."""

    kind: Choice | Switch | Whole | Word | Several
    doc: str
    default: Any
    default_text: str
    example: str
    executors: tuple[str, ...]  # that understand it; empty: all of them
    flag: str
    of_tvm: bool
    needs: tuple[Need, ...]
    features: Mapping[Any, tuple[str, ...]]  # value -> what kernels may ask of the target then
    judge: Judge | None  # fails the compile
    name: str = ""

    @property
    def three_valued(self) -> bool:
        """Whether it is yes, no or the executor's choice."""
        return isinstance(self.kind, Switch) and self.default is None

    def understood_by(self, executor: str) -> bool:
        return not self.executors or executor in self.executors

    def is_set(self, value: Any) -> bool:
        """Whether it is anything but the default."""
        return bool(value) if isinstance(self.kind, Several) else value != self.default

    def meant(self, value: Any) -> Any:
        """The value that None stands for is the first."""
        first = value is None and isinstance(self.kind, Choice)
        return self.kind.values[0] if first and isinstance(self.kind, Choice) else value


def option(
    kind: Choice | Switch | Whole | Word | Several,
    doc: str,
    *,
    default: Any,
    example: str,
    default_text: str = "",
    executors: Iterable[str] = (),
    tvm_flag: str = "",
    needs: Iterable[Need] = (),
    features: Mapping[Any, tuple[str, ...]] = MappingProxyType({}),
    judge: Judge | None = None,
) -> Any:
    """A field that is also an option."""
    about = Option(
        kind,
        doc,
        default,
        default_text or f"`{str(default).lower()}`",
        example,
        tuple(executors),
        tvm_flag,
        bool(tvm_flag),
        tuple(needs),
        features,
        judge,
    )
    return field(default=default, metadata={"option": about})


def _readable_weights(form: str, planned: Planned) -> Problem | None:
    """The file of constants is little-endian."""
    target = planned.target
    if form != "binary" or not target.big_endian:
        return None
    text = f"weights in a file are little-endian, and {target.name} is not"
    return Problem("MLF0405", text, help="leave out --weights, or use --weights text")


@frozen(kw_only=True)
class CompilerOptions:
    """The options, in the order in which they are documented."""

    interface_api: str | None = option(
        Choice("an interface", ("c", "packed")),
        "How aot's entry point is called: `c` is a struct of inputs and one of outputs, `packed` "
        "TVM's packed function.",
        default=None,
        default_text="`c`",
        example="packed",
        executors=["aot"],
        tvm_flag="--interface-api",
    )
    unpacked_api: bool | None = option(
        Switch(),
        "Whether calls inside an aot module are plain C calls.",
        default=None,
        default_text="`true` with interface `c`, else `false`",
        example="true",
        executors=["aot"],
        tvm_flag="--executor-aot-unpacked-api",
        needs=[Need("interface_api", "packed", when=False)],
    )
    link_params: bool | None = option(
        Switch(),
        "Whether weights of the graph executor are C arrays instead of a parameter file.",
        default=None,
        default_text="`false`",
        example="true",
        executors=["graph"],
        tvm_flag="--executor-graph-link-params",
    )
    system_lib: bool = option(
        Switch(),
        "Whether packed functions are found by name, through `TVMSystemLibEntryPoint`.",
        default=False,
        example="true",
        executors=["aot", "graph"],
        tvm_flag="--runtime-crt-system-lib",
        needs=[Need("interface_api", "packed")],
    )
    workspace_io: bool = option(
        Switch(),
        "Whether inputs and outputs of an aot module are in the workspace and share its memory.",
        default=False,
        example="true",
        executors=["aot"],
        needs=[Need("interface_api", "c")],
    )
    float_mode: str = option(
        Choice("a float mode", ("exact", "fused", "fast")),
        "`fused` adds each product of a convolution or dense layer with one rounding, which is "
        "faster on FPUs that have a fused multiply-add; the bits are the same everywhere, but not "
        "those of `exact`. `fast` does this in Helium's vectors, which flush subnormal numbers to "
        "zero; on other processors it equals `fused`.",
        default="exact",
        example="fused",
        features={"fused": ("fused",), "fast": ("fused", "flushed")},
    )
    weights: str = option(
        Choice("a form of weights", ("auto", "text", "binary")),
        "`text` writes constants as C arrays, `binary` as a file that the assembler reads (gcc and "
        "clang only); `auto` uses the file from 512 KiB on.",
        default="auto",
        example="text",
        judge=_readable_weights,
    )
    optimize: str = option(
        Choice("an objective", ("speed", "size")),
        "`size` shares one C function among similar layers and unrolls no loops: less code, more "
        "instructions, the same bits. Compile its C with `-Os`.",
        default="speed",
        example="size",
        features={"size": ("size",)},
    )
    patches: str = option(
        Word("auto, or '2' to '64' in quotes", r"auto|off|[2-9]|[1-5]\d|6[0-4]", "off|auto|N"),
        "Computes a chain of layers in `2` to `64` bands of rows, so that its large tensors never "
        "exist as a whole: less memory, some rows computed twice, the same bits. `auto` selects "
        "the number of bands with the least memory, if it saves a tenth.",
        default="off",
        example="auto",
    )
    ram_budget: str = option(
        Word("none, or bytes such as '24576' or 24KiB", f"none|{SIZE}", "BYTES"),
        "The limit for the module's RAM: working memory, inputs, outputs and states. If the usual "
        "plan takes more, the compiler searches for bands of layers, as in `patches`, that fit, "
        "and selects the plan with the fewest estimated instructions.",
        default="none",
        example="24KiB",
    )
    weights_budget: str = option(
        Word("none, or bytes such as '65536' or 64KiB", f"none|{SIZE}", "BYTES"),
        "The limit for the module's constants in flash. If they take more, the compiler stores "
        "some of them in fewer bytes, those first that cost the fewest instructions for each "
        "byte saved: float weights that the model has as integers and scales or as halves in that "
        "form, others in a prefix code (Huffman's). Their layers unpack them into working memory "
        "before they run: more RAM, the same bits.",
        default="none",
        example="64KiB",
    )
    pools: tuple[str, ...] = option(
        Several(Word(EXPECTED, PATTERN, "NAME=BYTES[@SECTION]"), "a list of memory pools"),
        "Memories to use instead of one workspace, fastest first, as `NAME=BYTES` or "
        "`NAME=BYTES@SECTION`: the most used tensors go to the first pool with room. With a "
        "section, the module has an array there; without one, the application passes the memory "
        "in `struct tvmgen_<module>_workspace_pools`. For aot with interface `c`.",
        default=(),
        default_text="one workspace",
        example="[dtcm=64KiB@.dtcm, sram=256KiB]",
        executors=["aot"],
        needs=[Need("interface_api", "c")],
    )
    state: tuple[str, ...] = option(
        Several(
            Word("all, or INPUT=OUTPUT", r"all|[^=]+=[^=]+", "INPUT=OUTPUT"),
            "a mapping from inputs to outputs, or a list of INPUT=OUTPUT",
            pairs=True,
        ),
        "States as `INPUT=OUTPUT`: the input gets the value that the output had after the "
        "previous run, at first zeros. The module keeps the values; `tvmgen_<module>_reset` "
        "resets them. `all` means every state of a TensorFlow Lite model. For aot with interface "
        "`c`, and vm.",
        default=(),
        default_text="none",
        example="{h0: hn}",
        executors=["aot", "vm"],
        needs=[Need("interface_api", "c"), Need("workspace_io", False)],
    )
    stream: tuple[str, ...] = option(
        Several(
            Word("axis=A or step=N", r"axis=[^=]+|step=[1-9]\d{0,5}", "axis=A|step=N"),
            "a mapping of axis and step",
            pairs=True,
            numbers=True,
        ),
        "Compiles the streaming form of a model: each run takes `step` elements (1) of the "
        "inputs' `axis`, a number or a name in the file, and gives the model's outputs for them. "
        "The module keeps intermediate values between runs, as with `state`. For aot with "
        "interface `c`, and vm.",
        default=(),
        default_text="none",
        example="{axis: time, step: 1}",
        executors=["aot", "vm"],
        needs=[Need("interface_api", "c"), Need("workspace_io", False)],
    )
    backends: tuple[str, ...] = option(
        Several(
            Word("the name of a backend", r"[a-z][a-z0-9-]{0,30}", "NAME"), "a list of backends"
        ),
        "Libraries or devices that compute layers instead of mlftool's kernels; the first that "
        "accepts a layer computes it: `cmsis-nn`, `ethos-u`, or one of `backend_files`.",
        default=(),
        default_text="none",
        example="[cmsis-nn]",
    )
    mlf_version: int = option(
        Whole(FORMATS[0], FORMATS[-1]),
        "The version of Model Library Format to write.",
        default=FORMATS[-1],
        default_text=str(FORMATS[-1]),
        example=str(FORMATS[-1]),
    )
    verify: bool = option(
        Switch(),
        "Whether the archive contains a certificate of the proofs for the module, which `mlftool "
        "verify` checks again. Every compile runs the proof of memory and calls; only with "
        "`verify` it also covers index ranges.",
        default=False,
        example="true",
    )


def _table() -> Mapping[str, Option]:
    table = {}
    for f in fields(CompilerOptions):
        about: Option = f.metadata["option"]
        # A list is given word by word.
        word = f.name.removesuffix("s") if isinstance(about.kind, Several) else f.name
        flag = about.flag or f"--{word.replace('_', '-')}"
        table[f.name] = replace(about, name=f.name, flag=flag)
    return MappingProxyType(table)


OPTIONS = _table()

# Files that go with certain options only, in the same terms.
FILES: Mapping[str, tuple[Need, ...]] = MappingProxyType(
    {"tuning": (Need("optimize", "speed"), Need("patches", "off"), Need("ram_budget", "none"))}
)


def unmet(name: str, given: Mapping[str, Any], executor: str) -> Iterator[Need]:
    """What the option or file `name`, one of `given`, needs and has not. An option that the
    executor does not understand is no obstacle."""
    about = OPTIONS.get(name)
    value = given.get(name, about.default if about else None)
    asked = about.is_set(value) if about else value is not None
    for need in about.needs if about else FILES[name]:
        other = OPTIONS[need.option]
        if not asked or need.when not in (None, value):
            continue
        has = other.meant(given.get(need.option, other.default))
        if other.understood_by(executor) and has != need.value:
            yield need


# What accuracy of a quantised model is, and what that means.
METRICS: Mapping[str, str] = {
    "top1": "the share of samples whose largest output is the one in `labels`",
    "auc": "the area under the ROC curve for labels of 0 and 1",
    "agreement": "the share of samples whose largest output is the float model's",
    "sqnr": "the signal-to-noise ratio in decibels, against expected outputs or the float model",
    "mse": "the mean squared error against the same; lower is better",
}
_GOAL = r"([0-9]+(?:\.[0-9]+)?(?:e-?[0-9]+)?) ?(%|dB)?"


@frozen
class Goal:
    """An accuracy to keep: a share as 97% or 0.97, decibels as 30dB, or another number."""

    value: float  # 0.97 of 97%
    unit: str = ""  # "%", "dB" or ""

    @staticmethod
    def of(text: str) -> Goal:
        """Raises ValueError."""
        match = re.fullmatch(_GOAL, text)
        if not match:
            raise ValueError(text)
        return Goal(float(match[1]) / (100 if match[2] == "%" else 1), match[2] or "")

    def __str__(self) -> str:
        return f"{self.value * (100 if self.unit == '%' else 1):g}{self.unit}"

    def misfit(self, metric: str | None) -> str:
        """What the metric has instead of this; "" if it has this."""
        if metric == "sqnr":
            return "decibels such as 30dB" if self.unit == "%" else ""
        if metric == "mse":
            return "a mean squared error such as 0.01" if self.unit else ""
        return "a share such as 97% or 0.97" if self.unit == "dB" or self.value > 1 else ""
