"""Names that a C text uses where no declaration of theirs is in sight."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_TOKEN = re.compile(
    r"""//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\])*"|'(?:\\.|[^'\\])*'|\#[^\n]*(?:\\\n[^\n]*)*"""
    r"""|[A-Za-z_]\w*|\d[\w.]*|\s+|->|.""",
    re.DOTALL,
)
_NAME = re.compile(r"[A-Za-z_]\w*\Z")
_TYPES = re.compile(
    r"(?:\w+_t|int|float|double|char|void|unsigned|signed|bool|const|restrict|long|short|"
    r"Z\d+_)\Z"
)
_NOT_TYPES = {"return", "else", "do", "goto", "case", "sizeof"}
_AFTER = {"=", ";", "[", ",", ")", ":"}


def _tokens(text: str) -> list[tuple[str, bool]]:
    """Each token, and whether space comes before it."""
    made: list[tuple[str, bool]] = []
    space = False
    for word in _TOKEN.findall(text):
        if word.isspace():
            space = True
            if "\n" in word and made and made[-1][0] != "\n":
                made.append(("\n", True))
            continue
        if word.startswith(("//", "/*", "#")):
            space = True
            continue
        made.append((word, space))
        space = False
    return made


def _declares(tokens: list[tuple[str, bool]], k: int) -> bool:
    """Whether the name at `k` is one that a declaration begins with its type."""
    if k == 0 or k + 1 >= len(tokens) or tokens[k + 1][0] not in _AFTER:
        return False
    at = k - 1
    pointer = False
    while at >= 0 and tokens[at][0] == "*":
        if tokens[at + 1][1] and tokens[at + 1][0] not in ("*", "const", "restrict"):
            return False  # "a * b"
        pointer = True
        at -= 1
    if at < 0:
        return False
    word, _ = tokens[at]
    if not _NAME.match(word) or word in _NOT_TYPES:
        return False
    if pointer:
        return bool(_TYPES.match(word)) and tokens[at + 1][1]
    return bool(tokens[k][1])


def scan(text: str) -> Iterator[tuple[str, bool, int]]:
    """Each name in the text: whether it is declared there, and how deep in blocks; "{" and "}"
    are among them."""
    lines = _tokens(text)
    tokens = [t for t in lines if t[0] != "\n"]
    begins = {k - n for n, k in enumerate(k for k, t in enumerate(lines) if t[0] == "\n")}
    depth = 0
    listing = None  # the depth of parentheses at which names of one declaration follow
    for k, (word, _) in enumerate(tokens):
        if word in "([":
            depth += 1
        elif word in ")]":
            depth -= 1
            if listing is not None and depth < listing:
                listing = None
        elif word in "{};":
            if word != ";":
                yield word, False, depth
            if listing is not None and depth <= listing and word == ";":
                listing = None
        elif _NAME.match(word):
            before = tokens[k - 1][0] if k else ""
            if before in (".", "->"):
                continue
            if k not in begins and _declares(tokens, k):
                listing = depth
                yield word, True, depth
            elif listing == depth and _next_of_list(tokens, k):
                yield word, True, depth
            else:
                yield word, False, depth


def _next_of_list(tokens: list[tuple[str, bool]], k: int) -> bool:
    at = k - 1
    while at >= 0 and tokens[at][0] in ("*", "const", "restrict"):
        at -= 1
    return tokens[at][0] == "," and tokens[k + 1][0] in ("=", ";", ",", "[")


def declared(text: str) -> set[str]:
    return {name for name, here, _ in scan(text) if here}


def unseen(text: str, names: Iterable[str]) -> set[str]:
    """Those of `names` that the text uses outside of any block that declares them before."""
    wanted = set(names)
    blocks: list[set[str]] = [set()]
    heads: set[str] = set()
    found: set[str] = set()
    for word, here, depth in scan(text):
        if word == "{":
            blocks.append(heads)
            heads = set()
        elif word == "}":
            if len(blocks) > 1:
                blocks.pop()
        elif here and depth:
            heads.add(word)  # of a loop, or a parameter
        elif here:
            blocks[-1].add(word)
        elif word in wanted and word not in heads and not any(word in b for b in blocks):
            found.add(word)
    return found


def unclosed(text: str) -> str:
    """The first bracket that nothing closes, or that closes nothing; "" if there is none."""
    pairs = {")": "(", "]": "[", "}": "{"}
    opened: list[str] = []
    for word, _ in _tokens(text):
        if word in pairs.values():
            opened.append(word)
        elif word in pairs and (not opened or opened.pop() != pairs[word]):
            return word
    return opened[-1] if opened else ""
