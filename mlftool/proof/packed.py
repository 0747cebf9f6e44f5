"""The calls in packed C: a list of tensors is filled, then a function is called with the list.

    mlf_packed_tensor(tensors, values, codes, 0, workspace + 64, 3, shape_1, kDLInt, 8);
    mlf_packed_memory(values, codes, 1, workspace + 0);
    if (tvmgen_m_conv(values, codes, 2, out_ret_value, out_ret_tcode, resource_handle) != 0) {
      return -1;
    }

and the functions that are called so, which take the list apart for one kernel. Statements of other
forms are a ValueError: the function is none of these.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlftool.proof.csource import Argument, Call, Function, definitions, tokens

Words = list[str]
_TAKEN = ("mlf_packed_data", "mlf_packed_handle")
_LISTS = ("DLTensor", "TVMValue", "int")
_RETURNS = ("return", "return0", "return-1")


def functions(text: str) -> Iterator[Function]:
    """The packed functions of a file that make calls. Their parameters are what they take out of
    the list, place by place."""
    for head, body in definitions(text):
        if "TVMValue *args" not in head:
            continue
        name = list(tokens(head.partition("(")[0]))[-1]
        try:
            yield _function(name, list(_statements(body)))
        except (ValueError, IndexError, KeyError):
            continue


def _statements(body: str) -> Iterator[Words]:
    """The words of each statement, and of what stands before a brace."""
    words: Words = []
    for token in tokens(body):
        if token in (";", "{", "}"):
            if words:
                yield words
            words = []
        else:
            words.append(token)


def _function(name: str, statements: Sequence[Words]) -> Function:
    places: dict[int, str] = {}
    filled: dict[int, Argument] = {}
    calls: list[Call] = []
    for words in statements:
        word = words[0]
        if word == "mlf_packed_tensor":
            given = _arguments(words[1:])
            filled[int(given[3][0])] = _argument(given[4])
        elif word == "mlf_packed_memory":
            given = _arguments(words[1:])
            filled[int(given[2][0])] = _argument(given[3])
        elif "=" in words and any(t in words for t in _TAKEN):
            number = _arguments(words[words.index(next(t for t in _TAKEN if t in words)) + 1 :])
            places[int(number[3][0])] = words[words.index("=") - 1]
        elif word == "if" and words[3] == "(":
            count = int(_arguments(words[3:])[2][0])
            calls.append(Call(words[2], tuple(filled[k] for k in range(count))))
            filled = {}
        elif not _touches_nothing(words):
            given = _arguments(words[1:])
            calls.append(Call(word, tuple(_argument(g) for g in given)))
    if filled:
        raise ValueError("a list of tensors is passed to nothing")
    return Function(name, tuple(places[k] for k in range(len(places))), tuple(calls), packed=True)


def _touches_nothing(words: Words) -> bool:
    """Declarations, tests for NULL, the memory for scratch, and the end."""
    return (
        words[0] in _LISTS
        or words[:3] == ["(", "void", ")"]
        or (words[0] == "if" and "NULL" in words)
        or "".join(words) in _RETURNS
        or "TVMBackendAllocWorkspace" in words
        or "TVMBackendFreeWorkspace" in words
        or words[:3] == ["uint8_t", "*", "scratch"]
    )


def _arguments(words: Words) -> list[Words]:
    """The words of each argument; `words` begins with the parenthesis."""
    if words[0] != "(":
        raise ValueError(f"got '{words[0]}', expected '('")
    found: list[Words] = [[]]
    depth = 0
    for word in words:
        depth += (word == "(") - (word == ")")
        if depth == 0:
            break
        if word == "," and depth == 1:
            found.append([])
        elif (word, depth) != ("(", 1) or found[-1]:
            found[-1].append(word)
    return found if found != [[]] else []


def _argument(words: Words) -> Argument:
    """Casts, then a name, or a sum of a name and a number."""
    while words[0] == "(" and "*" in words:
        words = words[words.index(")") + 1 :]
    words = [w for w in words if w not in ("(", ")")]
    if len(words) == 3 and words[1] == "+":
        return Argument(words[0], int(words[2]))
    if len(words) != 1:
        raise ValueError(f"got '{' '.join(words)}', expected an address")
    return Argument(words[0], None)
