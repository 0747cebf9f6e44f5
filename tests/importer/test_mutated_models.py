"""Models damaged at random: each compiles or is refused in plain lines, and soon.

MLFTOOL_FUZZ_CASES sets how many (default 400), MLFTOOL_FUZZ_SEED where the numbers start. A failure
prints the seeds of its cases.
"""

from __future__ import annotations

import contextlib
import io
import os
import pickle
import random
import re
import resource
import signal
import time
import traceback
from pathlib import Path
from types import FrameType
from typing import NoReturn

import numpy as np
import onnx
from bad_corpus import model, node, tensor, value
from onnx import ModelProto, TensorProto, helper

from mlftool.cli import main
from mlftool.ops import OPS

CASES = int(os.environ.get("MLFTOOL_FUZZ_CASES", "400"))
SEED = int(os.environ.get("MLFTOOL_FUZZ_SEED", "0"))
SECONDS = 10
MEMORY = 3 << 30  # of address space, most of which the libraries take
EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
LINE = re.compile(r"(FILE: error\[MLF0[2-4]\d\d\]: .+|help: .+)")
NUMBERS = [0, 1, 2, -1, 7, 255, 2**31 - 1, 2**31, 2**32, 2**62, -(2**63)]
OPERATORS = [*sorted(OPS), "MatMul", "BatchNormalization", "Constant", "If", "Split", "Resize", ""]


def originals() -> list[ModelProto]:
    """The examples, and one small model of each family."""
    made = [onnx.load(p) for p in sorted(EXAMPLES.glob("*.onnx"))]
    weights = [tensor("w", np.ones((2, 1, 3, 3))), tensor("b", [1.0, 2.0])]
    conv = node("Conv", "x w b", "c", pads=[1, 1, 1, 1], strides=[2, 2], group=1)
    steps = [conv, node("Relu", "c", "r"), node("MaxPool", "r", kernel_shape=[2, 2])]
    made.append(model(steps, [value("x", (1, 1, 8, 8))], [value("y", None)], weights))
    shape = helper.make_tensor("s", TensorProto.INT64, [2], [4, 1])
    steps = [
        node("Concat", "x x", "k", axis=1),
        node("Transpose", "k", "t", perm=[1, 0]),
        node("Softmax", "t", "m", axis=0),
        node("Gemm", "m g", "h", transB=1, alpha=0.5),
        node("Reshape", "x s", "p"),
        node("Sub", "h p", "y"),
    ]
    weights = [tensor("g", np.ones((3, 1))), shape]
    made.append(model(steps, [value("x", (1, 2))], [value("y", None)], weights))
    return made


def damage(chance: random.Random, made: ModelProto) -> bytes:
    copy = ModelProto()
    copy.CopyFrom(made)
    if chance.random() < 0.7:
        for _ in range(chance.randint(1, 3)):
            chance.choice(EDITS)(chance, copy)
        return bytes(copy.SerializeToString())
    return damage_bytes(chance, copy.SerializeToString())


def damage_bytes(chance: random.Random, data: bytes) -> bytes:
    out = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(out) or 1)
        if at >= len(out):
            break
        match chance.randrange(5):
            case 0:
                out[at] ^= 1 << chance.randrange(8)
            case 1:
                out[at] = chance.choice(b"\x00\x01\x7f\x80\xff")
            case 2:
                del out[at : at + chance.randint(1, 20)]
            case 3:
                out[at:at] = out[chance.randrange(len(out)) :][: chance.randint(1, 40)]
            case _:
                del out[max(at, 1) :]
    return bytes(out)


def edit_dimension(chance: random.Random, made: ModelProto) -> None:
    infos = [*made.graph.input, *made.graph.output]
    dims = [d for i in infos for d in i.type.tensor_type.shape.dim]
    if dims:
        chance.choice(dims).dim_value = chance.choice(NUMBERS)


def edit_weight(chance: random.Random, made: ModelProto) -> None:
    if not made.graph.initializer:
        return
    weight = chance.choice(made.graph.initializer)
    match chance.randrange(4):
        case 0:
            weight.data_type = chance.randrange(25)
        case 1 if weight.dims:
            weight.dims[chance.randrange(len(weight.dims))] = chance.choice(NUMBERS)
        case 2:
            weight.dims.append(chance.choice([0, 1, 2]))
        case _:
            size = len(weight.raw_data)
            weight.raw_data = chance.randbytes(size)  # NaN, infinite, tiny and huge values


