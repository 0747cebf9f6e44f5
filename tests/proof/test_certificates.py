"""Certificates: what is proven holds for every form, and what was tampered with is refused."""

from __future__ import annotations

import functools
import io
import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from builders import Net
from shared import REPO

from mlftool.cli import main
from mlftool.compile import ModuleSpec, compile_module, compile_modules
from mlftool.errors import MlfError
from mlftool.mlf import Bundle, checksums, write_tar
from mlftool.proof import csource, sums
from mlftool.proof.layout import READ, SCRATCH, WRITE, Access, Layout, Place, Step
from mlftool.proof.walk import faults

MODEL = REPO / "examples" / "models" / "gesture_int8.onnx"
CERTIFICATE = "executor-config/aot/m.certificate"
FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "workspace_io": {"workspace_io": True},
    "pools": {"pools": ("a=1KiB@.a", "b=4MiB")},
    "patches": {"patches": "3"},
    "size": {"optimize": "size", "target": "cortex-m4"},
    "packed": {"interface_api": "packed"},
    "packed_plain_calls": {"interface_api": "packed", "unpacked_api": True},
    "graph": {"executor": "graph"},
    "vm": {"executor": "vm"},
    "version_2": {"mlf_version": 2},
}


@functools.cache
def archive(**options: Any) -> Bundle:
    return compile_modules([ModuleSpec(MODEL, "m", verify=True, **options)])


def verified(files: Mapping[str, bytes], folder: Path) -> int:
    write_tar(Bundle(files), folder / "m.tar")
    return main(["verify", str(folder / "m.tar")])


