"""What a group of channels has, where its sums begin and the numbers of its requantisation, stands
among its weights, where one pointer passes: gcc has no register left for others, and would load
each of them from the stack before it reads a number.

And how sums of weights paired as in dsp.py end: of channels without a multiplier, which are few, a
group is told apart once for all its pixels.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from mlftool.frozen import frozen
from mlftool.ir.graph import Array
from mlftool.ops.contraction import Contraction, Quantisation, largest
from mlftool.targets.kernels.dsp import zeros_of
from mlftool.targets.kernels.parts import after_core, bias_of, weights_zero
from mlftool.targets.requantise.forms import Form

STREAM = "by groups of channels: initial sums, halfwords 256 * w1 + w0, multipliers"
Ending = Callable[[str, str, int], str]  # a sum, its channel, which of its group: what is stored


@frozen
class Ends:
    """`folded`: sums of x * halfword begin with the biases of both channels. `raised`: that of the
    odd channel is stored by the form of 256 times a sum. `split`: whether all channels of a group
    have multipliers is one test for all its sums."""

    made: Form
    folded: bool
    raised: bool
    split: bool

    @staticmethod
    def of(c: Contraction, q: Quantisation, made: Form) -> Ends:
        fits = bool(largest(c, q).max() < 2**23 and not weights_zero(q))
        raised = fits and made.upper is not None
        return Ends(made, raised, raised, made.group is not None and not after_core(c.v))

    def text(self, acc: str, channel: str, b: int) -> str:
        made = self.of_pair[b % 2]
        return made.by(made.group if self.split else None, acc, channel, str(b))

    def sure(self, acc: str, channel: str, b: int) -> str:
        """The same in a branch for groups whose channels all have multipliers."""
        made = self.of_pair[b % 2]
        return made.by(made.sure if self.split else None, acc, channel, str(b))

    def unsure(self, acc: str, channel: str, b: int) -> str:
        """The same in the other branch."""
        return self.of_pair[b % 2].text(acc, channel, str(b))

    @property
    def of_pair(self) -> tuple[Form, Form]:
        """The forms of an even channel's sums and an odd one's."""
        return self.made, (self.made.upper if self.raised else None) or self.made

    @property
    def params(self) -> dict[str, object]:
        """What templates read."""
        upper = "mlf_raised_sum" if self.raised else "mlf_upper_sum"
        sure = self.made.hoists[0].name if self.split else ""
        return {"folded": self.folded, "upper": upper, "split": sure}


def streamed(c: Contraction, q: Quantisation, words: Array, ends: Ends) -> Array:
    """uint32 [pair of channels, ...]: where sums begin, the weights, the numbers that `held` names.
    Unless the biases of the odd channels are folded, they are between weights and numbers, and
    the sums of x * w0 and of x * halfword begin alike."""
    return streamed_in(2, c, q, words, ends, ends.folded)


def streamed_in(
    width: int,
    c: Contraction,
    q: Quantisation,
    words: Array,
    ends: Ends,
    apart: bool,
    channels: slice = slice(None),
    padded: int = 2,
) -> Array:
    """The same of groups of `width` of the `channels`, which are `padded` to a multiple; `apart`:
    both kinds of sums say where they begin."""
    bias = bias_of(c, q, padded)[channels].reshape(-1, width)
    even, odd = bias[:, ::2], bias[:, 1::2]
    whole = even.astype(np.int64) + (256 * odd.astype(np.int64) if ends.folded else 0)
    rows = [
        even,
        *([whole.astype(np.int32)] if apart else []),  # as int32 wraps around
        words.reshape(len(bias), -1).view(np.int32),
        *([] if ends.folded else [odd]),
        *_numbers(width, c, q, ends, channels, padded),
    ]
    return np.concatenate(rows, axis=1, dtype=np.int32).view(np.uint32).reshape(-1)


def _numbers(
    width: int, c: Contraction, q: Quantisation, ends: Ends, channels: slice, padded: int
) -> list[Array]:
    """What `held` names, int32 [group of `width` of the channels, width] each."""

    def grouped(even: Array, odd: Array) -> Array:
        mixed: Array = np.where(np.arange(even.size) % 2, odd.reshape(-1), even.reshape(-1))
        return mixed[channels].reshape(-1, width)

    of_both = zip(*(numbers_of(c, q, made, padded) for made in ends.of_pair), strict=True)
    return [grouped(*pair) for pair in of_both]


def numbers_of(c: Contraction, q: Quantisation, made: Form, width: int) -> list[Array]:
    """What `held` names, [group of `width` channels, width] each."""
    zeros = zeros_of(c, q, width)
    numbers = [*(o.array for o in made.hoists if o.array is not None)]
    return [a.reshape(-1, width) for a in (*numbers, *([] if zeros is None else [zeros]))]


def held(q: Quantisation, made: Form, width: int = 2) -> list[str]:
    """The variables that hold the numbers of a group's channels, in the order of `streamed`."""
    names = [*(o.name for o in made.hoists), *(["z"] if weights_zero(q) else [])]
    return [f"{name}{b}" for name in names for b in range(width)]
