"""Lines of scripts written for TVM, with other imports, beyond those of its tutorials."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from shared import OWN

import mlftool as tvm
from mlftool import relay
from mlftool.cli import main
from mlftool.contrib import graph_executor
from mlftool.errors import MlfError
from mlftool.relay.backend import Executor, Runtime
from mlftool.runtime.executor import AotModule, GraphModule

MODEL = OWN / "digits_float32.onnx"
KINDS = ("debug", "graph", "aot", "vm")


@pytest.fixture(scope="module")
def one() -> tuple[np.ndarray, np.ndarray]:
    with np.load(OWN / "digits_float32_few.npz") as vectors:
        return vectors["image"][0], vectors["probability"][0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_walkthrough_s_own_line(kind: str, one: tuple[np.ndarray, np.ndarray]) -> None:
    """`create_executor(...).evaluate()(x, **params)`, with the model's weights and with others."""
    image, wanted = one
    mod, params = relay.frontend.from_onnx(MODEL)
    evaluate = relay.create_executor(kind, mod, tvm.cpu(0), "c").evaluate()
    plain = evaluate(image).numpy()
    np.testing.assert_allclose(plain, wanted, 1e-4, 1e-5)
    np.testing.assert_array_equal(evaluate(image, **params).numpy(), plain)
    name = next(n for n, value in params.items() if value.ndim == 4)
    others = {**params, name: params[name] * np.float32(2)}
    changed = relay.create_executor(kind, mod, tvm.cpu(0), "c", others).evaluate()(image).numpy()
    assert not np.array_equal(changed, plain)
    np.testing.assert_array_equal(evaluate(image, **others).numpy(), changed)
    with pytest.raises(MlfError, match="no input 'nonsense'"):
        evaluate(image, nonsense=image)


@pytest.mark.parametrize("executor", ["graph", "aot"])
def test_an_exported_library(
    executor: str, tmp_path: Path, one: tuple[np.ndarray, np.ndarray]
) -> None:
    image, wanted = one
    mod, params = relay.frontend.from_onnx(MODEL)
    with tvm.transform.PassContext(opt_level=3):
        made = relay.build_module.build(
            mod, "c", executor=Executor(executor), runtime=Runtime("crt"), params=params
        )
    made.export_library(tmp_path / "a.so")
    made.get_lib().export_library(str(tmp_path / "b.so"))
    for file in ("a.so", "b.so"):
        library = tvm.runtime.load_module(tmp_path / file)
        form = GraphModule if executor == "graph" else AotModule
        module = form(library["default"](tvm.device("cpu", 0)))
        module.set_input("image", tvm.nd.array(image))
        module.run()
        result = module.get_output(0).copyto(tvm.cpu(0))
        np.testing.assert_allclose(result.numpy(), wanted, 1e-4, 1e-5)
    with pytest.raises(ValueError, match="export_library has no option 'cc'"):
        made.export_library(tmp_path / "c.so", cc="gcc")
    with pytest.raises(MlfError, match="cannot name a library"):
        made.export_library(tmp_path / "c.tar")


def test_a_loaded_archive_is_a_factory(tmp_path: Path, one: tuple[np.ndarray, np.ndarray]) -> None:
    image, wanted = one
    mod, params = relay.frontend.from_onnx(MODEL)
    made = relay.build(mod, "c", executor=Executor("graph"), params=params, mod_name="digits")
    path = tvm.micro.export_model_library_format(made, tmp_path / "a.tar")
    loaded = tvm.runtime.load_module(path)
    assert sorted(loaded.params) == sorted(made.get_params())
    for module in (
        graph_executor.create(loaded.graph, loaded, tvm.cpu(0)),
        graph_executor.create(loaded.graph, loaded.module(), tvm.cpu(0)),
        GraphModule(loaded["default"](tvm.cpu(0))),
        GraphModule(loaded["digits"](tvm.cpu(0))),
        GraphModule(loaded.module()["default"](tvm.cpu(0))),
    ):
        module.set_input("image", image)
        module.run()
        np.testing.assert_allclose(module.get_output(0).numpy(), wanted, 1e-4, 1e-5)
    with pytest.raises(KeyError):
        loaded["other"]