def edit_attribute(chance: random.Random, made: ModelProto) -> None:
    attributes = [a for n in made.graph.node for a in n.attribute]
    if not attributes:
        return
    attribute = chance.choice(attributes)
    match chance.randrange(4):
        case 0:
            attribute.i = chance.choice(NUMBERS)
        case 1 if attribute.ints:
            attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(NUMBERS)
        case 2:
            attribute.name = chance.choice(["axis", "perm", "group", "pads", "to", "x"])
        case _:
            attribute.f = chance.choice([0.0, -1.0, float("nan"), float("inf"), 1e38])


def edit_node(chance: random.Random, made: ModelProto) -> None:
    nodes = made.graph.node
    if not nodes:
        return
    one = chance.choice(nodes)
    names = [n for other in nodes for n in (*other.input, *other.output)] + ["", "nowhere"]
    match chance.randrange(6):
        case 0:
            one.op_type = chance.choice(OPERATORS)
        case 1 if one.input:
            one.input[chance.randrange(len(one.input))] = chance.choice(names)
        case 2 if one.output:
            one.output[chance.randrange(len(one.output))] = chance.choice(names)
        case 3 if one.input:
            del one.input[chance.randrange(len(one.input))]
        case 4:
            del one.attribute[:]
        case _:
            nodes.remove(one)


def edit_model(chance: random.Random, made: ModelProto) -> None:
    match chance.randrange(3):
        case 0:
            made.opset_import[0].version = chance.randrange(1, 30)
        case 1:
            made.graph.output.add().name = chance.choice(["x", "y", "w", "c"])
        case _:
            made.graph.input[0].type.tensor_type.elem_type = chance.randrange(25)


EDITS = [edit_dimension, edit_weight, edit_attribute, edit_node, edit_node, edit_model]


class _TooLongError(BaseException):
    pass


def _alarm(_: int, __: FrameType | None) -> NoReturn:
    raise _TooLongError


def complaint(data: bytes, path: Path) -> str:
    """What is wrong with how the compiler takes a model, or ""."""
    path.write_bytes(data)
    err = io.StringIO()
    signal.setitimer(signal.ITIMER_REAL, SECONDS)
    try:
        with contextlib.redirect_stderr(err):
            code = main(["compile", str(path), "-o", str(path.with_suffix(".tar"))])
    except _TooLongError:
        return f"took over {SECONDS} s"
    except BaseException as error:
        return f"raised {error!r}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    lines = err.getvalue().replace(str(path), "FILE").splitlines()
    if code == 0 and not lines and path.with_suffix(".tar").is_file():
        path.with_suffix(".tar").unlink()
        return ""
    if code == 2 and lines and all(map(LINE.fullmatch, lines)):
        return "" if not path.with_suffix(".tar").exists() else "wrote an archive all the same"
    return f"exit {code}, {lines[:3]}"


def run_cases(folder: Path) -> tuple[dict[int, str], int]:
    """Complaints by seed, and how many models compiled; in this process, with little memory."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    signal.signal(signal.SIGALRM, _alarm)
    models = originals()
    found: dict[int, str] = {}
    good = 0
    for seed in range(SEED, SEED + CASES):
        chance = random.Random(seed)
        text = complaint(damage(chance, chance.choice(models)), folder / "m.onnx")
        if text:
            found[seed] = text
        good += not text
    return found, good


def test_damaged_models(tmp_path: Path) -> None:
    """In a child, so that a crash, a kill or a memory bomb is a failure and not our end."""
    report = tmp_path / "report"
    start = time.monotonic()
    pid = os.fork()
    if pid == 0:
        try:
            report.write_bytes(pickle.dumps(run_cases(tmp_path)))
            os._exit(0)
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(1)
    _, status = os.waitpid(pid, 0)
    assert status == 0, f"the child ended with status {status}"
    found, _good = pickle.loads(report.read_bytes())
    assert not found, f"{len(found)} of {CASES} in {time.monotonic() - start:.0f} s: {found}"
