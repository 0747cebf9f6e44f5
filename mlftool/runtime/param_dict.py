"""TVM's names for reading and writing .params files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from mlftool.mlf import params
from mlftool.runtime.nd import NDArray, array


def save_param_dict(given: Mapping[str, Any]) -> bytes:
    """Arrays by name as the bytes of a .params file."""
    return params.encode({name: np.asarray(value) for name, value in given.items()})


def load_param_dict(data: bytes | bytearray) -> dict[str, NDArray]:
    """The arrays of a .params file by name. Raises MlfError for other bytes."""
    return {name: array(value) for name, value in params.decode(bytes(data)).items()}
