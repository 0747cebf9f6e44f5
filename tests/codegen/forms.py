"""One archive that holds small models in every form an executor has, and a program that runs them
all from nothing but the archive's files."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import families
import numpy as np
import onnx
from builders import Net, random_feeds
from onnx import parser

from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import Bundle
from mlftool.runtime.descriptor import c_string

CLIENT = Path(__file__).parent / "every_form.c"
WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Werror", "-ffp-contract=off")
C99 = ("gcc", "-std=c99", *WARNINGS)
SANITIZE = ("-g1", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
PARTS = ("common", "graph_executor", "memory")

# form -> how the module is asked for; the first one is what the others must equal.
FORMS: Mapping[str, Mapping[str, Any]] = {
    "struct": {},
    "plain": {"interface_api": "packed", "unpacked_api": True, "system_lib": True},
    "packed": {"interface_api": "packed", "system_lib": True},
    "graph": {"executor": "graph", "system_lib": True},
    "vm": {"executor": "vm"},
    "linked": {"executor": "graph", "link_params": True, "system_lib": True},
}


def scratch() -> onnx.ModelProto:
    """Two convolutions whose im2col rows are too large for the stack, of one kernel."""
    net = Net()
    x = net.input("x", np.float32, (1, 40, 3, 3))
    for k in range(2):
        w = net.const(families.weights(40, 40, 3, 3) / (8 + k), np.float32)
        x = net.node("Conv", x, w, pads=[1] * 4)
    return net.model(x)


def views() -> onnx.ModelProto:
    """Two outputs, one a view of what another node reads; an input called like a parameter."""
    net = Net()
    x = net.input("p0", np.float32, (2, 3))
    y = net.node("Reshape", x, net.const([3, 2], np.int64))
    a = net.node("Add", y, net.const([[1, 2]], np.float32))
    flat = net.node("Reshape", a, net.const([6], np.int64))
    return net.model(flat, net.node("MatMul", a, net.const(families.weights(2, 4), np.float32)))


def chain() -> onnx.ModelProto:
    """Tensors of several sizes, alive one after the other: they share storage."""
    net = Net()
    x = net.input("x", np.float32, (1, 6))
    for size in (9, 5, 14, 3, 6):
        x = net.node("Gemm", x, net.const(families.weights(6, size) / 4, np.float32))
        x = net.node(
            "Sigmoid", net.node("Gemm", x, net.const(families.weights(size, 6), np.float32))
        )
    return net.model(x)


CONTROL = """<ir_version: 8, opset_import: ["": 17]> g (float[2,3] x) => (float[2,3] y) {
    four = Constant <value = int64 {4}> ()
    y = Loop (four, , x) <
        body = l (int64 i, bool go, float[2,3] v) => (bool on, float[2,3] w) {
            two = Constant <value = int64 {2}> ()
            on = Identity(go)
            early = Less(i, two)
            w = If (early) <
                then_branch = a () => (float[2,3] p) { p = Mul(v, v) },
                else_branch = b () => (float[2,3] q) { r = Exp(v) q = Sub(r, v) }
            >
        }
    >
}"""


def control() -> onnx.ModelProto:
    """Functions of subgraphs, which kernels call."""
    return parser.parse_model(CONTROL)


COMPILED = (families.PORTABLE, "host")  # families of these targets: a model of each kind
MODELS: Mapping[str, Callable[[], onnx.ModelProto]] = {
    **{name: make for name, (target, make) in families.FAMILIES.items() if target in COMPILED},
    "control": control,
    "scratch": scratch,
    "views": views,
    "chain": chain,
}


def archive(models: Sequence[str]) -> Bundle:
    """Every form of every model, all in one archive with one system library."""
    return compile_modules(
        [
            ModuleSpec(MODELS[model](), f"{model}_{form}", **options)
            for model in models
            for form, options in FORMS.items()
        ]
    )


def interfaces(bundle: Bundle) -> list[dict[str, Any]]:
    names = [n for n in bundle.files if n.startswith("executor-config/") and n.endswith(".json")]
    return [json.loads(bundle.files[name]) for name in sorted(names)]


def unpack(bundle: Bundle, folder: Path) -> list[str]:
    """The archive's files in `folder`, and its sources."""
    for name, data in bundle.files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        if name.endswith((".graph", ".params")):
            (folder / path.name).write_bytes(data)
    config = (folder / "templates/crt_config.h.template").read_text()
    (folder / "crt_config.h").write_text(config)
    return sorted(n for n in bundle.files if n.startswith("codegen/") and n.endswith(".c"))


