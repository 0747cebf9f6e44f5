"""Which bytes each call of a module reads and writes, and what they hold: plain data, as JSON too.

A `Layout` is made from a Program (proof/programs.py) or read from an archive's certificate
(proof/certificate.py); `faults` (proof/walk.py) judges either.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from mlftool.frozen import frozen
from mlftool.mlf.strict import Checked

READ, WRITE, SCRATCH, CONSTANT = "read", "write", "scratch", "constant"
ROLES = (READ, WRITE, SCRATCH, CONSTANT)


@frozen
class Place:
    """Bytes of a memory: a parameter of the C function, "workspace" or a pool."""

    memory: str
    offset: int
    size_bytes: int

    @property
    def end(self) -> int:
        return self.offset + self.size_bytes

    def meets(self, other: Place) -> bool:
        return self.memory == other.memory and self.offset < other.end and other.offset < self.end


@frozen
class Access:
    """An argument of a call. `content` names what a read expects and a write leaves; a CONSTANT has
    a size and no place. `apart`: the distances from an output's start to this read at which the two
    may share bytes, as the kernel declares; None if they may not."""

    role: str
    content: str
    place: Place
    apart: tuple[int, int] | None = None


@frozen
class Step:
    """One call: the C function's name, "" where a certificate does not say, and its arguments."""

    symbol: str
    accesses: tuple[Access, ...]


@frozen
class Layout:
    """A function that calls kernels. `memories` are those that it may write, with their sizes;
    `given` is what they hold at first, `kept` what they must hold at the end."""

    name: str
    memories: Mapping[str, int]
    given: tuple[tuple[Place, str], ...]
    kept: tuple[tuple[Place, str], ...]
    steps: tuple[Step, ...]


def to_json(layout: Layout) -> dict[str, Any]:
    def place(p: Place) -> list[Any]:
        return [p.memory, p.offset, p.size_bytes]

    return {
        "name": layout.name,
        "memories": dict(layout.memories),
        "given": [[*place(p), content] for p, content in layout.given],
        "kept": [[*place(p), content] for p, content in layout.kept],
        "steps": [
            {
                "symbol": s.symbol,
                "arguments": [
                    [a.role, a.content, *place(a.place), *(a.apart or ())] for a in s.accesses
                ],
            }
            for s in layout.steps
        ],
    }


def from_json(at: Checked) -> Layout:
    """Reads what `to_json` wrote; problems become notes of `at`."""

    def held(entry: Checked) -> tuple[Place, str]:
        parts = _parts(entry, 4, 4)
        return (_place(parts), parts[3].text(1 << 20)) if parts else (Place("", 0, 0), "")

    return Layout(
        at.at("name").text(),
        {name: size.number() for name, size in at.at("memories").items()},
        at.at("given").list(held),
        at.at("kept").list(held),
        at.at("steps").list(_step),
    )


def _step(at: Checked) -> Step:
    return Step(at.at("symbol").text(), at.at("arguments").list(_access))


def _access(at: Checked) -> Access:
    parts = _parts(at, 5, 7)
    if not parts:
        return Access(READ, "", Place("", 0, 0))
    role = parts[0].text()
    if role not in ROLES:
        parts[0].note(f"got '{role[:40]}', expected {' or '.join(ROLES)}")
    apart = None
    if len(parts) == 7:
        least, most = (p.number(-(2**63)) for p in parts[5:])
        apart = (least, most)
    return Access(role, parts[1].text(1 << 20), _place(parts[2:]), apart)


def _place(parts: tuple[Checked, ...]) -> Place:
    return Place(parts[0].text(), parts[1].number(), parts[2].number())


def _parts(at: Checked, least: int, most: int) -> tuple[Checked, ...]:
    parts = tuple(at.each())
    if len(parts) not in (least, most):
        at.note(f"has {len(parts)} parts, expected {least} or {most}")
        return ()
    return parts
