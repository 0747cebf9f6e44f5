"""What an operator is to the rest of the compiler: its portable kernel and its traits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum, auto
from typing import Any, TypeGuard

from onnx import NodeProto

from mlftool.frozen import field, frozen, replace
from mlftool.ir.edit import Editor
from mlftool.ir.external import Part
from mlftool.ir.graph import Array, Node, TensorType, View
from mlftool.ir.operations import NOTHING, Operations
from mlftool.ir.relay import Rule as RelayRule
from mlftool.onnx_rules.boxes import Maker
from mlftool.onnx_rules.draft import Change
from mlftool.onnx_rules.scope import Rule, Scope
from mlftool.onnx_rules.shaping import Bounds, Shaper
from mlftool.onnx_rules.steps import Steps


class Trait(Enum):
    """What passes may ask about an operator, so that they need not know its name."""

    ELEMENTWISE = auto()  # each output element depends on the input elements at its own index
    VIEW = auto()  # same bytes, other shape: costs nothing
    MOVES_DATA = auto()  # copies elements without looking at them
    ANY_BITS = auto()  # its kernels also move elements of less than a byte and 8-bit floats
    JOIN = auto()  # its inputs one after the other along `axis`
    ORDER_PRESERVING = auto()  # picks elements by comparing them: commutes with quantisation
    MEAN = auto()  # of what a window covers: padding does not count without `count_include_pad`
    SPATIAL = auto()  # input 0 and the output are [N, C, D1, ...]
    EPILOGUE = auto()  # its kernels can apply elementwise operators to what they store
    PROLOGUE = auto()  # its kernels can apply unary elementwise operators to what they load
    NARROW = auto()  # its kernels read and write 16-bit floats themselves
    STEPWISE = auto()  # of k operands: k - 1 steps of two, each reading the step before repeatedly
    QUANTISE = auto()  # QuantizeLinear and its like: kept out of constant folding at import
    KEPT = auto()  # constants of it, too: the standard's reference is wrong somewhere
    QUANTISER = auto()  # floats to what is stored, by a scale and a zero point: inputs 1 and 2
    DEQUANTISER = auto()  # the way back
    DYNAMIC = auto()  # floats to bytes, by the range that they have at run time
    RESCALER = auto()  # integers by a number in fixed point: attributes are a Rescaling's
    IDENTITY = auto()  # its output is its input where both have one type
    TRANSPOSITION = auto()  # its input with axes in the order of `perm`
    ADDITION = auto()  # the sum of its two inputs
    MULTIPLICATION = auto()  # their product
    SLOPE = auto()  # the first one, below zero its product with the second
    QUANTISED_SUM = auto()  # of the two stored tensors that `reads` names; without it, the product
    ROUNDS_LATE = auto()  # its result, after its zero point is added: see Rounding.LATE
    TOP_BIT = auto()  # inverts the highest bit of bytes: uint8 as the int8 128 less, or back
    TABLE = auto()  # input 1 holds the output for each of the 256 values of input 0's elements
    SAME_RANK = auto()  # the output has as many axes as the first input
    AXIS = auto()  # `axis` is one of the first input's
    ROUNDS_STEPS = auto()  # of 16-bit floats: attribute ROUNDED says of which
    BRANCH = auto()  # control flow: one of two subgraphs
    LOOP = auto()  # one subgraph again and again
    SCAN = auto()  # one for each element of sequences
    EARLY = auto()  # onnxruntime has it in opsets before its first, for which exporters wrote it
    OF_SHAPE = auto()  # its value follows from its input's shape
    # Where onnx's inference leaves an output's type open, it is the first input's.
    LIKE_FIRST = auto()
    SHAPE = auto()  # the extents, at run time, of the tensor that attribute `of` names


# The narrow float whose arithmetic a node has, though passes/widen.py gave it float32.
ROUNDED = "mlf.rounded"
STACK_LIMIT_BYTES = 1024  # scratch up to here is a local array, as TVM's generated kernels do


@frozen
class Operand:
    """One parameter of a kernel's C function."""

    name: str  # the C parameter
    ctype: str  # of one element
    role: str  # "in", "out", "const" or "scratch"
    value: str = ""  # in, out: the tensor
    array: Array | None = None  # const: what the weights section holds
    bytes: int = 0  # scratch: how much of the arena it needs
    planned: bool = False  # scratch: in the arena however small it is
    note: str = ""  # const: how weights are packed, for a comment
    holds: str = ""  # const: the tensor that is packed, unless it is a contraction's weights
    alignment: int = 16  # const: in bytes; vectors may load 16

    @property
    def local(self) -> bool:
        """Whether this scratch is an array of the C function, not part of the workspace."""
        small = self.bytes <= STACK_LIMIT_BYTES
        return self.role == "scratch" and small and not self.planned


