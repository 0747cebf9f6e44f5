"""Archives in the exact shape that TVM wrote, version by version, made by hand.

TVM cannot be installed here. The layouts, the form of the C and of the JSON are those of archives
that people published; names and arithmetic are ours: y = relu(x + p0) * 2 for x float32 [1, 4].
"""

from __future__ import annotations

import json

import numpy as np

from mlftool.mlf import Bundle, params

P0 = np.array([[1, -2, 3, -4]], np.float32)
X = np.array([[0.5, 0.25, -8, 16]], np.float32)
Y = np.maximum(X + P0, 0) * np.float32(2)

PREAMBLE = """// tvm target: c -keys=cpu -model=host
#define TVM_EXPORTS
#include "tvm/runtime/c_runtime_api.h"
#include "tvm/runtime/c_backend_api.h"
#include <math.h>
#include <stdbool.h>
"""
SIGNATURE = (
    "void* args, int32_t* arg_type_ids, int32_t num_args, void* out_ret_value, "
    "int32_t* out_ret_tcode, void* resource_handle"
)
EXTERN = '#ifdef __cplusplus\nextern "C"\n#endif\nTVM_DLL int32_t '

# add_relu(x, p0, out) keeps the sum in workspace; multiply(in, out) doubles.
KERNELS = f"""{EXTERN}tvmgen_default_fused_add_nn_relu({SIGNATURE}) {{
  void* arg_p0 = (((TVMValue*)args)[0].v_handle);
  int32_t arg_p0_code = arg_type_ids[0];
  void* arg_p1 = (((TVMValue*)args)[1].v_handle);
  void* arg_T_relu = (((TVMValue*)args)[2].v_handle);
  void* p0 = (((DLTensor*)arg_p0)[0].data);
  void* arg_p0_shape = (((DLTensor*)arg_p0)[0].shape);
  int32_t dev_id = (((DLTensor*)arg_p0)[0].device.device_id);
  void* p1 = (((DLTensor*)arg_p1)[0].data);
  void* T_relu = (((DLTensor*)arg_T_relu)[0].data);
  void* T_add = TVMBackendAllocWorkspace(1, dev_id, (uint64_t)16, 2, 32);
  if (T_add == NULL) {{
    return -1;
  }}
  for (int32_t ax1 = 0; ax1 < 4; ++ax1) {{
    ((float*)T_add)[ax1] = (((float*)p0)[ax1] + ((float*)p1)[ax1]);
  }}
  for (int32_t ax1_1 = 0; ax1_1 < 4; ++ax1_1) {{
    float _1 = ((float*)T_add)[ax1_1];
    ((float*)T_relu)[ax1_1] = ((_1) > (0.000000e+00f) ? (_1) : (0.000000e+00f));
  }}
  if (TVMBackendFreeWorkspace(1, dev_id, T_add) != 0) {{
    return -1;
  }}
  return 0;
}}

{EXTERN}tvmgen_default_fused_multiply({SIGNATURE}) {{
  void* arg_p0 = (((TVMValue*)args)[0].v_handle);
  void* arg_T_multiply = (((TVMValue*)args)[1].v_handle);
  void* p0 = (((DLTensor*)arg_p0)[0].data);
  void* T_multiply = (((DLTensor*)arg_T_multiply)[0].data);
  for (int32_t ax1 = 0; ax1 < 4; ++ax1) {{
    ((float*)T_multiply)[ax1] = (((float*)p0)[ax1] * 2.000000e+00f);
  }}
  return 0;
}}
"""


def registry(names: list[str], count: str, arguments: str) -> str:
    """lib0.c: the registry with its octal count, and the system library."""
    text = "#include <tvm/runtime/crt/module.h>\n"
    for name in names:
        text += f"{EXTERN}{name}({arguments});\n"
    text += "static TVMBackendPackedCFunc _tvm_func_array[] = {\n"
    text += "".join(f"    (TVMBackendPackedCFunc){name},\n" for name in names) + "};\n"
    blob = "".join(f"{name}\\000" for name in names)
    text += "static const TVMFuncRegistry _tvm_func_registry = {\n"
    text += f'    "{count}{blob}",    _tvm_func_array,\n}};\n'
    text += "static const TVMModule _tvm_system_lib = {\n    &_tvm_func_registry,\n};\n"
    text += "const TVMModule* TVMSystemLibEntryPoint(void) {\n    return &_tvm_system_lib;\n}\n;"
    return text


FIVE = "TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code"
SIX = FIVE + ", void* resource_handle"
FUNCTIONS = ["tvmgen_default_fused_add_nn_relu", "tvmgen_default_fused_multiply"]
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


