"""What is said of a quantised model, for people and for scripts."""

from __future__ import annotations

from typing import Any

from mlftool import table
from mlftool.errors import one_line
from mlftool.quantize.device import Cost
from mlftool.quantize.metrics import shown
from mlftool.quantize.network import recurrent_layers
from mlftool.quantize.plan import Precision, Resolved
from mlftool.quantize.quantizer import Quantized
from mlftool.quantize.search import CHEAPER
from mlftool.quantize.trials import Point
from mlftool.table import Decibels, Table

PLAIN_FORM = (
    "only recurrent layers of constant weights without peepholes, lengths and clip have integers"
)


def text(q: Quantized, output: str) -> str:
    """Accuracy first, then layers, steps and the curve."""
    where, judged = "compiled C" if q.on_device else "simulated", q.judged
    seen = "calibration has not seen" if judged.unseen else "calibration has seen, too"
    if any(x.precision is not Precision.INT8 and x.why != CHEAPER for x in q.layers):
        seen += ", and by which precisions were chosen"
    lines = [
        f"{one_line(q.request.file)} -> {one_line(output)}, for {q.request.target}",
        "",
        f"  {q.metric:<12}float {shown(q.metric, q.before)}, quantised "
        f"{shown(q.metric, q.after)} ({where})",
        f"  {'samples':<12}{_samples(judged.count)} that {seen}; "
        f"{judged.calibration_count} calibrated",
        f"  {'sqnr':<12}{q.output_sqnr:.1f} dB of the outputs; before probabilities "
        f"{judged.sqnr:.1f} dB, of calibration's samples {judged.calibration_sqnr:.1f} dB",
        f"  {'error':<12}at most {100 * judged.error:.2g} % of an output's largest value",
        *(
            [f"  {'classes':<12}{judged.changed} of {_samples(judged.count)} differ from float"]
            if judged.changed is not None
            else []
        ),
        f"  {'flash':<12}{q.float_cost.flash:,} B -> {q.cost.flash:,} B of constants",
        f"  {'ram':<12}{q.float_workspace:,} B -> {q.workspace:,} B of workspace",
        f"  {'cost':<12}{_instructions(q.float_cost)} -> {_instructions(q.cost)} instructions, "
        "estimated",
    ]
    if kept := recurrent_layers(q.improved.net.model):
        named = ", ".join(f"'{one_line(name)}'" for name in kept)
        lines.append(f"  {'in float':<12}{named}: {PLAIN_FORM}")
    if tables := _tables(q):
        named = ", ".join(f"'{one_line(name)}'" for name in tables)
        lines.append(f"  {'tables':<12}of int8 are the gates of {named}")
    if q.goal:
        lines.append(f"  {'asked for':<12}{q.goal.text}")
    lines += [f"\n{table.text(part)}" for part in (_layers(q), _steps(q), _curve(q))]
    return "\n".join(lines)


def _tables(q: Quantized) -> list[str]:
    """Recurrent layers whose gates are tables."""
    resolved = Resolved(q.improved.net, q.found.plan)
    found = (way.name for group, way in q.improved.net.gates.items() if resolved.scale(group))
    return list(dict.fromkeys(found))


def _samples(count: int) -> str:
    return f"{count} sample{'s' * (count != 1)}"


def _instructions(cost: Cost) -> str:
    return f"{cost.instructions:,.0f}"


def _layers(q: Quantized) -> Table:
    rows = [
        (
            *(Decibels(x.sqnr), round(x.cost.instructions), x.cost.flash, str(x.precision)),
            *(x.range_by or "-", x.name, x.why),
        )
        for x in q.layers
    ]
    heads = ("SQNR dB", "instructions", "flash", "precision", "input's range", "layer", "why")
    return Table(heads, tuple(rows))


def _steps(q: Quantized) -> Table:
    rows = [
        (float(s.sqnr), "kept" if s.kept else "no gain", s.name, s.detail) for s in q.improved.steps
    ]
    return Table(("SQNR dB", "", "step", "what"), tuple(rows))


def _curve(q: Quantized) -> Table:
    rows = [
        (
            *(round(p.cost.instructions), p.cost.flash, shown(q.metric, p.accuracy)),
            *(Decibels(p.sqnr), p.what + " (chosen)" * (p is q.found.chosen)),
        )
        for p in q.found.curve
    ]
    return Table(("instructions", "flash", q.metric, "SQNR dB", "plan"), tuple(rows))


def to_json(q: Quantized) -> dict[str, Any]:
    """New versions only add keys. SQNRs are in dB, sizes in bytes."""
    return {
        "model": q.request.file,
        "target": q.request.target,
        "metric": q.metric,
        "asked_for": q.goal.enough if q.goal else None,
        "samples": q.judged.count,
        "samples_unseen": q.judged.unseen,
        "samples_of_calibration": q.judged.calibration_count,
        "sqnr_before_probabilities": q.judged.sqnr,
        "sqnr_of_calibration": q.judged.calibration_sqnr,
        "largest_error": q.judged.error,
        "classes_changed": q.judged.changed,
        "accuracy_before": q.before,
        "accuracy_after": q.after,
        "on_device_arithmetic": q.on_device,
        "sqnr": q.output_sqnr,
        "cost": _cost(q.cost),
        "float_cost": _cost(q.float_cost),
        "workspace_bytes": q.workspace,
        "float_workspace_bytes": q.float_workspace,
        "tables": _tables(q),
        "layers": [
            {
                "name": x.name,
                "operator": x.op,
                "precision": str(x.precision),
                "why": x.why,
                "range_by": x.range_by,
                "sqnr": x.sqnr,
                **_cost(x.cost),
            }
            for x in q.layers
        ],
        "steps": [vars(s) for s in q.improved.steps],
        "curve": [_point(p) for p in q.found.curve],
    }


def _cost(cost: Cost) -> dict[str, float | int]:
    return {"instructions": round(cost.instructions), "flash_bytes": cost.flash}


def _point(p: Point) -> dict[str, Any]:
    return {"plan": p.what, **_cost(p.cost), "accuracy": p.accuracy, "sqnr": p.sqnr}
