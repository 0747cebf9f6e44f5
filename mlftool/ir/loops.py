"""Loops that run once are not written: their body stands alone, with 0 for the loop's variable.

A template declares a loop with `each` and ends it with `end`. Whether its bound is 1 is known when
the numbers are: layers that share a function may differ in it, and then the loop stays.

    {{ each("image", n) }}
      y[image * 64 + c] = x[c];                    ->    y[c] = x[c];
    {{ end }}
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence

from mlftool.ir.lexemes import (
    COMMENT,
    NAME,
    NUMBER,
    OTHER,
    Group,
    Item,
    Lexeme,
    Loop,
    every,
    head_of,
    is_block,
    is_type,
    lexemes,
    moved,
    space_of,
    written,
)

# A piece of text whose numbers are filled in: what it is, as a hole says it, and the text.
Token = tuple[str, str]
OPEN, NEXT, HEAD, CLOSE = "l", "n", "h", "e"
MARKS = (OPEN, NEXT, HEAD, CLOSE)

_ASSIGN = {"=", "+=", "-=", "*=", "/=", "%=", "&=", "|=", "^=", "<<=", ">>=", "++", "--"}
_CLOSES = {"(": ")", "[": "]", "{": "}"}
_BRACKETS = {*_CLOSES, *_CLOSES.values()}


def mark(kind: str, text: str = "") -> str:
    """A mark in a text, between two zero bytes as every hole."""
    return f"\0{kind}{text}\0"


def each(name: str, bound: object, step: object = 1) -> str:
    """The head of a loop over `name` from 0 below `bound`; END ends it."""
    return f"{mark(OPEN, name)}{bound}{mark(NEXT)}{step}{mark(HEAD)}"


END = mark(CLOSE)  # of a loop, or of a plain block that a template has in its place


def plain(tokens: Sequence[Token]) -> str:
    """The text with all its loops."""
    made: list[str] = []
    parts: list[str] = []
    name = ""
    for kind, text in tokens:
        if kind == OPEN:
            name, parts = text, [""]
        elif kind == NEXT:
            parts.append("")
        elif kind == HEAD:
            made.append(head_of(name, *parts))
            parts = []
        elif parts:
            parts[-1] += text
        else:
            made.append("}" if kind == CLOSE else text)
    return "".join(made)


def nested(tokens: Sequence[Token]) -> tuple[list[Item], str]:
    """The tree of a text, and the space at its end."""
    top = Group(Lexeme(OTHER, "", ""), [], Lexeme(OTHER, "", ""))
    stack: list[Group | Loop] = [top]
    region = ""
    loop: Loop | None = None
    parts: list[list[Item]] = []
    space = ""
    for kind, text in [*tokens, ("end", "")]:
        if kind not in (*MARKS, "end"):
            region += text
            continue
        found, space = lexemes(region)
        region = ""
        if kind in (NEXT, HEAD):
            parts.append([found[0]._replace(space=""), *found[1:]])
            if kind == HEAD and loop:
                loop.bound, loop.step = map(grouped, parts)
                stack.append(loop)
            continue
        _add(stack, found)
        if kind == OPEN:
            loop, parts = Loop(text, space), []
            stack[-1].items.append(loop)
        elif kind == CLOSE and isinstance(stack[-1], Loop):
            stack[-1].close = space
            stack.pop()
        elif kind == CLOSE:
            _add(stack, [Lexeme(OTHER, space, "}")])
    assert stack == [top], "a bracket or a loop without its end"
    return top.items, space


def grouped(items: Sequence[Item]) -> list[Item]:
    """Flat lexemes as a tree."""
    top = Group(Lexeme(OTHER, "", ""), [], Lexeme(OTHER, "", ""))
    stack: list[Group | Loop] = [top]
    _add(stack, [item for item in items if isinstance(item, Lexeme)])
    assert stack == [top], "a bracket without its end"
    return top.items


def _add(stack: list[Group | Loop], found: Sequence[Lexeme]) -> None:
    items = stack[-1].items
    for lexeme in found:
        if lexeme.kind != OTHER or lexeme.text not in _BRACKETS:
            items.append(lexeme)
        elif lexeme.text in _CLOSES:
            group = Group(lexeme, [], Lexeme(OTHER, "", _CLOSES[lexeme.text]))
            items.append(group)
            stack.append(group)
            items = group.items
        else:
            opened = stack.pop()
            assert isinstance(opened, Group), "a loop without its end"
            assert opened.close.text == lexeme.text, "unbalanced brackets"
            opened.close = lexeme
            opened.plain = opened.open.text != "{" and all(map(_is_plain, items))
            items = stack[-1].items


def _is_plain(item: Item) -> bool:
    if isinstance(item, Lexeme):
        return item.text not in ("0", "1", ";")
    return isinstance(item, Group) and item.plain


def entered(
    items: Sequence[Item],
    settle: Callable[[list[Item]], list[Item]],
    zeros: frozenset[str] = frozenset(),
) -> list[Item]:
    """The tree with zeros for constants that are 0 and for variables of loops that run once, which
    are said to be alone."""
    made: list[Item] = []
    start = 0  # of a statement
    for k, item in enumerate(items):
        if isinstance(item, Lexeme):
            is_zero = item.text in zeros and item.kind == NAME and not _is(items, k - 1, ".", "->")
            made.append(Lexeme(NUMBER, item.space, "0") if is_zero else item)
            if item.text == ";":
                if name := _nought(made[start:-1], settle):
                    rest = items[k + 1 :]
                    if not _written_to(rest, name) and _in_terms(rest, name):
                        zeros |= {name}
                        del made[start:]
                start = len(made)
            elif item.kind == COMMENT:
                start = len(made)
            continue
        if isinstance(item, Group) and item.plain and not zeros:
            made.append(item)
        elif isinstance(item, Group):
            made.append(Group(item.open, entered(item.items, settle, zeros), item.close))
        else:
            bound, step = (settle(entered(p, settle, zeros)) for p in (item.bound, item.step))
            alone = _once(written(bound), written(step))
            alone = alone and not _jumps(item.items) and not _written_to(item.items, item.name)
            inner = zeros | {item.name} if alone else zeros - {item.name}
            body = entered(item.items, settle, inner)
            made.append(Loop(item.name, item.space, bound, step, body, item.close, alone))
        if isinstance(item, Loop) or item.open.text == "{":
            start = len(made)
    return made


def _nought(statement: list[Item], settle: Callable[[list[Item]], list[Item]]) -> str:
    """The name of an integer that the statement declares as 0 for good."""
    if not (_is(statement, 0, "const") and _is(statement, 1, "int32_t") and _is(statement, 3, "=")):
        return ""
    return written(statement[2:3]).strip() if written(settle(statement[4:])) == " 0" else ""


_TERMS = {"*", "/", "%", "+", "-", "<<", ">>"}
_COMPARED = {"<", ">", "<=", ">=", "==", "!=", "?", "&&", "||"}


def _in_terms(items: Sequence[Item], name: str) -> bool:
    """Whether each expression that reads the name goes without it where it is 0."""
    for k, item in enumerate(items):
        if isinstance(item, Lexeme) and item.text == name:
            sides = [side for side in (k - 1, k + 1) if _is(items, side, *_TERMS)]
            if not sides or any(_is(items, side, *_COMPARED) for side in (k - 1, k + 1)):
                return False
        is_alone = isinstance(item, Group) and len(item.items) == 1 and _is(item.items, 0, name)
        if is_alone and _is(items, k + 1, "*") and not _is_named(items, k - 1):
            continue  # (p) * 16
        if not isinstance(item, Lexeme) and not _in_terms(item.items, name):
            return False
    return True


def _is_named(items: Sequence[Item], k: int) -> bool:
    return k >= 0 and isinstance(before := items[k], Lexeme) and before.kind == NAME


def _is(items: Sequence[Item], k: int, *texts: str) -> bool:
    item = items[k] if 0 <= k < len(items) else None
    return isinstance(item, Lexeme) and item.text in texts


def _once(bound: str, step: str) -> bool:
    return bound.isdigit() and step.isdigit() and 0 < int(bound) <= int(step)


def _jumps(items: Sequence[Item]) -> bool:
    """Whether the body leaves or continues its own loop, and not one inside it."""
    for k, item in enumerate(items):
        if isinstance(item, Lexeme) and item.kind == NAME and item.text in ("continue", "break"):
            return True
        own = not _is(items, k - 2, "for", "while") and not _is(items, k - 1, "do")
        if isinstance(item, Group) and (own or item.open.text != "{") and _jumps(item.items):
            return True
    return False


def _written_to(items: Sequence[Item], name: str) -> bool:
    """Whether the body may give the variable another value, or has another one of that name."""
    for k, item in enumerate(items):
        if isinstance(item, Group) and _written_to(item.items, name):
            return True
        if isinstance(item, Loop) and item.name != name and _written_to(item.items, name):
            return True
        is_it = isinstance(item, Lexeme) and item.text == name
        if is_it and not _is(items, k - 1, ".", "->"):
            of = k - 2 if _is(items, k - 1, "*", "const") else k - 1
            if of >= 0 and is_type(items[of]):
                return True
            if _is(items, k + 1, *_ASSIGN) or _is(items, k - 1, "++", "--", "&"):
                return True
    return False


def merged(items: list[Item], taken: frozenset[str]) -> list[Item]:
    """The tree with blocks and bodies that stand alone among what is beside them, but for those
    that declare a name which occurs there or is one of those `taken`."""
    made: list[Item] = []
    for item in _unguarded(items):
        if not isinstance(item, Lexeme) and not (isinstance(item, Group) and item.plain):
            item.items = merged(item.items, taken)
        made.append(item)
    k = len(made)
    found: Counter[str] | None = None  # in how many of the items a text is
    are_less = False
    while k > 0:
        k -= 1
        item = made[k]
        if isinstance(item, Lexeme):
            continue
        if isinstance(item, Loop) and item.alone:
            k = _hinted(made, k)
        elif not is_block(item):
            continue
        if not _is_statement(made, k):
            continue
        names = declared(item.items)
        if names and found is None:
            found = _texts(made)
        if names.isdisjoint(taken) and (not found or all(found[name] == 1 for name in names)):
            made[k : k + 1] = _outdented(item)
            if found:
                found.update(_texts(item.items))
                found.subtract(_texts([item]))
            are_less = True
    return _counted(made) if are_less else made


def _texts(items: Sequence[Item]) -> Counter[str]:
    """In how many of the items each text is."""
    found: Counter[str] = Counter()
    for item in items:
        if isinstance(item, Lexeme):
            found[item.text] += 1
        else:
            found.update({lexeme.text for lexeme in every([item])})
    return found


def _has(names: frozenset[str], items: Sequence[Item]) -> bool:
    """Whether one of the names is among the items, or in one of them."""
    return bool(names) and not names.isdisjoint([lexeme.text for lexeme in every(items)])


def _unguarded(items: list[Item]) -> list[Item]:
    """The tree with the block alone where it stands below `if (1 < 3)`, and without one below
    `if (3 < 3)` that reads nothing declared beside it, which would be read nowhere then: layers
    that share a function have a condition there, which of one layer alone is known."""
    made: list[Item] = []
    for k, item in enumerate(items):
        made.append(item)
        if not isinstance(item, Group) or item.open.text != "{" or not _is(items, k - 2, "if"):
            continue
        if not _is(items, k + 1, "else") and not _is(items, k - 3, "else"):
            holds = _is_less(items[k - 1])
            if holds:
                made[-3:] = [moved(item, space_of(items[k - 2]))]
            elif holds is False and not _has(declared(items), item.items):
                del made[-3:]
    return made


def _is_less(condition: Item) -> bool | None:
    """Whether the first of two numbers is less; None if that is not what it compares."""
    if not isinstance(condition, Group) or len(condition.items) != 3:
        return None
    low, sign, high = map(_text, condition.items)
    numbers = low.isdigit() and high.isdigit()  # each of them: a bracket has no text
    return int(low) < int(high) if sign == "<" and numbers else None


def _counted(items: list[Item]) -> list[Item]:
    """The block without what was counted for a next turn: sums that it declares and never reads."""
    k = len(items)
    while k > 0:
        k -= 1
        if _is(items, k, "++", "+=") and _is_statement(items, k - 1):
            name = _text(items[k - 1])
            end = next(at for at in range(k, len(items)) if _is(items, at, ";"))
            is_plain = all(isinstance(item, Lexeme) for item in items[k:end])
            is_last = not _has(frozenset({name}), items[k:])
            if is_plain and is_last and name in declared(items[: k - 1]):
                del items[k - 1 : end + 1]
    return items


def _hinted(items: list[Item], k: int) -> int:
    """Takes a hint how to unroll the loop at `k` away; its place then."""
    item = items[k]
    start = k
    if _is(items, k - 1, "MLF_ROLLED"):
        start = k - 1
    elif k > 1 and isinstance(items[k - 1], Group) and _is(items, k - 2, "MLF_UNROLL"):
        start = k - 2
    if start < k:
        items[start : k + 1] = [moved(item, space_of(items[start]))]
    return start


def _is_statement(items: Sequence[Item], k: int) -> bool:
    """Whether what is before it is a whole statement: several may then follow."""
    while k > 0 and isinstance(before := items[k - 1], Lexeme) and before.kind == COMMENT:
        k -= 1
    if k == 0:
        return True
    before = items[k - 1]
    if isinstance(before, Lexeme):
        return before.text == ";"
    return isinstance(before, Loop) or before.open.text == "{"


def _outdented(block: Loop | Group) -> list[Item]:
    """The body in the loop's place; `ir/columns.py` moves its lines to the left."""
    body = block.items
    return [moved(body[0], space_of(block)), *body[1:]] if body else []


