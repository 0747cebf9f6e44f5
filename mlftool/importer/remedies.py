"""What the help of a message names as a remedy: which inputs of a model decide an extent, and what
to take in place of an operator that there is not."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import onnx
from onnx import NodeProto

from mlftool.errors import Problem, did_you_mean
from mlftool.frozen import replace
from mlftool.ir.graph import Node
from mlftool.onnx_rules.protos import domain_of, op_name
from mlftool.onnx_rules.scope import CUT, EXTENTS, Refuse, Scope
from mlftool.ops import OPS

# Domains of operators that one runtime or tool writes for itself, and how to write the model
# without.
_QONNX = "export it with QuantizeLinear and DequantizeLinear, as Brevitas' export_onnx_qcdq does"
_LEVEL = (
    "onnxruntime optimised the file for one processor; take the file before, or save it with "
    "ORT_ENABLE_EXTENDED, not ORT_ENABLE_ALL"
)
FOREIGN = {
    **dict.fromkeys(("com.microsoft.nchwc", "com.ms.internal.nhwc"), _LEVEL),
    **dict.fromkeys(("qonnx.custom_op.general", "onnx.brevitas"), _QONNX),
    "ai.onnx.contrib": "onnxruntime-extensions adds it; leave out such steps around the network",
}
# Why there is no kernel for some of onnxruntime's own operators, and what to do.
_SEARCH = "it calls a decoder again and again; export the decoder, and search in the application"
_SPARSE = "the compiler has no sparse tensors; store the weights as a dense tensor"
UNTAKEN = {
    f"com.microsoft.{name}": why
    for names, why in (
        ("BeamSearch GreedySearch Sampling WhisperBeamSearch", _SEARCH),
        ("SparseToDenseMatMul SparseAttention", _SPARSE),
    )
    for name in names.split()
}
_UNSUPPORTED = {"MLF0206", "MLF0302", "MLF0303"}  # a valid model may have these
# Operators for which tf2onnx has no rule and which it leaves as they are.
_TENSORFLOW = "tf2onnx does not convert it; compile the .tflite file, or write the network"
TENSORFLOW = {
    **dict.fromkeys(
        ("RFFT", "RFFT2D", "IRFFT", "FFT", "Real", "Imag", "ComplexAbs", "Complex"),
        f"{_TENSORFLOW} with matrices of cosines and sines",
    ),
    "Erfc": f"{_TENSORFLOW} with 1 - erf(x)",
    "ReverseV2": f"{_TENSORFLOW} for opset 10 or later",
    "Bucketize": f"{_TENSORFLOW} with comparisons",
}
_NEW = {"MLF0301", "MLF0302"}  # the model may be valid
_BROKEN = "export the model again; onnx.checker.check_model(model, full_check=True) may say more"
_BY_HAND = 8  # elements of an input, at most, that a user gives on a command line


def constants(scope: Scope, names: Iterable[str]) -> str:
    """`--input-value` for the inputs of the model that the tensors `names` are computed from; ""
    unless all of those are integers that a user gives by hand."""
    found = _sources(scope, [n for n in names if n])
    types = [scope.types[n] for n in found]
    by_hand = all(t.dtype.numpy.kind in "iub" and t.elements <= _BY_HAND for t in types)
    # A subgraph's inputs are tensors of the graph around it.
    if scope.where or not found or not by_hand:
        return ""
    options = " ".join(f"--input-value {n}:VALUE" for n in found)
    return f"if it never changes, make what decides it a constant: {options}"


def integers(scope: Scope, node: NodeProto) -> list[str]:
    """The inputs of a node that are integers."""
    known = [n for n in node.input if n in scope.types]
    return [n for n in known if scope.types[n].dtype.numpy.kind in "iu"]


def for_extents(scope: Scope, node: NodeProto, refused: Refuse) -> str:
    """The help for a refusal of a node that reads a tensor whose extents are known at run time
    only: which inputs decide them. They count as large as they may get, so they need not fit."""
    open_ = [n for n in node.input if n and n in scope.types and any(scope.symbols_of(n))]
    decided = constants(scope, [s for n in open_ for s in scope.symbols_of(n)])
    if refused.help == EXTENTS and decided:
        return f"{decided}; or {CUT}"
    if refused.help or refused.code not in _UNSUPPORTED:
        return refused.help
    if refused.code != "MLF0303" or not open_:
        return f"change the node, or {CUT}"
    text = "sizes that are known only at run time count as large as they may get"
    return "; ".join(filter(None, (text, decided)))


def with_remedies(problems: Sequence[Problem]) -> list[Problem]:
    """The problems. Where no problem of a code has a help line, the last one gets it."""
    made = list(problems)
    for code in dict.fromkeys(p.code for p in problems):
        same = [k for k, p in enumerate(problems) if p.code == code]
        if not any(problems[k].help for k in same):
            help = f"change the node, or {CUT}" if code in _NEW else _BROKEN
            made[same[-1]] = replace(problems[same[-1]], help=help)
    return made


def _sources(scope: Scope, names: list[str]) -> list[str]:
    """The inputs of the graph that tensors are computed from, in the order of their names."""
    makers = {out: node for node in scope.nodes for out in node.outputs}
    seen: set[str] = set()
    todo = list(names)
    while todo:
        name = todo.pop()
        if name and name not in seen and name not in scope.consts:
            seen.add(name)
            todo += _read(makers[name], name) if name in makers else ()
    return sorted(seen - makers.keys())


def _read(node: Node, name: str) -> tuple[str, ...]:
    """What of a node's inputs an output is computed from."""
    # The extent of joined tensors is the sum of their extents, the inputs after them.
    extents = node.attrs.get("extents") if name != node.outputs[0] else None
    return node.inputs if extents is None else node.inputs[len(extents) :]


def in_place_of(node: NodeProto) -> str:
    """Since when there is this operator, or which is meant."""
    if remedy := UNTAKEN.get(op_name(node)) or FOREIGN.get(domain_of(node)):
        return remedy
    if not domain_of(node) and (remedy := TENSORFLOW.get(node.op_type)):
        return remedy
    known = (s for s in onnx.defs.get_all_schemas_with_history() if s.domain == domain_of(node))
    versions = [s.since_version for s in known if s.name == node.op_type]
    if versions:
        return f"opset {min(versions)} has it"
    return like(node) or f"`mlftool ops` lists the operators that there are; {CUT}"


def like(node: NodeProto) -> str:
    """The operator that was meant, whatever its domain, which is most of a name's letters."""
    return did_you_mean(node.op_type, [name.rpartition(".")[2] for name in OPS])
