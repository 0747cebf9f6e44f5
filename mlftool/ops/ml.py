"""The operators of ai.onnx.ml as scikit-learn models use them, in terms of others.

Linear models and support vectors become Gemms, encoders become comparisons, and both old tree
ensembles become our Trees, whose leaves may hold several weights. Numbers follow onnxruntime where
the standard is silent, as for binary classifiers with one score.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
import onnx

from mlftool.ir.graph import Array
from mlftool.onnx_rules.boxes import OF_BATCHES, as_it_is
from mlftool.onnx_rules.scope import Refuse, Rule
from mlftool.onnx_rules.steps import OPSETS, Steps, attribute_kinds
from mlftool.ops.base import Expansion, UnsupportedError, Words, expands

FLOAT, INT64 = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64


def ml(name: str, extents: Rule = OF_BATCHES, **words: Words) -> Callable[[Expansion], Expansion]:
    """Register an expansion. The kinds of attributes are those of the last schema that has any."""
    kinds: dict[str, str] = {}
    for opset in (1, 3, OPSETS["ai.onnx.ml"]):
        if onnx.defs.has(name, opset, "ai.onnx.ml"):
            kinds |= attribute_kinds(name, opset, "ai.onnx.ml")
    return expands(f"ai.onnx.ml.{name}", kinds=kinds, words=words, extents=extents)


def numbers(s: Steps, name: str, rows: int) -> Array:
    """A list of floats in so many rows. Raises Refuse if it has none, or does not fill them."""
    given = np.array(s.attrs[name], np.float32)
    if rows < 1 or not given.size or given.size % rows:
        raise Refuse("MLF0303", f"'{name}' has {given.size} numbers; expected {rows} equal rows")
    return given.reshape(rows, -1)


def as_many(what: str, counts: Mapping[str, int]) -> None:
    """Raise Refuse for lists of several lengths."""
    if len(set(counts.values())) > 1:
        shown = ", ".join(f"{n} of '{name}'" for name, n in counts.items())
        raise Refuse("MLF0303", f"{shown}; expected as many of each for its {what}")


def floats(s: Steps) -> str:
    return s("Cast", s.x(0), to=FLOAT)


def transformed(s: Steps, scores: str, out: int | None) -> None:
    """The scores after `post_transform`."""
    TRANSFORMS[s.attrs.get("post_transform", "NONE")](s, scores, out)


def _numbers_like(s: Steps, scores: str) -> Callable[[float], str]:
    """What makes constants of the scores' type."""
    return lambda value: s("CastLike", s.const(value), scores)


def _softmax_zero(s: Steps, scores: str, out: int | None) -> None:
    """Softmax in which a score of zero stays next to nothing."""
    number = _numbers_like(s, scores)
    none = s("Less", s("Abs", scores), number(1e-7))
    axes = s.const([-1], np.int64)
    top = s("ReduceMax", scores, axes)
    small = s("Mul", scores, s("Exp", s("Neg", top)))
    parts = s("Where", none, small, s("Exp", s("Sub", scores, top)))
    total = s("ReduceSum", parts, axes)
    empty = s("Equal", total, number(0.0))
    s("Where", empty, number(0.5), s("Div", parts, total), out=out)


def _probit(s: Steps, scores: str, out: int | None) -> None:
    """The quantile of the normal distribution by Winitzki's formula for the inverse of erf."""
    number = _numbers_like(s, scores)
    x = s("Sub", s("Mul", scores, number(2.0)), number(1.0))
    one = number(1.0)
    log = s("Log", s("Mul", s("Sub", one, x), s("Add", one, x)))
    a = 0.147
    v = s("Add", number(2.0 / (math.pi * a)), s("Mul", number(0.5), log))
    root = s("Sqrt", s("Sub", s("Mul", v, v), s("Mul", number(1 / a), log)))
    size = s("Mul", s("Sqrt", s("Sub", root, v)), number(1.41421356))
    s("Where", s("Less", x, number(0.0)), s("Neg", size), size, out=out)


