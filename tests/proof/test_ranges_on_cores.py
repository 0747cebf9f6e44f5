"""Index ranges of the kernels of each core: most are shown, and none of a fault's."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path

import onnx
import pytest

from mlftool.cli import main
from mlftool.mlf import read_tar
from mlftool.proof import certificate, ranges
from mlftool.proof.layout import WRITE, Layout, Step

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
# Core -> of the 14 calls of two networks, how many are shown at least.
CORES = ("cortex-m0", "rv32imc", "cortex-m4", "cortex-m55", "host", "x86-64-v3", "x86-64-v4")
SHOWN = dict.fromkeys(CORES, 14)
MODELS = ("vibration_int8", "digits_float32")


@cache
def proven(
    target: str, model: str, folder: Path, executor: str = "aot"
) -> tuple[Sequence[Layout], str, Mapping[str, bytes]]:
    archive = folder / f"{target}_{model}.tar"
    options = ["--verify", "--target", target, "--executor", executor, "-o", str(archive)]
    made = folder / f"{model}.onnx"
    source = made if made.exists() else EXAMPLES / f"{model}.onnx"
    assert main(["compile", str(source), *options]) == 0
    files = dict(read_tar(archive).files)
    (name,) = [n for n in files if n.endswith(".certificate")]
    found = certificate.decode(files[name], str(archive), name)
    return found.layouts, found.entry, {n: d for n, d in files.items() if n in found.files}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cores")


def shorter(step: Step) -> Step:
    """With an output that is a byte shorter."""
    accesses = (
        replace(a, place=replace(a.place, size_bytes=a.place.size_bytes - 1))
        if a.role == WRITE
        else a
        for a in step.accesses
    )
    return replace(step, accesses=tuple(accesses))


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", SHOWN)
def test_most_kernels_are_shown(target: str, folder: Path) -> None:
    counts = [ranges.shown(*proven(target, model, folder))[0] for model in MODELS]
    assert sum(counts) >= SHOWN[target]


@pytest.mark.sampled(4)
@pytest.mark.parametrize("target", SHOWN)
def test_no_kernel_fits_a_shorter_output(target: str, folder: Path) -> None:
    for model in MODELS:
        layouts, entry, files = proven(target, model, folder)
        first = replace(layouts[0], steps=tuple(map(shorter, layouts[0].steps)))
        assert first != layouts[0]
        count, why = ranges.shown((first,), entry, files)
        assert count == 0, why


# What is wrong in a kernel -> what it does to its C.
FAULTS = {
    "an outer loop goes on": (r"(\n  for \(int32_t \w+ = 0; \w+ < )(\d+)", lambda n: n + 64),
    "a pointer goes too far": (r"(\n +wp \+= )(\d+)(?=;)", lambda n: 3 * n + 1),
    "a row is too far away": (r"(\n +y\[\w+ \* )(\d+)(?= \+ \w+\] =)", lambda n: 2 * n),
    "a lane is too far away": (r"(places_of\()(\d+)", lambda n: 2 * n + 1),
    "a predicate is missing": (
        r"(_store8\(.*, )mlf_min_i32\((\d+), [^)]*\)(?=\);)",
        lambda n: n,
    ),
}


@pytest.mark.sampled(4)
@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("target", SHOWN)
def test_seeded_faults_are_found(target: str, fault: str, folder: Path) -> None:
    """Each fault in the C of one kernel; the kernel is shown no more."""
    pattern, wrong = FAULTS[fault]
    for model in MODELS:
        layouts, entry, files = proven(target, model, folder)
        (name,) = [n for n in files if n.endswith("_lib1.c")]
        text = files[name].decode()
        made = re.sub(pattern, lambda m: f"{m[1]}{wrong(int(m[2]))}", text)
        heads = {m.start(): m[1] for m in re.finditer(r"^MLF_KERNEL void (\w+)\(", made, re.M)}
        starts = {m.start(): m[1] for m in re.finditer(r"^MLF_KERNEL void (\w+)\(", text, re.M)}
        changed = {
            name
            for (at, name), (was, _) in zip(
                sorted(heads.items()), sorted(starts.items()), strict=True
            )
            if made[at:].split("\n}\n", 1)[0] != text[was:].split("\n}\n", 1)[0]
        }
        if changed:
            after, why = ranges.shown(layouts, entry, {**files, name: made.encode()})
            assert after <= len(layouts[0].steps) - len(changed), (changed, why)


# Two branches whose kernels have the same operands, one of them within a branch of a loop.
SUBGRAPHS = """<ir_version: 9, opset_import: ["": 17]>
g (bool c, float[8] x) => (float[8] y) <int64 trips = {3}, bool on = {1}> {
  z = If (c) <then_branch = t () => (float[8] t_y) { t_y = Relu (x) },
              else_branch = e () => (float[8] e_y) { e_y = Neg (x) }>
  y = Loop (trips, on, z) <body = b (int64 i, bool go, float[8] v) => (bool more, float[8] w) {
    more = Identity (go)
    w = If (c) <then_branch = p () => (float[8] p_y) { p_y = Softmax (v) },
                else_branch = q () => (float[8] q_y) { q_y = Abs (v) }> }>
}"""


def test_kernels_of_subgraphs_are_shown(folder: Path) -> None:
    """And not those of a branch whose output is a byte shorter."""
    onnx.save(onnx.parser.parse_model(SUBGRAPHS), folder / "subgraphs.onnx")
    layouts, entry, files = proven("host", "subgraphs", folder)
    count, why = ranges.shown(layouts, entry, files)
    inner = [k for k in range(1, len(layouts)) if layouts[k].steps]
    assert (count, why) == (sum(len(one.steps) for one in layouts), ())
    assert len(inner) == 5
    for k in inner:
        faulty = replace(layouts[k], steps=tuple(map(shorter, layouts[k].steps)))
        found, why = ranges.shown((*layouts[:k], faulty, *layouts[k + 1 :]), entry, files)
        assert found < count
        assert why


def test_kernels_that_bytecode_with_jumps_calls_are_shown(folder: Path) -> None:
    """And not one whose operand is shorter in the table of the C, nor any of other bytecode."""
    onnx.save(onnx.parser.parse_model(SUBGRAPHS), folder / "jumps.onnx")
    layouts, entry, files = proven("host", "jumps", folder, "vm")
    assert entry == ""
    assert ranges.shown(layouts, entry, files) == (5, ())
    (name,) = [n for n in files if n.endswith("_lib1.c")]
    text = files[name].decode()
    tables = re.findall(r"call_\d+_bytes\[\] = \{.*?(\d+)\}", text)
    assert len(tables) == 5
    for k in range(5):
        head = f"call_{k}_bytes[] = {{"
        before, _, after = text.partition(head)
        old, _, rest = after.partition("}")
        one = re.sub(r"\d+$", lambda m: str(int(m[0]) - 1), old)
        made = {**files, name: f"{before}{head}{one}}}{rest}".encode()}
        count, why = ranges.shown(layouts, entry, made)
        assert (count, len(why)) == (4, 1)
    program = next(n for n in files if n.endswith(".vm"))
    assert ranges.shown(layouts, entry, {**files, program: files[program][:-4]})[0] == 0
