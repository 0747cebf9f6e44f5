"""What scripts may ask for, and what they are told when it does not exist."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net
from shared import REPO

from mlftool import Executor, PassContext, Runtime, build, create_executor, from_onnx
from mlftool.api.target import Target, the_target
from mlftool.config import CONFIG, EXECUTOR_OPTIONS, IGNORED_PASSES
from mlftool.errors import MlfError
from mlftool.passes import PIPELINE, TVM_PASSES
from mlftool.passes.order import wanted


def small() -> onnx.ModelProto:
    net = Net()
    x = net.input("x", np.float32, (1, 2, 4, 4))
    y = net.node("Conv", x, net.const(np.arange(18).reshape(3, 2, 3, 1) / 7, np.float32))
    return net.model(net.node("Relu", y))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: PassContext(config={"tir.usmp.enabled": True}), "did you mean 'tir.usmp.enable'?"),
        (lambda: PassContext(config={"tir.usmp.enable": "yes"}), "expected True or False"),
        (lambda: PassContext(config={"tir.usmp.algorithm": "best"}), "expected one of greedy"),
        (lambda: PassContext(opt_level="3"), "opt_level"),  # type: ignore[arg-type]
        (lambda: Executor("aott"), "did you mean 'aot'?"),
        (lambda: Executor("aot", {"interface_api": "c"}), "did you mean 'interface-api'?"),
        (lambda: Executor("aot", {"interface-api": "C"}), "expected c or packed"),
        (lambda: Executor("graph", {"unpacked-api": 1}), "no option 'unpacked-api'"),
        (lambda: Executor("aot", {"workspace-byte-alignment": 64}), "a power of two up to 16"),
        (lambda: Runtime("cpp"), "use Runtime('crt')"),
        (lambda: Runtime("crt", {"system_lib": True}), "did you mean 'system-lib'?"),
        (lambda: Target("cortex-m44"), "did you mean 'cortex-m4'?"),
        (lambda: Target("c -mcpu=cortex-m44"), "did you mean 'cortex-m4'?"),
        (lambda: Target("c -mcp=cortex-m4"), "did you mean 'mcpu'?"),
        (lambda: the_target(["c", "c"]), "expected one"),
        (lambda: create_executor("aoot", from_onnx(small())[0]), "did you mean 'aot'?"),
        (lambda: build(from_onnx(small())[0], executor="debug"), "has no archive"),
        (lambda: build(from_onnx(small())[0], params={"c": np.zeros(1)}), "did you mean 'c0'?"),
        (lambda: build(from_onnx(small())[0], params={"c0": np.zeros(1)}), "float64[1], expected"),
        (lambda: build(from_onnx(small())[0], workspace_memory_pools=[1]), "memory pools"),
        (lambda: build(from_onnx(small())[0], mod_name="Upper"), "lower-case"),
    ],
)
def test_what_does_not_exist_is_refused_with_a_remedy(make: Any, message: str) -> None:
    with pytest.raises(MlfError, match=re.escape(message)):
        make()


@pytest.mark.parametrize("text", ["c", "host", "c -keys=cpu -model=host", "c -model=host"])
def test_targets_of_this_computer(text: str) -> None:
    assert the_target([text]) == Target("host")
    assert str(Target(text)) == "c -keys=cpu -model=host"
    assert Target({"kind": "c", "mcpu": "cortex-m7"}).name == "cortex-m7"
    assert Target("c -keys=arm_cpu,cpu -mcpu=cortex-m7").kind.name == "c"


def test_contexts_nest_and_end() -> None:
    with PassContext(opt_level=1):
        with PassContext(opt_level=2, disabled_pass=["FuseOps"]) as inner:
            assert PassContext.current() is inner
        assert PassContext.current().opt_level == 1
    assert PassContext.current().opt_level == 3


def test_every_known_pass_can_be_disabled() -> None:
    context = PassContext(disabled_pass=[*TVM_PASSES, *IGNORED_PASSES])
    left = {p.name for p in wanted(PIPELINE, 3, context.disabled)}
    assert "fuse_chains" not in left
    assert "canonicalise" in left
    assert not IGNORED_PASSES & set(TVM_PASSES)


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_gives_the_same_numbers(level: int) -> None:
    """AlterOpLayout is what a tutorial of TVM disables: kernels work without what it stands for."""
    mod, _ = from_onnx(small())
    x = np.linspace(-1, 1, 32, dtype=np.float32).reshape(1, 2, 4, 4)
    wanted = create_executor("aot", mod).evaluate()(x)
    for disabled in ([], ["AlterOpLayout"], ["FuseOps"]):
        with PassContext(opt_level=level, disabled_pass=disabled):
            assert np.array_equal(create_executor("aot", mod).evaluate()(x), wanted)


def test_workspace_io_is_asked_for_as_in_tvm() -> None:
    mod, params = from_onnx(small())
    c = Executor("aot", {"interface-api": "c", "unpacked-api": True})
    with PassContext(config={"tir.usmp.enable": True, "tir.usmp.use_workspace_io": True}):
        factory = build(mod, "c", executor=c, params=params)
        assert "map_inputs" in factory.compiled.sources.header
        with pytest.raises(MlfError):
            build(mod, "c", executor=Executor("graph"))


def test_the_migration_page_lists_every_option() -> None:
    page = (REPO / "docs" / "migration.md").read_text()
    options = {o for table in EXECUTOR_OPTIONS.values() for o in table}
    missing = [o for o in (*CONFIG, *options, *TVM_PASSES) if f"`{o}`" not in page]
    assert not missing
