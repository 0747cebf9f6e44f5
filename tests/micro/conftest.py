"""Firmware that tests of this folder drive, built once."""

from __future__ import annotations

import pytest
from firmware import FLOAT, INT8, SANITIZE, Firmware, build

from mlftool.compile import ModuleSpec


@pytest.fixture(scope="session")
def aot_firmware(tmp_path_factory: pytest.TempPathFactory) -> Firmware:
    """Two AOT modules."""
    specs = [
        ModuleSpec(INT8, "a", interface_api="packed", system_lib=True),
        ModuleSpec(FLOAT, "b", interface_api="packed", system_lib=True),
    ]
    folder = tmp_path_factory.mktemp("aot")
    limits = [("TVM_CRT_MAX_REGISTERED_MODULES", 4)]
    return build(folder, specs, limits=limits, arena=4 << 20, flags=SANITIZE)


@pytest.fixture(scope="session")
def graph_firmware(tmp_path_factory: pytest.TempPathFactory) -> Firmware:
    """A graph."""
    specs = [ModuleSpec(FLOAT, "g", executor="graph", system_lib=True)]
    return build(tmp_path_factory.mktemp("graph"), specs)
