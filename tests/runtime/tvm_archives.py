"""Archives in the exact shape that TVM wrote, version by version, made by hand.

TVM cannot be installed here. The layouts, the form of the C and of the JSON are those of archives
that people published; names and arithmetic are ours: y = relu(x + p0) * 2 for x float32 [1, 4].
"""

from __future__ import annotations

import json

import numpy as np
from tvm_sources import (
    ADD,
    C_METADATA,
    CONSTANT,
    FIVE,
    FUNCTIONS,
    HEADER,
    KERNELS,
    LINKED,
    MACROS,
    MAIN_CPACKED,
    NETWORK,
    POOLS,
    POOLS_INSIDE,
    PREAMBLE,
    RUN_MODEL,
    RUN_PACKED,
    RUN_STRUCT,
    SIX,
    UNPACKED,
    registry,
)

from mlftool.mlf import Bundle, params

P0 = np.array([[1, -2, 3, -4]], np.float32)
X = np.array([[0.5, 0.25, -8, 16]], np.float32)
Y = np.maximum(X + P0, 0) * np.float32(2)
REGISTRY_1 = registry(FUNCTIONS, "\\002", FIVE)  # one byte, before 0.9
REGISTRY_2 = registry(FUNCTIONS, "\\002\\000", SIX)

# dmlc's JSON writer: two spaces, and lines that end in ", "
GRAPH = """{
  "nodes": [
    {
      "op": "null", 
      "name": "x", 
      "inputs": []
    }, 
    {
      "op": "null", 
      "name": "p0", 
      "inputs": []
    }, 
    {
      "op": "tvm_op", 
      "name": "tvmgen_default_fused_add_nn_relu", 
      "attrs": {
        "num_outputs": "1", 
        "num_inputs": "2", 
        "flatten_data": "0", 
        "func_name": "tvmgen_default_fused_add_nn_relu", 
        "hash": "1f2e3d4c5b6a7988"
      }, 
      "inputs": [
        [
          0, 
          0, 
          0
        ], 
        [
          1, 
          0, 
          0
        ]
      ]
    }, 
    {
      "op": "tvm_op", 
      "name": "tvmgen_default_fused_multiply", 
      "attrs": {
        "num_outputs": "1", 
        "num_inputs": "1", 
        "flatten_data": "0", 
        "func_name": "tvmgen_default_fused_multiply", 
        "hash": "8897a6b5c4d3e2f1"
      }, 
      "inputs": [
        [
          2, 
          0, 
          0
        ]
      ]
    }
  ], 
  "arg_nodes": [0, 1], 
  "heads": [
    [
      3, 
      0, 
      0
    ]
  ], 
  "attrs": {
    "dltype": [
      "list_str", 
      [
        "float32", 
        "float32", 
        "float32", 
        "float32"
      ]
    ], 
    "device_index": [
      "list_int", 
      [1, 1, 1, 1]
    ], 
    "storage_id": [
      "list_int", 
      [0, 1, 2, 3]
    ], 
    "shape": [
      "list_shape", 
      [
        [1, 4], 
        [1, 4], 
        [1, 4], 
        [1, 4]
      ]
    ]
  }, 
  "node_row_ptr": [0, 1, 2, 3, 4]
}"""
RELAY = """def @main(%x: Tensor[(1, 4), float32]) -> Tensor[(1, 4), float32] {
  %0 = add(%x, meta[relay.Constant][0] /* ty=Tensor[(1, 4), float32] */) /* ty=x */;
  %1 = nn.relu(%0) /* ty=Tensor[(1, 4), float32] */;
  multiply(%1, 2f /* ty=float32 */) /* ty=Tensor[(1, 4), float32] */
}
"""
SIDS = [
    {"storage_id": 0, "size_bytes": 16, "input_binding": "x"},
    {"storage_id": 1, "size_bytes": 16, "input_binding": "p0"},
    {"storage_id": 2, "size_bytes": 16},
    {"storage_id": 3, "size_bytes": 16},
]
MAIN = {
    "device": 1,
    "workspace_size_bytes": 48,
    "constants_size_bytes": 16,
    "io_size_bytes": 32,
}
IO = {
    "inputs": {"x": {"size": 16, "dtype": "float32"}},
    "outputs": {"output": {"size": 16, "dtype": "float32"}},
}
STANDALONE_CRT = {
    "short_name": "tvm_standalone_crt",
    "url": "./runtime",
    "url_type": "mlf_path",
    "version_spec": "0.12.0",
}


def metadata(version: int, executor: str, **more: object) -> bytes:
    """metadata.json of module `default`, as that version had it."""
    functions = {
        "main": [MAIN | (IO if version == 7 else {})],
        "operator_functions": [
            {
                "function_name": name,
                "workspace": [{"device": 1, "workspace_size_bytes": size}],
            }
            for name, size in zip(FUNCTIONS, (16, 0), strict=True)
        ],
    }
    target = "c -keys=cpu -model=host"
    sids = {"sids": SIDS} if executor == "graph" else {}
    module: dict[str, object] = {
        "model_name": "default",
        "export_datetime": "2021-09-01 10:11:12Z",
        "memory": list(sids.get("sids", [])) if version == 1 else {"functions": functions} | sids,
        "target": [target] if version >= 6 else {"1": target},
        "executors" if version >= 5 else "runtimes": [executor],
    }
    if version >= 4:
        module["style"] = "full-model"
    module |= more
    data = {"version": version}
    data |= {"modules": {"default": module}} if version == 7 else module
    return json.dumps(data, indent=2, sort_keys=True).encode()


