"""Tensors of strings: what makes them, and that all that only moves elements moves them too."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from batch import WARNINGS, compile_model, write_headers
from builders import Net
from cases import Case, Results
from oracle import onnxruntime_float

import mlftool.backend
from mlftool.errors import MlfError

Array = np.ndarray[Any, Any]
WORDS = [
    "",
    "a",
    "déjà vu",
    "Straße",
    " two  words ",
    "的的",
    "x" * 63,
    "tab\there\n",
    "Ω-ω",
    "a,b,,c,",
]


def words(shape: tuple[int, ...], seed: int) -> Array:
    return np.random.default_rng(seed).choice(np.array(WORDS, object), shape)


def moves() -> Iterator[tuple[str, Any]]:
    """Of %x [3, 4] and %y [3, 4]."""
    yield "transpose", lambda n: n.node("Transpose", "x")
    yield "concat", lambda n: n.node("Concat", "x", "y", n.const([["k"] * 4], object), axis=0)
    yield "gather", lambda n: n.node("Gather", "x", n.const([2, 0]), axis=1)
    yield "gather_nd", lambda n: n.node("GatherND", "x", n.const([[2, 0], [1, 3]]))
    yield "slice", lambda n: n.node("Slice", "x", n.const([3]), n.const([-9]), n.const([1]),
                                    n.const([-2]))  # fmt: skip
    yield "expand", lambda n: n.node("Expand", "x", n.const([2, 3, 4]))
    yield "tile", lambda n: n.node("Tile", "x", n.const([2, 1]))
    yield "reshape", lambda n: n.node("Reshape", "x", n.const([4, 3]))
    yield "pad", lambda n: n.node("Pad", "x", n.const([1, 0, 0, 2]), n.const("pad", object))
    yield "pad_empty", lambda n: n.node("Pad", "x", n.const([0, 1, 1, 0]), n.const("", object))
    yield "where", lambda n: n.node("Where", n.node("Equal", "x", "y"), "x", n.const("z", object))
    yield "compress", lambda n: n.node("Compress", "x", n.const([False, True, True]), axis=0)
    yield "unique", lambda n: n.node("Unique", "x")
    yield (
        "scatter",
        lambda n: n.node("ScatterND", "x", n.const([[1]]), n.const([["s"] * 4], object)),
    )
    yield "sequence", lambda n: n.node("SequenceAt", n.node("SequenceConstruct", "x", "y"),
                                       n.const(np.int64(1)))  # fmt: skip
    yield "equal_one", lambda n: n.node("Equal", "x", n.const("a", object))
    yield "joined_twice", lambda n: n.node("StringConcat", n.node("StringConcat", "x", n.const(
        "-é", object)), n.const("", object))  # fmt: skip


def case(name: str, build: Any) -> Case:
    net = Net()
    feed = {k: np.array(words((3, 4), seed), object) for seed, k in enumerate("xy")}
    if name == "joined_twice":
        feed["x"][feed["x"] == "x" * 63] = "short"
    for k in "xy":
        net.input(k, object, (3, 4))
    model = net.model(build(net), net.node("Identity", "y"))
    return Case(name, model, "reference", feeds=[feed])


MOVES = tuple(case(*pair) for pair in moves())


def run(op: str, feeds: Sequence[Array], **attrs: Any) -> Any:
    node = onnx.helper.make_node(op, [f"x{k}" for k in range(len(feeds))], ["y"], **attrs)
    return mlftool.backend.run_node(node, list(feeds))[0]


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory, selected: Callable[[str], bool]) -> Results:
    return Results(MOVES, tmp_path_factory.mktemp("strings"), selected)


@pytest.mark.parametrize("case", MOVES, ids=lambda c: c.name)
def test_strings_move_as_numbers_do(case: Case, results: Results) -> None:
    results.check(case)


@pytest.mark.parametrize(
    ("delimiter", "most"), [("", -1), ("", 1), (",", -1), (",", 2), ("的", -1), ("a,", 0)]
)
def test_split_as_python_does(delimiter: str, most: int) -> None:
    x = np.array(WORDS, object)
    net = Net()
    net.input("x", object, x.shape)
    attrs = {"delimiter": delimiter} if delimiter else {}
    model = net.model(net.node("StringSplit", "x", maxsplit=most, **attrs))
    model.graph.node[0].output.append("n")
    model.graph.output.append(onnx.helper.make_empty_tensor_value_info("n"))
    pieces, counts = mlftool.backend.run_model(model, [x])
    wanted = [w.split(delimiter or None, most) for w in WORDS]
    assert counts.tolist() == [len(w) for w in wanted]
    assert pieces.shape == (len(WORDS), max(map(len, wanted)))
    assert [row[: len(w)] for row, w in zip(pieces.tolist(), wanted, strict=True)] == wanted


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int32, np.uint32, np.int64, np.uint64])
def test_integers_become_text(dtype: Any) -> None:
    """Up to the type's ends, alone and where the text goes on in the same loop."""
    ends = np.iinfo(dtype)
    x = np.array([ends.min, 0, 9, 10, ends.max], dtype)
    net = Net()
    net.input("x", dtype, x.shape)
    text = net.node("Cast", "x", to=onnx.TensorProto.STRING)
    joined = net.node("StringConcat", net.const("n", object), text)
    got, more = mlftool.backend.run_model(net.model(text, joined), [x])
    assert got.tolist() == [str(n) for n in x.tolist()]
    assert more.tolist() == [f"n{n}" for n in x.tolist()]


