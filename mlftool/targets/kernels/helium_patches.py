"""int8 depthwise convolutions of small windows with Helium: a multiplication of a patch of 4 x 4
bytes of one channel is an output, and 2 x 2 outputs share the patch, so four outputs take a load
and four VMLADAV. helium.octets, for all other windows, takes six instructions for a tap of eight
channels.

A channel is read before it is written, but for its next two rows, so the output may take over the
input's memory (planes.py).
"""

from __future__ import annotations

from mlftool.ops.base import STACK_LIMIT_BYTES, Operand
from mlftool.ops.contraction import Contraction, Quantisation
from mlftool.targets.kernels.helium_finish import Shape, finish
from mlftool.targets.kernels.parts import Tile, after_core, byte_kernel, constants
from mlftool.targets.kernels.planes import Axis, Plane, axes

COLUMN = 16  # bytes: four rows of four channels
MOST_OFFSET = 0xFFFF  # of a lane of 16 bits


def _steps(outer: Axis, inner: Axis) -> int:
    """How often eight outputs of a channel are computed."""
    return -(-outer.n_out // 2) * -(-inner.n_out // 4)


def _plane(c: Contraction, outer: Axis, inner: Axis) -> Plane | None:
    """Two rows of outputs at a time, if their columns fit on the stack and their offsets a lane."""
    left = 4 if inner.pad else 0
    width = max(left - inner.pad + 4 * -(-inner.n_out // 4) + 2, left + 4 * -(-inner.n_in // 4))
    far = outer.y + 3 * inner.y
    fits = COLUMN * width <= STACK_LIMIT_BYTES and far <= MOST_OFFSET
    return Plane(c, outer, inner, width, 4, 2) if fits else None


@byte_kernel("mve", depthwise=True, signed=True)
def patches(c: Contraction, q: Quantisation) -> Tile | None:
    """Depthwise, 2 x 2 outputs at a time."""
    rows, columns = axes(c)
    small = max(c.kernel) <= 3 and max(c.strides) == max(c.dilations) == 1 and max(c.pads) <= 4
    # Words are gathered from where the planner puts tensors, which is aligned.
    planned = c.v.core.inputs[0] not in {t for t in c.v.graph.inputs}
    if not small or c.oc % 4 or not planned or after_core(c.v):
        return None
    both = [_plane(c, *pair) for pair in ((rows, columns), (columns, rows))]
    plane = min(filter(None, both), key=lambda p: _steps(p.outer, p.inner), default=None)
    f = finish(c, q, Shape("patch", "c", "8"))
    if plane is None or not f.vector:
        return None
    outer, inner = plane.outer, plane.inner
    steps, gathered = _steps(outer, inner), -(-inner.n_in // 4) * (outer.n_out // 2 + 2)
    rest = inner.n_out % 4
    return Tile(
        "helium.patches",
        "helium_patches.c.j2",
        c,
        constants(w=plane.weights.reshape(-1)),
        [Operand("patches", "int8_t", "scratch", bytes=COLUMN * plane.width)],
        f,
        {
            **plane.params,
            "fill": q.x_zero_point,
            "left": 4 if inner.pad else 0,
            "rest": hex(((1 << 2 * rest) - 1) * 0x101),
        },
        cost=c.batch * c.oc * (steps * 34.0 + outer.n_out * 8 + gathered * 7 + 30),
        header="mlf/mve_patches.h",
        overtakes=plane.overtakes,
    )