@pytest.mark.parametrize("name", ["cuda", "gpu", "rocm", "vulkan", "metal", "opencl", "hexagon"])
def test_devices_that_are_not_here(name: str) -> None:
    for make in (lambda: getattr(tvm, name)(0), lambda: tvm.device(name, 0)):
        with pytest.raises(MlfError, match=f"no device '{name}': models run on"):
            make()
    assert tvm.device("cpu") == tvm.cpu(0) == tvm.device(1)


def graph_of(name: str) -> object:
    return tvm.build(MODEL, mod_name=name)


@pytest.mark.parametrize(
    ("kind", "call"),
    [
        (ValueError, lambda path: relay.build(3, "c")),
        (ValueError, lambda path: tvm.target.Target(["c"])),
        (ValueError, lambda path: relay.build(MODEL, ["c", "llvm"])),
        (ValueError, lambda path: relay.create_executor("nonsense", MODEL)),
        (ValueError, lambda path: relay.build(MODEL, workspace_memory_pools=[1])),
        (
            AssertionError,
            lambda path: tvm.micro.export_model_library_format(
                [graph_of("a"), graph_of("a")], path / "a.tar"
            ),
        ),
        (RuntimeError, lambda path: tvm.micro.export_model_library_format([], path / "a.tar")),
        (RuntimeError, lambda path: tvm.load(path / "absent.tar")),
        (RuntimeError, lambda path: tvm.build(MODEL)["default"](tvm.cpu(0)).set_input("no", 1)),
    ],
)
def test_errors_are_what_tvm_raises(
    kind: type[Exception], call: Callable[[Path], object], tmp_path: Path
) -> None:
    with pytest.raises(kind) as caught:
        call(tmp_path)
    assert isinstance(caught.value, MlfError)


def test_a_backend_and_a_device_in_a_list() -> None:
    target = tvm.api.Target("cmsis-nn,c -mcpu=cortex-m4")
    from mlftool.api.target import the_target

    assert the_target(["cmsis-nn", "c -mcpu=cortex-m4"]) == target
    assert the_target({"cmsis-nn": "cmsis-nn", "cpu": "c -mcpu=cortex-m4"}) == target


def test_pools_of_scripts_and_of_tvmc(tmp_path: Path) -> None:
    """The header's structure has them, as tvm.relay.build and tvmc compile are told."""
    properties = tvm.PoolInfoProperties(size_hint_bytes=1000, read_latency_cycles=2)
    pools = tvm.WorkspaceMemoryPools(
        [tvm.WorkspacePoolInfo("fast", ["c"], properties), tvm.WorkspacePoolInfo("slow", ["c"])]
    )
    executor = Executor("aot", {"interface-api": "c"})
    given = {"executor": executor, "mod_name": "m", "workspace_memory_pools": pools}
    made = relay.build(MODEL, "c", constant_memory_pools=tvm.ConstantMemoryPools([]), **given)
    header = made.bundle.text("codegen/host/include/tvmgen_m.h")
    members = header.partition("struct tvmgen_m_workspace_pools {")[2].partition("}")[0]
    assert members.split() == ["void", "*fast;", "void", "*slow;"]
    sizes = {n: int(header.partition(f"_{n}_WORKSPACE_POOL_SIZE ")[2].split()[0]) for n in POOLS}
    assert 0 < sizes["FAST"] <= 1000 < sizes["SLOW"]

    words = ["compile", str(MODEL), "-o", str(tmp_path / "m.tar"), "--module-name", "m"]
    words += ["--workspace-pools", "fast,slow", "--workspace-pools-targets", "fast:c,slow:c"]
    words += ["--workspace-pools-size-hint-bytes"]
    assert main([*words, "fast:1000"]) == 0
    assert tvm.load(tmp_path / "m.tar").files["codegen/host/include/tvmgen_m.h"] == header.encode()
    assert main([*words, "other:1000"]) == 2
    constants = tvm.ConstantMemoryPools([tvm.ConstantPoolInfo("flash", ["c"])])
    with pytest.raises(ValueError, match="constants are in the module's code"):
        relay.build(MODEL, "c", constant_memory_pools=constants, **given)


POOLS = ("FAST", "SLOW")


