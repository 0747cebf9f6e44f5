"""`metadata.json`, version 7, as plain data."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any

VERSION = 7
CPU = 1  # DLDeviceType
# The last TVM release with microTVM; its C runtime's interface is what runtime/ provides.
CRT_VERSION = "0.18.0"


@dataclass(frozen=True)
class TensorInfo:
    """An input or output as the interface file and metadata describe it."""

    name: str
    c_name: str
    dtype: str
    shape: tuple[int, ...]
    size_bytes: int
    scale: float | None = None
    zero_point: int | None = None

    def to_json(self) -> dict[str, Any]:
        data: dict[str, Any] = {
            "name": self.name,
            "c_name": self.c_name,
            "dtype": self.dtype,
            "shape": list(self.shape),
            "size_bytes": self.size_bytes,
        }
        if self.scale is not None:
            data |= {"scale": self.scale, "zero_point": self.zero_point}
        return data


@dataclass(frozen=True)
class ModuleInfo:
    """What metadata.json says of one module."""

    name: str
    executor: str
    target: str
    inputs: tuple[TensorInfo, ...]
    outputs: tuple[TensorInfo, ...]
    workspace_bytes: int
    constants_bytes: int
    functions: tuple[str, ...]

    def to_json(self, datetime_: str) -> dict[str, Any]:
        def sizes(tensors: Sequence[TensorInfo]) -> dict[str, Any]:
            return {t.name: {"dtype": t.dtype, "size": t.size_bytes} for t in tensors}

        return {
            "executors": [self.executor],
            "export_datetime": datetime_,
            "external_dependencies": [
                {
                    "short_name": "tvm_standalone_crt",
                    "url": "./runtime",
                    "url_type": "mlf_path",
                    "version_spec": CRT_VERSION,
                }
            ],
            "memory": {
                "functions": {
                    "main": [
                        {
                            "constants_size_bytes": self.constants_bytes,
                            "device": CPU,
                            "inputs": sizes(self.inputs),
                            "io_size_bytes": sum(
                                t.size_bytes for t in (*self.inputs, *self.outputs)
                            ),
                            "outputs": sizes(self.outputs),
                            "workspace_size_bytes": self.workspace_bytes,
                        }
                    ],
                    "operator_functions": [
                        {
                            "function_name": f,
                            "workspace": [{"device": CPU, "workspace_size_bytes": 0}],
                        }
                        for f in sorted(self.functions)
                    ],
                }
            },
            "model_name": self.name,
            "style": "full-model",
            "target": [self.target],
        }


def encode(modules: Sequence[ModuleInfo], epoch_seconds: int) -> bytes:
    """The file's bytes: two-space indent, sorted keys, no newline at the end, as TVM writes it."""
    when = datetime.fromtimestamp(epoch_seconds, timezone.utc).strftime("%Y-%m-%d %H:%M:%SZ")
    data = {"version": VERSION, "modules": {m.name: m.to_json(when) for m in modules}}
    return json.dumps(data, indent=2, sort_keys=True).encode()
