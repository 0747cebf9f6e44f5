"""What a module keeps from one run to the next: outputs that become inputs."""

from __future__ import annotations

import ctypes
import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from board_machines import flags_of, is_here, machine_of
from builders import Layers
from oracle import session
from programs import BOARD, HERE

import mlftool
from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.errors import MlfError
from mlftool.mlf import read_tar
from mlftool.options import OPTIONS
from mlftool.plan.states import slots
from mlftool.runtime.load import LoadedArchive, LoadedModule, load

INPUTS, HIDDEN, CACHED = 5, 7, 3
STATE = ("h0=hn", "cache=cache_out")
KEEPERS = OPTIONS["state"].executors


def network() -> onnx.ModelProto:
    """A recurrent layer, and a sum over the last inputs."""
    net = Layers()
    x = net.input("x", np.float32, (1, 1, INPUTS))
    h0 = net.input("h0", np.float32, (1, 1, HIDDEN))
    cache = net.input("cache", np.float32, (CACHED, 1, INPUTS))
    w, r = net.weights(1, 3 * HIDDEN, INPUTS), net.weights(1, 3 * HIDDEN, HIDDEN)
    gru = net.node("GRU", x, w, r, "", "", h0, hidden_size=HIDDEN)
    joined = net.node("Concat", cache, x, axis=0)
    kept = net.node("Slice", joined, net.const([1]), net.const([CACHED + 1]))
    total = net.node("ReduceSum", joined, net.const([0]), keepdims=0)
    made = net.model(gru, kept, total)
    made.graph.node[0].output.append("hn")
    renamed = {gru: "y", kept: "cache_out", total: "total"}
    for node in made.graph.node:
        node.input[:] = [renamed.get(n, n) for n in node.input]
        node.output[:] = [renamed.get(n, n) for n in node.output]
    for output in made.graph.output:
        output.name = renamed[output.name]
    made.graph.output.append(onnx.helper.make_empty_tensor_value_info("hn"))
    return made


def wanted(model: onnx.ModelProto, xs: np.ndarray) -> list[dict[str, np.ndarray]]:
    """What onnxruntime gives when every call gets the states of the one before."""
    runner, made = session(model, False), []
    names = [o.name for o in model.graph.output]
    h, cache = np.zeros((1, 1, HIDDEN), np.float32), np.zeros((CACHED, 1, INPUTS), np.float32)
    for x in xs:
        found = dict(zip(names, runner.run(names, {"x": x, "h0": h, "cache": cache}), strict=True))
        h, cache = found["hn"], found["cache_out"]
        made.append(found)
    return made


def sequence(count: int) -> np.ndarray:
    shape = (count, 1, 1, INPUTS)
    return np.random.default_rng(3).normal(0, 1, shape).astype(np.float32)


def loaded(model: onnx.ModelProto, *state: str, executor: str = "aot") -> LoadedModule:
    spec = ModuleSpec(model, "m", state=state, executor=executor)
    return LoadedArchive(compile_modules([spec]), "", None).module()


@pytest.mark.parametrize("executor", KEEPERS)
def test_a_thousand_steps(executor: str) -> None:
    model, xs = network(), sequence(1000)
    module = loaded(model, *STATE, executor=executor)
    assert [t.name for t in module.inputs] == ["x"]
    assert [t.name for t in module.outputs] == ["y", "total"]
    for x, want in zip(xs, wanted(model, xs), strict=True):
        for name, got in module.run({"x": x}).items():
            np.testing.assert_allclose(got, want[name], 1e-5, 1e-5)


@pytest.mark.parametrize("executor", KEEPERS)
def test_reset_is_the_beginning(executor: str) -> None:
    model, xs = network(), sequence(4)
    module = loaded(model, *STATE, executor=executor)
    first = [module.run({"x": x}) for x in xs]
    module.reset()
    for x, want in zip(xs, first, strict=True):
        for name, got in module.run({"x": x}).items():
            np.testing.assert_array_equal(got, want[name])
    assert np.abs(module.run({"x": xs[0]})["y"] - first[0]["y"]).max() > 1e-3


