"""Who is where in a module's working memory, and when: the plan, its peak, and what lowers it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from mlftool.compile import compile_module
from mlftool.errors import MlfError, one_line
from mlftool.frozen import frozen, replace
from mlftool.insight import svg
from mlftool.insight.description import Buffer, Description, Pool, described
from mlftool.insight.storage import planned
from mlftool.insight.subject import Subject
from mlftool.module import Module, ModuleSpec
from mlftool.progress import step
from mlftool.sizes import in_bytes
from mlftool.width import columns

COLUMNS = 72  # of the text's chart


@frozen
class Way:
    """Options that were tried, and what a module takes with them: its workspace, with inputs and
    outputs and states the whole RAM, both in bytes, and its multiplications."""

    options: str
    workspace: int
    ram: int
    macs: int


@frozen
class MemoryMap:
    """A module's plan; None for an archive that has none. `usual` is the module as it is, None
    where the archive tells no size; `ways` is what was tried and lowers it, None if nothing was."""

    name: str
    module: str
    target: str
    usual: Way | None
    plan: Description | None
    ways: tuple[Way, ...] | None = None
    missing: tuple[str, ...] = ()
    state: int = 0  # bytes that are kept from one run to the next


def memory_map(subject: Subject, try_ways: bool = True) -> MemoryMap:
    """The map of a module. Other options are tried where it was compiled here, each by compiling
    it again. Raises MlfError."""
    interface, plan = subject.interface, described(subject.record, subject.file)
    usual, missing = None, []
    own = plan is not None
    plan = plan or planned(subject.record, subject.file, interface.target)
    if subject.ram is not None:
        macs = plan.macs if plan else 0
        usual = Way("", interface.workspace_bytes, subject.ram, macs)
    else:
        missing.append("the workspace: the archive does not tell its size")
    if plan is None:
        missing.append("the plan: the archive does not tell which tensor is where")
    elif not own:
        missing.append("the scratch of kernels, which TVM's kernels allocate as they run")
    elif subject.compiled is None:
        missing.append(
            "what would lower it: give the model or the manifest's entry that it was made from"
        )
    known = subject.compiled if usual and try_ways else None
    ways = tuple(_ways(known, usual)) if known and usual else None
    return MemoryMap(
        *(subject.name, interface.module, interface.target, usual, plan, ways, tuple(missing)),
        interface.state_bytes,
    )


# What may lower the peak, as fields of ModuleSpec, and how the command line says it.
_TRIED: tuple[tuple[str, Mapping[str, Any]], ...] = (
    ("--patches auto", {"patches": "auto"}),
    ("--workspace-io", {"workspace_io": True}),
    ("--patches auto --workspace-io", {"patches": "auto", "workspace_io": True}),
    ("--optimize size", {"optimize": "size"}),
)


def _ways(module: Module, usual: Way) -> Iterator[Way]:
    """Those of the options that the module does not have yet, and that make it smaller."""
    spec = replace(module.spec, tuning=None)
    best = usual.ram
    for text, changed in _TRIED:
        if any(getattr(spec, name) == value for name, value in changed.items()):
            continue
        try:
            with step(f"trying {text}"):
                way = _tried(text, replace(spec, **changed))
        except MlfError:
            continue  # options that this executor lacks, or a pool that is too small
        if way.ram < (best if len(changed) > 1 else usual.ram):
            best = min(best, way.ram)
            yield way


def _tried(text: str, spec: ModuleSpec) -> Way:
    module = compile_module(spec)
    macs = sum(c.kernel.macs for c in module.program.calls)
    return Way(text, module.program.memory.size_bytes, module.ram_bytes, macs)


def alive(plan: Description, pool: Pool) -> tuple[int, ...]:
    """Bytes that hold something at each step, blocks that share bytes counted once."""
    blocks = _blocks(plan, pool)
    return tuple(_union(b for b in blocks if b.first <= k <= b.last) for k in range(steps(plan)))


def steps(plan: Description) -> int:
    return max(1, len(plan.nodes))


def _blocks(plan: Description, pool: Pool) -> list[Buffer]:
    found = (b for b in plan.buffers if b.pool == pool.name)
    return sorted(found, key=lambda b: (b.offset, b.first, b.name))


def _union(blocks: Iterator[Buffer]) -> int:
    """An input that dies and an output may overlap."""
    total = end = 0
    for start, stop in sorted((b.offset, b.offset + b.size) for b in blocks):
        total += max(0, stop - max(start, end))
        end = max(end, stop)
    return total


def proof(pool: Pool) -> str:
    """How good the plan is known to be, in words."""
    gap = pool.size - pool.bound
    if pool.proof == "liveness" or not gap:
        return "no plan is smaller in this order: as many bytes are alive at the peak"
    if pool.proof == "search":
        return f"a search proved that no plan is smaller in this order; {pool.bound:,} are alive"
    return f"{pool.bound:,} are alive at the peak; the other {gap:,} may or may not be avoidable"


def text(found: MemoryMap) -> str:
    """For people."""
    lines = [f"{found.name} for {found.target}"]
    if usual := found.usual:
        more = "inputs, outputs and state" if found.state else "inputs and outputs"
        lines[0] += f": workspace {in_bytes(usual.workspace)}, with {more} {in_bytes(usual.ram)}"
    if found.state:
        lines.append(f"state: {in_bytes(found.state)}, kept from one run to the next")
    for pool in found.plan.pools if found.plan else ():
        assert found.plan
        lines += ["", *_pool_lines(found.plan, pool)]
    if usual and found.ways:
        lines += ["", "what lowers it, tried by compiling with these options:"]
        lines += [_way_line(way, usual) for way in found.ways]
    elif found.ways is not None:
        lines += ["", "what lowers it: none of the options that were tried"]
    lines += [f"not known: {what}" for what in found.missing]
    return "\n".join(lines)


def _way_line(way: Way, usual: Way) -> str:
    line = f"  {way.options:<30} {way.ram:>11,} B in all, {way.ram - usual.ram:+,}"
    more = way.macs - usual.macs
    return line + (f"; {100 * more / usual.macs:+.1f} % multiplications" if more else "")


def _pool_lines(plan: Description, pool: Pool) -> Iterator[str]:
    name = "workspace" if pool.name == "global_workspace" else f"pool {pool.name}"
    yield f"{name}: {in_bytes(pool.size)}; {proof(pool)}"
    if not pool.size:
        return
    count, blocks, at = steps(plan), _blocks(plan, pool), alive(plan, pool)
    peak = peak_of(plan, pool)
    yield f"peak: {in_bytes(at[peak])} at step {peak}, {_layer(plan, peak)}; alive there:"
    there = [b for b in blocks if b.first <= peak <= b.last]
    for b in there:
        yield f"  {b.size:>11,}  {_what(plan, b)}"
    if sum(b.size for b in there) > at[peak]:
        yield "  (an output is written over an input that the step has read)"
    room = min(COLUMNS, max(10, columns() - 30)) if columns() else COLUMNS
    scale = -(-count // room)  # steps in a column
    yield ""
    yield f"{'offset':>11}  {'bytes':>11}  steps 0 to {count - 1}" + (
        f", {scale} in each column" if scale > 1 else ""
    )
    for b in blocks:
        yield f"{b.offset:>11,}  {b.size:>11,}  {_bar(b, count, scale)}  {_what(plan, b)}"


def peak_of(plan: Description, pool: Pool) -> int:
    """The first step at which most bytes are alive."""
    at = alive(plan, pool)
    return max(range(len(at)), key=lambda k: (at[k], -k))


def _bar(b: Buffer, count: int, scale: int) -> str:
    columns = range(-(-count // scale))
    return "".join(
        "#" if b.first < (k + 1) * scale and b.last >= k * scale else "." for k in columns
    )


def _layer(plan: Description, step: int) -> str:
    """The layer of a step; the caller reads outputs after the last."""
    if step < len(plan.nodes):
        return f"'{one_line(plan.nodes[step].name)}'"
    return "the application"


def _what(plan: Description, b: Buffer) -> str:
    """What a block holds: the layer that makes it says more than the tensor's name."""
    if b.name.startswith("scratch of step"):
        return f"scratch of {_layer(plan, b.first)}"
    name = one_line(b.name)
    return f"given: {name}" if b.is_given else f"from {_layer(plan, b.first)}: {name}"


