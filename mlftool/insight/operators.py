"""Which operators compile, for which types, with which cores' own kernels; and of a model, why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import onnx

from mlftool.advice import advice
from mlftool.compile import compile_module
from mlftool.errors import MlfError, Problem, one_line
from mlftool.frozen import frozen
from mlftool.importer.sequences import RULES
from mlftool.importer.structure import RANDOM
from mlftool.insight.description import described
from mlftool.insight.subject import Subject
from mlftool.ir import dtype
from mlftool.module import ModuleSpec
from mlftool.ops import OPS, Trait, has
from mlftool.ops.base import OLD, known
from mlftool.table import Cell, Table
from mlftool.table import text as text_of
from mlftool.targets import TARGETS
from mlftool.targets.kernels import KERNELS

DOMAINS = ("", "ai.onnx.ml", "com.microsoft")


@frozen
class Support:
    """An operator. `opsets` changed it, `how` is in a few words what becomes of it: "no" or "no:
    why" if nothing does. `types` are those of the standard for its first operand that tensors may
    have, None where no schema says. `integer` computes it on quantised tensors."""

    name: str
    opsets: tuple[int, ...]
    how: str
    types: tuple[str, ...] | None
    integer: str = ""

    @property
    def supported(self) -> bool:
        return not self.how.startswith("no")


def supports() -> tuple[Support, ...]:
    """Every operator of the standard and of ours, by name."""
    return tuple(_support(name, opsets) for name, opsets in operators().items())


def operators() -> dict[str, tuple[int, ...]]:
    """Their names, with the opsets that changed them."""
    found: dict[str, set[int]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if schema.domain in DOMAINS and not schema.deprecated:
            name = f"{schema.domain}.{schema.name}" if schema.domain else schema.name
            found.setdefault(name, set()).add(schema.since_version)
    for name in (*OPS, *(n for n, record in OLD.items() if record.expansion)):
        if not name.startswith("mlf."):
            found.setdefault(name, set())
    return {name: tuple(sorted(found[name])) for name in sorted(found)}


def _support(name: str, opsets: tuple[int, ...]) -> Support:
    newest = max(opsets, default=1)
    record = OPS.get(name)
    return Support(
        *(name, opsets, how(name, newest), _types(name, newest)),
        record.quantised if record else "",
    )


def how(name: str, opset: int) -> str:
    """What becomes of an operator."""
    record = known(name)
    if record and record.expansion:
        return "rewritten"
    if name in OPS:
        family = OPS[name].kernel.__module__.rsplit(".", 1)[-1]
        return "kernel, elementwise" if has(name, Trait.ELEMENTWISE) else f"kernel, {family}"
    if has(name, Trait.OF_SHAPE) or name == "ConstantOfShape":
        return "constant"
    if record:
        return "rewritten"
    if name in RULES:
        return "taken apart"
    if name in RANDOM:
        return "no: draws random numbers, so no two builds would agree"
    schema = _schema(name, opset)
    if schema and (schema.has_function or schema.has_context_dependent_function):
        return "by definition"
    return "no"


def _schema(name: str, opset: int) -> Any:
    domain, _, op = name.rpartition(".")
    found = onnx.defs.has(op, opset, domain)
    return onnx.defs.get_schema(op, opset, domain) if found else None


def _types(name: str, opset: int) -> tuple[str, ...] | None:
    schema = _schema(name, opset)
    if schema is None:
        return None
    words = schema.inputs[0].types if schema.inputs else ()
    codes = dict(onnx.TensorProto.DataType.items())
    found = {codes.get(w.removeprefix("tensor(").removesuffix(")").upper()) for w in words}
    return tuple(d.name for d in dtype.DTYPES if d.onnx in found)


def own_kernels(name: str, target: str) -> tuple[str, ...]:
    """The features of a core for which there are kernels of an operator, or of its integer form;
    "core" where they need none."""
    return _kernels_for(name, TARGETS[target].features)


def _kernels_for(name: str, features: frozenset[str]) -> tuple[str, ...]:
    record = OPS.get(name)
    names = (name, record.quantised) if record else (name,)
    fitting = [s for n in names for s in KERNELS.get(n, ()) if s.fits(features)]
    return tuple(sorted({word for s in fitting for word in s.needs or ("core",)}))


def tabled(found: Sequence[Support], targets: Sequence[str]) -> Table:
    """A line for each operator; a column for each target has the features of that core for which
    there are kernels."""
    heads = ("operator", "opsets", "support", "types", *targets)
    rows = tuple((s.name, _listed(map(str, s.opsets)), s.how, _shown_types(s),
                  *(_listed(own_kernels(s.name, t)) for t in targets)) for s in found)  # fmt: skip
    return Table(heads, rows)


def _listed(words: Any) -> str:
    return ", ".join(words)


def _shown_types(s: Support) -> str:
    if not s.supported or s.types is None:
        return ""
    return _listed(s.types) + ("; quantised, too" if s.integer else "")


def to_json(found: Sequence[Support], targets: Sequence[str]) -> list[dict[str, Any]]:
    return [
        {
            "name": s.name,
            "opsets": list(s.opsets),
            "supported": s.supported,
            "support": s.how,
            "types": None if s.types is None else list(s.types),
            "integer_form": s.integer,
            "own_kernels": {t: list(own_kernels(s.name, t)) for t in targets},
        }
        for s in found
    ]


@frozen
class Step:
    """A layer of a model: for each target the kernel that computes it, and, if that is a portable
    one, why."""

    name: str
    op: str
    kernels: Mapping[str, str]
    why: Mapping[str, str]


@frozen
class Judgement:
    """A model: its layers, or what keeps it from being compiled; and what could be better.
    `missing` is what an archive does not tell."""

    name: str
    targets: tuple[str, ...]
    steps: tuple[Step, ...] = ()
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    missing: tuple[str, ...] = ()


def of_archive(subject: Subject) -> Judgement:
    """A module that is compiled already, for its target."""
    target, said = subject.interface.target, described(subject.record, subject.file)
    if said is None:
        missing = ("layers and kernels: the archive does not say what they are",)
        return Judgement(subject.name, (target,), missing=missing)
    features = TARGETS[target].features if target in TARGETS else frozenset()
    steps = tuple(
        Step(n.name, n.op, {target: n.kernel}, {target: _why(n.op, n.kernel, features)})
        for n in said.nodes
    )
    return Judgement(subject.name, (target,), steps)


def judged(title: str, specs: Mapping[str, ModuleSpec]) -> Judgement:
    """The model, compiled for each target as its spec says. Raises MlfError if its file cannot be
    read."""
    targets = tuple(specs)
    rows: dict[tuple[int, str, str], tuple[dict[str, str], dict[str, str]]] = {}
    warnings: dict[Problem, None] = {}
    for target, spec in specs.items():
        try:
            module = compile_module(spec)
        except MlfError as error:
            if all(p.code in _OF_NODES for p in error.problems):
                return Judgement(title, targets, problems=error.problems)
            raise
        warnings |= dict.fromkeys(advice(module))
        for k, call in enumerate(module.program.calls):
            ops = " + ".join(n.op for n in call.node.body) or call.node.op
            kernels, why = rows.setdefault((k, call.node.name, ops), ({}, {}))
            kernels[target] = call.kernel.name
            features = module.program.target.features
            why[target] = _why(call.node.op, call.kernel.name, features)
    steps = tuple(Step(name, op, *both) for (_, name, op), both in rows.items())
    return Judgement(title, targets, steps, (), tuple(warnings))


# What is wrong with nodes, rather than with the file.
_OF_NODES = {"MLF0205", "MLF0206", "MLF0301", "MLF0302", "MLF0303"}


def _why(op: str, kernel: str, features: frozenset[str]) -> str:
    """Why a portable kernel computes it."""
    if not kernel.startswith("portable."):
        return ""
    if _kernels_for(op, features):
        return "this core's kernels are dearer here, or not for this form"
    return "this core has no kernel of its own for the operator"


def text(found: Judgement) -> str:
    """For people."""
    targets = ", ".join(found.targets)
    if found.problems:
        count = len(found.problems)
        lines = [f"{found.name} for {targets}: no, {count} problem{'s' * (count > 1)}", ""]
        for p in found.problems:
            lines.append(f"{one_line(p.path)}: {p.code}: {one_line(p.message)}")
            lines += [f"  help: {one_line(p.help)}"] if p.help else []
        return "\n".join(lines)
    if found.missing:
        return "\n".join(
            (f"{found.name} for {targets}", *map("not known: {}".format, found.missing))
        )
    count = len(found.steps)
    all_have = f"all {count} layers have kernels" if count != 1 else "its layer has a kernel"
    lines = [f"{found.name} for {targets}: yes, {all_have}", ""]
    lines.append(text_of(_steps_table(found)))
    lines += ["", *_reasons(found)] if any(map(_reasons_of, found.steps)) else []
    lines += [f"{w.code}: {one_line(w.path)}: {one_line(w.message)}" for w in found.warnings]
    return "\n".join(lines)


def _reasons_of(step: Step) -> list[str]:
    return [why for why in step.why.values() if why]


def _reasons(found: Judgement) -> Iterator[str]:
    """Why layers have portable kernels: a line for each reason on each target."""
    for target in found.targets:
        groups: dict[str, dict[str, None]] = {}
        for s in found.steps:
            if why := s.why.get(target):
                groups.setdefault(why, {})[one_line(s.op)] = None
        for why, names in groups.items():
            yield f"portable on {target}: {', '.join(names)}: {why}"


def _steps_table(found: Judgement) -> Table:
    rows: Iterator[tuple[Cell, ...]] = (
        (s.name, s.op, *(s.kernels.get(t, "") for t in found.targets)) for s in found.steps
    )
    return Table(("layer", "operators", *found.targets), tuple(rows))


def judgement_json(found: Judgement) -> dict[str, Any]:
    """The same for scripts; new versions only add keys."""
    return {
        "name": found.name,
        "targets": list(found.targets),
        "ok": not found.problems,
        "layers": [
            {"name": s.name, "operators": s.op, "kernels": dict(s.kernels), "why": dict(s.why)}
            for s in found.steps
        ],
        "problems": [vars(p) for p in found.problems],
        "warnings": [vars(p) for p in found.warnings],
        "missing": list(found.missing),
    }