def _text(item: Item) -> str:
    return item.text if isinstance(item, Lexeme) else ""


_NOT_DECLARED = {"return", "else", "goto", "case", "sizeof", "do", "typedef", "if"}
_QUALIFIERS = {"const", "static", "volatile", "restrict"}


def declared(items: Sequence[Item]) -> frozenset[str]:
    """The names that the statements of a block declare in it."""
    found: set[str] = set()
    statement: list[Item] = []
    for item in items:
        if isinstance(item, Lexeme) and item.text == ";":
            found |= _declarators(statement)
            statement = []
        elif isinstance(item, Loop) or (isinstance(item, Group) and item.open.text == "{"):
            if not _is(statement, len(statement) - 1, "="):
                statement = []
        elif not (isinstance(item, Lexeme) and item.kind == COMMENT):
            statement.append(item)
    return frozenset(found)


def _declarators(statement: Sequence[Item]) -> set[str]:
    """Of a declaration: `[specifiers] type`, then names, each perhaps with stars before it."""
    k = 0
    while _is(statement, k, *_QUALIFIERS):
        k += 1
    first = statement[k] if k < len(statement) else None
    if not isinstance(first, Lexeme) or first.kind != NAME or first.text in _NOT_DECLARED:
        return set()
    found: set[str] = set()
    is_place = True  # of a name; one too many keeps a block
    for item in statement[k + 1 :]:
        if _is([item], 0, *_QUALIFIERS):
            continue
        if is_place and isinstance(item, Lexeme) and item.kind == NAME:
            found.add(item.text)
        elif not found and not _is([item], 0, "*"):
            return found
        elif not _is([item], 0, "*"):
            is_place = _is([item], 0, ",")
    return found
