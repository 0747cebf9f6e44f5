#!/usr/bin/env python3
"""Writes docs/operators.md from the operators' registry and tests/conformance/{expected,costs}.txt.

python3 tools/operators_doc.py            write it (the conformance runner's --update does, too)
python3 tools/operators_doc.py --check    exit 1 if it is out of date
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).absolute().parent.parent
sys.path.insert(0, str(ROOT))

import onnx  # noqa: E402

from mlftool.insight.operators import how, operators  # noqa: E402
from tests.conformance.costs import committed  # noqa: E402
from tests.conformance.expectations import expectations  # noqa: E402
from tests.conformance.suite import SuiteCase, load_suite, subject  # noqa: E402

PAGE = ROOT / "docs" / "operators.md"
TOP = """# Operators

What compiles, of all operators that the installed `onnx` package ({version}, opset {opset}) knows.
`tools/operators_doc.py` writes this page; a test keeps it current.

* **kernel**: computed by a kernel of our own; *elementwise* ones also fuse with their neighbours.
* **rewritten**: the importer or a pass turns it into other operators.
* **by definition**: the standard defines it by other operators, which take its place.
* **taken apart**: a sequence or optional, of which the importer leaves no trace.
* **constant**: depends on shapes alone, so it is a constant in the generated code.

*Suite* counts the cases of the standard's own backend suite that pass as generated C under
sanitizers, of those whose model is this operator (or its definition spelt out). *Types* are those
of the first operand in these cases.

*Code* is the flash that the operator takes without weights: the bytes of code of its plainest case
for a Cortex-M4 at `-Os`, elementary functions included (`python -m tests.conformance.costs`). A
kernel that several nodes share costs once.

Every opset from {oldest} to {opset} is read; old spellings become the newest one, as
the operator's record says.

**Where onnxruntime computes something else**, what the standard says is kept:

* Resize with `align_corners` and a fractional `n * scale`: the last coordinate is `n * scale - 1`,
  as the standard's case `resize_downsample_scales_linear_align_corners` has it.
* Resize of an axis whose extent stays: with a crop or a scale such as 1.3 of 3, which may come from
  `keep_aspect_ratio_policy`, elements are moved as on any axis; onnxruntime copies them.
* Antialiased Resize of int8: results are cut off at -128 and 127; onnxruntime's at 0 and 255, and
  then wrap.
* Antialiased Resize with a crop of the axes 1 and 2: elements outside the image have the
  extrapolated value; onnxruntime 1.31 writes it elsewhere, as if the channels came first.
