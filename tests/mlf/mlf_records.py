"""Random archives for the property tests: anything that the records can hold."""

from __future__ import annotations

import numpy as np
from hypothesis import strategies as st

from mlftool.mlf import params
from mlftool.mlf.records import (
    FULL_MODEL,
    OPERATOR,
    Archive,
    Argument,
    Dependency,
    FunctionMemory,
    IoTensor,
    MainMemory,
    Memory,
    ModuleRecord,
    Storage,
    TargetString,
)

SIZES = st.integers(0, 2**63 - 1)
TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
NAMES = st.text("abcXYZ019_", min_size=1, max_size=8)
DEVICES = st.sampled_from([1, 2, 12, 15])
BYTES = st.binary(max_size=40)


def io() -> st.SearchStrategy[tuple[IoTensor, ...] | None]:
    tensor = st.builds(IoTensor, TEXT, st.sampled_from(["int8", "float32"]), SIZES)
    many = st.lists(tensor, max_size=3, unique_by=lambda t: t.name).map(tuple)
    return st.none() | many


MAIN = st.builds(MainMemory, SIZES, SIZES, SIZES, io(), io(), DEVICES)
FUNCTION = st.builds(
    FunctionMemory, TEXT, st.lists(st.tuples(DEVICES, SIZES), max_size=2).map(tuple)
)
STORAGE = st.builds(Storage, st.integers(0, 2**31 - 1), SIZES, st.none() | TEXT)
ARGUMENT = st.builds(
    Argument,
    TEXT,
    st.just("int8"),
    st.lists(st.integers(0, 2**31 - 1), max_size=3).map(tuple),
    SIZES,
)
MODEL_MEMORY = st.builds(
    Memory,
    st.lists(MAIN, max_size=2).map(tuple),
    st.lists(FUNCTION, max_size=3).map(tuple),
    st.none() | st.lists(STORAGE, max_size=3).map(tuple),
)
OPERATOR_MEMORY = st.builds(
    Memory,
    operators=st.dictionaries(TEXT, st.lists(ARGUMENT, max_size=3).map(tuple), max_size=2),
)
DEPENDENCIES = st.lists(st.builds(Dependency, TEXT, TEXT, TEXT, TEXT), max_size=2).map(tuple)
PARAMS = params.encode({"p0": np.arange(3, dtype=np.float32)})


@st.composite
def modules(draw: st.DrawFn, version: int, name: str, style: str) -> ModuleRecord:
    operator = style == OPERATOR
    executor = draw(st.sampled_from(["aot", "graph", "vm"]))
    code = ("src/@_lib0.c", "src/@_lib1.c", "src/@_lib2.cc", "src/@_lib10.cpp", "lib/@_lib0.o")
    places = [f"codegen/host/{c.replace('@', name)}" for c in code]
    if operator:
        places += ["src/tir-1.txt", "src/tir-12.txt"]
    else:
        places += [f"src/{name}.relay", f"codegen/host/include/tvmgen_{name.lower()}.h"]
        places += [f"executor-config/{executor}/{name}.json"]
        places += [f"executor-config/graph/{name}.graph"] if executor == "graph" else []
    files = draw(st.dictionaries(st.sampled_from(places), BYTES))
    if not operator:
        files[f"parameters/{name}.params"] = draw(st.sampled_from([params.encode({}), PARAMS]))
    targets = st.builds(TargetString, TEXT, DEVICES)
    unique = (lambda t: t.device) if version < 6 else None
    return ModuleRecord(
        name,
        () if operator else (executor,),
        draw(st.lists(targets, max_size=2, unique_by=unique).map(tuple)),
        draw(OPERATOR_MEMORY if operator else MODEL_MEMORY),
        files,
        style,
        draw(DEPENDENCIES),
        draw(st.just("2021-02-03 04:05:06Z")),
    )


@st.composite
def archives(draw: st.DrawFn, version: int) -> Archive:
    """Anything that may be written in `version`: operators from 4 on, several modules in 7."""
    style = draw(st.sampled_from([FULL_MODEL, OPERATOR] if version >= 4 else [FULL_MODEL]))
    most = 3 if version >= 7 and style == FULL_MODEL else 1
    names = draw(st.lists(NAMES, min_size=1, max_size=most, unique_by=str.lower))
    members = tuple(draw(modules(version, n, style)) for n in names)
    shared = draw(
        st.dictionaries(
            st.sampled_from(["runtime/src/a.c", "templates/b", "codegen/host/include/mlf/k.h"]),
            BYTES,
        )
    )
    return Archive(version, members, shared)
