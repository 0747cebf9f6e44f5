"""What Arm's compiler Vela makes of layers for an Ethos-U: one operator, commands that nobody but
the processor reads.
"""

from __future__ import annotations

from mlftool.frontends.tflite.site import Site, operator

MOST_REGIONS = 8  # base addresses that the processor has
STREAM, CONSTANTS, SCRATCH, FAST = range(4)  # the operator's first inputs; its data follow
LAUNCHED = b"\x01\x04\x01"  # the options' one form: the number 1


@operator("ethos-u", memory=(SCRATCH, FAST))
def ethos_u(s: Site) -> None:
    """Vela's output as it is; the backend `ethos-u` calls the processor's driver."""
    s.expect(s.node.custom in (b"", LAUNCHED), "options of another version than 1")
    stream, constants = s.known(STREAM, "commands"), s.known(CONSTANTS, "constants")
    s.expect(stream.dtype == constants.dtype == "uint8", "commands or constants that are not bytes")
    s.expect(stream.size > 0, "no commands")
    data = range(FAST + 1, len(s.node.inputs))
    s.expect(all(s.x(i).data is None for i in data), "data that are constant")
    count = 3 + len(data) + len(s.node.outputs)
    s.expect(count <= MOST_REGIONS, f"{count} base addresses; supported: {MOST_REGIONS}")
    scratch, shared = s.x(SCRATCH).type.bytes, s.node.inputs[FAST] == s.node.inputs[SCRATCH]
    places = [*(s.node.inputs[i] for i in data), *s.node.outputs]
    types = [*s.types(FAST + 1), *s.made()]
    arena = s.draft.graph.arena
    at = [arena[p] if arena else -1 for p in places]
    inside = all(a < 0 or a + t.bytes <= scratch for a, t in zip(at, types, strict=True))
    s.expect(inside, f"a tensor beyond its {scratch} bytes of scratch memory")
    attrs = {"scratch": scratch, "fast": 0 if shared else s.x(FAST).type.bytes, "at": at}
    names = [s.name(i) for i in (STREAM, CONSTANTS, *data)]
    outs = [s.out(k) for k in range(len(s.node.outputs))]
    s.expect(bool(outs), "no outputs")
    s.add("mlf.EthosU", names, outs[0], attrs, more=outs[1:])
