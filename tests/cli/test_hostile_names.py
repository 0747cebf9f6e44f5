"""Names nobody should use, as inputs, outputs, nodes and weights: the C compiles and is right.

Every name takes every role once, in four models; the four modules then live in one program, as C
and as C++, which includes the standard headers (and so their macros) before ours.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest
from onnx import ModelProto, TensorProto, helper, numpy_helper

from mlftool.cli import main
from mlftool.codegen.names import member_names
from mlftool.compile import ModuleSpec, compile_modules
from mlftool.mlf import Bundle

WARNINGS = ("-Wall", "-Wextra", "-Wconversion", "-Wshadow", "-Wtrigraphs", "-pedantic", "-Werror")
_HEADERS = """assert complex ctype errno fenv float inttypes iso646 limits locale math setjmp signal
    stdarg stdbool stddef stdint stdio stdlib string tgmath time wchar wctype"""
HEADERS = _HEADERS.split()
NAMES = [
    *("workspace", "WORKSPACE", "Workspace", "inputs", "outputs", "input", "output", "x", "y", "X"),
    *("x_", "x__", "x_1", "X_1", "x-1", "x.1", "x/1", "x:1", "x 1", "unused", "result", "at", "p"),
    *(
        "int",
        "class",
        "template",
        "restrict",
        "_Bool",
        "bool",
        "auto",
        "main",
        "this",
        "and",
        "asm",
    ),
    *(
        "NULL",
        "EOF",
        "I",
        "NAN",
        "INFINITY",
        "assert",
        "errno",
        "stdin",
        "unix",
        "linux",
        "complex",
    ),
    *("INT32_MAX", "UINT8_C", "PRId64", "SIGINT", "EDOM", "M_PI", "DBL_MAX", "BUFSIZ", "isnan"),
    *(
        "__LINE__",
        "__attribute__",
        "_Complex",
        "_X",
        "__",
        "_",
        "0",
        "007",
        "1e9",
        "-",
        "//",
        "///",
    ),
    *("step0_weights", "step0_b", "x_buffer_var", "mlf_expf", "MLF_WEIGHTS", "MLF_KERNEL"),
    *("global_workspace", "tvmgen_m0_run", "tvmgen_m0_add", "tvmgen_m1_inputs", "uint8_t", "float"),
    *("*/ int evil; /*", "\n#error evil\n", '"; evil();', "'", "\\", "x\\", "\\\n", "%s%n%p", "%"),
    *(
        "??/",
        "??)",
        "x\0y",
        "\0",
        "\r\n",
        "\t",
        "\x1b[31m",
        "\x7f",
        "\u2028",
        "</script>",
        "${evil}",
    ),
    *("{{ evil }}", "{% evil %}", "{#", "#define evil", "`evil`", "$(evil)", "../../evil", "C:\\x"),
    *("\u202egnp.exe", "\u200b", "é", "e\u0301", "名前", "😀", "ＩＮＴ", "ſ", "K", "a" * 64),
    *("a" * 65, "a" * 70_000, "é" * 70_000, "\n" * 1000),
]
ROLES = ("input", "output", "node", "weight")
SIZE = 4


def hostile_model(turn: int) -> ModelProto:
    """outputs[k] = inputs[k] + weights[k], each name in the role that `turn` gives it."""
    by_role = [NAMES[(turn + r) % 4 :: 4] for r in range(4)]
    count = min(map(len, by_role))
    inputs, outputs, nodes, weights = (names[:count] for names in by_role)
    shape = [1, SIZE]
    return helper.make_model(
        helper.make_graph(
            [
                helper.make_node("Add", [x, w], [y], name=n)
                for x, y, n, w in zip(inputs, outputs, nodes, weights, strict=True)
            ],
            "g",
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in inputs],
            [helper.make_tensor_value_info(n, TensorProto.FLOAT, shape) for n in outputs],
            [numpy_helper.from_array(weight(k), n) for k, n in enumerate(weights)],
        ),
        opset_imports=[helper.make_opsetid("", 17)],
        ir_version=8,
    )


def weight(k: int) -> np.ndarray:
    return np.arange(SIZE, dtype=np.float32) + np.float32(10 * k)


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> tuple[Bundle, Path]:
    """The four modules in one archive, unpacked."""
    folder = tmp_path_factory.mktemp("hostile")
    specs = []
    for turn in range(4):
        path = folder / f"{turn}.onnx"
        path.write_bytes(hostile_model(turn).SerializeToString())
        specs.append(ModuleSpec(path, f"m{turn}"))
    bundle = compile_modules(specs)
    for name, data in bundle.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    (folder / "main.c").write_text(program(bundle), "ascii")
    return bundle, folder


def program(bundle: Bundle) -> str:
    """A C and C++ program that runs every module and counts wrong elements."""
    lines = [f"#include <{h}.h>" for h in HEADERS if h not in ("tgmath", "iso646")]
    lines += [f'#include "tvmgen_m{m}.h"' for m in range(4)]
    lines += ["int main(void) {", "  int wrong = 0;"]
    for m in range(4):
        interface = json.loads(bundle.files[f"executor-config/aot/m{m}.json"])
        count = len(interface["inputs"])
        lines += [
            "  {",
            f"    static float a[{count}][{SIZE}], b[{count}][{SIZE}];",
            f"    struct tvmgen_m{m}_inputs in;",
            f"    struct tvmgen_m{m}_outputs out;",
        ]
        for kind, array in (("in", "a"), ("out", "b")):
            for k, tensor in enumerate(interface[f"{kind}puts"]):
                name = tensor["c_name"]
                macro = f"TVMGEN_M{m}_{name.upper()}_SIZE"
                lines.append(f"    {kind}.{name} = {array}[{k}];")
                lines.append(f"    wrong += {macro} != sizeof {array}[{k}];")
        lines += [
            f"    for (int i = 0; i < {count * SIZE}; ++i) a[i / {SIZE}][i % {SIZE}] = (float)i;",
            f"    wrong += tvmgen_m{m}_run(&in, &out) != 0;",
            f"    for (int i = 0; i < {count * SIZE}; ++i)",
            f"      wrong += b[i / {SIZE}][i % {SIZE}]"
            f" != (float)(i + i % {SIZE} + 10 * (i / {SIZE}));",
            "  }",
        ]
    return "\n".join([*lines, "  return wrong ? 1 : 0;", "}", ""])


def build(folder: Path, out: str, *compiler: str, link: bool = True) -> Path:
    """Compile everything; fails the test with the compiler's words."""
    target = folder / out
    target.mkdir()
    sources = [str(p) for p in sorted((folder / "codegen/host/src").glob("*.c"))]
    if link:
        sources.append(str(folder / "main.c"))
    command = [*compiler, *WARNINGS, "-I", str(folder / "codegen/host/include"), "-O1"]
    command += ["-ffp-contract=off", "-c", *sources]
    run = subprocess.run(command, cwd=target, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr[:4000]
    if link:
        objects = sorted(map(str, target.glob("*.o")))
        subprocess.run([compiler[0], *objects, "-lm", "-o", target / "program"], check=True)
    return target


def test_there_are_enough_names() -> None:
    assert len(set(NAMES)) == len(NAMES) >= 100


@pytest.mark.parametrize(
    "compiler",
    [("gcc", "-std=c99"), ("g++", "-x", "c++", "-std=c++17")],
    ids=["c99", "c++"],
)
def test_four_hostile_modules_in_one_program(
    compiler: tuple[str, ...], archive: tuple[Bundle, Path]
) -> None:
    target = build(archive[1], "as-" + compiler[0], *compiler)
    assert subprocess.run([target / "program"]).returncode == 0


def test_arm_compiles_them_too(archive: tuple[Bundle, Path]) -> None:
    if shutil.which("arm-none-eabi-gcc") is None:
        pytest.skip("arm-none-eabi-gcc is not installed: hostile names were not compiled for Arm")
    build(archive[1], "arm", "arm-none-eabi-gcc", "-std=c99", "-mcpu=cortex-m4", link=False)


def test_nothing_but_our_own_symbols(archive: tuple[Bundle, Path]) -> None:
    """A name that broke out of a comment or a literal would define, or need, something else."""
    target = build(archive[1], "symbols", "gcc", "-std=c99")
    objects = [str(p) for p in target.glob("m*_lib*.o")]
    listing = subprocess.run(["nm", "-g", *objects], capture_output=True, text=True, check=True)
    symbols = set(re.findall(r" [A-Z] (\S+)", listing.stdout))
    headers = "".join(p.read_text() for p in (archive[1] / "codegen").rglob("tvmgen_m*.h"))
    same = "tvmgen_two_models_are_named_m{}__compile_one_with_another_module_name"
    expected = {f"tvmgen_m{m}_{f}" for m in range(4) for f in ("run", "__tvm_main__")}
    expected |= {same.format(m) for m in range(4)}
    expected |= set(re.findall(r'"\.globl (tvmgen_m[0-3]_model_[0-9a-f]{16})"', headers))
    assert len(expected) == 16
    assert symbols == expected


def test_generated_text_is_plain(archive: tuple[Bundle, Path]) -> None:
    """Printable ASCII, no trigraphs, no line that goes on by a backslash outside our macros."""
    for name, data in archive[0].files.items():
        if re.match(r"codegen/host/(src|include/tvmgen_)|src/", name):
            text = data.decode("ascii")
            assert re.fullmatch(r"[\x20-\x7e\n]*", text), name
            assert "??" not in text, name
            assert not re.search(r"\\$", text, re.MULTILINE), name


def test_messages_and_tables_stay_on_their_lines(
    archive: tuple[Bundle, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    """Names reach the terminal escaped: no control character, no direction marks."""
    from mlftool.cli import main
    from mlftool.mlf import write_tar

    write_tar(archive[0], archive[1] / "m.tar")
    assert main(["inspect", str(archive[1] / "m.tar")]) == 0
    out = capsys.readouterr().out
    assert all(c.isprintable() or c == "\n" for c in out)
    assert main(["inspect", "--json", str(archive[1] / "m.tar")]) == 0
    interface = json.loads(capsys.readouterr().out)["interfaces"]["m0"]
    assert [t["name"] for t in interface["inputs"]] == NAMES[0::4][: len(interface["inputs"])]


@pytest.mark.parametrize("compiler", ["gcc", "arm-none-eabi-gcc"])
def test_no_member_is_a_macro_of_the_standard_headers(compiler: str, tmp_path: Path) -> None:
    """All object-like macros of all standard headers, asked of the compiler itself."""
    if shutil.which(compiler) is None:
        pytest.skip(f"{compiler} is not installed: its macros were not tried")
    includes = "".join(f"#include <{h}.h>\n" for h in HEADERS)
    run = subprocess.run(
        [compiler, "-std=gnu11", "-dM", "-E", "-"], input=includes, capture_output=True, text=True
    )
    macros = set(re.findall(r"^#define (\w+) ", run.stdout, re.MULTILINE))
    assert len(macros) > 400
    assert macros.isdisjoint(member_names(macros).values())


def test_members_differ_in_upper_case_too() -> None:
    members = member_names(NAMES).values()
    assert len({m.upper() for m in members}) == len(NAMES)
    assert all(re.fullmatch(r"[A-Za-z_]\w{0,70}", m, re.ASCII) for m in members)


def test_ordinary_names_keep_tvms_spelling() -> None:
    """What microTVM applications write in their sources must not change."""
    names = ["input_1", "Identity", "serving_default_x:0", "X", "/conv/Relu_output_0", "MAX_x"]
    expected = ["input_1", "Identity", "serving_default_x_0", "X", "_conv_Relu_output_0", "MAX_x"]
    assert list(member_names(names).values()) == expected


def test_a_manifest_that_bazel_cannot_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = os.fsdecode(b"caf\xe9.yaml")
    Path("WORKSPACE").touch()
    Path(name).write_text("version: 1\nmodels: {m: {model: m.onnx, targets: host}}\n")
    Path("m.onnx").touch()
    assert main(["bazel", name, "--write", "made.bazel"]) == 2
    assert "error[MLF0400]: its path is not UTF-8" in capsys.readouterr().err
    assert not Path("made.bazel").exists()