def runtime_sources(folder: Path) -> list[str]:
    root = folder / "runtime/src/runtime/crt"
    return [str(p.relative_to(folder)) for part in PARTS for p in sorted((root / part).glob("*.c"))]


def table(bundle: Bundle) -> str:
    """table.h: the modules of the archive as its JSON describes them."""
    parts, rows = [], []
    for m in interfaces(bundle):
        name = m["module"]
        tensors = [*m["inputs"], *m["outputs"]]
        lines = "\n".join(f"  {_tensor(t)}," for t in tensors)
        parts.append(f"static const struct tensor {name}_tensors[] = {{\n{lines}\n}};")
        run = "NULL"
        if m["interface_api"] == "c":
            parts.append(_struct_call(name, len(m["inputs"]), len(tensors)))
            run = f"{name}_call"
        counts = f"{len(m['inputs'])}, {len(m['outputs'])}"
        graph = int(m["executor"] == "graph")
        rows.append(f'  {{"{name}", {name}_tensors, {counts}, {run}, {graph}}},')
    return "\n".join([*parts, "static const struct module modules[] = {", *rows, "};\n"])


def _tensor(t: Mapping[str, Any]) -> str:
    kind = np.dtype(t["dtype"])
    code = {"i": 0, "u": 1, "f": 2}[kind.kind]
    shape = ", ".join(map(str, t["shape"]))
    dtype = f"{{{code}, {8 * kind.itemsize}, 1}}"
    return f"{{{c_string(t['name'])}, {t['size_bytes']}, {len(t['shape'])}, {dtype}, {{{shape}}}}}"


def _struct_call(name: str, inputs: int, count: int) -> str:
    ins = ", ".join(f"at[{i}]" for i in range(inputs))
    outs = ", ".join(f"at[{i}]" for i in range(inputs, count))
    return (
        f'#include "tvmgen_{name}.h"\n'
        f"static int32_t {name}_call(void **at) {{\n"
        f"  struct tvmgen_{name}_inputs in = {{{ins}}};\n"
        f"  struct tvmgen_{name}_outputs out = {{{outs}}};\n"
        f"  return tvmgen_{name}_run(&in, &out);\n}}"
    )


def run(models: Sequence[str], folder: Path, flags: Sequence[str]) -> dict[str, bytes]:
    """Module -> the bytes of its outputs, from a program built with `flags`."""
    bundle = archive(models)
    sources = unpack(bundle, folder) + runtime_sources(folder)
    (folder / "table.h").write_text(table(bundle))
    for model in models:
        feed = random_feeds(MODELS[model](), 7, 1)[0]
        for form in FORMS:
            (folder / f"{model}_{form}.in").write_bytes(
                b"".join(a.tobytes() for a in feed.values())
            )
    host = str(CLIENT.parents[2] / "crt/platform/host/tvm_platform.c")
    build([*sources, str(CLIENT), host], folder, flags)
    done = subprocess.run(["./program"], cwd=folder, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return {p.stem: p.read_bytes() for p in sorted(folder.glob("*.out"))}


def build(sources: Sequence[str], folder: Path, flags: Sequence[str]) -> None:
    include = ("-I.", "-Icodegen/host/include", "-Iruntime/include")

    def compile_some(k: int) -> None:
        objects = folder / f"objects{k}"
        objects.mkdir()
        files = [str((folder / s).resolve()) for s in sources[k::2]]
        paths = [str(folder / i[2:]) for i in include]
        command = [*C99, *flags, *(f"-I{p}" for p in paths), "-c", *files]
        done = subprocess.run(command, cwd=objects, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done.stderr

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(compile_some, range(2)))
    objects = sorted(str(p) for p in folder.glob("objects*/*.o"))
    subprocess.run(["gcc", *flags, *objects, "-lm", "-o", "program"], cwd=folder, check=True)
