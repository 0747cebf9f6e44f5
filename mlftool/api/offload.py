"""TVM's ways to say which parts of a model another library computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mlftool.api.module import IRModule, as_module
from mlftool.backends import wanted
from mlftool.errors import MlfError, Problem

CMSIS_NN = "cmsis-nn"


def partition_for_cmsisnn(
    mod: Any, params: Mapping[str, Any] | None = None, mod_name: str = "default", **options: Any
) -> IRModule:
    """The module; when it is built, CMSIS-NN computes the layers that it accepts. Raises MlfError.

    `mod` is anything that `build` takes, `mcpu` the only one of TVM's `options`: the target of
    `build` has it. `mod_name` is ignored, since `build` names the module.
    """
    if other := sorted(options.keys() - {"mcpu"}):
        text = f"partition_for_cmsisnn has no option '{other[0]}'"
        raise MlfError(Problem("MLF0405", text, help="only mcpu, and build's target has that"))
    return partition_for(mod, CMSIS_NN, params)


def partition_for(mod: Any, backend: str, params: Mapping[str, Any] | None = None) -> IRModule:
    """The module with the layers that a known backend accepts assigned to it. Raises MlfError."""
    wanted((backend,))
    bound = as_module("partition_for", mod).bound(params)
    return replace(bound, backends=tuple(dict.fromkeys((*bound.backends, backend))))