@frozen
class Packed:
    """How scratch is filled that holds a constant while its kernel runs (plan/flash.py).

    `form` "prefix", "octets": as many elements, or bytes, as the only extent says, those of
    <name>_values that <name>_codes gives. "scaled": <name>_scales[block, lane] times
    <name>_numbers[block, run, lane], where `extents` are blocks, run and lanes. "finite_f16",
    "bf16": <name>_halves are the elements, as many as the only extent says.
    """

    form: str
    extents: tuple[int, ...]

    @property
    def includes(self) -> tuple[str, ...]:
        if self.form in ("finite_f16", "bf16"):
            return ("mlf/convert.h",)
        return () if self.form == "scaled" else ("mlf/unpack.h",)


@frozen
class Kernel:
    """One way to compute one node: a template, and everything the template may read."""

    name: str  # how reports and bids call it, e.g. "portable.conv"
    template: str  # file beside the operator or beside the target's kernels
    params: Mapping[str, Any]
    operands: tuple[Operand, ...]
    cost: float = 0.0  # estimated instructions, without `operations` until they are priced
    # 1: written for few code bytes, first where those count; 2: its weights take fewer, too.
    compact: int = 0
    macs: int = 0
    includes: tuple[str, ...] = ("mlf/kernel.h",)
    inplace: tuple[str, ...] = ()  # tensors whose memory the output may take over
    # Inputs the output may overlap: least and most bytes from the output's start to the input's.
    overlap: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    vectors: bool = False  # compilers make vectors of its loops if nothing overlaps
    # States that it changes where they stand: inputs whose memory may be that of an output.
    updates: Mapping[str, str] = field(default_factory=dict)
    turns: Mapping[str, int] = field(default_factory=dict)  # how often each subgraph runs, if known
    parametric: bool = False  # any integer of its text may be an int32_t variable instead
    external: Part | None = None  # whose function computes it instead of the template
    packed: Mapping[str, Packed] = field(default_factory=dict)  # scratch that holds a constant
    # Operations whose price is the processor's: all of them, or those beyond `cost`. What is fused
    # with a core is not in it (plan/prices.py).
    operations: Operations = NOTHING
    lanes: int = 1  # elements of what is fused that it computes at once

    def taking(self, times: float) -> Kernel:
        """The same at so many times its estimate."""
        return replace(self, cost=self.cost * times, operations=self.operations * times)


class Layout(Enum):
    """How the weights of a contraction lie."""

    CONVOLUTION = auto()  # [output channel, input channel of a group, *kernel]
    TRANSPOSED = auto()  # [input channel, output channel of a group, *kernel]
    MATRIX = auto()  # [input, output channel], or the other way round with `transB`
    MATRICES = auto()  # one MATRIX for each of the first operand


@frozen
class Contracts:
    """Where a sum of products has its operands. The first is input 0; a quantised one's scale and
    zero point are inputs 1 and 2, the weights' 4 and 5."""

    layout: Layout
    weights: int = 1
    bias: int | None = None
    y_scale: int | None = None  # of a quantised one, before its zero point
    packs_bias: bool = False  # a bias has to be known, one value for each output channel
    rows: str = ""  # of MATRICES: the operator that takes rows and one matrix
    forward: str = ""  # of TRANSPOSED: the convolution that has its operands in the same places
    computed: str = ""  # the quantised form where weights are computed, or several matrices

    @property
    def quantised(self) -> bool:
        return self.y_scale is not None

    @property
    def per_channel(self) -> tuple[int, ...]:
        """Inputs with an element for each output channel, or one for all."""
        scales = (4, 5) if self.quantised else ()
        return scales if self.bias is None else (*scales, self.bias)

    def axis(self, attrs: Mapping[str, Any], rank: int) -> int:
        """The weights' axis of output channels, or of those of one group."""
        if self.layout is Layout.CONVOLUTION or attrs.get("transB", 0):
            return 0
        return 1 if self.layout is Layout.TRANSPOSED else rank - 1

    def groups(self, attrs: Mapping[str, Any]) -> int:
        """How often that axis is repeated."""
        return int(attrs.get("group", 1)) if self.layout is Layout.TRANSPOSED else 1


