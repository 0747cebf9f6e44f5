"""The backend cases of the installed onnx package: models, inputs and what must come out."""

from __future__ import annotations

import functools
import pickle
import platform
import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

sys.path.append(str(Path(__file__).parents[1] / "support"))

import kept

KINDS = ("node", "simple", "pytorch-converted", "pytorch-operator")

Value = Any  # an array; a list for sequences; None for an absent optional


@dataclass(frozen=True)
class SuiteCase:
    """One case; each data set is (inputs, outputs) in the order of the graph."""

    name: str
    kind: str
    model: onnx.ModelProto = field(repr=False)
    data_sets: Sequence[tuple[Sequence[Value], Sequence[Value]]] = field(repr=False)
    rtol: float = 1e-3
    atol: float = 1e-7

    @property
    def operators(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(n.op_type for n in self.model.graph.node))


@functools.cache
def load_suite() -> tuple[SuiteCase, ...]:
    """All cases, sorted by name; the same name may stand in two kinds, so the kind is in it.

    onnx computes what its operators give, which takes seven seconds of a processor, so tests keep
    the cases from one process to the next (kept.py)."""
    packages = (onnx.__version__, np.__version__, platform.python_version())
    # A pickle names the module of its classes, which `python -m` calls otherwise.
    key = kept.key_of((__name__, *packages, Path(__file__).read_bytes()))
    known = kept.recall(key)
    if known is not None:
        return restored(known)
    cases = _computed()
    kept.keep(key, stored(cases))
    return cases


def stored(cases: Sequence[SuiteCase]) -> bytes:
    """Without the name of their class: processes know this file by other names."""
    return pickle.dumps([tuple(vars(case).values()) for case in cases])


def restored(data: bytes) -> tuple[SuiteCase, ...]:
    return tuple(SuiteCase(*fields) for fields in pickle.loads(data))


def _computed() -> tuple[SuiteCase, ...]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite's own arithmetic overflows on purpose
        from onnx.backend.test.loader import load_model_tests

        found = [_case(kind, test) for kind in KINDS for test in load_model_tests(kind=kind)]
    assert len({c.name for c in found}) == len(found)
    return tuple(sorted(found, key=lambda c: c.name))


def matching(pattern: str) -> tuple[SuiteCase, ...]:
    """Cases whose name or operators match a regular expression, whatever the case of letters."""
    wanted = re.compile(pattern, re.IGNORECASE)
    return tuple(
        c
        for c in load_suite()
        if wanted.search(c.name) or any(wanted.fullmatch(op) for op in c.operators)
    )


@functools.cache
def _by_name() -> dict[str, SuiteCase]:
    return {c.name: c for c in load_suite()}


def subject(case: SuiteCase) -> str:
    """The operator that a case is about; its definition spelt out counts for it, too."""
    name = case.name.removesuffix("_expanded")
    if name != case.name and name in _by_name():
        return subject(_by_name()[name])
    nodes = [n for n in case.model.graph.node if n.op_type != "Constant"]
    node = nodes[-1] if nodes else case.model.graph.node[-1]
    return f"{node.domain}.{node.op_type}" if node.domain else str(node.op_type)


def _case(kind: str, test: Any) -> SuiteCase:
    if test.model is not None:
        sets = [tuple([_plain(v) for v in part] for part in pair) for pair in test.data_sets]
        return SuiteCase(test.name, kind, test.model, sets, test.rtol, test.atol)
    folder = Path(test.model_dir)
    model = onnx.load(folder / "model.onnx")
    sets = [
        (_read(data, "input", model.graph.input), _read(data, "output", model.graph.output))
        for data in sorted(folder.glob("test_data_set_*"))
    ]
    return SuiteCase(test.name, kind, model, sets, test.rtol, test.atol)


def _plain(value: Value) -> Value:
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return value if value is None or isinstance(value, list) else np.asarray(value)


def _read(folder: Path, role: str, infos: Sequence[onnx.ValueInfoProto]) -> list[Value]:
    """The tensors or sequences `role`_0.pb, `role`_1.pb ... of a data set."""
    values = []
    for k in range(len(list(folder.glob(f"{role}_*.pb")))):
        data = (folder / f"{role}_{k}.pb").read_bytes()
        if infos[k].type.HasField("sequence_type"):
            values.append(numpy_helper.to_list(onnx.SequenceProto.FromString(data)))
        elif infos[k].type.HasField("optional_type"):
            values.append(numpy_helper.to_optional(onnx.OptionalProto.FromString(data)))
        else:
            values.append(numpy_helper.to_array(onnx.TensorProto.FromString(data)))
    return values
