"""What `plan_module` decides is what `compile_module` writes C of."""

from __future__ import annotations

import pytest
from families import FAMILIES

from mlftool.compile import ModuleSpec, compile_module, plan_module


@pytest.mark.parametrize("optimize", ["speed", "size"])
@pytest.mark.parametrize("family", FAMILIES)
def test_decisions_are_those_of_the_module(family: str, optimize: str) -> None:
    target, make = FAMILIES[family]
    spec = ModuleSpec(make(), family, target, optimize=optimize)
    planned, module = plan_module(spec), compile_module(spec)
    steps = [[(c.node.name, c.kernel.name) for c in m.program.calls] for m in (planned, module)]
    assert steps[0] == steps[1]
    assert planned.program.memory == module.program.memory
    assert planned.constants_bytes == module.constants_bytes == module.sources.constants_bytes
