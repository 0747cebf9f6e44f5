"""What the bytes of a linked program are: a tree of flash and one of RAM.

The leaves are the ELF file's symbols, put under the model, layer and kernel that they belong to, or
under the library or application. What has no symbol, such as string literals and alignment, is a
leaf of its own, so that the sums are what `mlftool run` and budgets call flash and RAM.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from mlftool.errors import MlfError, one_line
from mlftool.frozen import frozen, replace
from mlftool.insight.description import Description, described
from mlftool.insight.subject import Subject, board_for
from mlftool.insight.symbols import Symbol, symbols
from mlftool.mlf.strict import MAX_SIZE, Checked, printed
from mlftool.runtime.link import footprint, link_firmware

USUAL_DEPTH = 3
TEST, LIBRARY = "test program and board", "C library"
_OTHERS = (TEST, LIBRARY)
CALLED = "called by other kernels"  # such as the bodies of If, Loop and Scan
_ENTRIES = ("run", "__tvm_main__", "map_inputs", "map_outputs", "get_c_metadata")
# The test program has 64 bytes before and after each tensor (crt/runner/runner.h).
MODULE_RAM = "of RAM in memmap: without the test program and its guards around inputs and outputs"
UNNAMED = "without a name: literals, alignment"
_CODE = re.compile(r"(?:^|/)codegen/host/src/(\w+?)_lib\d+\.\w+$")  # a module's, by its name
_TEST = re.compile(r"(?:^|/)(?:runner_\w+\.c|crt/(?:runner|platform|boards)/.+)$")
_RUNTIME = re.compile(r"(?:^|/)crt/.+$")
_LIBRARY = re.compile(r"newlib|picolibc|libgcc|/libc/|/libm/")
_FILED = re.compile(r"tvmgen_(\w+)_step\d+_\w+")  # a constant that the assembler took from a file
_STEP = re.compile(r"(?:tvmgen_\w+?_)?step(\d+)_\w+")


@frozen
class Tree:
    """A thing with its bytes, and the things that these consist of, largest first."""

    name: str
    bytes: int
    parts: tuple[Tree, ...] = ()

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {"name": self.name, "bytes": self.bytes}
        return data | ({"parts": [p.to_json() for p in self.parts]} if self.parts else {})


@frozen
class Size:
    """A program: two trees, and how many bytes of RAM it reserves for stack and heap. `module_ram`
    is what its module alone takes, `Subject.ram`; None of a program that the user linked."""

    name: str
    flash: Tree
    ram: Tree
    reserved: int
    module_ram: int | None = None

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "flash": self.flash.to_json(),
            "ram": self.ram.to_json(),
            "reserved_bytes": self.reserved,
            "module_ram_bytes": self.module_ram,
        }


def size_of(subject: Subject, board: str | None = None) -> Size:
    """Of a module in the test program of its board. Raises MlfError."""
    interface = subject.interface
    place = board_for(interface.target, board, subject.file)
    elf = link_firmware(subject.bundle, interface, place, optimise=interface.flag)
    said = described(subject.record, subject.file)
    found = measured(elf, subject.name, {interface.module: said})
    return replace(found, module_ram=subject.ram)


def measured(
    program: Path, name: str, modules: Mapping[str, Description | None] | None = None
) -> Size:
    """Of any ELF file with symbols; `modules` has what is known of the models in it. Raises
    MlfError."""
    found = [s for s in symbols(program) if not s.reserved]
    try:
        whole = footprint(program)
    except MlfError as error:
        raise MlfError(error.problems) from None  # a file that the user named
    known = modules or {}
    flash = [(_path(s, known), s.size) for s in found if s.in_flash]
    ram = [(_path(s, known), s.size) for s in found if s.in_ram]
    return Size(
        name, _tree("flash", flash, whole.flash), _tree("RAM", ram, whole.ram), whole.stack_reserved
    )


def is_model(symbol: Symbol) -> bool:
    """Whether it is a module's: a kernel, an entry point or a helper of the headers, a constant."""
    return _model(symbol) is not None or symbol.base.startswith("tvmgen_")


def _model(symbol: Symbol) -> re.Match[str] | None:
    """The module that has the symbol, as the first group."""
    return _CODE.search(symbol.unit) or _FILED.fullmatch(symbol.name)


def _path(symbol: Symbol, modules: Mapping[str, Description | None]) -> tuple[str, ...]:
    """Where a symbol is in a tree, from the root's child down."""
    if own := _model(symbol):
        return (f"model {own[1]}", *_in_model(symbol, own[1], modules.get(own[1])))
    if _TEST.search(symbol.unit):
        is_tensor = symbol.in_ram and re.fullmatch(r"(input|output)_\d+", symbol.name)
        kept = "state" if symbol.name == "runner_state" else TEST
        return ("inputs and outputs" if is_tensor else kept, symbol.name)
    if _RUNTIME.search(symbol.unit):
        return ("C runtime", symbol.unit.rpartition("/")[2], symbol.name)
    if not symbol.unit or _LIBRARY.search(symbol.unit):
        return (LIBRARY, symbol.name)
    return ("application", symbol.unit, symbol.name)


def _in_model(symbol: Symbol, module: str, said: Description | None) -> tuple[str, ...]:
    if symbol.in_ram:
        return ("state" if symbol.base.startswith("own_state") else "workspace", symbol.name)
    if symbol.is_code:
        layers = [n for n in said.nodes if n.function == symbol.base] if said else []
        if layers:
            return ("kernels", layers[0].kernel, f"{symbol.base}: {_some(layers)}")
        if not symbol.base.startswith("tvmgen_"):
            return ("helpers of the headers", symbol.base)
        if symbol.base.removeprefix(f"tvmgen_{module}_") in _ENTRIES:
            return ("entry points", symbol.base)
        return ("kernels", *((CALLED,) if said else ()), symbol.base)
    step = _STEP.fullmatch(symbol.base)
    if step and said and int(step[1]) < len(said.nodes):
        return ("weights", said.nodes[int(step[1])].name or f"step {step[1]}", symbol.name)
    return ("weights", symbol.name)


