"""Tuning records: the measured best kernel for each kind of layer.

`mlftool tune` writes them, compile reads them. A record names its layers by operators and shapes
and holds, for each, a digest of the C of all kernels that were compared, without numbers. If the
digest of today's kernels differs, the record is stale, and is refused.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlftool.codegen.templates import open_text
from mlftool.errors import MlfError, Problem
from mlftool.files import read_plain
from mlftool.frozen import frozen
from mlftool.ir.graph import View
from mlftool.ir.holes import form
from mlftool.mlf.strict import Checked, given
from mlftool.ops.base import Kernel
from mlftool.plan.select import Choose

VERSION = 1


@frozen
class Layer:
    """One kind of layer; `instructions` has every kernel that was compared."""

    layer: str
    digest: str
    kernel: str
    instructions: Mapping[str, int]


@frozen
class Tuned:
    """What was measured for one target; `before` and `after` are of a whole inference."""

    compiler: str
    flags: str
    float_mode: str
    before: int
    after: int
    layers: tuple[Layer, ...]


_HELP = "mlftool tune writes one"


def read_record(path: Path) -> dict[str, Tuned]:
    """Target -> what was measured. Raises MlfError."""
    try:
        data = read_plain(path)
    except OSError as error:
        raise MlfError(Problem("MLF0408", f"cannot be read: {error.strerror}", str(path))) from None
    return given(data, _record, "MLF0408", str(path), "a tuning record", _HELP)


def _record(top: Checked) -> dict[str, Tuned]:
    top.at("version").number(VERSION, VERSION)
    if top.notes:
        return {}
    return {name: _tuned(entry) for name, entry in top.at("targets").items()}


def _tuned(entry: Checked) -> Tuned:
    return Tuned(
        compiler=entry.at("compiler").text(),
        flags=entry.at("flags").text(),
        float_mode=entry.at("float_mode").text(),
        before=entry.at("before").number(),
        after=entry.at("after").number(),
        layers=entry.at("layers").list(_layer),
    )


def _layer(entry: Checked) -> Layer:
    return Layer(
        layer=entry.at("layer").text(),
        digest=entry.at("digest").text(),
        kernel=entry.at("kernel").text(),
        instructions={k: v.number() for k, v in entry.at("instructions").items()},
    )


def record_text(targets: Mapping[str, Tuned]) -> str:
    """The file; the same for the same measurements."""
    content = {name: asdict(targets[name]) for name in sorted(targets)}
    return json.dumps({"version": VERSION, "targets": content}, indent=1) + "\n"


def chooser(path: Path, target: str, float_mode: str) -> Choose | None:
    """Chooses the record's kernels; None if the target is not in the record. Raises MlfError."""
    tuned = read_record(path).get(target)
    if tuned is None:
        return None
    known = {(x.layer, x.digest): x.kernel for x in tuned.layers}
    layers = {x.layer for x in tuned.layers}

    def stale(what: str) -> MlfError:
        help = f"measure again: mlftool tune MODEL.onnx --target {target} -o {path.name}"
        return MlfError(Problem("MLF0409", f"{what}", str(path), path=target, help=help))

    if tuned.float_mode != float_mode:
        raise stale(f"was measured with float mode {tuned.float_mode}; got {float_mode}")

    def choose(v: View, kernels: Sequence[Kernel]) -> Kernel:
        if not is_tunable(kernels):
            return kernels[0]
        name, digest = kind_of(v), digest_of(kernels)
        if name not in layers:
            raise stale(f"{v.node.label} is not a layer of the record: {name}")
        if (name, digest) not in known:
            raise stale(f"{v.node.label} has other kernels than those that were measured")
        wanted = known[name, digest]
        found = next((k for k in kernels if k.name == wanted), None)
        if found is None:
            raise stale(f"{v.node.label}: no such kernel; got '{wanted}'")
        return found

    return choose


def is_tunable(kernels: Sequence[Kernel]) -> bool:
    """Whether there is anything to choose, and it matters."""
    return len(kernels) > 1 and kernels[0].macs > 0


def kind_of(v: View) -> str:
    """What decides how long a layer takes: operators, types, shapes, attributes; no values."""
    graph, node = v.graph, v.node
    operators = "+".join(n.op.rsplit(".", 1)[-1] for n in node.body or (node,))
    shapes = [_type(v, name) for name in node.inputs if name]
    fixed = {k: a for k, a in v.core.attrs.items() if k not in ("activation", "kernel_shape")}
    attrs = "".join(f" {k}={_value(a)}" for k, a in sorted(fixed.items()))
    return f"{operators} {' '.join(shapes)} -> {graph.types[node.result]}{attrs}"


def _type(v: View, name: str) -> str:
    return str(v.graph.types[name])


def _value(attribute: Any) -> str:
    if isinstance(attribute, (tuple, list)):
        return ",".join(map(str, attribute))
    return str(attribute)


def digest_of(kernels: Sequence[Kernel]) -> str:
    """Of the C of all of them, numbers left out: those change when a model is trained again."""
    hashed = hashlib.sha256()
    for kernel in sorted(kernels, key=lambda k: k.name):
        types = {o.name: o.ctype for o in kernel.operands}
        text = open_text(kernel.template, **kernel.params, types=types, bodies={}, arena="0")
        hashed.update(f"{kernel.name}\0{form(text)}\0".encode())
    return hashed.hexdigest()[:16]
