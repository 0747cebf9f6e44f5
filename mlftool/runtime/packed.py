"""C that calls packed functions and the graph executor: the parts of a descriptor for them."""

from __future__ import annotations

import re
import string
from typing import Any

import numpy as np

from mlftool.errors import MlfError, Problem
from mlftool.mlf import graph as graph_json
from mlftool.mlf import params
from mlftool.mlf.interface import Interface, Tensor, byte_size, numpy_dtype
from mlftool.mlf.records import OPERATOR, ModuleRecord
from mlftool.runtime.derive import linked_nodes
from mlftool.runtime.signature import LOOKUP

_PLAIN = frozenset((string.ascii_letters + string.digits + " _-./:").encode())
TYPE_CODES = {"i": 0, "u": 1, "b": 1, "f": 2, "V": 4, "c": 5}  # DLDataTypeCode; V is bfloat16
_PACKED = "(void *, int32_t *, int32_t, void *, int32_t *, void *)"
_INCLUDES = """#include "guard.h"

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/c_runtime_api.h>
"""


def c_string(text: str) -> str:
    """A C string literal for untrusted text: whatever could end it or mean something is octal."""
    return c_bytes(text.encode("utf-8", "surrogatepass"))


def c_bytes(data: bytes) -> str:
    """The bytes as C string literals, at most 16 KiB on a line: compilers dislike longer ones."""
    text = [chr(b) if b in _PLAIN else f"\\{b:03o}" for b in data]
    lines = ["".join(text[i : i + 4096]) for i in range(0, len(text), 4096)] or [""]
    return "\n    ".join(f'"{line}"' for line in lines)


# Parameters from here on are read by the assembler: for a hundred megabytes of text, gcc takes a
# minute and 7 GB.
BIG = 512 << 10


def parameters(record: ModuleRecord) -> tuple[bytes, dict[str, bytes]]:
    """A module's parameters, and the file in the include path that C takes them from if there are
    many; a zero is after them there, as after a string."""
    data = record.params or params.encode({})
    return data, {f"tvmgen_{record.name}.params": data + b"\0"} if len(data) >= BIG else {}


def _parameters_c(record: ModuleRecord) -> str:
    data, files = parameters(record)
    for file, content in files.items():
        arguments = f'"mlf_runner_params", "{file}", 0, {len(content)}'
        return f"MLF_WEIGHTS_ARRAY(char, params, {len(content)}, {arguments});\n"
    return f"static const char params[] = {c_bytes(data)};\n"


def checked_symbol(name: str) -> str:
    """The name of a function of the archive, before it becomes C. Raises MlfError."""
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
        raise MlfError(Problem("MLF0607", f"'{name[:100]}' is not the name of a C function"))
    return name


# How AOT code of TVM before July 2021 declares its entry; sources.py has the header.
MODEL_HEADER = "tvm/runtime/crt/internal/aot_executor/aot_executor.h"

# Object files that LLVM made for TVM's C++ runtime call it through pointers, which that runtime
# sets when it loads a module; here it is done before each call.
_POINTERS = ("TVMFuncCall", "TVMAPISetLastError", "TVMBackendParallelLaunch")


def _set_pointers(record: ModuleRecord) -> list[str]:
    """set_pointers, which does that for those pointers that the module has."""
    used = any(name.endswith(".o") for name in record.sources)
    names = _POINTERS if used else ()
    lines = [f"extern void *__{name} __attribute__((weak));" for name in names]
    lines.append("static void set_pointers(void) {")
    lines += [f"  if (&__{name} != NULL) __{name} = (void *){name};" for name in names]
    return [*lines, "}\n"]


def pool_bytes(record: ModuleRecord) -> int:
    """The most that a module allocates through the C runtime, including its bookkeeping."""
    if record.style == OPERATOR:
        return 1 << 16  # the metadata do not say
    size = max((b for f in record.memory.functions for _, b in f.workspace), default=0)
    if record.graph is None:
        size += sum(m.workspace_bytes for m in record.memory.main)
        return size + 64 * len(record.memory.functions) + 1024
    graph, _ = graph_json.decode(record.graph)
    buffers: dict[int, int] = {}
    for e in graph.entries:
        held = buffers.get(e.storage_id, 0)
        dtype = _dtype(e.dtype, record)
        buffers[e.storage_id] = max(held, byte_size(dtype, e.shape) + 16)
    # The executor keeps tables of nodes, entries and names, smaller than the text they come from.
    return size + sum(buffers.values()) + len(record.graph) + 4096