def code(version: int, number: int, kind: str = "c") -> str:
    """Where TVM put a code file."""
    folder = "lib" if kind == "o" else "src"
    prefix = "" if version < 3 else "default_"
    return f"codegen/host/{folder}/{prefix}lib{number}.{kind}"


def relay_name(version: int) -> str:
    return "relay.txt" if version < 4 else "src/relay.txt" if version < 7 else "src/default.relay"


def graph_archive(version: int) -> Bundle:
    """A graph executor's archive; its registry has one byte up to version 5."""
    old = version <= 5
    graph = {5: "executor-config/graph/graph.json", 6: "executor-config/graph/graph.json"}.get(
        version, "runtime-config/graph/graph.json"
    )
    if version == 7:
        graph = "executor-config/graph/default.graph"
    return Bundle(
        {
            "metadata.json": metadata(version, "graph"),
            code(version, 0): (REGISTRY_1 if old else REGISTRY_2).encode(),
            code(version, 1): (PREAMBLE + KERNELS).encode(),
            graph: GRAPH.encode(),
            "parameters/default.params": params.encode({"p0": P0}),
            relay_name(version): RELAY.encode(),
        }
    )


def linked_archive() -> Bundle:
    """A graph of 0.8 whose parameters are linked: .params is empty."""
    lib0 = registry([*FUNCTIONS, "_lookup_linked_param"], "\\003", FIVE)
    files = {
        code(5, 0): lib0.encode(),
        code(5, 1): (PREAMBLE + LINKED + KERNELS).encode(),
        "parameters/default.params": params.encode({}),
    }
    return Bundle({**graph_archive(5).files, **files})


def packed_archive(version: int = 7, with_metadata: bool = True) -> Bundle:
    """AOT with interface packed: with C metadata since 0.9; `run_model` was main's name before."""
    main = "__tvm_main__" if with_metadata else "run_model"
    names = [*FUNCTIONS, f"tvmgen_default_{main}"]
    names += ["tvmgen_default_get_c_metadata"] if with_metadata else []
    count = f"\\{len(names):03o}" + ("\\000" if with_metadata else "")
    lib0 = registry(names, count, SIX).removesuffix(";") + RUN_PACKED.replace("MAIN", main)
    files = [lib0]
    files += [C_METADATA] if with_metadata else []
    files.append(PREAMBLE + CONSTANT + KERNELS + MAIN_CPACKED.replace("MAIN", main))
    more = {"external_dependencies": [STANDALONE_CRT]} if version >= 5 else {}
    return Bundle(
        {
            "metadata.json": metadata(version, "aot", **more),
            **{code(version, i): text.encode() for i, text in enumerate(files)},
            "parameters/default.params": params.encode({}),
            relay_name(version): RELAY.encode(),
        }
    )


def network_archive(version: int) -> Bundle:
    """AOT as it was first, unpacked inside and entered through a tvm_model_t."""
    return Bundle(
        {
            "metadata.json": metadata(version, "aot"),
            code(version, 0): NETWORK.encode(),
            code(version, 1): (PREAMBLE + CONSTANT + RUN_MODEL).encode(),
            "parameters/default.params": params.encode({"p0": P0}),
            relay_name(version): RELAY.encode(),
        }
    )


def struct_archive(external_pools: bool = False) -> Bundle:
    """AOT with interface c and the memory planner, whose pools are the module's or the user's."""
    lib0 = '#include "tvm/runtime/c_runtime_api.h"\n#ifdef __cplusplus\nextern "C" {\n#endif\n'
    if external_pools:
        run = RUN_STRUCT.replace("MORE", ",struct tvmgen_default_workspace_pools* workspace_pools")
        run = run.replace("CONSTANTS", "workspace_pools->flash")
        run = run.replace("WORKSPACE", "workspace_pools->sram")
        more = ",\n  struct tvmgen_default_workspace_pools* workspace_pools"
        header = HEADER.replace("POOLS", POOLS).replace("MORE", more).replace("MACROS", MACROS)
    else:
        run = POOLS_INSIDE + RUN_STRUCT.replace("MORE", "")
        run = run.replace("CONSTANTS", "((uint8_t*)&global_const_workspace)")
        run = run.replace("WORKSPACE", "((uint8_t*)&global_workspace)")
        header = HEADER.replace("POOLS", "").replace("MORE", "").replace("MACROS", "")
    return Bundle(
        {
            "metadata.json": metadata(7, "aot", external_dependencies=[STANDALONE_CRT]),
            code(7, 0): (lib0 + run + "#ifdef __cplusplus\n}\n#endif\n").encode(),
            code(7, 1): (PREAMBLE + UNPACKED).encode(),
            "codegen/host/include/tvmgen_default.h": header.encode(),
            "parameters/default.params": params.encode({}),
            "src/default.relay": RELAY.encode(),
        }
    )


def operator_archive(version: int) -> Bundle:
    """tvm.build's result: an int8 addition, C = A + B."""
    tensor = {"size_bytes": 4, "shape": [4], "dtype": "int8"}
    data = {
        "version": version,
        "model_name": "add",
        "export_datetime": "2021-09-01 10:11:12Z",
        "memory": {"add": [{**tensor, "input_binding": name} for name in "ABC"]},
        "target": ["c -keys=cpu"] if version >= 6 else {"1": "c -keys=cpu"},
        "executors" if version >= 5 else "runtimes": [],
        "style": "operator",
    }
    return Bundle(
        {
            "metadata.json": json.dumps(data).encode(),
            "codegen/host/src/lib0.c": registry(["add"], "\\001\\000", SIX).encode(),
            "codegen/host/src/lib1.c": ADD.encode(),
            "src/tir-1.txt": b"primfn(A: handle, B: handle, C: handle)\n",
        }
    )