@frozen
class Moved:
    """The inputs and outputs that carry elements, None for all; others say where to or where from.
    Input `fill` has the one element that stands where no other does."""

    inputs: tuple[int, ...] | None = None
    outputs: tuple[int, ...] | None = None
    fill: int | None = None

    def read(self, node: Node) -> tuple[int, ...]:
        return tuple(range(len(node.inputs))) if self.inputs is None else self.inputs

    def made(self, node: Node) -> tuple[int, ...]:
        every = tuple(k for k, name in enumerate(node.outputs) if name)
        return every if self.outputs is None else self.outputs


FIRST = Moved((0,))
Attributes = Mapping[str, Any]
Known = Sequence[Array | None]  # the values of a node's inputs, None where it is not known
Shape = tuple[int, ...]
Types = Sequence[TensorType | None]
# A form for each input (importer/checks.py), and the extents that some of their letters are.
Forms = tuple[Sequence[str], Mapping[str, int]]


@frozen
class Facts:
    """A typed node. Inputs that were left out are None."""

    op: str
    attrs: Attributes
    inputs: Types
    values: Known
    output: TensorType

    @property
    def x(self) -> Shape:
        """Of the first input, which is there."""
        return self.shape(0) or ()

    def shape(self, i: int) -> Shape | None:
        type_ = self.inputs[i] if i < len(self.inputs) else None
        return None if type_ is None else type_.shape

    def beyond(self, i: int, least: int, most: int, what: str, part: Any = ...) -> str:
        """What is wrong if input `i` is known, and an element is not in least ... most."""
        known = self.values[i] if i < len(self.values) else None
        if known is None:
            return ""
        wrong = known[part][(known[part] < least) | (known[part] > most)]
        return f"{what} has {wrong[0]}; expected {least} ... {most}" if wrong.size else ""

    def has_axes(self, least: int = 1) -> str:
        """What is wrong with a first input of fewer axes."""
        few = self.shape(0) is not None and len(self.x) < least
        wanted = "1 axis" if least == 1 else f"{least} axes"
        text = f"an input of shape {shown(self.x)}; expected {wanted} or more"
        return text if few else ""

    def from_nothing(self, word: str = "", filler: str = "") -> str:
        """What is wrong if an output with elements is to be made of an input without any, unless
        attribute `word` is `filler`, its default."""
        filled = word and self.attrs.get(word, filler) == filler
        if filled or 0 not in self.x or not self.output.elements:
            return ""
        return f"input {shown(self.x)} has no elements to make {shown(self.output.shape)} of"


Affine = tuple[Array, Array] | None  # factor, addend
# Input values, attributes and an opset -> the first output, or a tuple of all.
Value = Callable[[Known, Attributes, int], Any]
Bid = Callable[[View], "Kernel | None"]
Result = Callable[[Sequence[TensorType | None], Mapping[str, Any]], TensorType]
Typed = Callable[[Scope, NodeProto], "TensorType | None"]
# All that an attribute may be, or what is wrong with its text, "" for nothing.
Words = Iterable[str] | Callable[[str], str]
Expansion = Callable[[Steps], None]
# (node, its output's type, a Scalar for each operand) -> C (ops/scalar.py)
Expression = Callable[..., str]


@frozen
class Signature:
    """How many inputs and outputs a node may have, and which attributes."""

    inputs: str  # an "x" for each that must be there, a "?" for each that need not, "*" for more
    attributes: tuple[str, ...]
    outputs: int  # at most

    @staticmethod
    def of(text: str) -> Signature:
        """`inputs attribute attribute ...`; of several outputs "xx>3 ..."."""
        inputs, *attributes = text.split()
        inputs, _, outputs = inputs.partition(">")
        return Signature(inputs, tuple(attributes), int(outputs or 1))