@pytest.mark.parametrize("executor", KEEPERS)
def test_outputs_that_are_all_states_are_given_too(executor: str) -> None:
    """The sum of all inputs so far, and their greatest: what the module keeps is the result."""
    net = Layers()
    x, total, most = (net.input(n, np.float32, (1, INPUTS)) for n in ("x", "total", "most"))
    made = net.model(net.node("Add", total, x), net.node("Max", most, x))
    state = [f"{n}={o.name}" for n, o in zip(("total", "most"), made.graph.output, strict=True)]
    module, xs = loaded(made, *state, executor=executor), sequence(5)[:, 0]
    for k in range(len(xs)):
        found = module.run({"x": xs[k]})
        want = (xs[: k + 1].sum(0), np.maximum.accumulate(np.r_[0 * xs[:1], xs])[k + 1])
        for got, wanted in zip((found[o.name] for o in made.graph.output), want, strict=True):
            np.testing.assert_allclose(got, wanted, 1e-5, 1e-5)


def test_modules_of_one_archive_have_their_own_states() -> None:
    model, xs = network(), sequence(6)
    modules, sequences = [loaded(model, *STATE) for _ in range(2)], (xs[:3], xs[3:])
    results = [wanted(model, given) for given in sequences]
    for k in range(3):
        for module, given, want in zip(modules, sequences, results, strict=True):
            np.testing.assert_allclose(module.run({"x": given[k]})["y"], want[k]["y"], 1e-5, 1e-5)


def test_run_feeds_a_sequence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Timed repetitions begin at the sample's own state."""
    model, xs = network(), sequence(9)
    onnx.save(model, tmp_path / "m.onnx")
    want = wanted(model, xs)
    np.savez(tmp_path / "in.npz", x=xs)
    np.savez(tmp_path / "want.npz", **{n: np.stack([w[n] for w in want]) for n in ("y", "total")})
    command = ["run", str(tmp_path / "m.onnx"), "--inputs", str(tmp_path / "in.npz")]
    command += ["--expect", str(tmp_path / "want.npz"), "--repetitions", "3"]
    states = [word for pair in STATE for word in ("--state", pair)]
    assert main([*command, *states]) == 0, capsys.readouterr().err


