"""What `mlftool diff` says of arrays, against numpy's sums."""

from __future__ import annotations

import json

import numpy as np
from hypothesis import given
from hypothesis import strategies as some
from hypothesis.extra import numpy as arrays

from mlftool.insight.values import SHOWN, changes, text

NUMBERS = some.sampled_from([np.float32, np.int8, np.uint16, np.bool_, np.float16])
VALUES = NUMBERS.flatmap(lambda d: arrays.arrays(d, arrays.array_shapes(max_side=3)))


@given(VALUES)
def test_what_is_the_same_is_no_change(value: np.ndarray) -> None:
    assert changes({"a": value}, {"a": value.copy()}) == ()
    (line,) = text((), "constants")
    assert line == "constants: the same"


@given(VALUES, some.data())
def test_one_element(value: np.ndarray, data: some.DataObject) -> None:
    at = data.draw(some.integers(0, value.size - 1))
    new = value.copy()
    new.flat[at] = not value.flat[at]
    found = changes({"a": value, "b": value}, {"a": value, "b": new})
    if value.tobytes() == new.tobytes():
        assert found == ()
        return
    (one,) = found
    assert (one.name, one.differing, one.elements) == ("b", int(new.flat[at] != value.flat[at]),
                                                       value.size)  # fmt: skip
    json.dumps(one.to_json(), allow_nan=False)
    assert text(found, "constants")[0] == "constants: 1 differ"


def test_names_that_an_exporter_numbered_anew() -> None:
    """They belong together if all do; of other networks nothing is said to be the same."""
    old = {"w1": np.zeros((2, 2), np.float32), "w2": np.ones((2, 2), np.float32), "x": np.ones(3)}
    new = {"v1": np.zeros((2, 2), np.float32), "v2": np.full((2, 2), 3, np.float32)}
    new["x"] = np.ones(3)
    (one,) = changes(old, new)
    form = "float32[2x2]"
    assert (one.name, one.before, one.after, one.largest) == ("v2", form, form, 2.0)
    assert text((one,), "constants")[0] == "constants: 1 differ"
    found = changes(old, {**new, "y": np.ones(4)})
    said = {(c.name, bool(c.before), bool(c.after)) for c in found}
    assert said == {("v1", False, True), ("v2", False, True), ("y", False, True),
                    ("w1", True, False), ("w2", True, False)}  # fmt: skip
    assert text(found, "constants") == ["constants: 3 new, 2 gone"]


def test_other_types_shapes_and_texts() -> None:
    old = {"t": np.array([1, 2], np.int8), "s": np.zeros((2, 3)), "n": np.array(["a", "b"], object)}
    new = {
        "t": np.array([1, 3], np.float32),
        "s": np.zeros((3, 2)),
        "n": np.array(["a", "c"], object),
    }
    t, s, n = sorted(changes(old, new), key=lambda c: "tsn".index(c.name))
    assert (t.before, t.after, t.differing, t.largest) == ("int8[2]", "float32[2]", 1, 1.0)
    assert (s.before, s.after, s.elements) == ("float64[2x3]", "float64[3x2]", 0)
    assert (n.differing, n.largest) == (1, None)
    lines = "\n".join(text([s], "constants")).splitlines()
    (row,) = (line for line in lines if line.startswith("s "))
    assert row.split()[-5:] == ["-"] * 5  # other shapes are not compared element by element


def test_the_greatest_first_and_no_more_than_a_screen() -> None:
    old = {f"w{k}": np.ones(2, np.float32) for k in range(2 * SHOWN)}
    new = {name: value * (2 + k) for k, (name, value) in enumerate(old.items())}
    found = changes(old, new)
    assert [c.name for c in found] == [f"w{k}" for k in reversed(range(2 * SHOWN))]
    first, rows = text(found, "constants")
    assert first == f"constants: {2 * SHOWN} differ; the {SHOWN} that differ most"
    assert len(rows.splitlines()) == SHOWN + 1
