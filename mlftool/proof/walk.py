"""Walks the calls of a Layout and remembers what every byte holds.

Lifetimes play no part: a tensor is alive because a later call reads it or the caller does. So what
the planner believes of lifetimes cannot hide an error from this.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlftool.proof.layout import CONSTANT, READ, WRITE, Access, Layout, Place

ALIGNMENT_BYTES = 16  # of every address in a workspace or pool


class _Memory:
    """What the bytes of each memory hold: places, and the content of each."""

    def __init__(self) -> None:
        self._held: dict[str, dict[Place, str]] = {}

    def put(self, place: Place, content: str) -> None:
        """`content` replaces whatever shares bytes with it."""
        held = self._held.setdefault(place.memory, {})
        for other in [p for p in held if p.meets(place)]:
            del held[other]
        if place.size_bytes:
            held[place] = content

    def holds(self, place: Place, content: str) -> bool:
        held = self._held.get(place.memory, {})
        return not place.size_bytes or held.get(place) == content


def faults(layout: Layout) -> Iterator[str]:
    """What is wrong with a layout, a line each; nothing if it is proven."""
    memory = _Memory()
    for k, (place, content) in enumerate(layout.given):
        yield from _bounds(layout, f"'{content}'", place)
        if any(place.meets(other) for other, _ in layout.given[:k]):
            yield f"'{content}' shares bytes with another tensor from outside"
        memory.put(place, content)
    for k, step in enumerate(layout.steps):
        name = f"call {k} {step.symbol}".rstrip()
        for a in step.accesses:
            if a.role != CONSTANT:
                yield from _bounds(layout, f"{name}: '{a.content}'", a.place)
            if a.role == READ and not memory.holds(a.place, a.content):
                yield f"{name}: reads '{a.content}', which is not there any more or not yet"
        yield from (f"{name}: {text}" for text in _together(step.accesses))
        for a in step.accesses:
            if a.role not in (READ, CONSTANT):
                memory.put(a.place, a.content if a.role == WRITE else "")
    for place, content in layout.kept:
        yield from _bounds(layout, f"output '{content}'", place)
        if not memory.holds(place, content):
            yield f"output '{content}' is not there at the end"
    yield from _exact(layout)


def _bounds(layout: Layout, name: str, place: Place) -> Iterator[str]:
    size = layout.memories.get(place.memory)
    if size is None:
        yield f"{name} is in '{place.memory}', which is not a memory of the function"
    elif place.offset < 0 or place.end > size:
        yield f"{name} ends at {place.end} of {size} bytes of {place.memory}"
    if place.offset % ALIGNMENT_BYTES:
        yield f"{name} is at {place.offset}, which is not a multiple of {ALIGNMENT_BYTES}"


def _together(accesses: Sequence[Access]) -> Iterator[str]:
    """What one call may not do: write over what it reads, or write two things to one place."""
    written = [a for a in accesses if a.role not in (READ, CONSTANT)]
    for k, w in enumerate(written):
        for other in written[:k]:
            if _same_bytes(w.place, other.place):
                yield f"writes '{w.content}' and '{other.content}' to the same bytes"
        for r in accesses:
            if r.role != READ or not _same_bytes(w.place, r.place):
                continue
            distance = r.place.offset - w.place.offset
            allowed = r.apart is not None and r.apart[0] <= distance <= r.apart[1]
            if w.role != WRITE or not allowed:
                yield f"writes '{w.content}' over '{r.content}', which it reads"


def _same_bytes(a: Place, b: Place) -> bool:
    """Places without bytes count where they start: C's `restrict` is of addresses."""
    return a.meets(b) or (a.memory, a.offset) == (b.memory, b.offset)


def _exact(layout: Layout) -> Iterator[str]:
    """A memory has exactly the bytes that are used, up to the alignment of the last."""
    used = dict.fromkeys(layout.memories, 0)
    places = [p for p, _ in (*layout.given, *layout.kept)]
    places += [a.place for s in layout.steps for a in s.accesses if a.role != CONSTANT]
    for place in places:
        if place.memory in used:
            room = place.size_bytes or ALIGNMENT_BYTES  # so that its address is no other's
            used[place.memory] = max(used[place.memory], place.offset + room)
    for name, size in layout.memories.items():
        if size - used[name] >= ALIGNMENT_BYTES:
            yield f"{name} has {size} bytes, of which {used[name]} are used"