def _dtype(name: str, record: ModuleRecord) -> np.dtype[Any]:
    """Raises MlfError for an unknown type."""
    try:
        return numpy_dtype(name)
    except ValueError as error:
        raise MlfError(Problem("MLF0607", str(error), path=record.name)) from None


def pool_text(record: ModuleRecord) -> str:
    """Memory for what the module allocates on a board; runner.h declares it."""
    size = pool_bytes(record)
    return (
        f"__attribute__((aligned(16))) uint8_t runner_pool[{size}];\n"
        f"const size_t runner_pool_bytes = {size};\n"
    )


def packed_run(interface: Interface, record: ModuleRecord) -> str:
    """run_module for a packed function, which takes all tensors as DLTensors."""
    symbol = checked_symbol(interface.run_symbol)
    tensors = (*interface.inputs, *interface.outputs)
    order = interface.order or tuple(range(len(tensors)))
    declaration, function, code = f"int32_t {symbol}{_PACKED};", symbol, "int32_t"
    if record.executor and interface.symbol:  # a model of TVM before July 2021
        declaration = f"#include <{MODEL_HEADER}>\nextern const tvm_model_t {symbol};"
        function, code = f"{symbol}.run_func", "int"  # another type where int32_t is long
    lines = [_INCLUDES, declaration, *_tensor_table(interface)]
    lines += _set_pointers(record)
    lines += [
        "static int32_t call(void) {",
        f"  static const uint8_t order[] = {{{', '.join(map(str, order))}}};",
        f"  TVMValue values[{len(tensors)}];",
        f"  {code} codes[{len(tensors)}];",
        "  TVMValue result;",
        f"  {code} result_code = kTVMNullptr;",
        "  size_t i;",
        "  result.v_int64 = 0;",
        "  point_tensors();",
        "  set_pointers();",
        f"  for (i = 0; i < {len(tensors)}; i++) {{",
        "    values[i].v_handle = &tensors[order[i]];",
        "    codes[i] = kTVMDLTensorHandle;",
        "  }",
        f"  return {function}(values, codes, {len(tensors)}, &result, &result_code, NULL);",
        "}\n",
        "static int32_t run_module(void) {",
        "  return runner_guard(call);",
        "}\n",
    ]
    return "\n".join(lines)


def _tensor_table(interface: Interface) -> list[str]:
    """`tensors`, all inputs and then all outputs, and point_tensors, which gives them data."""
    named = [(f"input_{i}", t) for i, t in enumerate(interface.inputs)]
    named += [(f"output_{i}", t) for i, t in enumerate(interface.outputs)]
    lines = []
    for name, t in named:
        extents = ", ".join(map(str, t.shape)) or "1"
        lines.append(f"static int64_t {name}_shape[] = {{{extents}}};")
    lines.append("static DLTensor tensors[] = {")
    lines += [f"    {_dltensor(name, t)}," for name, t in named]
    lines += ["};\n", "static void point_tensors(void) {"]
    lines += [f"  tensors[{i}].data = {n} + kGuardBytes;" for i, (n, _) in enumerate(named)]
    return [*lines, "}\n"]


def _dltensor(name: str, t: Tensor) -> str:
    code, bits = dl_type(t.dtype)
    dtype = f"{{{code}, {bits}, 1}}"
    return f"{{NULL, {{kDLCPU, 0}}, {len(t.shape)}, {dtype}, {name}_shape, NULL, 0}}"


def dl_type(dtype: np.dtype[Any]) -> tuple[int, int]:
    """DLPack's code and bits."""
    return TYPE_CODES[dtype.kind], 1 if dtype.kind == "b" else 8 * dtype.itemsize


