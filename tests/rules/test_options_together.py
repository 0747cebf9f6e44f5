"""Which options go together: manifests, rules and the compiler judge by one table."""

from __future__ import annotations

import itertools
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from shared import REPO

from mlftool.compile import ModuleSpec, compile_module
from mlftool.errors import MlfError
from mlftool.options import EXECUTORS, FILES, OPTIONS, Need, unmet

sys.path.insert(0, str(Path(os.path.abspath(__file__)).parents[2] / "tools"))
import rules_doc

MODEL = REPO / "examples" / "models" / "gesture_int8.onnx"
# Of each option and file that needs another: a value that asks for it.
ASKED: dict[str, Any] = {
    "unpacked_api": False,
    "system_lib": True,
    "workspace_io": True,
    "pools": ("sram=1MiB",),
    "state": ("h0=hn",),
    "stream": ("axis=1",),
    "tuning": Path("x.json"),
}
OTHERS: dict[str, tuple[Any, ...]] = {
    "interface_api": (None, "c", "packed"),
    "optimize": ("speed", "size"),
    "patches": ("off", "auto"),
    "workspace_io": (False, True),
    "ram_budget": ("none", "24KiB"),
}
GIVEN = [dict(zip(OTHERS, values, strict=True)) for values in itertools.product(*OTHERS.values())]


class RefusedError(Exception):
    """Bazel's fail()."""


def fail(text: str) -> None:
    raise RefusedError(text)


def refused(check: Callable[..., None], *arguments: Any) -> str:
    """What a check of the rules says, or ""."""
    try:
        check(*arguments)
    except RefusedError as error:
        return str(error)
    return ""


def test_every_need_is_tried() -> None:
    needy = {name for name, option in OPTIONS.items() if option.needs}
    assert needy | FILES.keys() == ASKED.keys()
    needed = {need.option for o in OPTIONS.values() for need in o.needs}
    assert needed | {need.option for needs in FILES.values() for need in needs} == OTHERS.keys()


@pytest.mark.parametrize("executor", EXECUTORS)
@pytest.mark.parametrize("name", ASKED)
def test_rules_refuse_what_the_table_does(name: str, executor: str) -> None:
    rules = rules_doc.run_bzl("//rules/private:compile.bzl", {})
    rules["fail"] = fail
    rules["public_label"] = lambda ctx: "//x:y"
    # Of three values none is -1.
    three = {True: 1, False: 0}
    value = three.get(ASKED[name], ASKED[name]) if name == "unpacked_api" else ASKED[name]
    table = rules["OPTIONS"][name].needs if name in OPTIONS else rules["FILES"][name]
    seen = set()
    for given in GIVEN:
        words = {n: "" if v is None else v for n, v in given.items()}
        ctx = SimpleNamespace(attr=SimpleNamespace(executor=executor, **words))
        wanted: list[Need] = list(unmet(name, {**given, name: ASKED[name]}, executor))
        seen.add(bool(wanted))
        said = refused(rules["_check_needs"], ctx, name, value, table)
        assert bool(said) == bool(wanted), given
        for need in wanted[:1]:
            assert f"expected '{need.value}'; set {need.option} = " in said
    assert executor != "aot" or seen == {False, True}


@pytest.mark.parametrize("given", [{"workspace_io": True}, {"pools": ("sram=1MiB",)}], ids=str)
def test_the_compiler_refuses_it_too(given: dict[str, Any]) -> None:
    name = next(iter(given)).replace("_", "-")
    with pytest.raises(MlfError, match=f"{name} with interface-api 'packed'; expected c"):
        compile_module(ModuleSpec(MODEL, interface_api="packed", **given))
    for executor in ("graph", "vm"):
        with pytest.raises(MlfError, match=f"{name} with executor '{executor}'; expected aot"):
            compile_module(ModuleSpec(MODEL, executor=executor, **given))


def test_words_that_an_option_lacks_are_refused() -> None:
    for name, wrong in {"optimize": "both", "float_mode": "quick", "weights": "hex"}.items():
        words = name.replace("_", " ")
        with pytest.raises(MlfError, match=f"{words} '{wrong}', expected "):
            compile_module(ModuleSpec(MODEL, **{name: wrong}))  # type: ignore[arg-type]