def to_json(found: MemoryMap) -> dict[str, Any]:
    """The same for scripts; new versions only add keys."""
    plan = found.plan
    return {
        "name": found.name,
        "module": found.module,
        "target": found.target,
        "workspace_bytes": found.usual.workspace if found.usual else None,
        "ram_bytes": found.usual.ram if found.usual else None,
        "state_bytes": found.state,
        "missing": list(found.missing),
        "pools": [_pool_json(plan, pool) for pool in plan.pools] if plan else None,
        "steps": [n.name for n in plan.nodes] if plan else None,
        "ways": [
            {
                "options": w.options,
                "workspace_bytes": w.workspace,
                "ram_bytes": w.ram,
                "macs": w.macs,
            }
            for w in found.ways or ()
        ],
    }


def _pool_json(plan: Description, pool: Pool) -> dict[str, Any]:
    at, peak = alive(plan, pool), peak_of(plan, pool)
    return {
        "name": pool.name,
        "size_bytes": pool.size,
        "lower_bound_bytes": pool.bound,
        "proof": pool.proof,
        "peak_step": peak,
        "peak_node": plan.nodes[peak].name if peak < len(plan.nodes) else "",
        "alive_bytes": list(at),
        "blocks": [
            {
                "name": b.name,
                "offset_bytes": b.offset,
                "size_bytes": b.size,
                "first_step": b.first,
                "last_step": b.last,
            }
            for b in _blocks(plan, pool)
        ],
    }