# 0.8 with link-params: parameters are arrays of the code, found by storage id.
LINKED = f"""
static const float __attribute__((section(".rodata.tvm"), aligned(16))) __tvm_param__p0[4] = {{
    0x1p+0, -0x1p+1, 0x1.8p+1, -0x1p+2
}};
{EXTERN}_lookup_linked_param({SIGNATURE.replace("int32_t", "int")}) {{
    switch (((int64_t*) args)[0]) {{
    default:
        out_ret_tcode[0] = 4;
        return 0;
    case 1:
        ((uint64_t*)out_ret_value)[0] = (uint64_t) (uintptr_t) __tvm_param__p0;
        out_ret_tcode[0] = 3;
        return 0;
    }}
}}
"""


def linked_archive() -> Bundle:
    """A graph of 0.8 whose parameters are linked: .params is empty."""
    lib0 = registry([*FUNCTIONS, "_lookup_linked_param"], "\\003", FIVE)
    files = {
        code(5, 0): lib0.encode(),
        code(5, 1): (PREAMBLE + LINKED + KERNELS).encode(),
        "parameters/default.params": params.encode({}),
    }
    return Bundle({**graph_archive(5).files, **files})


# AOT: main calls the kernels with DLTensors on its stack, and p0 is a constant of the code.
CONSTANT = """
static const float __attribute__((section(".rodata.tvm"), aligned(16))) constant_0[4] = {
    0x1p+0, -0x1p+1, 0x1.8p+1, -0x1p+2
};
"""
MAIN_CPACKED = f"""{EXTERN}tvmgen_default_MAIN({SIGNATURE}) {{
  TVMValue stack[3];
  void* stack_tcode = stack;
  TVMValue stack1[4];
  void* stack_value = stack1;
  TVMValue stack2[18];
  void* stack_array = stack2;
  void* arg_x = (((TVMValue*)args)[0].v_handle);
  int32_t arg_x_code = arg_type_ids[0];
  void* arg_output = (((TVMValue*)args)[1].v_handle);
  int32_t arg_output_code = arg_type_ids[1];
  void* x_buffer_var = (((DLTensor*)arg_x)[0].data);
  int32_t dev_id = (((DLTensor*)arg_x)[0].device.device_id);
  void* output_buffer_var = (((DLTensor*)arg_output)[0].data);
  void* sid_1 = TVMBackendAllocWorkspace(1, dev_id, (uint64_t)16, 0, 8);
  if (sid_1 == NULL) {{
    return -1;
  }}
  (((DLTensor*)stack_array)[0].data) = x_buffer_var;
  (((DLTensor*)stack_array)[0].device.device_id) = dev_id;
  (((DLTensor*)stack_array)[1].data) = (void*)constant_0;
  (((DLTensor*)stack_array)[2].data) = sid_1;
  for (int32_t i = 0; i < 3; ++i) {{
    (((TVMValue*)stack_value)[i].v_handle) = (((DLTensor*)stack_array) + i);
    ((int32_t*)stack_tcode)[i] = 7;
  }}
  TVMValue ret_val;
  int ret_type_code;
  if (tvmgen_default_fused_add_nn_relu((TVMValue*) stack_value, (int*) stack_tcode, 3, &ret_val, &ret_type_code, NULL) != 0) {{
    return -1;
  }}
  (((DLTensor*)stack_array)[0].data) = sid_1;
  (((DLTensor*)stack_array)[1].data) = output_buffer_var;
  if (tvmgen_default_fused_multiply((TVMValue*) stack_value, (int*) stack_tcode, 2, &ret_val, &ret_type_code, NULL) != 0) {{
    return -1;
  }}
  if (TVMBackendFreeWorkspace(1, dev_id, sid_1) != 0) {{
    return -1;
  }}
  return 0;
}}
"""  # noqa: E501
RUN_PACKED = """#include "tvm/runtime/c_runtime_api.h"
#ifdef __cplusplus
extern "C" {
#endif
TVM_DLL int32_t tvmgen_default_MAIN(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code, void* resource_handle);

int32_t tvmgen_default_run(TVMValue* args, int* type_code, int num_args, TVMValue* out_value, int* out_type_code, void* resource_handle) {
TVMValue tensors[2];
tensors[0] = ((TVMValue*)args)[0];
tensors[1] = ((TVMValue*)args)[1];
return tvmgen_default_MAIN((void*)tensors, type_code, num_args, out_value, out_type_code, resource_handle);
}
#ifdef __cplusplus
}
#endif
"""  # noqa: E501
C_METADATA = """#include <inttypes.h>
#include <tvm/runtime/metadata_types.h>
#include <tvm/runtime/c_runtime_api.h>
static const int64_t kTvmgenMetadata_inputs_0_shape[2] = {
1L, 
4L};
static const struct TVMTensorInfo kTvmgenMetadata_inputs[1] = {
{
"x" /* name*/, 
kTvmgenMetadata_inputs_0_shape, 
2L /* num_shape*/, 
{2, 32, 1} /* dtype*/}
};
static const int64_t kTvmgenMetadata_outputs_0_shape[2] = {
1L, 
4L};
static const struct TVMTensorInfo kTvmgenMetadata_outputs[1] = {
{
"output0" /* name*/, 
kTvmgenMetadata_outputs_0_shape, 
2L /* num_shape*/, 
{2, 32, 1} /* dtype*/}
};
static const struct TVMTensorInfo kTvmgenMetadata_workspace_pools[0] = {
};
static const struct TVMConstantInfo kTvmgenMetadata_constant_pools[0] = {
};
static const struct TVMMetadata kTvmgenMetadata[1] = {
{
1L /* version*/, 
kTvmgenMetadata_inputs, 
1L /* num_inputs*/, 
kTvmgenMetadata_outputs, 
1L /* num_outputs*/, 
kTvmgenMetadata_workspace_pools, 
0L /* num_workspace_pools*/, 
kTvmgenMetadata_constant_pools, 
0L /* num_constant_pools*/, 
"tvmgen_default" /* mod_name*/}
};
#ifdef __cplusplus
extern "C"
#endif
TVM_DLL int32_t tvmgen_default_get_c_metadata(TVMValue* arg_values, int* arg_tcodes, int num_args, TVMValue* ret_values, int* ret_tcodes, void* resource_handle) {
    ret_values[0].v_handle = (void*) &kTvmgenMetadata;
    ret_tcodes[0] = kTVMOpaqueHandle;
    return 0;
};
"""  # noqa: E501


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


