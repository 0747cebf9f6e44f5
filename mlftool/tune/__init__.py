"""Choosing kernels by counting their instructions on a simulated board, for tuning records."""

from mlftool.tune.search import tune

__all__ = ["tune"]