SVM_KERNELS = ("LINEAR", "POLY", "RBF", "SIGMOID")
TRANSFORMS: dict[str, Callable[[Steps, str, int | None], object]] = {
    "NONE": lambda s, scores, out: s("Identity", scores, out=out),
    "LOGISTIC": lambda s, scores, out: s("Sigmoid", scores, out=out),
    "SOFTMAX": lambda s, scores, out: s("Softmax", scores, out=out, axis=-1),
    "SOFTMAX_ZERO": _softmax_zero,
    "PROBIT": _probit,
}


def labels_of(s: Steps, name: str) -> Array:
    if s.attrs.get("classlabels_strings"):
        return np.array(s.attrs["classlabels_strings"], object)
    return np.array(s.attrs[name], np.int64)


def classified(
    s: Steps,
    scores: str,
    labels: Array,
    least: float | None = None,
    columns: int = 0,
    complement: bool = False,
) -> None:
    """Outputs label and scores. Without `least` the label is that of the largest score, otherwise
    the second of two, if the last column exceeds it; one column becomes two, of which the first is
    the negative of the other, or what it lacks of 1."""
    if least is None:
        place = s("ArgMax", scores, axis=1, keepdims=0)
    else:
        last = s("Gather", scores, s.const(columns - 1, np.int64), axis=1)
        place = s("Cast", s("Greater", last, s.const(least)), to=INT64)
    if columns != 1:
        transformed(s, scores, 1)
    else:
        in_two(s, scores, complement)
    labelled(s, labels, place)


def in_two(s: Steps, scores: str, complement: bool) -> None:
    """The second output: one score as two columns."""
    how = s.attrs.get("post_transform", "NONE")
    if how == "PROBIT":
        raise UnsupportedError("post_transform PROBIT of one score; supported: of several")
    if how == "LOGISTIC":
        s("Sigmoid", s("Concat", s("Neg", scores), scores, axis=1), out=1)
    else:
        other = s("Sub", s.const(1.0), scores) if complement else s("Neg", scores)
        s("Concat", other, scores, out=1, axis=1)


def unchanged_alone(s: Steps, targets: int) -> None:
    """A score that is alone stays as it is, whatever the transformation, as in onnxruntime."""
    if targets == 1 and s.attrs.get("post_transform") != "PROBIT":
        s.attrs["post_transform"] = "NONE"


def labelled(s: Steps, labels: Array, place: str) -> None:
    """The first output: the labels at `place`."""
    if s.wants(0):
        s("Gather", s.const(labels, labels.dtype), place, out=0, axis=0)


@ml("ArrayFeatureExtractor")
def _extractor(s: Steps) -> None:
    """A vector is one row."""
    x = s.x(0)
    if len(s.type(0).shape) == 1:
        x = s("Unsqueeze", x, s.const([0], np.int64))
    places = s("Reshape", s.x(1), s.const([-1], np.int64))
    s("Gather", x, places, out=0, axis=-1)


@ml("Binarizer")
def _binarizer(s: Steps) -> None:
    x = s.type(0)
    above = s("Greater", s.x(0), s.const(s.attrs.get("threshold", 0.0), x.dtype.numpy))
    s("Cast", above, out=0, to=x.dtype.onnx)


@ml("Scaler")
def _scaler(s: Steps) -> None:
    moved = s("Sub", floats(s), s.const(s.attrs.get("offset") or [0.0]))
    s("Mul", moved, s.const(s.attrs.get("scale") or [1.0]), out=0)


@ml("Normalizer", norm=("MAX", "L1", "L2"))
def _normalizer(s: Steps) -> None:
    """By the sum of magnitudes, the Euclidean norm, or the largest element unless that is 0."""
    how = s.attrs.get("norm", "MAX")
    if how in ("L1", "L2"):
        s("LpNormalization", floats(s), out=0, axis=-1, p=int(how[1]))
        return
    x = floats(s)
    largest = s("ReduceMax", x, s.const([-1], np.int64))
    none = s("Equal", largest, s.const(0.0))
    s("Div", x, s("Where", none, s.const(1.0), largest), out=0)


@ml("Imputer")
def _imputer(s: Steps) -> None:
    whole = bool(s.attrs.get("imputed_value_int64s"))
    kind, dtype = ("int64s", np.dtype(np.int64)) if whole else ("floats", np.dtype(np.float32))
    replaced = s.attrs.get(f"replaced_value_{kind.removesuffix('s')}", 0)
    x = s.x(0)
    if not whole and math.isnan(replaced):
        missing = s("IsNaN", x)
    else:
        missing = s("Equal", x, s.const(replaced, dtype))
    s("Where", missing, s.const(s.attrs[f"imputed_value_{kind}"], dtype), x, out=0)