def _some(layers: Sequence[Any]) -> str:
    """The layers that a function computes, the first three by name."""
    more = f" and {len(layers) - 3} more" if len(layers) > 3 else ""
    return ", ".join(n.name for n in layers[:3]) + more


def _tree(name: str, leaves: Iterable[tuple[tuple[str, ...], int]], whole: int) -> Tree:
    """The tree of `leaves`, and a leaf for what they leave of `whole` bytes."""
    named = list(leaves)
    rest = whole - sum(size for _, size in named)
    named += [((UNNAMED,), rest)] if rest else []
    return _grown(name, named)


def _grown(name: str, leaves: Sequence[tuple[tuple[str, ...], int]]) -> Tree:
    parts: dict[str, list[tuple[tuple[str, ...], int]]] = {}
    for path, size in leaves:
        if path:
            parts.setdefault(path[0], []).append((path[1:], size))
    made = [_grown(part, inside) for part, inside in parts.items()]
    made.sort(key=lambda t: (-t.bytes, t.name))
    return Tree(name, sum(size for _, size in leaves), tuple(made))


def lines(tree: Tree, depth: int) -> Iterator[tuple[str, int]]:
    """Name, indented, and bytes of all parts down to `depth`; what is not the model's only if that
    is more than usual."""
    yield tree.name, tree.bytes
    if depth > (USUAL_DEPTH - 1 if tree.name in _OTHERS else 0):
        for part in tree.parts:
            yield from (("  " + name, size) for name, size in lines(part, depth - 1))


def text(size: Size, depth: int) -> str:
    """For people: both trees, with bytes and shares."""
    made = [size.name]
    for tree in (size.flash, size.ram):
        made.append("")
        for name, n in lines(tree, depth):
            share = f"{100 * n / tree.bytes:5.1f} %" if tree.bytes else " " * 7
            made.append(f"{n:>11,}  {share}  {one_line(name)}")
    if size.reserved:
        made += ["", f"{size.reserved:>11,}           reserved for stack and heap, not counted"]
    if size.module_ram is not None:
        made += ["" for _ in range(not size.reserved)]
        made.append(f"{size.module_ram:>11,}           {MODULE_RAM}")
    return "\n".join(made)


@frozen
class Change:
    """A part in two programs; `depth` is how deep in the tree it is."""

    name: str
    before: int
    after: int
    depth: int


def changes(before: Tree, after: Tree, depth: int) -> tuple[Change, ...]:
    """All parts that have other sizes, the greatest change first; the roots in any case."""
    return tuple(_changes(before, after, 0, depth))


def _changes(before: Tree | None, after: Tree | None, at: int, depth: int) -> Iterator[Change]:
    old, new = (t.bytes if t else 0 for t in (before, after))
    name = (after or before or Tree("", 0)).name
    yield Change(name, old, new, at)
    if at == depth:
        return
    olds = {p.name: p for p in (before.parts if before else ())}
    news = {p.name: p for p in (after.parts if after else ())}

    def moved(name: str) -> int:
        sizes = [t[name].bytes if name in t else 0 for t in (olds, news)]
        return sizes[1] - sizes[0]

    # Parts of a part that kept its size may have changed as well.
    for name in sorted({**olds, **news}, key=lambda n: (-abs(moved(n)), n)):
        if olds.get(name) != news.get(name):
            yield from _changes(olds.get(name), news.get(name), at + 1, depth)


def compared(before: Size, after: Size, depth: int) -> str:
    """For people: what differs between two programs."""
    made = [f"{before.name} -> {after.name}"]
    for old, new in ((before.flash, after.flash), (before.ram, after.ram)):
        made.append("")
        for c in changes(_nameless(old), _nameless(new), depth):
            made.append(
                f"{c.before:>11,}  {c.after:>11,}  {c.after - c.before:>+11,}  "
                f"{'  ' * c.depth}{one_line(c.name)}"
            )
    return "\n".join(made)


def _nameless(tree: Tree) -> Tree:
    """A tree whose only model is called "model", whatever its name was."""
    models = [part for part in tree.parts if part.name.startswith("model ")]
    if len(models) != 1:
        return tree
    parts = [replace(p, name="model") if p is models[0] else p for p in tree.parts]
    return replace(tree, parts=tuple(parts))


def read_sizes(path: Path) -> tuple[Size, ...]:
    """What `mlftool size --json` printed. Raises MlfError for anything else."""
    help = "mlftool size --json prints one; a model, an archive or a manifest is taken, too"
    return printed(path, _all_read, "what mlftool size --json prints", help)


def _all_read(top: Checked) -> tuple[Size, ...]:
    top.at("schema_version").number(1, 1)
    return () if top.notes else top.at("sizes").list(_read_size)


def _read_size(entry: Checked) -> Size:
    module_ram = entry.maybe("module_ram_bytes")  # older versions print none
    return Size(
        entry.at("name").text(),
        _read(entry.at("flash")),
        _read(entry.at("ram")),
        entry.at("reserved_bytes").number(),
        module_ram.number() if module_ram and module_ram.value is not None else None,
    )


def _read(entry: Checked) -> Tree:
    parts = entry.maybe("parts")
    name = entry.at("name").text(MAX_SIZE)
    return Tree(name, entry.at("bytes").number(), parts.list(_read) if parts else ())