# Before July 2021 (versions 1 to 3): a structure is the entry, and p0 is linked.
NETWORK = """#include "tvm/runtime/crt/internal/aot_executor/aot_executor.h"
#include "tvm/runtime/c_runtime_api.h"
#ifdef __cplusplus
extern "C"
#endif
TVM_DLL int32_t tvmgen_default_run_model(arg0,arg1);
static int32_t __tvm_main__(void* args, void* type_code, int num_args, void* out_value, void* out_type_code, void* resource_handle) {
return tvmgen_default_run_model(((DLTensor*)(((TVMValue*)args)[0].v_handle))[0].data,((DLTensor*)(((TVMValue*)args)[1].v_handle))[0].data);
}
const tvm_model_t tvmgen_default_network = {
    .run_func = &__tvm_main__,
    .num_input_tensors = 1,
    .num_output_tensors = 1, 
};
;"""  # noqa: E501
RUN_MODEL = """
TVM_DLL int32_t tvmgen_default_run_model(void* arg0, void* arg1) {
  void* x = arg0;
  void* output = arg1;
  void* sid_1 = TVMBackendAllocWorkspace(1, 0, (uint64_t)16, 0, 8);
  for (int32_t i = 0; i < 4; ++i) {
    ((float*)sid_1)[i] = ((float*)x)[i] + constant_0[i];
    ((float*)output)[i] = (((float*)sid_1)[i] > 0 ? ((float*)sid_1)[i] : 0) * 2.000000e+00f;
  }
  if (TVMBackendFreeWorkspace(1, 0, sid_1) != 0) {
    return -1;
  }
  return 0;
}
"""


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


