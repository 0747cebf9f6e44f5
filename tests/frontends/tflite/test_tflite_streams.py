"""Every operator in the streaming form of a model: it has one, or is refused in plain words. This
front end's nodes lack attributes that ONNX's importer writes."""

from __future__ import annotations

from importlib import import_module

import numpy as np
from tfl_cases import FAMILIES, Case, merged

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError
from mlftool.frontends.models import TFLite

for _name in ("elements", "moves", "states", "sums"):
    import_module(f"tfl_case_{_name}")  # registers its families


def of_each_kind() -> list[Case]:
    """The first case of each operator in each type."""
    made = (case for family in FAMILIES.values() for case in family(np.random.default_rng(17)))
    found: dict[tuple[str, str], Case] = {}
    for case in made:
        found.setdefault((case.kind, case.outputs[0].type), case)
    return [*found.values()]


def test_no_operator_of_a_stream_is_a_bug() -> None:
    cases = of_each_kind()
    bugs, streams = [], 0
    for case in cases:
        try:
            compile_module(ModuleSpec(TFLite(merged([case])), "m", stream=("axis=1",)))
            streams += 1
        except MlfError as error:
            if error.exit_code != 2:
                bugs.append(f"{case}: {error}")
    assert not bugs
    assert streams > len(cases) // 10