_LEFT, _TOP, _WIDE, _HIGH = 80, 64, 900, 300


def drawing(found: MemoryMap) -> str:
    """SVG: time goes to the right, addresses go up; one panel for each pool."""
    title = f"{found.name} for {found.target}"
    title += f": workspace {in_bytes(found.usual.workspace)}" if found.usual else ""
    parts = [svg.element("text", title, kind="title", x=16, y=28)]
    panels = [p for p in (found.plan.pools if found.plan else ()) if p.size]
    for k, pool in enumerate(panels):
        assert found.plan
        parts += _panel(found.plan, pool, _TOP + k * (_HIGH + 70))
    height = _TOP + max(1, len(panels)) * (_HIGH + 70)
    return svg.picture(_LEFT + _WIDE + 30, height, title, parts)


def _panel(plan: Description, pool: Pool, top: float) -> Iterator[str]:
    count = steps(plan)
    wide, base = _WIDE / count, top + _HIGH
    peak = peak_of(plan, pool)
    head = (
        f"{'workspace' if pool.name == 'global_workspace' else pool.name}: {in_bytes(pool.size)}, "
    )
    head += f"peak at step {peak}, {_layer(plan, peak)}"
    yield svg.element("text", head, x=_LEFT, y=top - 10)
    blocks, at = _blocks(plan, pool), (wide, _HIGH / pool.size, base)
    for b, colour in zip(blocks, _colours(blocks), strict=True):
        yield _block(plan, b, colour, at)
    yield svg.element("rect", kind="mark", x=_LEFT + peak * wide, y=top, width=wide, height=_HIGH)
    yield from filter(None, (_label(plan, b, blocks, at) for b in blocks))
    for share in range(5):
        y = base - share * _HIGH / 4
        yield svg.element("line", kind="line", x1=_LEFT - 5, x2=_LEFT, y1=y, y2=y)
        label = f"{pool.size * share // 4:,}"
        yield svg.element("text", label, kind="small", x=_LEFT - 8, y=y + 4, text_anchor="end")
    yield svg.element("line", kind="line", x1=_LEFT, x2=_LEFT + _WIDE, y1=base, y2=base)
    every = -(-count // 30)
    for k in range(0, count, every):
        x = _LEFT + (k + 0.5) * wide
        yield svg.element("text", str(k), kind="small", x=x, y=base + 14, text_anchor="middle")
    yield svg.element("text", "step", kind="small", x=_LEFT + _WIDE, y=base + 28, text_anchor="end")


def _block(plan: Description, b: Buffer, colour: str, at: tuple[float, float, float]) -> str:
    """A box whose tooltip says all; those of an input and an output may overlap."""
    x, y, width, height = _box(b, at)
    about = f"{_what(plan, b)}: {b.size:,} bytes at {b.offset:,}, steps {b.first} to {b.last}"
    look = {"kind": "edge block", "fill": colour, "stroke_width": "0.5"}
    box = svg.element("rect", x=x, y=y, width=width, height=height, **look)
    return svg.element("g", inside=[svg.element("title", about), box])


_LABEL = 12  # pixels that a name takes at the top of its block


def _alone(b: Buffer, blocks: Sequence[Buffer], high: float) -> Buffer | None:
    """The block in the steps in which no other is where its name goes, as an output may take over
    bytes of an input; `high` is the height of a byte."""
    top = b.offset + b.size
    near = [o for o in blocks if o is not b and o.offset < top < o.offset + o.size + _LABEL / high]
    steps = [k for k in range(b.first, b.last + 1) if not any(o.first <= k <= o.last for o in near)]
    return replace(b, first=steps[0], last=steps[-1]) if steps else None


def _label(
    plan: Description, b: Buffer, blocks: Sequence[Buffer], at: tuple[float, float, float]
) -> str:
    alone = _alone(b, blocks, at[1])
    if alone is None:
        return ""
    x, y, width, height = _box(alone, at)
    text = svg.ending(_layer(plan, b.first).strip("'"), width - 6, 10) if height >= _LABEL else ""
    return svg.element("text", text, kind="small in", x=x + 3, y=y + 11) if text else ""


def _box(b: Buffer, at: tuple[float, float, float]) -> tuple[float, float, float, float]:
    """Its corner and size; `at` is the width of a step, the height of a byte and the base line."""
    wide, high, base = at
    width, height = (b.last - b.first + 1) * wide, b.size * high
    return _LEFT + b.first * wide, base - (b.offset + b.size) * high, width, height


def _colours(blocks: Sequence[Buffer]) -> list[str]:
    """One after the other in the order in which they appear."""
    order = sorted(range(len(blocks)), key=lambda k: (blocks[k].first, blocks[k].offset))
    place = {k: at for at, k in enumerate(order)}
    return [svg.COLOURS[place[k] % len(svg.COLOURS)] for k in range(len(blocks))]
