"""Layers with memory whose state the module keeps: a thousand calls, and the shared models with a
state, equal TensorFlow Lite Micro's."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from shared import shared_folder
from test_tflite_cases import FILE
from test_tflite_cases import RECORDED as CASES
from test_tflite_oracle import INSTALLED, digest, update
from tfl_case_states import features, framer, memories, stacker, streams
from tfl_cases import Case, feeds, merged
from tfl_writer import Op, Sub, T, model

from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.frontends.models import TFLite
from mlftool.plan.states import slots
from mlftool.runtime.load import LoadedArchive, LoadedModule

__all__ = ["update"]  # the fixture
STEPS = 1000
FOLDER = shared_folder() / "tflite"
# Of the families: which of their cases both take is recorded there.
WITH_STATE = ("SVDF", "UNIDIRECTIONAL_SEQUENCE_LSTM", "SignalDelay", "SignalStacker")
WITH_STATE += ("SignalOverlapAdd", "SignalFilterBankSpectralSubtraction", "CIRCULAR_BUFFER")


def loaded(model: TFLite | Path) -> LoadedModule:
    spec = ModuleSpec(model, "m", state=("all",))
    return LoadedArchive(compile_modules([spec]), "", None).module()


def chosen() -> list[Case]:
    """One case of each operator with a state, of integers."""
    found = {}
    for family in (memories, features, streams):
        both = int(CASES[family.__name__]["both"], 16)
        for k, case in enumerate(family(np.random.default_rng(7))):
            whole = all(t.type != "float32" for t in case.outputs)
            if both >> k & 1 and case.kind in WITH_STATE and whole:
                found.setdefault(case.kind, case)
    assert sorted(found) == sorted(WITH_STATE)
    return list(found.values())


def test_a_thousand_steps(update: bool) -> None:
    """Ours is also that of a module that is given its state, which is compared elsewhere."""
    cases = chosen()
    data = merged(cases)
    module = loaded(TFLite(data))
    rngs = [np.random.default_rng(k) for k in range(len(cases))]
    interpreter, hashes = None, []
    if INSTALLED:
        from tflite_micro import runtime

        interpreter = runtime.Interpreter.from_bytes(data, arena_size=1 << 20)
    for _ in range(STEPS):
        given = [x for rng, case in zip(rngs, cases, strict=True) for x in feeds(rng, [case])]
        names = [t.name for t in module.inputs]
        made = module.run(dict(zip(names, given, strict=True)))
        hashes.append(b"".join(np.asarray(v).tobytes() for v in made.values()))
        if interpreter is None:
            continue
        for k, x in enumerate(given):
            interpreter.set_input(x, k)
        interpreter.invoke()
        for k, got in enumerate(made.values()):
            np.testing.assert_array_equal(got, interpreter.get_output(k).reshape(got.shape))
    recorded("a thousand steps", digest(*hashes), update)


@pytest.mark.parametrize(
    "case",
    [
        framer((6,), 5, 2, False),
        framer((2,), 7, 2, False),
        stacker(3, 1, 1, 1),
        stacker(2, 0, 3, 3),
    ],
    ids=str,
)
def test_what_is_not_valid_yet(case: Case, update: bool) -> None:
    """Upstream leaves an output as memory was until there are enough samples, and says so."""
    data = merged([case])
    module, interpreter = loaded(TFLite(data)), None
    if INSTALLED:
        from tflite_micro import runtime

        interpreter = runtime.Interpreter.from_bytes(data)
    rng, seen, hashes = np.random.default_rng(5), set(), []
    for _ in range(12):
        (x,) = feeds(rng, [case])
        y, valid = (np.asarray(v) for v in module.run(x).values())
        seen.add(bool(valid))
        hashes.append(bytes([bool(valid)]) + (y.tobytes() if valid else b""))
        if interpreter is None:
            continue
        interpreter.set_input(x, 0)
        interpreter.invoke()
        assert bool(interpreter.get_output(1)) == bool(valid)
        if valid:
            np.testing.assert_array_equal(y, interpreter.get_output(0).reshape(y.shape))
    assert seen == {False, True}
    recorded(str(case), digest(*hashes), update)


def recorded(name: str, hashed: str, update: bool) -> None:
    """Raises AssertionError unless this was recorded where the interpreter was asked, too."""
    if update:
        CASES[name] = {"digest": hashed}
        FILE.write_text(json.dumps(CASES, indent=1, sort_keys=True) + "\n")
    assert CASES[name]["digest"] == hashed


def test_states_stay_in_their_place() -> None:
    """SVDF, LSTM and the signal operators change them where they stand: nothing is copied."""
    compiled = compile_module(ModuleSpec(TFLite(merged(chosen())), "m", state=("all",)))
    found, _ = slots(compiled.program, compiled.imported)
    copied = [s.state.input for s in found if not s.in_place]
    assert not copied


@pytest.mark.parametrize(
    "name", ["dtln_int8", "mnist_lstm_int8", "audio_preprocessor_int8", "keyword_scrambled_8bit"]
)
def test_shared_models_keep_their_state(name: str) -> None:
    file = FOLDER / f"{name}.tflite"
    if not file.is_file():
        pytest.skip(f"did not run: no models in {FOLDER}; set MLFTOOL_SHARED_MODELS")
    module = loaded(file)
    (x,) = module.inputs
    with np.load(file.with_suffix(".npz")) as vectors:
        for given, want in zip(vectors["input"], vectors["output"], strict=True):
            (got,) = module.run({x.name: given.reshape(x.shape)}).values()
            np.testing.assert_array_equal(got, want.reshape(got.shape))


def counter(row: str) -> bytes:
    """y = value + x of a variable, which y is then; CALL_ONCE gives it its first values."""
    scale = () if row == "float32" else (0.0217, 3)
    rng, shape = np.random.default_rng(2), (1, 6)
    first = rng.normal(0, 1, shape) if row == "float32" else rng.integers(-128, 128, shape)
    handle, x, y = (
        T("handle", (), "resource"),
        T("x", shape, row, *scale),
        T("y", shape, row, *scale),
    )
    name = Op("VAR_HANDLE", [], [0], "VarHandleOptions", {"SharedName": "v", "Container": ""})
    read = Op("READ_VARIABLE", [0], [2])
    add = Op("ADD", [1, 2], [3], "AddOptions")
    half = Op("MUL", [3, 4], [5], "MulOptions")
    assign = Op("ASSIGN_VARIABLE", [0, 5], [])
    once = Op("CALL_ONCE", [], [], "CallOnceOptions", {"InitSubgraphIndex": 1})
    factor = T(
        "half", (1, 1), row, *((0.0059, 0) if scale else ()), data=[[0.7 if not scale else 99]]
    )
    tensors = [handle, x, T("value", shape, row, *scale), y, factor, T("kept", shape, row, *scale)]
    main = Sub(tensors, [once, name, read, add, half, assign], [1], [3])
    begin = T("first", shape, row, *scale, data=first)
    return model(
        main, Sub([handle, begin], [name, Op("ASSIGN_VARIABLE", [0, 1], [])], [], [], "once")
    )


def float_filter() -> bytes:
    cases = memories(np.random.default_rng(7))
    return merged([next(c for c in cases if c.outputs[0].type == "float32")])


INSTANCES = {
    "counter of floats": lambda: counter("float32"),
    "counter of int8": lambda: counter("int8"),
    "SVDF of floats": float_filter,
}


@pytest.mark.parametrize("name", INSTANCES)
def test_two_instances_take_turns(name: str, update: bool) -> None:
    """A thousand steps each, of inputs of their own."""
    data, hashes = INSTANCES[name](), []
    modules = [loaded(TFLite(data)) for _ in range(2)]
    rngs, interpreters = [np.random.default_rng(k) for k in range(2)], []
    if INSTALLED:
        from tflite_micro import runtime

        interpreters = [runtime.Interpreter.from_bytes(data) for _ in rngs]
    (x,) = modules[0].inputs
    for _ in range(STEPS):
        for k, (rng, module) in enumerate(zip(rngs, modules, strict=True)):
            given = (
                rng.normal(0, 1, x.shape)
                if x.dtype.kind == "f"
                else rng.integers(-128, 128, x.shape)
            )
            given = given.astype(x.dtype)
            (got,) = module.run({x.name: given}).values()
            hashes.append(np.asarray(got).tobytes())
            if interpreters:
                interpreters[k].set_input(given, 0)
                interpreters[k].invoke()
                wanted = interpreters[k].get_output(0).reshape(got.shape)
                np.testing.assert_array_equal(got, wanted)
    recorded(f"two instances of a {name}", digest(*hashes), update)