@frozen
class Op:
    """Everything any stage may ask about an operator. One stands in the file of its family."""

    name: str
    kernel: Bid  # the portable implementation; None when this very form is not supported
    traits: frozenset[Trait] = field(default_factory=frozenset)
    # Input types and attributes -> type of the output, for operators that onnx does not know.
    result: Result | None = None
    # Of elementwise operators and tables: the value of an element in C, and its headers.
    expression: Expression | None = None
    includes: tuple[str, ...] = ()
    typed: Typed | None = None  # the output's type, where onnx's is open or wrong
    checks: tuple[Callable[[Facts], str], ...] = ()  # what is wrong with a node, or ""
    forms: Callable[[Attributes], Forms] | None = None  # of its inputs' axes
    signature: Signature | None = None  # where the onnx package has no schema
    moved: Moved = Moved()  # of what moves or picks elements
    contracts: Contracts | None = None
    quantised: str = ""  # the operator that computes it on quantised tensors
    # Attributes, input 0's and the output's type, the values of its inputs: whether it takes them.
    quantises: Callable[[Attributes, TensorType, TensorType, Known], bool] | None = None
    # Attributes, where the axes of what is moved are permuted: the outputs' axes are, too.
    turned: Callable[[Attributes, Sequence[int]], Attributes] | None = None
    # Of an operator that gives data * factor + addend: those two in float64, where they are known;
    # the data is the input whose value is not.
    affine: Callable[[Known, Attributes], Affine] | None = None
    # Of one that cuts its first input off at limits: the lower and the upper one.
    limits: Callable[[Known], tuple[float, float]] | None = None
    # Rewrites a node into the one spelling that passes and kernels see.
    canonical: Callable[[Editor, Node], None] | None = None
    # Changes to the newest spelling, each for models of opsets before the given one, in this order;
    # then what is left to spell out: derived attributes, the operator that it is.
    older: tuple[tuple[int, Change], ...] = ()
    resolve: Change | None = None
    # Its form that is right on boxes, where an input has extents known only at run time.
    extents: Rule | None = None
    makes: Maker | None = None  # of one whose outputs have such extents whatever its inputs
    places: int | None = None  # the output that holds indices, none of them negative
    shaped: Shaper | None = None  # its form as a box where its output's shape is computed
    bounds: Bounds | None = None  # what is known of the integers that it gives
    # The other operators that stand for it, and the kinds of attributes that no schema states.
    expansion: Expansion | None = None
    kinds: Mapping[str, str] = field(default_factory=dict)
    words: Mapping[str, Words] = field(default_factory=dict)  # that attributes may be
    graphs: tuple[str, ...] = ()  # of control flow: the subgraphs that it must have
    constant: Value | None = None  # where the standard's reference is wrong (ops/folded.py)
    relay: RelayRule | None = None  # its form in Relay
    reads: tuple[int, ...] = ()  # inputs that have a scale and a zero point in the next two
    stores: int | None = None  # the input that is the output's scale, its zero point next


OPS: dict[str, Op] = {}
OLD: dict[str, Op] = {}  # those that the importer turns into others: they have no kernel


def op(name: str, *traits: Trait, **fields: Any) -> Callable[[Bid], Bid]:
    """Register the function below as operator `name`'s portable kernel; `fields` are those of its
    record."""

    def register(kernel: Bid) -> Bid:
        assert name not in OPS, name
        OPS[name] = Op(name, kernel, frozenset(traits), **fields)
        return kernel

    return register


def known(name: str) -> Op | None:
    """What is known of an operator, one without a kernel among them."""
    return OPS.get(name) or OLD.get(name)


def old(name: str, *traits: Trait, **fields: Any) -> None:
    """Register an operator that is rewritten before anything needs a kernel."""
    assert name not in OLD, name
    OLD[name] = Op(name, lambda v: None, frozenset(traits), **fields)


def expands(
    *names: str, kinds: Mapping[str, str] | None = None, traits: Sequence[Trait] = (), **fields: Any
) -> Callable[[Expansion], Expansion]:
    """Register the function below as what `names` stand for; `kinds` are those of attributes."""

    def register(expansion: Expansion) -> Expansion:
        for name in names:
            old(name, *traits, expansion=expansion, kinds=kinds or {}, **fields)
        return expansion

    return register


def of_form(*forms: str) -> Callable[[Attributes], Forms]:
    """Forms that are the same whatever the attributes."""
    return lambda attrs: (forms, {})


def shown(shape: Sequence[int] | None) -> str:
    if shape is None:
        return "(none)"
    return ("x".join(map(str, shape[:16])) + "..." * (len(shape) > 16)) or "scalar"


def has(name: str, trait: Trait) -> bool:
    """Whether operator `name` is known and has `trait`."""
    record = known(name)
    return record is not None and trait in record.traits


def is_a(node: Node | None, trait: Trait) -> TypeGuard[Node]:
    """Whether there is a node, of an operator with `trait`."""
    return node is not None and has(node.op, trait)


_UNKNOWN = Op("", lambda v: None)


def record(node: Node) -> Op:
    """What there is to know of a node's operator; nothing if it is not known."""
    return OPS.get(node.op, _UNKNOWN)


def contracts(node: Node | None) -> Contracts | None:
    """Where a node has its operands if it is a sum of products."""
    return record(node).contracts if node is not None else None


def like_first(types: Sequence[TensorType | None], attrs: Mapping[str, Any]) -> TensorType:
    """The result of operators whose output is like their first input."""
    if not types or types[0] is None:
        raise UnsupportedError("has no first input")
    return types[0]


class UnsupportedError(Exception):
    """Raised by a kernel that cannot compute this node; the text says what and what would work."""
