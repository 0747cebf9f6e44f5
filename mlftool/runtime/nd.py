"""Arrays of the Python API: numpy's, with the methods that TVM's arrays have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from mlftool.errors import MlfError, Problem
from mlftool.moved import OfTvm


class Device(OfTvm):
    """Where arrays live and modules run: this computer's CPU."""

    device_type = 1  # kDLCPU
    exist = True

    def __init__(self, device_id: int = 0) -> None:
        self.device_id = device_id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Device) and other.device_id == self.device_id

    def __hash__(self) -> int:
        return hash(self.device_id)

    def __repr__(self) -> str:
        return f"cpu({self.device_id})"


def cpu(device_id: int = 0) -> Device:
    """This computer, under TVM's name for it; there is only one."""
    return Device(device_id)


def device(dev: str | int, dev_id: int = 0) -> Device:
    """This computer, named `cpu`, `llvm`, `c` or by TVM's number. Raises MlfError for others."""
    if dev not in ("cpu", "llvm", "c", "stackvm", Device.device_type):
        raise no_device(str(dev))
    return cpu(dev_id)


def no_device(name: str) -> MlfError:
    """The error of devices that TVM has and nothing here drives."""
    text = f"no device '{name}': models run on this computer's processor, cpu(0)"
    hint = "a board is driven through mlftool.micro, an accelerator by a backend (docs/backends.md)"
    return MlfError(Problem("MLF0403", text, help=hint))


def check_device(given: Any) -> None:
    """Raises MlfError unless it is this computer, or None for it."""
    if given is not None and not isinstance(given, Device):
        raise no_device(str(given))


def refused(name: str) -> Callable[..., Device]:
    """What stands for `tvm.<name>`: it raises MlfError."""

    def refuse(device_id: int = 0) -> Device:
        raise no_device(name)

    refuse.__name__ = name
    return refuse


class NDArray(OfTvm, np.ndarray[Any, np.dtype[Any]]):
    """A numpy array that also answers to TVM's names."""

    def numpy(self) -> npt.NDArray[Any]:
        """The same data as a plain numpy array."""
        return self.view(np.ndarray)

    asnumpy = numpy

    def copyfrom(self, source: npt.ArrayLike) -> NDArray:
        self[...] = np.asarray(source, self.dtype).reshape(self.shape)
        return self

    def copyto(self, target: npt.NDArray[Any] | Device) -> npt.NDArray[Any]:
        """A copy into an array, or a new one on a device."""
        if isinstance(target, Device):
            return array(self, target)
        target[...] = self
        return target


def array(value: npt.ArrayLike, device: Device | None = None) -> NDArray:
    """A copy of `value`; there is one device."""
    return np.array(value).view(NDArray)


def empty(shape: tuple[int, ...], dtype: str = "float32", device: Device | None = None) -> NDArray:
    return np.zeros(shape, dtype).view(NDArray)