@pytest.mark.parametrize("row", ["float32", "float64", "float16", "bool"])
def test_numbers_in_words(row: str) -> None:
    """Eight digits, ties of the exact value to even, zeros left out; onnxruntime's names of what is
    no number."""
    rng, info = np.random.default_rng(3), np.finfo(row if row != "bool" else "float32")
    odd = [0.0, -0.0, np.nan, np.inf, -np.inf, info.max, info.tiny, info.smallest_subnormal]
    ends = [1e-5, 9.9999999e-5, 1e-4, 0.1, 1 / 3, 1.5, 99999999.5, 1e7, 1e8, 123456789, 2**-24]
    drawn = rng.normal(size=60) * 10.0 ** rng.integers(-12, 12, 60)
    x = np.array([1, 0] if row == "bool" else [*odd, *ends, *drawn])
    with np.errstate(over="ignore"):
        x = x.astype(row)
    net = Net()
    net.input("x", x.dtype, x.shape)
    words = [net.node("Cast", n, to=onnx.TensorProto.STRING) for n in ("x", net.const(x))]
    got, folded = mlftool.backend.run_model(net.model(*words), [x])
    assert folded.tolist() == got.tolist()
    names = {"nan": "NaN", "inf": "INF", "-inf": "-INF"}
    said = [f"{float(v):.8g}" for v in x]
    assert got.tolist() == [names.get(text, text) for text in said]


def test_what_is_too_long_ends_behind_a_whole_character() -> None:
    a, b = np.array(["x" * 60, "x" * 62, "é" * 31], object), np.array(["é" * 9, "é", "的"], object)
    assert run("StringConcat", [a, b]).tolist() == ["x" * 60 + "é", "x" * 62, "é" * 31]


def test_letters_change_case_as_in_unicode() -> None:
    """Of two bytes and less, in the alphabets that the header names, where one has one partner."""
    blocks = (range(0x20, 0x180), range(0x370, 0x530), range(0x531, 0x587))
    letters = [chr(c) for block in blocks for c in block if c < 0x7F or c >= 0xA0]
    x = np.array(letters, object)
    page = (Path(__file__).parents[2] / "docs" / "operators.md").read_text(encoding="utf-8")
    named = page.partition("standard leaves this to")[2].partition("letters of other")[0]
    stay = set("".join(re.findall("`([^`]+)`", named)))
    alone: set[str] = set()
    for action, change in (("UPPER", str.upper), ("LOWER", str.lower)):
        got = run("StringNormalizer", [x], case_change_action=action).tolist()
        for letter, made in zip(letters, got, strict=True):
            other = change(letter)
            back = other.lower() if action == "UPPER" else other.upper()
            fits = (
                back == letter and len(other) == 1 and len(other.encode()) == len(letter.encode())
            )
            assert made == (other if fits else letter), hex(ord(letter))
            simple = "i" if letter == "İ" else other  # Python adds its dot
            alone |= {letter} if made != simple and len(simple) == 1 else set()
    assert alone == stay - set(" \n")


@pytest.mark.parametrize("sensitive", [0, 1])
def test_stop_words(sensitive: int) -> None:
    x = np.array([["Der", "die", "ÜBER", "", "das"]], object)
    attrs = {"stopwords": ["der", "über", "das"], "case_change_action": "UPPER"}
    got = run("StringNormalizer", [x], is_case_sensitive=sensitive, **attrs)
    assert got.tolist() == [["DER", "DIE", "ÜBER", ""] if sensitive else ["DIE", ""]]


@pytest.mark.parametrize("locale", ["C", "POSIX", "C.UTF-8"])
def test_the_c_locale_has_letters_of_ascii_only(locale: str) -> None:
    x = np.array(["ÄB", "äb", "aÉ"], object)
    for attrs in ({}, {"stopwords": ["äb"]}, {"stopwords": ["AÉ"]}):
        for change in ("LOWER", "UPPER"):
            net = Net()
            y = net.node("StringNormalizer", net.input("x", object, x.shape), locale=locale,
                         case_change_action=change, **attrs)  # fmt: skip
            model = net.model(y)
            want = onnxruntime_float(model, [{"x": x}])[0][y].tolist()
            assert mlftool.backend.run_model(model, [x])[0].tolist() == want


