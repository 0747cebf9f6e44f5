"""Networks of normalisations and what comes after them with a step: Mod, Floor, comparisons. A
last bit that differs between machines becomes a large difference."""

from __future__ import annotations

from typing import Any

import numpy as np
from grow import Grower, NotThisError, Value


def normalisation(g: Grower) -> None:
    kind = g.one("Instance", "Instance", "Instance", "Mean", "Layer", "Group", "Lp", "Softmax")
    x = g.floats(3, 4, 5) if kind != "Softmax" else g.floats()
    if kind == "Softmax":
        g.add(g.one("Softmax", "LogSoftmax"), x, axis=g.whole(-x.rank, x.rank - 1))
    elif kind == "Instance":
        c = x.shape[1]
        g.add("InstanceNormalization", x, g.normal(c), g.normal(c), epsilon=g.one(1e-5, 1e-3, 0.1))
    elif kind == "Mean":
        g.add("MeanVarianceNormalization", x, axes=g.one([0, 2], [2], [1], [*range(2, x.rank)]))
    elif kind == "Layer":
        g.add("LayerNormalization", x, g.normal(x.shape[-1]), g.normal(x.shape[-1]))
    elif kind == "Group":
        n = x.shape[1]
        groups = g.one(*[d for d in range(1, n + 1) if n % d == 0])
        g.add("GroupNormalization", x, g.normal(n), g.normal(n), num_groups=groups)
    else:
        g.add("LpNormalization", x, axis=g.whole(1, x.rank - 1), p=g.one(1, 2))


def steps(g: Grower) -> None:
    """By a number or a tensor; of floats, and of what a Cast makes of them."""
    x = g.floats()
    kind = g.one("Mod", "Mod", "Mod", "Mod", "Floor", "Round", "Cast", "Greater", "Sign")
    if kind == "Mod":
        shape = g.one((), (), x.shape, (x.shape[-1],) if x.rank else ())
        by = g.rng.uniform(0.05, 3, size=shape) * g.rng.choice((-1, 1), size=shape)
        g.add("Mod", x, g.const(by, np.float32), fmod=1)
    elif kind == "Cast":
        g.add("Cast", g.add("Cast", x, to=g.one(6, 7, 10, 11)), to=1)
    elif kind == "Greater":
        chosen = g.add("Greater", x, g.const(g.one(0.0, 0.5), np.float32))
        g.add("Where", chosen, x, g.normal())
    else:
        g.add(kind, x)


def in_double(g: Grower) -> None:
    """A sum or a product in float64, whose functions a core without a unit takes from a library."""
    x = g.floats()
    wide = g.add("Cast", x, to=11)
    other = g.const(g.rng.normal(size=g.one((), x.shape)), np.float64)
    wide = g.add(g.one("Add", "Sub", "Mul", "Div"), wide, other)
    if g.chance(0.5):
        wide = g.add("Mod", wide, g.const(g.one(0.3, 1.0, 2.5), np.float64), fmod=1)
    g.add("Cast", wide, to=1)


def between(g: Grower) -> None:
    x = g.floats()
    kind = g.one("Exp", "Sqrt", "Tanh", "Mul", "Sub", "Div", "Softplus", "Conv", "ReduceMean")
    if kind in ("Mul", "Sub", "Div"):
        g.add(kind, x, g.normal(*g.one((), x.shape)))
    elif kind == "Conv":
        x = g.floats(4)
        g.add("Conv", x, g.normal(g.whole(1, 5), x.shape[1], *(g.whole(1, 2) for _ in range(2))))
    elif kind == "ReduceMean":
        g.add("Sub", x, g.add("ReduceMean", x, g.const([x.rank - 1], np.int64)))
    elif kind == "Sqrt":
        g.add("Sqrt", g.add("Abs", x))
    else:
        g.add(kind, x)


def odd_input(g: Grower) -> Value:
    """Of odd extents, near zero or far from it."""
    shape: list[Any] = [g.one(1, 1, 2), g.one(1, 3, 5, 4)]
    shape += [g.one(1, 3, 5, 7, 9, 11) for _ in range(g.one(1, 2, 2, 2, 3))]
    if np.prod(shape) > 800:
        raise NotThisError
    return g.input(np.float32, tuple(shape))


STEPS = ((1.0, normalisation), (1.0, steps), (0.5, in_double), (0.8, between))
