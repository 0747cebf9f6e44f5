"""How vector kernels read the input of a contraction: in place, or copied once.

A copy includes the padding and has elements as the products need them (such as int8 widened to
int16), so that the operands of a pixel are rows of `run` elements without conditions. Large inputs
are copied in bands of output rows that fit the first cache.
"""

from __future__ import annotations

from mlftool.frozen import frozen, replace
from mlftool.ir.holes import whole
from mlftool.ops.contraction import Contraction

CACHE = 32 * 1024  # bytes of a copy, at most, where one output row allows it


@frozen
class Image:
    """The operands of `rows` x `columns` output pixels, `batch` times.

    Of a copy, `left` and `right` columns are padding; source rows and columns are taken in steps,
    where the kernel leaves others out. Strides are between pixels of what is read.
    """

    batch: int
    rows: int
    columns: int
    channels: int
    kernel: tuple[int, int]
    dilations: tuple[int, int]
    source: tuple[int, int]
    pads: tuple[int, int]
    steps: tuple[int, int]
    strides: tuple[int, int]
    width: int  # columns of a row that is read
    copied: bool
    slack: int  # elements that are read beyond the last one, times a weight of zero
    band: int  # output rows of a copy

    @property
    def split(self) -> bool:
        return self.band < self.rows

    @property
    def uneven(self) -> bool:
        """Whether the last band computes rows again, which are not stored again."""
        return self.rows % self.band != 0

    @property
    def top(self) -> str:
        """C text of a band's first row."""
        return "top" if self.split else whole(0)

    def start(self, per_row: int) -> str:
        """C text of a band's first output among those of all images, and a plus, or nothing."""
        image = [f"image * {self.rows * per_row}"] if self.batch > 1 else []
        top = [f"top * {per_row}" if per_row > 1 else "top"] if self.split else []
        return "".join(f"{term} + " for term in (*image, *top))

    @property
    def line(self) -> int:
        """Elements from a row to the next."""
        return self.width * self.channels

    @property
    def copied_rows(self) -> int:
        return (self.band - 1) * self.strides[0] + (self.kernel[0] - 1) * self.dilations[0] + 1

    @property
    def elements(self) -> int:
        return self.copied_rows * self.line + self.slack

    @property
    def left(self) -> int:
        return min(self.width, -(-self.pads[1] // self.steps[1]))

    @property
    def inside(self) -> int:
        end = (self.source[1] - 1 + self.pads[1]) // self.steps[1] + 1
        return max(0, min(self.width, end) - self.left)

    @property
    def right(self) -> int:
        return self.width - self.left - self.inside

    @property
    def first(self) -> int:
        """The source column after the padding."""
        return self.left * self.steps[1] - self.pads[1]

    @property
    def outside(self) -> bool:
        """Whether some row of a copy is padding."""
        reach = (self.rows - 1) * self.strides[0] * self.steps[0]
        last = reach + (self.kernel[0] - 1) * self.dilations[0] - self.pads[0]
        return self.pads[0] > 0 or last >= self.source[0]

    @property
    def pixels(self) -> int:
        return self.band * self.columns

    @property
    def runs(self) -> tuple[int, int]:
        """(rows of operands of a pixel, elements of each): contiguous taps are one row."""
        (kh, kw), together = self.kernel, self.dilations[1] == 1 or self.kernel[1] == 1
        return (kh, kw * self.channels) if together else (kh * kw, self.channels)

    def at(self, row: str, column: str) -> str:
        """C text of where the operands of an output pixel begin."""
        return (
            f"{row} * {self.strides[0] * self.line} + {column} * {self.strides[1] * self.channels}"
        )

    @property
    def even(self) -> bool:
        """Whether all pixels are the same distance apart."""
        return self.strides[0] * self.width == self.strides[1] * self.columns or self.rows == 1

    def banded(self, bytes_: int, tile: int) -> Image:
        """The same, copied in bands that fit the cache, of elements of so many bytes."""
        if not self.copied:
            return self
        window = (self.kernel[0] - 1) * self.dilations[0] + 1
        room = CACHE // (self.line * bytes_)
        most = max(1, (room - window) // self.strides[0] + 1)
        count = -(-self.rows // most)
        band = -(-self.rows // count)
        if self.columns == 1:  # whole tiles
            band = min(self.rows, -(-band // tile) * tile)
        return replace(self, band=band)


def image_of(c: Contraction, group: int, as_it_lies: bool) -> Image:
    """The input of a planar contraction, when `group` elements are multiplied at once; `as_it_lies`
    if elements need no conversion."""
    (sh, sw), (kh, kw), (dh, dw) = c.strides, c.kernel, c.dilations
    slack = -((kw if dw == 1 else 1) * c.ic) % group
    copied = bool(slack) or c.padded or not as_it_lies
    whole = Image(
        batch=c.batch,
        rows=c.outputs[0],
        columns=c.outputs[1],
        channels=c.ic,
        kernel=(kh, kw),
        dilations=(dh, dw),
        source=(c.inputs[0], c.inputs[1]),
        pads=(c.pads[0], c.pads[1]),
        steps=(1, 1),
        strides=(sh, sw),
        width=c.inputs[1],
        copied=copied,
        slack=slack,
        band=c.outputs[0],
    )
    if c.dense:  # one column
        n = c.pixels
        return replace(whole, batch=1, rows=n, columns=1, source=(n, 1), width=1, band=n)
    if not copied:
        return whole
    steps = (sh if kh == 1 else 1, sw if kw == 1 else 1)
    strides = (sh // steps[0], sw // steps[1])
    width = (c.outputs[1] - 1) * strides[1] + (kw - 1) * dw + 1
    return replace(whole, steps=steps, strides=strides, width=width)