@ml("FeatureVectorizer", extents=as_it_is)
def _vectorizer(s: Steps) -> None:
    """Columns side by side: of each the first `inputdimensions`, zeros where it has fewer."""
    parts = []
    for i, width in enumerate(s.attrs["inputdimensions"]):
        value, shape = s("Cast", s.x(i), to=FLOAT), s.type(i).shape
        value = s("Flatten", value, axis=min(1, len(shape) - 1))
        ends = (s.const([n], np.int64) for n in (0, width, 1))
        value = s("Slice", value, *ends)
        if (more := width - math.prod(shape[-1:] if len(shape) < 2 else shape[1:])) > 0:
            value = s("Pad", value, s.const([0, 0, 0, more], np.int64))
        parts.append(value)
    s("Concat", *parts, out=0, axis=1)


@ml("OneHotEncoder")
def _one_hot(s: Steps) -> None:
    if s.attrs.get("cats_strings"):
        x = s("Unsqueeze", s.x(0), s.const([-1], np.int64))
        names = s.const(s.attrs["cats_strings"], object)
        s("Cast", s("Equal", x, names), out=0, to=FLOAT)
        return
    x = s("Unsqueeze", s("Cast", s.x(0), to=INT64), s.const([-1], np.int64))
    s("Cast", s("Equal", x, s.const(s.attrs["cats_int64s"], np.int64)), out=0, to=FLOAT)


@ml("CategoryMapper")
def _category_mapper(s: Steps) -> None:
    """Names to numbers or numbers to names, whichever the input is not."""
    x = s.type(0)
    names, codes = np.array(s.attrs["cats_strings"], object), np.array(s.attrs["cats_int64s"])
    as_many("categories", {"cats_strings": names.size, "cats_int64s": codes.size})
    if x.dtype.kind == "s":
        default = np.array(s.attrs.get("default_int64", -1))
        _looked_up(s, names, codes, default)
    else:
        _looked_up(s, codes, names, np.array(s.attrs.get("default_string", "_Unused"), object))


@ml("LabelEncoder")
def _label_encoder(s: Steps) -> None:
    """The value of the first key that is equal, or the default."""
    keys, values = _table(s, "keys"), _table(s, "values")
    default = s.attrs.get("default_tensor")
    if default is None:
        name, value = {
            "i": ("default_int64", -1),
            "f": ("default_float", -0.0),
            "O": ("default_string", "_Unused"),
        }[values.dtype.kind]
        default = s.attrs.get(name, value)
    default = np.asarray(default)
    texts = {(d.dtype.kind in "OSU") for d in (default, values)}
    if default.size != 1 or len(texts) > 1 or default.dtype.kind == "c":
        raise Refuse("MLF0303", "its default is not one value of the type of its values")
    as_many("pairs", {"keys": keys.size, "values": values.size})
    _looked_up(s, keys, values, default.astype(values.dtype).reshape(()))


def _looked_up(s: Steps, keys: Array, values: Array, default: Array) -> None:
    """The value at the first key that the input equals, or the default."""
    x = s("Unsqueeze", s.x(0), s.const([-1], np.int64))
    same = s("Equal", x, s.const(keys, keys.dtype))
    if keys.dtype.kind == "f" and np.isnan(keys).any():  # a key like any other
        same = s("Or", same, s("And", s("IsNaN", x), s.const(np.isnan(keys), np.bool_)))
    same = s("Cast", same, to=onnx.TensorProto.INT32)
    place = s("ArgMax", same, axis=-1, keepdims=0)
    known = s("Cast", s("ReduceMax", same, s.const([-1], np.int64), keepdims=0), to=9)
    found = s("Gather", s.const(values, values.dtype), place, axis=0)
    s("Where", known, found, s.const(default, values.dtype), out=0)