* Pools with `auto_pad=SAME_*` and a stride above the kernel: padding is never negative, as for Conv
  (onnxruntime's own, too); its pools skip elements at the front.
* InstanceNormalization over one element: what is left of the mean is 0, and the result the bias.
* Products of uint8 by int8 (MatMulInteger, DynamicQuantizeMatMul) on x86 processors with AVX2 and
  without VNNI: onnxruntime 1.31 adds two of them in an int16 that saturates, so 8 products of 255
  and 127 are 131,068; the sum is 259,080.
* Slice with a negative step and the end 2147483647 or 9223372036854775807: the end is cut to the
  extent, so the result is empty, as in numpy; onnxruntime goes on to the first element.
* MaxUnpool with an `output_shape`: indices count in the output that the window implies, as in the
  standard's case; onnxruntime's count in the shape that is asked for.
* Unique of floats: each NaN is a value of its own; onnxruntime takes what follows one for equal.
* Cast to float8_e5m2 with `saturate=0`: infinities stay, as the standard says; onnxruntime's are
  NaN. Of float8_e4m3fn 480 is a NaN, onnxruntime's is 448.
* RNN, GRU and LSTM with ThresholdedRelu and no `activation_alpha`: it is 1, as the operator's own;
  onnxruntime's is 0. Affine and ScaledTanh, whose operators the standard dropped, need both values.
* RNN, GRU and LSTM with a length of 0 in `sequence_lens`: the state is still the initial one;
  onnxruntime's `Y_h` and `Y_c` are 0.
* Dropout before opset 12: everything is kept, so the mask is true; onnxruntime's is false.
* DynamicQuantizeLSTM with other activations than the usual ones, peepholes or lengths of sequences:
  what its products read stays float; onnxruntime quantises it.
* QLinearAdd, QLinearMul and QLinearAveragePool have onnxruntime's bits on x86-64 with FMA. On Arm
  its QLinearAdd sums integers, whose ties fall elsewhere; sums of 2^31 steps or more become the
  least value there, here the greatest. QuantizeLinear after Add, Mul or AveragePool rounds before
  it adds the zero point, as the standard says; onnxruntime's optimiser makes the above of them,
  which round after it: by an odd zero point ties differ by one step.
* QLinearSoftmax at the scale 1/256 of an element that has all of the probability: 256 steps are cut
  to the end of the type, as by QuantizeLinear; onnxruntime's 256 wraps to 0.
* QMoE with weights of 8 bits in blocks computes with the floats that they stand for, as with those
  of 4 bits or with a scale for each row, which have onnxruntime's numbers; there onnxruntime 1.31
  is up to 1 % off.
* Mod of integers with `fmod` is exact; onnxruntime computes it in float64, which rounds beyond
  2^53.
* QuantizeLinear of an infinite float16 gives the end of the type on its side; onnxruntime gives the
  least value.
* Shrink of int32 is exact; onnxruntime computes it in float32, which rounds from 2^24 on, and from
  2^31 - 64 on gives the least integer.
* Operators on float16 round to float16, each of them; onnxruntime on x86-64 has most of them in
  float32 and leaves out the casts between, so it rounds where the model casts: 1 or 2 units apart.
* Sigmoid of float32 is within two units in the last place; onnxruntime's is within 1.2e-07, which
  at 0.01 is 85 units. A detector with random weights has hundreds of scores there: where
  onnxruntime makes different ones equal, TopK and NonMaxSuppression choose other boxes.
* Sums whose digits cancel differ from onnxruntime's, and both from float64, by what the sums had
  before: a component of KernelPCA with an eigenvalue near 0, a Gaussian process in float32.
* Squeeze with a list of no axes leaves its input as it is, as in numpy; onnxruntime removes every
  axis of extent 1, as without a list.
* Pools whose window is larger than the padded image, by less than the stride: there is one window,
  as in onnx's shape inference, and a mean over what it holds; before opset 19 onnxruntime divides
  by the whole window with `count_include_pad`, and the standard's reference has no window.
* ReduceSum and ReduceLogSum of no elements along negative axes leave these out, as in numpy;
  onnxruntime ignores the axes and keeps the shape.
* Sums, products and powers of integers wrap around, as in numpy; onnxruntime's Pow of large ones
  gives the least value, its ReduceSum of int64 rounds beyond 2^53, and its reductions of integers
  (Sum, L1, Prod, SumSquare) stop at the ends of the type. So does its Einsum along an axis of one
  input (`ij->i`); sums of products (`ij,ij->i`) wrap there, too. What is made of a sum, ReduceMean,
  ReduceLogSum (of up to 32 bits) and ReduceL2, adds in 64 bits, and has no such limit.
* ReduceMean of no floats is a NaN, as in numpy; onnxruntime's is 0.
* DynamicQuantizeLinear of both infinities: the zero point is 0; onnxruntime's is 255.
* Convolutions leave out what padding adds; onnxruntime multiplies its zeros by weights, which is a
  NaN where a weight is infinite.
* GridSample at a coordinate that is a NaN or infinite: it is outside of the image; onnxruntime
  casts it to an integer, which is undefined.
* NaN: Max, Min, Clip, Relu, sums, Softmax and all activations give NaN where onnxruntime does, on
  every core. A NaN wins in a maximum or minimum wherever it is, as in numpy: in ReduceMax, ArgMax,
  Hardmax, MaxPool and their kin. onnxruntime's reductions and ArgMax pass over it; in its Hardmax,
  MaxPool and GlobalMaxPool it depends on the NaN's place, the processor and the channels. TopK of
  NaNs differs, too.
* Clip with one limit leaves an infinity on the other side; onnxruntime makes it 3.4e38.
* An output that is also an input is a copy named `x.out`, where the model says `x`, and one that is
  listed twice is `y` and `y.out` (warning MLF0316): C's structs and test vectors tell them apart.
* TreeEnsembleClassifier of two classes with weights of both gives one of its labels; onnxruntime
  gives 1 or 0, which are others where the labels are whole numbers. Of three classes and more, one
  that no leaf gives a weight has the score 0 and may win; onnxruntime chooses among the others.
* LabelEncoder with a NaN among its keys: a NaN has that key's value; onnxruntime has that from
  ai.onnx.ml 4 on.
* A TreeEnsembleRegressor's target that no leaf gives a weight is its base value, as in the
  standard's reference; onnxruntime gives 0 (with several targets, as XGBoost's files have them).

