"""A TensorFlow Lite model as values: what the reader makes of a file, and rules read."""

from __future__ import annotations

from collections.abc import Mapping

from mlftool.frozen import field, frozen
from mlftool.ir.graph import Array, TensorType

MAGIC = b"TFL3"  # bytes 4 to 7 of a file
SUFFIX = ".tflite"
NO_MODEL = "is not a TensorFlow Lite model: "
NO_MARK = "its bytes 4 to 7 are not TFL3"
DOWNLOAD = "is the download complete, and not a Git LFS pointer or an archive?"


def is_tflite(data: bytes) -> bool:
    """Whether the bytes say that they are a TensorFlow Lite model."""
    return data[4:8] == MAGIC


Option = int | float | bool | bytes


@frozen
class Quantised:
    """real = scale * (q - zero_point); several scales are those of slices along `axis`."""

    scale: Array  # float32 [1] or [slices]
    zero_point: Array  # int64, with the shape of `scale`
    axis: int = 0


@frozen
class Tensor:
    """`data` are a constant's elements, those of 4 bits as int8; variables keep their value from
    one call to the next."""

    name: str
    type: TensorType
    data: Array | None = None
    quantised: Quantised | None = None
    variable: bool = False
    nibbles: bool = False  # its elements have four bits
    problem: str = ""  # why it cannot be read; only what uses it is refused
    unusable: str = ""  # why its scales and zero points cannot be used
    unsigned: bool = False  # uint8 in the file, where its elements and zero point are 128 more
    open: bool = False  # an extent was unknown when it was converted, and is 1 in the file
    pairs: bool = False  # complex64 in the file: real and imaginary parts along a further last axis

    @property
    def stored(self) -> str:
        """Its element type as the file has it."""
        if self.pairs:
            return "complex64"
        return "uint8" if self.unsigned else self.type.dtype.name


@frozen
class Operator:
    """One operator. Inputs and outputs are places in the subgraph's tensors, -1 for an input that
    is left out. `options` have the schema's names; custom operators have the bytes `custom`."""

    kind: str  # the schema's name of the builtin operator, or the custom operator's own
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    options: Mapping[str, Option] = field(default_factory=dict)
    custom: bytes = b""
    misplaced: str = ""  # what its options are, if they are another operator's


@frozen
class Subgraph:
    """Operators stand in the order in which they run."""

    name: str
    tensors: tuple[Tensor, ...]
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    operators: tuple[Operator, ...]
    arena: tuple[int, ...] = ()  # where a compiler placed each tensor in the arena; -1: nowhere


@frozen
class Model:
    """The first subgraph is the model; `names` are what a signature calls its tensors."""

    subgraphs: tuple[Subgraph, ...]
    names: Mapping[int, str] = field(default_factory=dict)