def graph_run(interface: Interface, record: ModuleRecord) -> str:
    """run_module for the graph executor of crt/, with a function registry of its own.

    The archive's registry is left alone: it is missing without a system library, and its count has
    one byte in archives of TVM before release 0.9.
    """
    member = f"executor-config/graph/{record.name}.graph"
    text = record.graph or b""
    graph, _ = graph_json.decode(text, member=member)
    symbols = [checked_symbol(f) for f in graph.functions]
    names = len(symbols).to_bytes(2, "little") + b"".join(f.encode() + b"\0" for f in symbols)
    lines = [
        _INCLUDES + "#include <tvm/runtime/crt/crt.h>\n#include <tvm/runtime/crt/graph_executor.h>",
        "#include <tvm/runtime/crt/module.h>\n",
        *(['#include "mlf/weights.h"\n'] if parameters(record)[1] else []),
        *(f"int32_t {f}{_PACKED};" for f in symbols),
        *_tensor_table(interface),
        f"static const char graph[] = {c_bytes(text)};\n",
        _parameters_c(record),
        "static const TVMBackendPackedCFunc functions[] = {",
        *(f"    (TVMBackendPackedCFunc){f}," for f in symbols or ["0"]),
        "};",
        f"static const TVMFuncRegistry registry = {{{c_bytes(names)}, functions}};",
        "static const TVMModule module = {&registry};",
        "static TVMGraphExecutor *executor;\n",
        *_set_pointers(record),
        *_linked_tensors(record, graph),
        *_open_graph(),
        *_call_graph(interface, {graph.nodes[i].name for i in graph.arguments}),
    ]
    return "\n".join(lines)


def _linked_tensors(record: ModuleRecord, graph: graph_json.Graph) -> list[str]:
    """link_params, which points the graph to parameters that are arrays of the module's code."""
    nodes = sorted(linked_nodes(record, graph))
    lines = [f"int32_t {LOOKUP}{_PACKED};"] if nodes else []
    for i in nodes:
        shape = graph.entries[graph.nodes[i].outputs[0]].shape
        extents = ", ".join(map(str, shape)) or "1"
        lines.append(f"static int64_t linked_{i}_shape[] = {{{extents}}};")
    lines += ["static int32_t link_params(void) {", "  int32_t status = 0;"]
    for i in nodes:
        entry = graph.entries[graph.nodes[i].outputs[0]]
        dtype = _dtype(entry.dtype, record)
        tensor = Tensor("", "", dtype, entry.shape, byte_size(dtype, entry.shape))
        lines += [
            "  if (status == 0) {",
            f"    DLTensor tensor = {_dltensor(f'linked_{i}', tensor)};",
            "    TVMValue id, data;",
            "    int32_t code = kTVMArgInt;",
            f"    id.v_int64 = {entry.storage_id};",
            f"    status = {LOOKUP}(&id, &code, 1, &data, &code, NULL);",
            "    tensor.data = data.v_handle;",
            "    if (status == 0) status = TVMGraphExecutor_SetInput(executor, "
            f"{c_string(graph.nodes[i].name)}, &tensor);",
            "  }",
        ]
    return [*lines, "  return status;", "}\n"]


def _open_graph() -> list[str]:
    return [
        "static int32_t open_graph(void) {",
        "  const DLDevice device = {kDLCPU, 0};",
        "  TVMModuleHandle handle = NULL;",
        "  int32_t status = (int32_t)TVMInitializeRuntime();",
        "  if (status == 0) status = TVMModCreateFromCModule(&module, &handle);",
        "  if (status == 0) {",
        "    status = TVMGraphExecutor_CreateSized(graph, sizeof graph - 1, handle, &device,",
        "                                          &executor);",
        "  }",
        "  if (status == 0) {",
        "    status = TVMGraphExecutor_LoadParams(executor, params, sizeof params - 1);",
        "  }",
        "  return status == 0 ? link_params() : status;",
        "}\n",
    ]


def _call_graph(interface: Interface, arguments: set[str]) -> list[str]:
    lines = [
        "static int32_t call(void) {",
        "  int32_t status = executor == NULL ? open_graph() : 0;",
        "  point_tensors();",
        "  set_pointers();",
    ]
    for i, t in enumerate(interface.inputs):
        name = t.name if t.name in arguments else t.c_name
        lines.append(f"  if (status == 0) status = TVMGraphExecutor_SetInput(executor, "
                     f"{c_string(name)}, &tensors[{i}]);")  # fmt: skip
    lines.append("  if (status == 0) status = TVMGraphExecutor_Run(executor);")
    for i in range(len(interface.outputs)):
        at = len(interface.inputs) + i
        call = f"TVMGraphExecutor_GetOutput(executor, {i}, &tensors[{at}])"
        lines.append(f"  if (status == 0) status = {call};")
    return [*lines, "  return status;", "}\n", "static int32_t run_module(void) {",
            "  return runner_guard(call);", "}\n"]  # fmt: skip