@pytest.mark.parametrize("locale", ["tr", "tr_TR", "TR-tr", "az_AZ.UTF-8", "az@latin", "tr.UTF-8"])
def test_locales_with_two_letters_i_are_refused(locale: str) -> None:
    """Unicode's SpecialCasing has other rules for Turkish and Azerbaijani. onnxruntime takes them
    from the computer's C++ library, and refuses a locale that is not installed."""
    with pytest.raises(MlfError, match=f"locale {locale}; supported: C, POSIX and others"):
        run("StringNormalizer", [np.array(["i"], object)], locale=locale)


def test_a_language_that_begins_like_turkish_is_another() -> None:
    x = np.array(["i", "ä"], object)
    got = run("StringNormalizer", [x], locale="trv_TW.UTF-8", case_change_action="UPPER")
    assert got.tolist() == ["I", "Ä"]


def test_without_words_one_empty_one_is_left() -> None:
    x = np.array(["a", "a"], object)
    assert run("StringNormalizer", [x], stopwords=["a"]).tolist() == [""]


def test_full_match_as_python_does() -> None:
    x = np.array(["a.b@c.org", "a@b", "grün", "", "x" * 63, "ab\nab", "AB"], object)
    for pattern in (r"[\w.]+@\w+\.(org|com)", r".*", r"(?i)a.*b", r"\w+", r"[^a]+|", r"x{63}"):
        wanted = [re.fullmatch(pattern, w, re.ASCII) is not None for w in x]
        assert run("RegexFullMatch", [x], pattern=pattern).tolist() == wanted


def test_a_pattern_that_is_not_regular_is_refused() -> None:
    with pytest.raises(MlfError, match=r"pattern '\(a\)\\1'.*'\\1' is not supported"):
        run("RegexFullMatch", [np.array(["aa"], object)], pattern=r"(a)\1")


@pytest.mark.parametrize("skipped", [1, 1 << 31])
@pytest.mark.parametrize("mode", ["TF", "IDF", "TFIDF"])
def test_grams_of_words(mode: str, skipped: int) -> None:
    """Single words and pairs, with one word or any number skipped; weights where asked for."""
    x = np.array([["a", "b", "a", "grün"], ["grün", "a", "a", "b"]], object)
    attrs = {"pool_strings": ["a", "grün", "a", "b"], "ngram_counts": [0, 2]}
    attrs |= {"ngram_indexes": [1, 0, 2], "weights": [2.0, 3.0, 5.0]}
    got = run("TfIdfVectorizer", [x], mode=mode, min_gram_length=1, max_gram_length=2,
              max_skip_count=skipped, **attrs)  # fmt: skip
    counts = np.array([[1.0, 2.0, 1.0], [1.0, 2.0, 2.0]])
    weights = np.array([3.0, 2.0, 5.0])  # the attribute has those of the pool's order
    wanted = {"TF": counts, "IDF": (counts > 0) * weights, "TFIDF": counts * weights}[mode]
    assert got.tolist() == wanted.tolist()


def test_inputs_and_constants_that_do_not_fit_are_refused() -> None:
    long = np.array(["x" * 64], object)
    with pytest.raises(MlfError, match="has 64 bytes; expected at most 63"):
        run("Identity", [long])
    net = Net()
    net.input("x", object, (1,))
    with pytest.raises(MlfError, match="has 64 bytes; expected at most 63"):
        compile_model(net.model(net.node("StringConcat", "x", net.const(long))))


def test_packed_functions_take_no_strings() -> None:
    net = Net()
    net.input("x", object, (1,))
    with pytest.raises(MlfError, match="MLF0304"):
        compile_model(net.model(net.node("Identity", "x")), executor="graph")


def test_bytecode_moves_strings(tmp_path: Path) -> None:
    """And what it calls is C++ too, without a warning."""
    net = Net()
    net.input("x", object, (3,))
    module = compile_model(
        net.model(net.node("StringConcat", "x", net.const("-", object))), executor="vm"
    )
    write_headers(tmp_path)
    for name, text in module.sources.files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for compiler, standard in (("gcc", "c99"), ("g++", "c++11")):
        for source in sorted(n for n in module.sources.files if n.endswith(".c")):
            language = "c++" if compiler == "g++" else "c"
            flags = [f"-std={standard}", "-x", language, "-pedantic", *WARNINGS, "-fsyntax-only"]
            command = [compiler, *flags, "-Icodegen/host/include", source]
            subprocess.run(command, cwd=tmp_path, check=True)


