"""What C headers and Relay texts of archives say of a module's tensors: order, names and shapes."""

from __future__ import annotations

import re
from collections.abc import Iterable

from mlftool.frozen import frozen


@frozen
class Parameter:
    """A parameter or result of Relay's main function; results have no names."""

    name: str
    dtype: str
    shape: tuple[int, ...]


@frozen
class Signature:
    parameters: tuple[Parameter, ...]
    results: tuple[Parameter, ...]


LOOKUP = "_lookup_linked_param"
_COMMENT = re.compile(r"/\*.*?\*/|//[^\n]*", re.DOTALL)
_MEMBER = re.compile(r"void\s*\*\s*([A-Za-z_]\w*)\s*;")
_TENSOR = re.compile(r"Tensor\[\(([0-9, ]*)\), ([a-z]+[0-9]*)\]")
_PARAMETER = re.compile(r"%(.+?):\s+(Tensor\[[^\]]*\])")


def struct_members(header: str, name: str) -> tuple[str, ...] | None:
    """The pointers in `struct name { ... }`, in order; None if the header has no such struct."""
    plain = _COMMENT.sub(" ", header)
    found = re.search(rf"struct\s+{re.escape(name)}\s*\{{([^}}]*)\}}", plain)
    return tuple(_MEMBER.findall(found[1])) if found else None


def sanitised(name: str) -> str:
    """How TVM makes a C identifier of a tensor's name."""
    return re.sub(r"[^A-Za-z0-9]", "_", name)


def relay_main(text: str) -> Signature | None:
    """The types of `def @main`; None where it is missing or has types that are not all known.

    Where it has no return type, that of its last expression is its result's.
    """
    plain = re.sub(r"/\*.*?\*/", " ", text, flags=re.DOTALL)
    start = plain.find("def @main(")
    if start < 0:
        return None
    start += len("def @main(")
    end = _closing(plain, start)
    result = re.match(r"\s*->\s*([^{]*)\{", plain[end + 1 :])
    inside = plain[start:end]
    named = _PARAMETER.findall(inside)
    parameters = [_tensor(name, type_) for name, type_ in named]
    count = len(re.findall(r"(?:^|,)\s*%", inside))
    results = [_tensor("", t) for t in re.findall(r"Tensor\[[^\]]*\]", result[1])] if result else []
    if result is None:
        results = _last_type(text)
    if None in parameters or None in results or not results or count != len(named):
        return None
    return Signature(
        tuple(p for p in parameters if p is not None), tuple(r for r in results if r is not None)
    )


def _last_type(text: str) -> list[Parameter | None]:
    """The type in the comment after the last expression of main, a tensor's or a tuple's."""
    start = text.find("def @main(")
    body = text[start : text.find("\n}", start)]
    found = re.findall(r"/\*\s*ty=(\(?Tensor\[[^*]*?\]\)?)\s*(?:span=[^*]*)?\*/\s*$", body.rstrip())
    return [_tensor("", t) for t in re.findall(r"Tensor\[[^\]]*\]", found[-1])] if found else []


def _closing(text: str, start: int) -> int:
    """Where the parenthesis closes that was opened before `start`."""
    depth = 1
    for at in range(start, len(text)):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        if depth == 0:
            return at
    return len(text)


def _tensor(name: str, text: str) -> Parameter | None:
    found = _TENSOR.fullmatch(text)
    if found is None:
        return None
    return Parameter(name, found[2], tuple(int(e) for e in re.findall("[0-9]+", found[1])))


def linked_storage(sources: Iterable[bytes]) -> frozenset[int]:
    """The storage ids whose parameters are C arrays, found by `_lookup_linked_param`.

    TVM up to 0.8 made that function for graphs with link-params, a switch over storage ids.
    """
    found: set[int] = set()
    for source in sources:
        _, name, body = source.partition(LOOKUP.encode() + b"(void* args")
        found |= {int(n) for n in re.findall(rb"\bcase (\d{1,9}):", body)} if name else set()
    return frozenset(found)


def network_of(sources: Iterable[bytes]) -> str:
    """The tvm_model_t that AOT code of TVM before July 2021 is entered by; "" if there is none."""
    for source in sources:
        found = re.search(rb"\bconst tvm_model_t ([A-Za-z_]\w*) = \{", source)
        if found:
            return found[1].decode()
    return ""


def packed_arguments(source: str, function: str) -> int | None:
    """How many arguments a packed function of TVM's making reads; None if it is not in `source`."""
    start = re.search(rf"\b{re.escape(function)}\(void\* ?args[^;{{]*\{{", source)
    if start is None:
        return None
    end = source.find("\n}", start.end())
    body = source[start.end() : end if end > 0 else len(source)]
    indices = re.findall(r"\(\(TVMValue ?\*\) ?args\)\[(\d+)", body)
    return max(map(int, indices)) + 1 if indices else None