TUTORIAL = """
path = pathlib.Path(tvm.micro.get_microtvm_template_projects("crt"))
project = tvm.micro.generate_project(path, module, folder / executor, {"verbose": False})
project.build()
project.flash()
with tvm.micro.Session(transport_context_manager=project.transport()) as session:
    if executor == "aot":
        made = session.create_aot_executor()
        driven = tvm.runtime.executor.aot_executor.AotModule(made)
    else:
        library = session.get_system_lib()
        driven = tvm.micro.create_local_graph_executor(
            module.get_graph_json(), library, session.device
        )
        driven.set_input(**module.get_params())
    driven.set_input("image", tvm.nd.array(image))
    driven.run()
    result = driven.get_output(0).numpy()
"""


@pytest.mark.parametrize("executor", ["aot", "graph"])
def test_the_tutorials_bench(
    executor: str, tmp_path: Path, one: tuple[np.ndarray, np.ndarray]
) -> None:
    """A project is generated, built and driven by the names that TVM's tutorials use."""
    image, wanted = one
    mod, params = relay.frontend.from_onnx(MODEL)
    with tvm.transform.PassContext(opt_level=3, config={"tir.disable_vectorize": True}):
        runtime = Runtime("crt", {"system-lib": True})
        how = {"executor": Executor(executor), "runtime": runtime, "params": params}
        module = relay.build(mod, target=tvm.micro.testing.get_target("crt"), **how)
    names = {"tvm": tvm, "pathlib": pathlib, "module": module, "executor": executor}
    names |= {"folder": tmp_path, "image": image}
    exec(TUTORIAL, names)
    np.testing.assert_allclose(names["result"], wanted, 1e-4, 1e-5)


def test_parameters_are_given_again(one: tuple[np.ndarray, np.ndarray]) -> None:
    """`set_input(**lib.get_params())` and load_params: the values are the module's own."""
    image, wanted = one
    graph, lib, params = relay.build(*relay.frontend.from_onnx(MODEL)[:1], target="c")
    module = graph_executor.create(graph, lib, tvm.cpu(0))
    module.set_input(**params)
    module["load_params"](relay.save_param_dict(params))
    module["set_input"]("image", image)
    module["run"]()
    np.testing.assert_allclose(module["get_output"](0).numpy(), wanted, 1e-4, 1e-5)
    read = tvm.runtime.load_param_dict(tvm.runtime.save_param_dict(params))
    assert all(np.array_equal(read[name], value) for name, value in params.items())
    with pytest.raises(tvm.TVMError, match=r"parameter 'p0': .*another value"):
        module.set_input(p0=params["p0"] + 1)
    with pytest.raises(MlfError, match="no input 'p99'"):
        module.set_input(p99=params["p0"])
    with pytest.raises(KeyError):
        module["nonsense"]


def test_a_target_s_block() -> None:
    mod, _ = relay.frontend.from_onnx(MODEL)
    assert tvm.target.Target.current() is None
    with tvm.target.Target("c -mcpu=cortex-m4") as target:
        assert tvm.target.Target.current() is target
        with tvm.target.Target("host"):
            assert relay.build(mod).target[0].name == "host"
        assert relay.build(mod).target == [target]
    assert relay.build(mod).target[0].name == "host"
    with pytest.raises(ValueError, match="no target"):
        tvm.target.Target.current(allow_none=False)


def test_a_main_function_is_evaluated(one: tuple[np.ndarray, np.ndarray]) -> None:
    mod, _ = relay.frontend.from_onnx(MODEL)
    other, _ = relay.frontend.from_onnx(OWN / "digits_int8.onnx")
    executor = relay.create_executor("aot", mod)
    np.testing.assert_allclose(executor.evaluate(mod["main"])(one[0]), one[1], 1e-4, 1e-5)
    for wrong in (other["main"], 3):
        with pytest.raises(ValueError, match="only a module's main function"):
            executor.evaluate(wrong)


@pytest.mark.parametrize(
    "read",
    [
        lambda mod: tvm.get_global_func,
        lambda mod: tvm.runtime.Module,
        lambda mod: mod.update,
        lambda mod: mod["main"].body,
        lambda mod: tvm.build(MODEL).get_devices,
        lambda mod: tvm.build(MODEL).lib.save,
        lambda mod: tvm.build(MODEL)["default"](tvm.cpu(0)).debug_get_output,
        lambda mod: tvm.build(MODEL)["default"](tvm.cpu(0)).module.imported_modules,
        lambda mod: tvm.ir.Op,
        lambda mod: tvm.runtime.vm.VirtualMachine,
        lambda mod: tvm.cpu(0).max_threads_per_block,
        lambda mod: tvm.nd.array([1]).handle,
        lambda mod: tvm.target.Target("c").export,
    ],
)
def test_what_is_missing_names_the_page(read: Callable[[object], object]) -> None:
    mod, _ = relay.frontend.from_onnx(MODEL)
    with pytest.raises(AttributeError, match=r"^[^\n]*docs/migration\.md[^\n]*$"):
        read(mod)


