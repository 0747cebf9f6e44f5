"""mlftool from Python, with the names and shapes of TVM's microTVM interface.

    mod, params = mlftool.from_onnx("kws.onnx")
    with mlftool.transform.PassContext(opt_level=3):
        factory = mlftool.build(mod, "cortex-m4", executor=Executor("aot"), params=params)
    mlftool.micro.export_model_library_format(factory, "kws.tar")

docs/migration.md lists which of TVM's names exist here.
"""

from mlftool.api.debug import DebugModule
from mlftool.api.evaluate import create_executor
from mlftool.api.export import export_model_library_format
from mlftool.api.factory import Factory, build
from mlftool.api.loading import load
from mlftool.api.module import IRModule, from_onnx, from_tflite
from mlftool.api.offload import partition_for, partition_for_cmsisnn
from mlftool.api.operator import OperatorModule, build_operator
from mlftool.api.target import Target
from mlftool.backends import register_backend
from mlftool.config import Executor, PassContext, Runtime
from mlftool.runtime.param_dict import load_param_dict, save_param_dict

__all__ = [
    "DebugModule",
    "Executor",
    "Factory",
    "IRModule",
    "OperatorModule",
    "PassContext",
    "Runtime",
    "Target",
    "build",
    "build_operator",
    "create_executor",
    "export_model_library_format",
    "from_onnx",
    "from_tflite",
    "load",
    "load_param_dict",
    "partition_for",
    "partition_for_cmsisnn",
    "register_backend",
    "save_param_dict",
]