def resealed(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """With hashes that fit wherever there is one: by an attacker who knows all of this."""
    files = dict(files)
    certificate = json.loads(files[CERTIFICATE])
    for name in certificate["files"]:
        if name in files:
            data = checksums.encode({name: files[name]})
            certificate["files"][name] = data.decode()[:64]
    files[CERTIFICATE] = json.dumps(certificate).encode()
    return {**files, checksums.MEMBER: checksums.encode(files)}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("form", FORMS)
def test_a_certificate_is_checked_again(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verified(archive(**FORMS[form]).files, tmp_path) == 0
    said = capsys.readouterr().out
    assert "proven: tensors that are alive together share no byte" in said
    assert "stays inside its operands" in said  # or why a kernel is not shown to
    assert "  proven: the code makes exactly these calls" in said


def test_nothing_of_the_compiler_is_needed(tmp_path: Path) -> None:
    write_tar(archive(), tmp_path / "m.tar")
    code = (
        "import sys\n"
        "for name in ('onnx', 'jinja2', 'google'): sys.modules[name] = None\n"
        "from mlftool.cli import main\n"
        f"assert main(['verify', {str(tmp_path / 'm.tar')!r}]) == 0\n"
        "assert not [m for m in sys.modules if m.startswith(('mlftool.plan', 'mlftool.codegen'))]\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=REPO, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_without_a_certificate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    files = compile_modules([ModuleSpec(MODEL, "m")]).files
    assert CERTIFICATE not in files
    assert verified(files, tmp_path) == 2
    assert "MLF0510" in capsys.readouterr().err


def source(files: Mapping[str, bytes]) -> str:
    return next(n for n in files if n.endswith("lib1.c"))


def other_offset(files: dict[str, bytes]) -> None:
    files[source(files)] = files[source(files)].replace(b"workspace + 0)", b"workspace + 16)", 1)


def other_call(files: dict[str, bytes]) -> None:
    text = files[source(files)].decode()
    at = text.rindex("  return 0;")
    files[source(files)] = (text[:at] + "  tvmgen_m_more();\n" + text[at:]).encode()


def a_loop(files: dict[str, bytes]) -> None:
    text = files[source(files)].decode()
    at = text.rindex("  return 0;")
    files[source(files)] = (text[:at] + "  for (;;) {}\n" + text[at:]).encode()


def smaller_workspace(files: dict[str, bytes]) -> None:
    data = json.loads(files["metadata.json"])
    data["modules"]["m"]["memory"]["functions"]["main"][0]["workspace_size_bytes"] -= 16
    files["metadata.json"] = json.dumps(data).encode()


def certificate(change: Callable[[Any], None]) -> Callable[[dict[str, bytes]], None]:
    def changed(files: dict[str, bytes]) -> None:
        data = json.loads(files[CERTIFICATE])
        change(data)
        files[CERTIFICATE] = json.dumps(data).encode()

    return changed


def first_write(data: Any) -> list[Any]:
    steps = data["layouts"][0]["steps"]
    return next(a for s in steps for a in s["arguments"] if a[0] == WRITE and a[2] == "workspace")


def moved(data: Any) -> None:
    first_write(data)[3] += 16


def grown(data: Any) -> None:
    first_write(data)[4] += 1 << 20


def claimed(data: Any) -> None:
    first_write(data)[1] = "something else"


def no_layouts(data: Any) -> None:
    data["layouts"] = []


def malformed(data: Any) -> None:
    first_write(data)[3] = "0"


def less_memory(data: Any) -> None:
    data["layouts"][0]["memories"]["workspace"] -= 16


def other_figure(data: Any) -> None:
    data["figures"]["workspace_bytes"] += 16


TAMPERED: dict[str, tuple[Callable[[dict[str, bytes]], None], str]] = {
    "offset": (other_offset, "workspace + 16, expected workspace + 0"),
    "call": (other_call, "calls, expected"),
    "loop": (a_loop, "has no function 'tvmgen_m___tvm_main__' that consists of calls"),
    "metadata": (smaller_workspace, "metadata.json has a workspace of"),
    "moved": (certificate(moved), "not there any more or not yet"),
    "grown": (certificate(grown), "bytes of workspace"),
    "claimed": (certificate(claimed), "not there any more or not yet"),
    "no_layouts": (certificate(no_layouts), "has no layout"),
    "malformed": (certificate(malformed), 'got "0", expected an integer'),
    "less_memory": (certificate(less_memory), "bytes of workspace"),
    "figure": (certificate(other_figure), "the certificate one of"),
}


@pytest.mark.parametrize("name", TAMPERED)
def test_what_was_tampered_with_is_refused(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """All hashes fit: what is refused is what the archive says, not that it was changed."""
    change, said = TAMPERED[name]
    files = dict(archive().files)
    change(files)
    assert verified(resealed(files), tmp_path) == 2
    error = capsys.readouterr().err
    assert "MLF0510" in error
    assert said in error, error


@pytest.mark.parametrize(
    ("member", "text"),
    [
        ("m.graph", b"{"),
        ("m.graph", b'{"nodes": []}'),
        ("m.graph", b"\xff"),
        ("m.graph", b"[" * 9999),
        ("m.json", b"{"),
    ],
)
def test_a_malformed_member_is_told_with_its_place(
    member: str, text: bytes, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Behind checksums and digests that fit, each line names the archive and the member."""
    files = dict(archive(executor="graph").files)
    own = next(n for n in files if n.endswith(".certificate"))
    name = own.replace("m.certificate", member)
    certificate = json.loads(files[own])
    assert {name} <= files.keys()
    files[name] = text
    certificate["files"][name] = checksums.encode({name: text}).decode()[:64]
    files[own] = json.dumps(certificate).encode()
    assert verified({**files, checksums.MEMBER: checksums.encode(files)}, tmp_path) == 2
    *lines, remedy = capsys.readouterr().err.splitlines()
    assert remedy.startswith("help: ")
    assert all(line.startswith(f"{tmp_path / 'm.tar'}: error[MLF0510]: ") for line in lines), lines
    assert any(member in line or "interface" in line for line in lines), lines


@pytest.mark.parametrize("suffix", ["lib0.c", "lib1.c", "kernel.h", ".relay", "m.json"])
def test_a_changed_file_is_refused(
    suffix: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its checksum fits, its certificate does not."""
    files = dict(archive().files)
    name = next(n for n in files if n.endswith(suffix) and not n.startswith("parameters/"))
    files[name] += b"\n"
    files[checksums.MEMBER] = checksums.encode(files)
    assert verified(files, tmp_path) == 2
    assert f"{name}: is not the file that was proven" in capsys.readouterr().err


def test_a_wrong_plan_stops_the_compile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The checker is part of every compile: outputs that die with their last reader are found."""
    from mlftool.plan import memory

    net = Net()
    s = net.node("Softmax", net.node("Tanh", net.input("x", np.float32, (4, 8))))
    y = net.node("Mul", s, net.const(np.full((4, 8), 2.0), np.float32))
    model = net.model(s, net.node("Neg", y))
    compile_module(ModuleSpec(model, "m", workspace_io=True))
    right = memory._intervals

    def dying(*arguments: Any) -> Any:
        live, shared, overlaps = right(*arguments)
        return [replace(i, last=i.first) for i in live], shared, overlaps

    monkeypatch.setattr(memory, "_intervals", dying)
    with pytest.raises(MlfError, match=r"MLF0900.*AssertionError"):
        compile_module(ModuleSpec(model, "m", workspace_io=True))


def layout(*steps: Step, size: int = 64) -> Layout:
    x, y = Place("x", 0, 16), Place("y", 0, 16)
    memories = {"workspace": size, "x": 16, "y": 16}
    return Layout("main", memories, ((x, "x"),), ((y, "y"),), steps)


def access(role: str, content: str, at: int, apart: tuple[int, int] | None = None) -> Access:
    memory = content if content in ("x", "y") else "workspace"
    return Access(role, content, Place(memory, 0 if memory != "workspace" else at, 16), apart)


def chain(*, t: int = 0, u: int = 16, apart: tuple[int, int] | None = None) -> Layout:
    """y = f(t, u), u = f(t), t = f(x), with a scratch area at 32."""
    first = Step("f", (access(READ, "x", 0), access(WRITE, "t", t), access(SCRATCH, "", 32)))
    second = Step("f", (access(READ, "t", t, apart), access(WRITE, "u", u)))
    third = Step("f", (access(READ, "t", t), access(READ, "u", u), access(WRITE, "y", 0)))
    return layout(first, second, third, size=48)


def test_a_walk() -> None:
    assert list(faults(chain())) == []
    (over, gone) = faults(chain(u=0))
    assert "writes 'u' over 't', which it reads" in over
    assert "reads 't', which is not there any more" in gone
    assert len(list(faults(chain(u=0, apart=(0, 0))))) == 1  # it may, but 't' is read again
    assert any("same bytes" in f for f in faults(chain(t=32)))
    assert any("not a multiple of 16" in f for f in faults(chain(t=8, u=32)))


def test_a_memory_that_is_too_large() -> None:
    whole = chain()
    large = replace(whole, memories={**whole.memories, "workspace": 64})
    assert list(faults(large)) == ["workspace has 64 bytes, of which 48 are used"]


C = """// f(x) {
int32_t f(const void *x_buffer_var, void *y_buffer_var, uint8_t *workspace) {
  (void)x_buffer_var;
  mlf_mark(0);
  // a comment; g();
  g((const float *)x_buffer_var,
    step0_weights, /* ; */
    (float *)(void *)(workspace + 64));
  return 0;
}

MLF_KERNEL void g(const float *x) {
  for (int i = 0; i < 3; i++) y[i] = x[i];
}
"""


def test_reading_calls() -> None:
    (found,) = csource.functions(C)
    assert found.parameters == ("x_buffer_var", "y_buffer_var", "workspace")
    (call,) = found.calls
    wanted = [("x_buffer_var", None), ("step0_weights", None), ("workspace", 64)]
    assert (call.symbol, [(a.base, a.offset) for a in call.arguments]) == ("g", wanted)


def test_reading_an_address_without_an_offset() -> None:
    text = "void f(uint8_t *workspace) {\n  g((mlf_string *)(void *)(workspace));\n}\n"
    (found,) = csource.functions(text)
    assert found.calls[0].arguments == (csource.Argument("workspace", None),)


@pytest.mark.parametrize(
    "statement",
    ["x = 1;", "g(x + 1);", "g(*x);", "g(x[1]);", "if (x) g(x);", "return 1;", "g(h(x));", "g(x)"],
)
def test_what_is_no_call_is_not_guessed_at(statement: str) -> None:
    assert list(csource.functions(f"void f(int x) {{\n  {statement}\n}}\n")) == []


def sum_of(weights: Any, bias: Any) -> sums.Sum:
    net = Net()
    x = net.input("x", np.int8, (1, weights.shape[0]))
    one = net.const(np.float32(0.5), np.float32)
    zero = net.const(np.int8(3), np.int8)
    operands = (x, one, zero, net.const(weights, np.int8), one, net.const(np.int8(0), np.int8))
    bias = net.const(bias, np.int32)
    y = net.node("QGemm", *operands, bias, one, zero, domain="com.microsoft")
    (found,) = sums.sums(compile_module(ModuleSpec(net.model(y), "m")).program)
    return found


def test_bounds_of_sums() -> None:
    """|x| is at most 128 and its zero point 3: 131 for each unit of weights, and the bias."""
    weights = np.array([[1, -7], [2, 0], [-3, 1]], np.int8)
    assert sum_of(weights, [10, -20]).bound == 131 * 8 + 20
    far = sum_of(np.full((4, 1), -128, np.int8), [2**31 - 1 - 131 * 512])
    assert (far.proven, far.bound) == (True, sums.MOST)
    assert not sum_of(np.full((4, 1), -128, np.int8), [2**31 - 131 * 512]).proven


def product_by(scale: float) -> onnx.ModelProto:
    return onnx.parser.parse_model(
        '<ir_version: 9, opset_import: ["": 17]> g (int8[1, 2] x) => (int8[1, 1] y)'
        f"<float s = {{0.5}}, float t = {{{scale}}}, int8 z = {{0}}, int8[2, 1] w = {{3, -4}}>"
        "{ y = QLinearMatMul(x, s, z, w, s, z, t, z) }"
    )


def test_a_scale_of_zero_is_the_models_own() -> None:
    """onnxruntime runs it; its certificate does not say that there is none."""
    zero, half = (compile_module(ModuleSpec(product_by(s), "m")).proof for s in (0.0, 0.5))
    assert "scales" in half.claims
    assert "scales" not in zero.claims
    assert any("is zero or not finite" in text for text in zero.unproven)


def test_scales_that_divide() -> None:
    program = compile_module(ModuleSpec(product_by(0.5), "m")).program
    assert list(sums.divisor_faults(program)) == []
    zeros = {n: v * 0 if v.dtype == np.float32 else v for n, v in program.graph.consts.items()}
    broken = replace(program, graph=program.graph.replace(consts=zeros))
    assert "is zero or not finite" in "".join(sums.divisor_faults(broken))


def test_json_is_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_tar(archive(), tmp_path / "m.tar")
    capsys.readouterr()
    assert main(["verify", str(tmp_path / "m.tar"), "--json"]) == 0
    data = json.load(io.StringIO(capsys.readouterr().out))
    assert data["modules"]["m"]["proven"]