@pytest.mark.parametrize(
    "line",
    [
        "from mlftool.ir.memory_pools import WorkspacePoolInfo",
        "from mlftool.ir import IRModule",
        "from mlftool.ir.op import Op",
        "from mlftool.runtime.vm import VirtualMachine",
        "from mlftool.contrib.debugger import debug_executor",
        "from mlftool.runtime.module import load_module",
        "from mlftool.runtime import Module",
        "from mlftool.micro.model_library_format import export_model_library_format",
    ],
)
def test_an_import_of_what_is_missing_names_the_page(line: str) -> None:
    with pytest.raises(ImportError, match=r"^[^\n]*docs/migration\.md[^\n]*$"):
        exec(line, {})


def test_targets_by_the_names_of_microcontrollers_and_boards() -> None:
    assert str(tvm.target.target.micro("nrf52840")) == "c -keys=arm_cpu,cpu -mcpu=cortex-m4"
    assert tvm.target.target.micro("host") == tvm.target.Target("host")
    get_target = tvm.micro.testing.get_target
    assert get_target("zephyr", "nucleo_f746zg") == tvm.target.Target("cortex-m7")
    assert get_target("arduino", "nano33ble") == tvm.target.Target("cortex-m4")
    for known in (*tvm.target.MODELS.values(), *tvm.target.BOARDS.values()):
        assert tvm.target.Target(known)
    with pytest.raises(ValueError, match=r"name its core instead\n.*did you mean 'nrf52840'"):
        tvm.target.target.micro("nrf52841")
    assert Path(tvm.micro.get_standalone_crt_dir(), "include/tvm").is_dir()


@pytest.mark.parametrize("kind", ["aot", "graph", "so"])
def test_times_on_this_computer(
    kind: str, tmp_path: Path, one: tuple[np.ndarray, np.ndarray]
) -> None:
    """TVM's benchmark and time_evaluator; measuring leaves inputs and outputs as they are."""
    made = relay.build(MODEL, "c", executor=Executor("aot" if kind == "so" else kind))
    if kind == "so":
        made.export_library(tmp_path / "a.so")
    library = tvm.runtime.load_module(tmp_path / "a.so") if kind == "so" else made
    module = (GraphModule if kind == "graph" else AotModule)(library["default"](tvm.cpu(0)))
    times = module.benchmark(tvm.cpu(0), repeat=4, number=3, image=one[0])
    assert len(times.results) == 4
    assert 0 < times.min <= times.median <= times.max
    assert times.min <= times.mean <= times.max
    assert times.std >= 0
    module.run()
    kept = module.get_output(0).numpy().copy()
    np.testing.assert_allclose(kept, one[1], 1e-4, 1e-5)
    assert len(module.module.time_evaluator("run", tvm.cpu(0), number=2, repeat=3)().results) == 3
    (mean,) = module.module.time_evaluator("run", number=1, min_repeat_ms=5)(one[0]).results
    assert 0 < mean < 5
    assert module.benchmark(end_to_end=True, number=1, limit_zero_time_iterations=9).min > 0
    np.testing.assert_array_equal(module.get_output(0).numpy(), kept)
    with pytest.raises(MlfError, match="only 'run' is measured"):
        module.benchmark(func_name="tvmgen_default_conv")
    for wrong in ({"number": 0}, {"repeat": 2.5}, {"min_repeat_ms": -1}, {"number": "3"}):
        with pytest.raises(ValueError, match=f"{next(iter(wrong))} is "):
            module.benchmark(**wrong)
    with pytest.raises(MlfError, match="no input 'nonsense'"):
        module.benchmark(nonsense=one[0])


def test_devices_of_strings_are_refused(tmp_path: Path) -> None:
    made = relay.build(MODEL, "c", executor=Executor("graph"))
    with pytest.raises(MlfError, match="no device 'cuda'"):
        graph_executor.create(made.graph_json, made.lib, "cuda")
    with pytest.raises(MlfError, match="cannot name a library"):
        made.export_library(tmp_path / "m.o")
