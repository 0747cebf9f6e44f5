"""In which column the lines of C begin: loops and conditions that left may have been around them.

if (c) {
      y[0] = a +          ->      if (c) {
          b;                        y[0] = a +
}                                       b;
                                  }
"""

from collections.abc import Sequence

from mlftool.ir.lexemes import COMMENT, OTHER, Group, Item, Lexeme, Loop, is_block, moved, space_of

STEP = 2  # columns of a block
_HINTS = ("MLF_ROLLED", "MLF_UNROLL")


def aligned(items: Sequence[Item], column: int, first: bool = True) -> list[Item]:
    """The statements of a block in this column, those of blocks inside STEP further right.

    A line with which a statement goes on keeps its distance from the first; directives of the
    preprocessor stay where they are. `first`: the text begins with the items.
    """
    made: list[Item] = []
    is_start, by, here, cased = True, 0, column, 0
    for k, item in enumerate(items):
        if isinstance(item, Lexeme) and "\n" not in item.space and (k or not first):
            made.append(item)
            if item.kind != COMMENT and item.text != "#":
                is_start = item.text == ";" or item.text in _HINTS
            continue
        is_line = "\n" in space_of(item) or (first and k == 0)
        is_directive = isinstance(item, Lexeme) and (item.kind, item.text) == (OTHER, "#")
        if is_line and not is_directive:
            if is_start:
                is_label = isinstance(item, Lexeme) and item.text in ("case", "default")
                cased = STEP if is_label else cased
                by = column + (0 if is_label else cased) - column_of(item)
            here = column_of(item) + by
            # What was before the first item of a text may have left, but for its line's end.
            item = moved(item, _to("" if first and k == 0 else space_of(item), here))
        if isinstance(item, Loop):
            item.items = aligned(item.items, here + STEP, first=False)
            item.close = _to(item.close, here)
        elif isinstance(item, Group):
            is_own = is_block(item)
            inner = aligned(item.items, here + STEP, first=False) if is_own else _shifted(item, by)
            end = here if is_own else column_of(item.close) + by
            item = Group(item.open, inner, _end_in(item.close, end), item.changed)
        made.append(item)
        if not (isinstance(item, Lexeme) and item.kind == COMMENT) and not is_directive:
            is_start = isinstance(item, Loop) or _ends(item) or _hints(items, k)
    return made


def _ends(item: Item) -> bool:
    """Whether a statement may end with it."""
    return item.text == ";" if isinstance(item, Lexeme) else is_block(item)


def _hints(items: Sequence[Item], k: int) -> bool:
    """Whether a hint how to unroll a loop ends here: MLF_ROLLED, or MLF_UNROLL(4)."""
    name = items[k - 1] if k and isinstance(items[k], Group) else items[k]
    return isinstance(name, Lexeme) and name.text in _HINTS


def _shifted(group: Group, by: int) -> list[Item]:
    if by == 0:
        return group.items
    made: list[Item] = []
    for item in group.items:
        if "\n" in space_of(item):
            item = moved(item, _to(space_of(item), column_of(item) + by))
        if isinstance(item, Group):
            end = _end_in(item.close, column_of(item.close) + by)
            item = Group(item.open, _shifted(item, by), end, item.changed)
        made.append(item)
    return made


def column_of(item: Item) -> int:
    """In which column a line that begins with it begins."""
    space = space_of(item)
    return len(space) - space.rfind("\n") - 1


def _end_in(end: Lexeme, column: int) -> Lexeme:
    return Lexeme(OTHER, _to(end.space, column), end.text) if "\n" in end.space else end


def _to(space: str, column: int) -> str:
    return space[: space.rfind("\n") + 1] + " " * column