HEADER = """#ifndef TVMGEN_DEFAULT_H_
#define TVMGEN_DEFAULT_H_
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*!
 * \\brief Input tensor x size (in bytes) for TVM module "default" 
 */
#define TVMGEN_DEFAULT_X_SIZE 16
/*!
 * \\brief Output tensor output size (in bytes) for TVM module "default" 
 */
#define TVMGEN_DEFAULT_OUTPUT_SIZE 16
/*!
 * \\brief Input tensor pointers for TVM module "default" 
 */
struct tvmgen_default_inputs {
  void* x;
};

/*!
 * \\brief Output tensor pointers for TVM module "default" 
 */
struct tvmgen_default_outputs {
  void* output;
};
POOLS
/*!
 * \\brief entrypoint function for TVM module "default"
 * \\param inputs Input tensors for the module 
 * \\param outputs Output tensors for the module 
 */
int32_t tvmgen_default_run(
  struct tvmgen_default_inputs* inputs,
  struct tvmgen_default_outputs* outputsMORE
);
/*!
 * \\brief Workspace size for TVM module "default" 
 */
#define TVMGEN_DEFAULT_WORKSPACE_SIZE 48

MACROS#ifdef __cplusplus
}
#endif

#endif // TVMGEN_DEFAULT_H_
"""
POOLS = """
/*!
 * \\brief Workspace pool pointers for TVM module "default" 
 */
struct tvmgen_default_workspace_pools {
  void* flash;
  void* sram;
};
"""
MACROS = """#define TVMGEN_DEFAULT_FLASH_CONSTANT_POOL_SIZE 16
#define TVMGEN_DEFAULT_FLASH_CONSTANT_POOL_DATA \\
  0x00, 0x00, 0x80, 0x3f, 0x00, 0x00, 0x00, 0xc0, \\
  0x00, 0x00, 0x40, 0x40, 0x00, 0x00, 0x80, 0xc0,

#define TVMGEN_DEFAULT_SRAM_WORKSPACE_POOL_SIZE 32
"""
# USMP: all intermediate tensors are offsets into pools, which every kernel gets.
UNPACKED = """
TVM_DLL int32_t tvmgen_default_fused_add_nn_relu(float* p0, float* T_relu, uint8_t* global_const_workspace_0_var, uint8_t* global_workspace_1_var) {
  void* fused_constant_let = (&(global_const_workspace_0_var[0]));
  void* T_add_let = (&(global_workspace_1_var[16]));
  for (int32_t ax1 = 0; ax1 < 4; ++ax1) {
    ((float*)T_add_let)[ax1] = (p0[ax1] + ((float*)fused_constant_let)[ax1]);
  }
  for (int32_t ax1_1 = 0; ax1_1 < 4; ++ax1_1) {
    float _1 = ((float*)T_add_let)[ax1_1];
    T_relu[ax1_1] = ((_1) > (0.000000e+00f) ? (_1) : (0.000000e+00f));
  }
  return 0;
}

TVM_DLL int32_t tvmgen_default_fused_multiply(float* p0, float* T_multiply, uint8_t* global_const_workspace_2_var, uint8_t* global_workspace_3_var) {
  for (int32_t ax1 = 0; ax1 < 4; ++ax1) {
    T_multiply[ax1] = (p0[ax1] * 2.000000e+00f);
  }
  return 0;
}

TVM_DLL int32_t tvmgen_default___tvm_main__(float* x_buffer_var, float* output_buffer_var, uint8_t* global_const_workspace_4_var, uint8_t* global_workspace_5_var) {
  void* sid_1_let = (&(global_workspace_5_var[0]));
  if (tvmgen_default_fused_add_nn_relu(x_buffer_var, sid_1_let, global_const_workspace_4_var, global_workspace_5_var) != 0 ) return -1;
  if (tvmgen_default_fused_multiply(sid_1_let, output_buffer_var, global_const_workspace_4_var, global_workspace_5_var) != 0 ) return -1;
  return 0;
}
"""  # noqa: E501
POOLS_INSIDE = """
__attribute__((section(".rodata.tvm"), ))
static struct global_const_workspace {
  float fused_constant_let[4] __attribute__((packed, aligned(16)));
} global_const_workspace = {
  .fused_constant_let = {
    0x1p+0, -0x1p+1, 0x1.8p+1, -0x1p+2
  },
};// of total size 16 bytes
__attribute__((section(".bss.noinit.tvm"), aligned(16)))
static uint8_t global_workspace[32];
"""
RUN_STRUCT = """#include <tvmgen_default.h>
TVM_DLL int32_t tvmgen_default___tvm_main__(void* x,void* output0,uint8_t* global_const_workspace_0_var,uint8_t* global_workspace_1_var);
int32_t tvmgen_default_run(struct tvmgen_default_inputs* inputs,struct tvmgen_default_outputs* outputsMORE) {return tvmgen_default___tvm_main__(inputs->x,outputs->output,CONSTANTS,WORKSPACE);
}
"""  # noqa: E501


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


ADD = f"""{PREAMBLE}{EXTERN}add({SIGNATURE}) {{
  void* A = (((DLTensor*)(((TVMValue*)args)[0].v_handle))[0].data);
  void* B = (((DLTensor*)(((TVMValue*)args)[1].v_handle))[0].data);
  void* C = (((DLTensor*)(((TVMValue*)args)[2].v_handle))[0].data);
  for (int32_t i = 0; i < 4; ++i) {{
    ((int8_t*)C)[i] = (((int8_t*)A)[i] + ((int8_t*)B)[i]);
  }}
  return 0;
}}
"""


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
