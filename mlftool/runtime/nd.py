"""Arrays of the Python API: numpy's, with the methods that TVM's arrays have."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt


class Device:
    """Where arrays live and modules run: this computer's CPU."""

    device_type = 1  # kDLCPU

    def __init__(self, device_id: int = 0) -> None:
        self.device_id = device_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.device_id == self.device_id

    def __hash__(self) -> int:
        return hash(self.device_id)

    def __repr__(self) -> str:
        return f"cpu({self.device_id})"


def cpu(device_id: int = 0) -> Device:
    """This computer, as TVM's scripts name it; there is one."""
    return Device(device_id)


class NDArray(np.ndarray[Any, np.dtype[Any]]):
    """A numpy array that also answers to TVM's names."""

    def numpy(self) -> npt.NDArray[Any]:
        """The same data as a plain numpy array."""
        return self.view(np.ndarray)

    asnumpy = numpy

    def copyfrom(self, source: npt.ArrayLike) -> NDArray:
        self[...] = np.asarray(source, self.dtype).reshape(self.shape)
        return self

    def copyto(self, target: npt.NDArray[Any]) -> npt.NDArray[Any]:
        target[...] = self
        return target


def array(value: npt.ArrayLike, device: Device | None = None) -> NDArray:
    """A copy of `value`; there is one device."""
    return np.array(value).view(NDArray)


def empty(shape: tuple[int, ...], dtype: str = "float32", device: Device | None = None) -> NDArray:
    return np.zeros(shape, dtype).view(NDArray)