def _table(s: Steps, side: str) -> Array:
    for name, dtype in (("int64s", "int64"), ("floats", "float32"), ("strings", "object")):
        if s.attrs.get(f"{side}_{name}"):
            return np.array(s.attrs[f"{side}_{name}"], dtype)
    tensor = s.attrs.get(f"{side}_tensor")
    if tensor is None or np.asarray(tensor).dtype.kind not in "ifO":
        raise UnsupportedError(f"{side} are missing; supported: integers, floats and strings")
    return np.asarray(tensor)


def _linear(s: Steps, targets: int) -> str:
    """Every target's score: coefficients times features plus its intercept. Of coefficients that
    are too many onnxruntime takes the first."""
    features, given = s.shape(0, 1, -1)[-1], np.array(s.attrs["coefficients"], np.float32)
    bias = s.attrs.get("intercepts") or [0.0] * targets
    fits = 0 < targets == len(bias) and targets * features <= given.size
    if not fits or given.size % targets:
        text = f"{given.size} coefficients and {len(bias)} intercepts; expected "
        text += f"{targets * features} and {targets}: {targets} scores of {features} features"
        raise UnsupportedError(text)
    weights = given[: targets * features].reshape(targets, features)
    x = s("Reshape", floats(s), s.const([-1, features], np.int64))
    return s("Gemm", x, s.const(weights), s.const(bias), transB=1)


@ml("LinearRegressor", post_transform=TRANSFORMS)
def _linear_regressor(s: Steps) -> None:
    targets = s.attrs.get("targets", 1)
    unchanged_alone(s, targets)
    transformed(s, _linear(s, targets), 0)


@ml("LinearClassifier", post_transform=TRANSFORMS)
def _linear_classifier(s: Steps) -> None:
    labels = labels_of(s, "classlabels_ints")
    given = len(s.attrs["coefficients"]) // max(1, s.shape(0, 1, -1)[-1])
    targets = len(s.attrs.get("intercepts") or [0] * given)
    if targets > max(2, len(labels)):
        raise UnsupportedError(f"{targets} scores for {len(labels)} labels; expected one for each")
    scores = _linear(s, targets)
    if targets > 1:
        classified(s, scores, labels)
        return
    if len(labels) != 2:
        raise UnsupportedError("one row of coefficients; supported: of two labels")
    classified(s, scores, labels, 0.0, 1, complement=True)


@ml("SVMRegressor", post_transform=TRANSFORMS, kernel_type=SVM_KERNELS)
def _svm_regressor(s: Steps) -> None:
    """Coefficients times the kernel of the input with each support vector, plus rho."""
    rho, weights = numbers(s, "rho", 1)[0, 0], numbers(s, "coefficients", 1)
    vectors = s.attrs.get("support_vectors") or []
    x = floats(s)
    if vectors:
        count = s.attrs.get("n_supports") or weights.size
        value = kernels(s, x, numbers(s, "support_vectors", count))
    else:
        value = x
    value = s("Gemm", value, s.const(weights), s.const([rho]), transB=1)
    if s.attrs.get("one_class", 0):
        above = s("Greater", value, s.const(0.0))
        s("Where", above, s.const(1.0), s.const(-1.0), out=0)
    else:  # one score is not transformed, as in onnxruntime
        s("Identity", value, out=0)


def kernels(s: Steps, x: str, vectors: Array) -> str:
    """[N, number of vectors]."""
    kind = s.attrs.get("kernel_type", "LINEAR")
    given = s.attrs.get("kernel_params") or [0.0, 0.0, 0.0]
    if len(given) < 3:
        raise Refuse("MLF0303", f"'kernel_params' has {len(given)} numbers; expected 3")
    gamma, coef, degree = given[:3]
    if kind == "RBF":
        apart = s("Sub", s("Unsqueeze", x, s.const([1], np.int64)), s.const(vectors[None]))
        square = s("ReduceSumSquare", apart, s.const([2], np.int64), keepdims=0)
        return s("Exp", s("Mul", square, s.const(-gamma)))
    product = s("Gemm", x, s.const(vectors), transB=1)
    if kind == "LINEAR":
        return product
    inner = s("Add", s("Mul", product, s.const(gamma)), s.const(coef))
    return s("Tanh", inner) if kind == "SIGMOID" else s("Pow", inner, s.const(degree))


@ml("ZipMap")
def _zip_map(s: Steps) -> None:
    """A row of scores in the order of the labels: names and maps do not exist on a device."""
    s("Identity", s.x(0), out=0)