@pytest.mark.parametrize("executor", KEEPERS)
def test_a_sequence_on_a_simulated_board(
    executor: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model, xs = network(), sequence(20)
    onnx.save(model, tmp_path / "m.onnx")
    want = wanted(model, xs)
    np.savez(tmp_path / "in.npz", x=xs)
    np.savez(tmp_path / "want.npz", **{n: np.stack([w[n] for w in want]) for n in ("y", "total")})
    command = ["run", str(tmp_path / "m.onnx"), "--inputs", str(tmp_path / "in.npz")]
    command += ["--expect", str(tmp_path / "want.npz"), "--on", "cortex-m4"]
    command += ["--executor", executor, *(word for pair in STATE for word in ("--state", pair))]
    assert main(command) == 0, capsys.readouterr().err


@pytest.mark.parametrize("executor", KEEPERS)
def test_several_instances(executor: str) -> None:
    """Two states of the application's take turns; each is as if it were alone."""
    model, xs = network(), sequence(6)
    module = loaded(model, *STATE, executor=executor)
    library = ctypes.CDLL(str(module.compiled().library))
    states = [(ctypes.c_uint64 * (module.interface.state_bytes // 8))() for _ in range(2)]
    sequences = [xs[:3], xs[3:]]
    for state in states:
        library.tvmgen_m_reset_state(state)
    for k in range(3):
        for state, given in zip(states, sequences, strict=True):
            want = wanted(model, given)[k]
            y = np.zeros((1, 1, 1, HIDDEN), np.float32)
            total = np.zeros((1, INPUTS), np.float32)
            x = np.ascontiguousarray(given[k])
            pointers = [(ctypes.c_void_p * n)(*a) for n, a in (
                (1, [x.ctypes.data]), (2, [y.ctypes.data, total.ctypes.data]))]  # fmt: skip
            assert library.tvmgen_m_run_state(state, *pointers) == 0
            np.testing.assert_allclose(y, want["y"], 1e-5, 1e-5)
            np.testing.assert_allclose(total, want["total"], 1e-5, 1e-5)


TURNS = (
    BOARD
    + """
#include <stdio.h>
#include "tvmgen_m.h"
static float xs[2][STEPS][5] = {XS};
static FILE *file;
static void show(const float *values, int n) {
  const unsigned char *bytes = (const unsigned char *)values;
  for (int i = 0; i < 4 * n; i++) fprintf(file, "%02x", bytes[i]);
}
int main(void) {
  files();
  file = fopen("turns.txt", "w");
  static struct tvmgen_m_state states[2];
  for (int s = 0; s < 2; s++) tvmgen_m_reset_state(&states[s]);
  for (int k = 0; k < STEPS; k++) {
    for (int s = 0; s < 3; s++) {  /* the last one is the module's own */
      float y[7], total[5];
      struct tvmgen_m_inputs inputs = {TVMGEN_M_X_POINTER(xs[s % 2][k])};
      struct tvmgen_m_outputs outputs = {TVMGEN_M_Y_POINTER(y), TVMGEN_M_TOTAL_POINTER(total)};
      if (s == 2 && k == STEPS / 2) tvmgen_m_reset();
      if (s < 2 ? tvmgen_m_run_state(&states[s], &inputs, &outputs)
                : tvmgen_m_run(&inputs, &outputs)) return 1;
      show(y, 7), show(total, 5);
      fputc(10, file);
    }
  }
  return fclose(file);
}
"""
)


@pytest.mark.parametrize("executor", KEEPERS)
@pytest.mark.parametrize("target", ["host", "cortex-m4"])
def test_instances_take_turns_in_c(target: str, executor: str, tmp_path: Path) -> None:
    """An application with two states, and the module's own between them, which begins again at half
    of the time: each has the bits that it has alone, on a board as here."""
    if target != "host" and not is_here(target):
        pytest.skip(f"did not run: no compiler or simulator of {target}")
    steps, xs = 20, sequence(40).reshape(2, 20, INPUTS)
    spec = ModuleSpec(network(), "m", state=STATE, target=target, executor=executor)
    bundle = compile_modules([spec])
    for name, data in bundle.files.items():
        if name.startswith("codegen/"):
            (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name).write_bytes(data.encode() if isinstance(data, str) else data)
    literals = ", ".join(f"{v.hex()}f" for v in xs.astype(float).reshape(-1).tolist())
    text = TURNS.replace("STEPS", str(steps)).replace("XS", literals)
    (tmp_path / "main.c").write_text(text)
    machine = HERE if target == "host" else machine_of(target)
    flags = [] if target == "host" else flags_of(target)
    made = sorted(map(str, (tmp_path / "codegen/host/src").glob("*.c")))
    command = [machine.compiler, *flags, "-O1", "-I", "codegen/host/include", *machine.linking]
    command += ["main.c", *made, *machine.sources, "-o", "program", "-lm"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    start = machine.start(tmp_path / "program", "0")
    subprocess.run(start, cwd=tmp_path, capture_output=True, timeout=60, check=True)
    shown = (tmp_path / "turns.txt").read_text()
    module, half = loaded(network(), *STATE), steps // 2

    def alone(given: np.ndarray) -> list[str]:
        module.reset()
        runs = (module.run({"x": x.reshape(1, 1, INPUTS)}) for x in given)
        return [(run["y"].tobytes() + run["total"].tobytes()).hex() for run in runs]

    each = alone(xs[0]), alone(xs[1]), alone(xs[0, :half]) + alone(xs[0, half:])
    assert shown.split() == [row for rows in zip(*each, strict=True) for row in rows]


def counter(read_late: bool) -> onnx.ModelProto:
    """h' = h + x; the output reads h' or, after it is made, h."""
    net = Layers()
    x, h = net.input("x", np.float32, (4, 4)), net.input("h", np.float32, (4, 4))
    made = net.node("Add", h, x)
    y = net.node("MatMul", made, h if read_late else x)
    model = net.model(y, made)
    return model


@pytest.mark.parametrize("read_late", [False, True])
def test_a_state_is_copied_only_if_it_must_be(read_late: bool) -> None:
    model = counter(read_late)
    state = f"h={model.graph.output[1].name}"
    spec = ModuleSpec(model, "m", state=(state,))
    compiled = compile_module(spec)
    ((slot,), size) = slots(compiled.program, compiled.imported)
    assert slot.in_place is not read_late
    assert size == (64 if slot.in_place else 128)
    assert ("memcpy(memory" in compiled.sources.lib0) == read_late
    module, h = loaded(model, state), np.zeros((4, 4), np.float32)
    for k in range(20):
        x = np.random.default_rng(k).integers(-3, 4, (4, 4)).astype(np.float32)
        (got,) = module.run({"x": x}).values()
        np.testing.assert_array_equal(got, (h + x) @ (h if read_late else x))
        h = h + x


@pytest.mark.parametrize("executor", KEEPERS)
def test_a_loop_reads_a_state_whose_next_value_is_written(executor: str) -> None:
    """In bytecode, jumps: the order of calls tells no last reader."""
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[3] x, int64 n, float[3] h) => (float[3] y, float[3] next) {
            next = Add (h, x)
            y = Loop (n, , next) <body = b (int64 k, bool c, float[3] a) => (bool d, float[3] e) {
                d = Identity (c)  e = Add (a, h) }>
        }"""
    )
    module, h = loaded(model, "h=next", executor=executor), np.zeros(3, np.float32)
    for k in range(5):
        x = np.array([k, 1, -2], np.float32)
        got = module.run({"x": x, "n": np.array(k, np.int64)})["y"]
        np.testing.assert_array_equal(got, h + x + k * h)
        h = h + x


def test_a_state_of_fewer_elements_is_refused() -> None:
    """Its input would have zeros, or old values, where ONNX has no element."""
    model = onnx.parser.parse_model(
        """<ir_version: 9, opset_import: ["" : 18]>
        g (float[3] h, float[3] x) => (float[3] y, float[n] next) {
            zero = Constant <value_float = 0.0> ()  c = Greater (x, zero)
            y = Add (h, x)  next = Compress (y, c) }"""
    )
    with pytest.raises(MlfError, match=r"'next' .* has an extent known only at run time"):
        compile_module(ModuleSpec(model, "m", state=("h=next",)))


@pytest.mark.parametrize(
    ("states", "text"),
    [
        (["h0=hm"], "'hm' is not an output of the model"),
        (["h0"], "names no output; expected h0=OUTPUT"),
        (["h=hn"], "'h' is not an input of the model"),
        (["h0=cache_out"], "differ; expected one type"),
        (["h0=hn", "cache=hn"], "'cache' or 'hn' is in two states"),
        (["all"], "the model has no state of its own"),
    ],
)
def test_what_is_no_state(
    states: list[str], text: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(network(), tmp_path / "m.onnx")
    words = [word for s in states for word in ("--state", s)]
    command = ["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tar"), *words]
    assert main(command) == 2
    errors = [line for line in capsys.readouterr().err.splitlines() if "error" in line]
    assert len(errors) == 1
    assert text in errors[0]


def test_one_type_of_element(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net = Layers()
    h = net.input("h", np.int8, (4,))
    wide = net.node("Cast", h, to=onnx.TensorProto.FLOAT)
    model = net.model(wide, net.node("Neg", wide))
    onnx.save(model, tmp_path / "m.onnx")
    pair = f"h={model.graph.output[1].name}"
    command = ["compile", str(tmp_path / "m.onnx"), "-o", str(tmp_path / "m.tar"), "--state", pair]
    assert main(command) == 2
    assert "differ; expected one type" in capsys.readouterr().err


@pytest.mark.parametrize("states", ["{h0: hn, cache: cache_out}", "[h0=hn, cache=cache_out]"])
def test_states_in_a_manifest(
    states: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    onnx.save(network(), tmp_path / "m.onnx")
    text = f"version: 1\nmodels:\n  m:\n    model: m.onnx\n    state: {states}\n"
    (tmp_path / "models.yaml").write_text(text)
    command = ["build", str(tmp_path / "models.yaml"), "-o", str(tmp_path / "out")]
    assert main(command) == 0, capsys.readouterr().err
    (archive,) = (tmp_path / "out").rglob("*.tar")
    assert [t.name for t in load(archive).module().inputs] == ["x"]


@pytest.mark.parametrize("executor", KEEPERS)
def test_ram_has_room_for_states(
    executor: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One figure, which each command says and a budget limits: that of the header's sizes."""
    monkeypatch.chdir(tmp_path)
    onnx.save(network(), "m.onnx")
    words = ["m.onnx", "--target", "cortex-m4", "--executor", executor]
    words += [w for s in STATE for w in ("--state", s)]

    def data(*words: str) -> dict[str, Any]:
        assert main([*words, "--json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    made = data("compile", *words, "-o", "m.tar")
    assert made["state_bytes"] > 0
    whole = made["workspace_bytes"] + made["io_bytes"] + made["state_bytes"]
    (readme,) = (d for n, d in read_tar(Path("m.tar")).files.items() if n.endswith("README.md"))
    assert f", {made['state_bytes']} of states." in readme.decode()
    for subject in (words, ["m.tar"]):
        (shown,) = data("memmap", *subject, "--no-advice")["maps"]
        assert (shown["ram_bytes"], shown["state_bytes"]) == (whole, made["state_bytes"])
    states = ", ".join(s.replace("=", ": ") for s in STATE)
    manifest = "version: 1\nmodels: {{m: {{model: m.onnx, executor: {0}, state: {{{1}}}, "
    manifest += "targets: [cortex-m4], budget: {{ram: {2}}}}}}}\n"
    for spare, status in ((0, 0), (-1, 1)):
        limit = str(whole + spare)
        Path("m.yaml").write_text(manifest.format(executor, states, limit))
        assert main(["check", "m.yaml"]) == status
        assert main(["compile", *words, "-o", "n.tar", "--ram-budget", limit]) == 2 * status
    assert f"{made['state_bytes']} state), expected at most {limit}" in capsys.readouterr().err
    Path("m.yaml").write_text(manifest.format(executor, states, whole))
    (module,) = data("build", "m.yaml")["entries"][0]["modules"]
    assert module["ram_bytes"] == whole


def test_a_shared_library_goes_on_and_begins_again(tmp_path: Path) -> None:
    model, xs = network(), sequence(40)
    onnx.save(model, tmp_path / "m.onnx")
    options = [word for pair in STATE for word in ("--state", pair)]
    out = tmp_path / "m.so"
    assert main(["compile", str(tmp_path / "m.onnx"), "-f", "so", "-o", str(out), *options]) == 0
    module = mlftool.load(str(out)).module()

    def outputs() -> list[np.ndarray]:
        return [module.run({"x": x})["y"] for x in xs]

    first, then = outputs(), outputs()
    module.reset()
    assert np.array_equal(outputs(), first)
    assert not np.array_equal(then, first)
    for got, found in zip(first, wanted(model, xs), strict=True):
        np.testing.assert_allclose(got, found["y"], rtol=1e-5, atol=1e-5)
