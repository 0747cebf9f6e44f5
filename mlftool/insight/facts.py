"""The figures of a module by which two builds are compared, and their file."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from mlftool.errors import MlfError
from mlftool.frozen import field, frozen, replace
from mlftool.insight.cycles import of_inference
from mlftool.insight.description import described
from mlftool.insight.profile import profile
from mlftool.insight.size import is_model
from mlftool.insight.subject import Subject
from mlftool.insight.symbols import symbols
from mlftool.insight.values import constants
from mlftool.insight.whole import Whole
from mlftool.ir.graph import Array
from mlftool.mlf import write_atomically
from mlftool.mlf.strict import Checked, printed
from mlftool.runtime.boards import Board, find
from mlftool.runtime.link import footprint, link_firmware
from mlftool.runtime.runner import run_on_board
from mlftool.tune.search import sample_of

# Of which a lower figure is better, in words and with their units.
METRICS: Mapping[str, tuple[str, str]] = {
    "flash": ("flash", "bytes"),
    "ram": ("RAM", "bytes"),
    "stack": ("stack", "bytes"),
    "code": ("code of the model", "bytes"),
    "weights": ("weights", "bytes"),
    "workspace": ("workspace", "bytes"),
    "instructions": ("instructions", ""),
    "cycles": ("estimated cycles", ""),
    "macs": ("MACs", ""),
    "layers": ("layers", ""),
}


@frozen
class LayerFacts:
    """A step; None is what is not known."""

    name: str
    kernel: str
    macs: int
    instructions: int | None = None


@frozen
class Facts:
    """What two builds of a module are compared by. `figures` has the metrics that are known;
    `interface` what a caller sees, in JSON; `outputs` is the SHA-256 of what the module computes
    from a pattern, "" if it was not run. `results` are these outputs and `constants` the model's,
    by name; None where they are not known, as of what was saved."""

    name: str
    module: str
    target: str
    executor: str
    figures: Mapping[str, int]
    layers: tuple[LayerFacts, ...]
    interface: Mapping[str, Any]
    outputs: str = ""
    results: Mapping[str, Array] | None = field(default=None, compare=False, repr=False)
    constants: Mapping[str, Array] | None = field(default=None, compare=False, repr=False)


def is_measured(target: str) -> bool:
    """Whether there is a simulated board for it that has no operating system."""
    board = find(target, target)
    return board is not None and not board.hosted


def facts(subject: Subject, wanted: str | None = None, run: bool = True) -> Facts:
    """Measured on the board that is `wanted`, or on its target's. Without a simulated board, or
    if it is not to be `run`, only what is known without one. Raises MlfError."""
    interface, said = subject.interface, described(subject.record, subject.file)
    figures = dict(subject.memory)
    layers: tuple[LayerFacts, ...] = ()
    if said is not None:
        figures |= {"macs": said.macs, "layers": len(said.nodes)}
        layers = tuple(LayerFacts(n.name, n.kernel, n.macs) for n in said.nodes)
    results = None
    board = find(wanted or interface.target, interface.target) if run else None
    if board is not None and not board.hosted:
        measured, results = on_board(subject, board, estimate=True)
        figures |= measured
        if subject.compiled is not None:
            whole = Whole(measured["instructions"])
            costs = profile(subject, wanted, estimate=False, whole=whole).costs
            layers = tuple(
                LayerFacts(c.layer.name, c.layer.kernel, c.layer.macs or 0, c.instructions)
                for c in costs
            )
    return Facts(
        *(subject.name, interface.module, interface.target, interface.executor),
        figures,
        layers,
        _interface(subject),
        _digest(results),
        results,
        constants(subject.compiled.imported) if subject.compiled else None,
    )


def _digest(results: Mapping[str, Array] | None) -> str:
    data = b"".join(value.tobytes() for value in (results or {}).values())
    return hashlib.sha256(data).hexdigest() if results is not None else ""


def on_board(
    subject: Subject, board: Board, estimate: bool = False
) -> tuple[dict[str, int], dict[str, Array]]:
    """What `mlftool run` says of one sample, a pattern, and the outputs. With
    `estimate` also cycles, where there is a table for the core and QEMU can count for it."""
    interface = subject.interface
    elf = link_firmware(subject.bundle, interface, board, optimise=interface.flag)
    sizes, found = footprint(elf), symbols(elf)
    sample = sample_of(interface, None)
    result = run_on_board(elf, board, interface, [sample])
    outputs = {t.name: result.outputs[0][t.name] for t in interface.results}
    code = sum(s.size for s in found if s.is_code and is_model(s))
    figures = {"flash": sizes.flash, "ram": sizes.ram, "code": code}
    figures["instructions"] = round(result.figures["instructions"])
    figures["stack"] = round(result.figures["stack_bytes"])
    if estimate:
        with suppress(MlfError):  # what was counted is there; this needs more of the computer
            whole = of_inference(elf, board, interface, sample, figures["instructions"])
            figures |= {} if whole is None else {"cycles": whole}
    return figures, outputs


def _interface(subject: Subject) -> dict[str, Any]:
    interface = subject.interface
    return {
        "entry point": interface.run_symbol,
        "executor": interface.executor,
        "interface": interface.interface_api,
        "inputs and outputs in the workspace": interface.workspace_io,
        "pools to pass": list(interface.pools),
        "inputs": [t.to_json() for t in interface.inputs],
        "outputs": [t.to_json() for t in interface.outputs],
    }


def to_bytes(found: Sequence[Facts]) -> bytes:
    """What `read_facts` reads: the same figures are the same bytes."""
    data = {"schema_version": 1, "facts": [_saved(f) for f in found]}
    return (json.dumps(data, indent=1, sort_keys=True) + "\n").encode()


def _saved(found: Facts) -> dict[str, Any]:
    data = asdict(replace(found, results=None, constants=None))
    return {key: value for key, value in data.items() if key not in ("results", "constants")}


def save(path: Path, found: Sequence[Facts]) -> None:
    """Writes them to a file. Raises MlfError."""
    write_atomically(path, to_bytes(found))


def read_facts(path: Path) -> tuple[Facts, ...]:
    """Raises MlfError for anything but a file of `save`."""
    help = "mlftool diff --save writes one; a model, an archive or a manifest is taken, too"
    return printed(path, _all_read, "what mlftool diff --save writes", help)


def _all_read(top: Checked) -> tuple[Facts, ...]:
    top.at("schema_version").number(1, 1)
    return () if top.notes else top.at("facts").list(_read)


def _read(entry: Checked) -> Facts:
    interface = entry.at("interface")
    for tensor in (t for key in ("inputs", "outputs") for t in interface.at(key).each()):
        for key in ("name", "dtype", "shape"):
            tensor.at(key)
    return Facts(
        name=entry.at("name").text(),
        module=entry.at("module").text(),
        target=entry.at("target").text(),
        executor=entry.at("executor").text(),
        figures={k: _count(v) for k, v in entry.at("figures").items() if k in METRICS},
        layers=entry.at("layers").list(_layer),
        interface=interface.value,
        outputs=entry.at("outputs").text(),
    )


def _layer(entry: Checked) -> LayerFacts:
    instructions = entry.at("instructions")
    return LayerFacts(
        name=entry.at("name").text(),
        kernel=entry.at("kernel").text(),
        macs=_count(entry.at("macs")),
        instructions=None if instructions.value is None else _count(instructions),
    )


def _count(found: Checked) -> int:
    return found.number(0, (1 << 53) - 1)
