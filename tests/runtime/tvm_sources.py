"""The C that TVM wrote around and into its archives, for tvm_archives.py."""

from __future__ import annotations

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