TEXTS = [["ab cd e, don't"], ["  héü a1 b22"], ["__ x"], ["abcabd 的ab"]]


@pytest.mark.parametrize(
    "attrs",
    [
        {"tokenexp": "[a-zA-Z0-9_]+"},
        {"tokenexp": r"\b\w\w+\b", "mincharnum": 2},
        {"tokenexp": "a|ab", "pad_value": "-"},
        {"tokenexp": "."},
        {"tokenexp": "^ab|[^ ]的|x*", "mincharnum": 2},
        {"separators": [" "]},
        {"separators": ["ab?|[ ,]+"], "mincharnum": 2},
        {"separators": [""]},
    ],
    ids=str,
)
def test_tokens_are_those_of_onnxruntime(attrs: dict[str, Any]) -> None:
    ort = pytest.importorskip("onnxruntime")
    for x in (np.array(TEXTS, object), np.array(TEXTS[1], object), np.array([["?"]], object)):
        net = Net()
        attrs = {"mark": 0, "mincharnum": 1, "pad_value": "#", **attrs}
        y = net.node("Tokenizer", net.input("x", object, x.shape), domain="com.microsoft", **attrs)
        model = net.model(y)
        model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.STRING
        wanted = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
        assert mlftool.backend.run_model(model, [x])[0].tolist() == wanted.tolist()


def test_words_are_counted_in_a_text() -> None:
    """As scikit-learn exports its vectorisers; the number of tokens is known at run time."""
    ort = pytest.importorskip("onnxruntime")
    net = Net()
    token = {"mark": 0, "mincharnum": 2, "pad_value": "#", "tokenexp": "[a-z]+"}
    words = net.node("Tokenizer", net.input("x", object, (1,)), domain="com.microsoft", **token)
    pool = ["", "cat", "dog", "cat", "dog"]
    grams = {"ngram_counts": [0, 3], "ngram_indexes": [0, 1, 2, 3], "pool_strings": pool}
    grams |= {"min_gram_length": 1, "max_gram_length": 2, "max_skip_count": 0, "mode": "TF"}
    model = net.model(net.node("TfIdfVectorizer", net.node("Flatten", words, axis=1), **grams))
    model.graph.output[0].type.tensor_type.elem_type = onnx.TensorProto.FLOAT
    for text in ("the cat saw dog and cat dog", "dog", "?"):
        x = np.array([text], object)
        wanted = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
        (got,) = mlftool.backend.run_model(model, [x])
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("attrs", [{"mark": 1, "tokenexp": "."}, {"separators": ["a", "b"]}])
def test_tokens_that_are_refused(attrs: dict[str, Any]) -> None:
    net = Net()
    attrs = {"mark": 0, "mincharnum": 1, "pad_value": "#", **attrs}
    y = net.node("Tokenizer", net.input("x", object, (1,)), domain="com.microsoft", **attrs)
    with pytest.raises(MlfError, match="marks or several separators"):
        mlftool.backend.prepare(net.model(y))


@pytest.mark.parametrize("kind", [object, str, "S64"])
def test_a_module_takes_the_texts_of_python(kind: Any) -> None:
    net = Net()
    module = mlftool.load(net.model(net.node("StringConcat", net.input("x", object, (2,)), "x")))
    (got,) = (
        module.module()
        .run({"x": np.array(["né" if kind != "S64" else "né".encode(), ""], kind)})
        .values()
    )
    assert [t.decode() for t in got] == ["néné", ""]
    with pytest.raises(MlfError, match=r"MLF0602.*'x{24}' has 64 bytes; expected at most 63"):
        module.module().run({"x": np.array(["x" * 64, ""], object)})


@pytest.mark.parametrize(
    "attrs", [{"positive": 0}, {"positive": 1, "seed": 77}, {"seed": 2**32 - 5}]
)
def test_hashes_are_those_of_onnxruntime(attrs: dict[str, int]) -> None:
    """As scikit-learn's FeatureHasher is exported."""
    ort = pytest.importorskip("onnxruntime")
    x, net = np.array([WORDS], object), Net()
    y = net.node("MurmurHash3", net.input("x", object, x.shape), domain="com.microsoft", **attrs)
    model = net.model(y)
    kind = onnx.TensorProto.UINT32 if attrs.get("positive", 1) else onnx.TensorProto.INT32
    model.graph.output[0].type.tensor_type.elem_type = kind
    wanted = ort.InferenceSession(model.SerializeToString()).run(None, {"x": x})[0]
    np.testing.assert_array_equal(mlftool.backend.run_model(model, [x])[0], wanted)
