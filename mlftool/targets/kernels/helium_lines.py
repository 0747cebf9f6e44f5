"""int8 depthwise convolutions along one axis with Helium: sixteen neighbouring elements of a
channel are a vector, of which a multiplication makes an output, and four outputs share the vector.
So eight outputs take two loads and eight VMLADAV, however many taps a window has. helium.octets
takes six instructions for a tap of eight channels.

Four channels are read before they are written, so the output may take over the input's memory.
"""

from __future__ import annotations

from mlftool.ops.base import STACK_LIMIT_BYTES, Operand
from mlftool.ops.contraction import Contraction, Quantisation
from mlftool.targets.kernels.helium_finish import Shape, finish
from mlftool.targets.kernels.parts import Tile, after_core, along, byte_kernel, constants

MOST_TAPS = 13  # MLF_LINE_MOST
MOST_OFFSET = 0xFFFF  # of a lane of 16 bits
WORDS = 16  # bytes: four elements of four channels


@byte_kernel("mve", depthwise=True, signed=True)
def lines(c: Contraction, q: Quantisation) -> Tile | None:
    """Depthwise, eight outputs of a channel at a time."""
    c = along(c)
    (rows, n), (_, outputs), (_, taps) = c.inputs, c.outputs, c.kernel
    alone = rows == c.outputs[0] == c.kernel[0] == max(*c.strides, *c.dilations) == 1
    # Words are gathered from where the planner puts tensors, which is aligned.
    planned = c.v.core.inputs[0] not in {t for t in c.v.graph.inputs}
    if not alone or c.padded or taps > MOST_TAPS or c.oc % 4 or not planned or after_core(c.v):
        return None
    turns = -(-outputs // 8)
    room = WORDS * max(4 * -(-n // 16), 2 * turns + 3)
    f = finish(c, q, Shape("patch", "c", "8"))
    if not f.vector or room > STACK_LIMIT_BYTES or 7 * c.oc > MOST_OFFSET:
        return None
    rest = outputs % 8
    return Tile(
        "helium.lines",
        "helium_lines.c.j2",
        c,
        constants(w=c.weights.reshape(-1)),
        [Operand("line", "int8_t", "scratch", bytes=room)],
        f,
        {
            **{"batch": c.batch, "n": n, "outputs": outputs, "taps": taps, "room": room},
            "rest": hex((1 << 2 * rest) - 1) if rest else "",
        },
        cost=c.batch * c.oc * (turns * 30.0 + -(-n // 16) * 5 + 30),
        header="mlf/mve_lines.h",
        overtakes=c.batch == 1,
    )