**Strings** are slots of 64 bytes: at most 63 bytes of UTF-8 and zeros after them, `mlf_string` of
`mlf/text.h`. A constant or an input of Python that is longer is an error; what StringConcat makes
longer ends after the last whole character that fits. Patterns of RegexFullMatch are RE2's without
`\\p` classes, and letters change case in Latin-1, Latin Extended-A, Greek, Cyrillic and Armenian,
where one letter has one partner. The standard leaves this to implementations. `µ ı ſ ς ϐ ϑ ϕ ϖ ϰ
ϱ ϵ` and `İ ϴ`, whose partner has another one, and letters of other alphabets stay as they are;
onnxruntime asks the computer's C library, and with glibc's `en_US` changes them. Cast makes strings
of numbers, of floats with eight digits as onnxruntime does, and no numbers of strings. Tensors of
strings run under `aot` with interface `c`, and `vm`.

"""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="write nothing, exit 1 if stale")
    if parser.parse_args().check:
        stale = not PAGE.is_file() or PAGE.read_text(encoding="utf-8") != page()
        if stale:
            print("docs/operators.md: out of date, run 'python3 tools/operators_doc.py'")
        return int(stale)
    PAGE.write_text(page(), encoding="utf-8")
    return 0


def page() -> str:
    """The whole page."""
    expected = expectations()
    cases: dict[str, list[SuiteCase]] = {}
    for case in load_suite():
        cases.setdefault(subject(case), []).append(case)
    total = sum(map(len, cases.values()))
    head = TOP.format(version=onnx.__version__, opset=onnx.defs.onnx_opset_version(), oldest=1)
    lines = [f"**{total - len(expected)} of {total} cases of the suite pass.**", ""]
    lines += ["| operator | changed in opset | support | types | code | suite |"]
    lines += ["|---|---|---|---|---|---|"]
    lines += [
        _row(name, opsets, cases.get(name, []), expected) for name, opsets in operators().items()
    ]
    lines += ["", "## Cases that do not pass", ""]
    reasons = Counter(_reason(line) for line in expected.values())
    for reason, count in sorted(reasons.items(), key=lambda r: (-r[1], r[0])):
        names = [n for n, line in sorted(expected.items()) if _reason(line) == reason]
        lines += [f"* {count}: {reason}", "  " + ", ".join(f"`{n}`" for n in names)]
    return head + "\n".join(lines) + "\n"


def _row(
    name: str, opsets: tuple[int, ...], cases: list[SuiteCase], expected: dict[str, str]
) -> str:
    passing = [c for c in cases if c.name not in expected]
    newest = max(opsets, default=1)
    support = how(name, newest)
    if support in ("kernel, control", "by definition") and cases and not passing:
        support += ", but not yet"
    types = sorted({_type(c) for c in passing} - {""})
    suite = f"{len(passing)} of {len(cases)}" if cases else ""
    cells = [name, ", ".join(map(str, opsets)), support, ", ".join(types)]
    return "| " + " | ".join([*cells, str(committed().get(name, "")), suite]) + " |"


def _type(case: SuiteCase) -> str:
    if not case.model.graph.input:
        return ""
    code = case.model.graph.input[0].type.tensor_type.elem_type
    return str(onnx.TensorProto.DataType.Name(code)).lower() if code else ""


def _reason(line: str) -> str:
    """The reason in a line of expected.txt, without what differs between cases of one kind."""
    text = line.split(": ", 2)[2]
    code, _, rest = text.partition(" ")
    if rest.startswith(("node ", "input ", "output ", "tensor ")) and ": " in rest:
        where, rest = rest.split(": ", 1)
        operator = where.rsplit("(", 1)[-1].rstrip(")") if "(" in where else ""
        rest = f"{operator}: {rest}" if operator and operator not in rest else rest
    if (code == "MLF0206" and "before run time" in text[-40:]) or "is not known" in rest:
        return "a shape that is not known before run time"
    return rest


if __name__ == "__main__":
    sys.exit(main())
