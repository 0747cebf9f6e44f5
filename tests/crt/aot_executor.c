/* The AOT executor and both module forms, as generated code and a host see them. Prints what
 * failed, exits 1 if any. */
#include "expect.h"

#include <string.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor_module.h>
#include <tvm/runtime/crt/packed_func.h>

/* What the compiler makes of: y = x + 1 (int8 [2, 3]), ok = true, with a pool of 5 bytes. */
static const int64_t kShape[] = {2, 3};
static const int64_t kPoolShape[] = {5};
static const struct TVMTensorInfo kInputs[] = {{"x", kShape, 2, {kDLInt, 8, 1}}};
static const struct TVMTensorInfo kOutputs[] = {{"output0", kShape, 2, {kDLInt, 8, 1}},
                                                {"output1", NULL, 0, {kDLUInt, 1, 1}}};
static const struct TVMTensorInfo kPools[] = {{"sram", kPoolShape, 1, {kDLUInt, 8, 1}}};
static struct TVMMetadata metadata = {1,      kInputs, 1,    kOutputs, 2,
                                      kPools, 1,       NULL, 0,        "tvmgen_small"};
static int fail_with;

static int get_c_metadata(TVMValue *args, int *tcodes, int n, TVMValue *ret, int *rcode,
                          void *resource) {
  (void)args;
  (void)tcodes;
  (void)n;
  (void)resource;
  ret[0].v_handle = &metadata;
  *rcode = kTVMOpaqueHandle;
  return 0;
}

static int run(TVMValue *args, int *tcodes, int n, TVMValue *ret, int *rcode, void *resource) {
  const DLTensor *const x = args[0].v_handle;
  const DLTensor *const y = args[1].v_handle;
  const DLTensor *const ok = args[2].v_handle;
  const DLTensor *const sram = args[3].v_handle;
  int i;
  (void)ret;
  (void)rcode;
  (void)resource;
  EXPECT(n == 4 && tcodes[0] == kTVMDLTensorHandle);
  EXPECT(ok->ndim == 0 && sram->shape[0] == 5);
  memset(sram->data, 0xee, 5);
  for (i = 0; i < 6; i++) {
    ((int8_t *)y->data)[i] = (int8_t)(((const int8_t *)x->data)[i] + 1);
  }
  *(uint8_t *)ok->data = 1;
  return fail_with;
}

static const TVMBackendPackedCFunc kFunctions[] = {run, get_c_metadata};
static const TVMFuncRegistry kRegistry = {"\002\000tvmgen_small_run\0tvmgen_small_get_c_metadata\0",
                                          kFunctions};
static const TVMModule kModule = {&kRegistry};
static const DLDevice kCpu = {kDLCPU, 0};

/* Makes a second executor: another one with its own memory, or in the place of the first where
 * there is room for one only. The handle of the one that is left. */
static TVMModuleHandle another_one(TVMPackedFunc *create, TVMModuleHandle first) {
  TVMFunctionHandle function;
  TVMModuleHandle second;
  EXPECT(TVMPackedFunc_Call(create) == 0);
  second = TVMArgs_AsModuleHandle(&create->ret_value, 0);
  EXPECT(second != first);
  if (TVM_CRT_MAX_REGISTERED_MODULES > 2) {
    EXPECT(TVMModFree(second) == 0);
    return first;
  }
  EXPECT(TVMModGetFunction(first, "run", 0, &function) == -1);
  return second;
}

static void the_executor_runs(TVMModuleHandle module) {
  TVMAotExecutor *e = NULL;
  const char *name = NULL;
  EXPECT(TVMAotExecutor_Create(module, kCpu, &e, "small") == 0);
  EXPECT(TVMAotExecutor_GetNumInputs(e) == 1 && TVMAotExecutor_GetNumOutputs(e) == 2);
  EXPECT(TVMAotExecutor_GetInputIndex(e, "x") == 0 && TVMAotExecutor_GetInputIndex(e, "y") == -1);
  EXPECT(TVMAotExecutor_GetInputName(e, 0, &name) == 0 && strcmp(name, "x") == 0);
  EXPECT(TVMAotExecutor_GetInputName(e, 1, &name) == -1);
  EXPECT(e->num_args == 4 && e->metadata == &metadata);
  memset(e->args[0].dl_tensor.data, 41, 6);
  EXPECT(TVMAotExecutor_Run(e) == 0);
  EXPECT(((int8_t *)e->args[1].dl_tensor.data)[5] == 42);
  fail_with = -9;
  EXPECT(TVMAotExecutor_Run(e) == -9);
  fail_with = 0;
  EXPECT(TVMAotExecutor_Release(e, kCpu) == 0);
  EXPECT(TVMAotExecutor_Release(NULL, kCpu) == 0);
}

/* TVM_CRT_MAX_NDIM is the graph executor's and the RPC server's limit. */
static void rank_7_runs(TVMModuleHandle module) {
  static const int64_t kSeven[] = {1, 1, 2, 1, 3, 1, 1};
  static const struct TVMTensorInfo kDeep[] = {{"x", kSeven, 7, {kDLInt, 8, 1}}};
  TVMAotExecutor *e = NULL;
  metadata.inputs = kDeep;
  EXPECT(TVMAotExecutor_Create(module, kCpu, &e, "small") == 0);
  EXPECT(e->args[0].dl_tensor.ndim == 7 && e->args[0].dl_tensor.shape[4] == 3);
  memset(e->args[0].dl_tensor.data, 6, 6);
  EXPECT(TVMAotExecutor_Run(e) == 0);
  EXPECT(((int8_t *)e->args[1].dl_tensor.data)[5] == 7);
  EXPECT(TVMAotExecutor_Release(e, kCpu) == 0);
  metadata.inputs = kInputs;
}

static int nothing(TVMValue *args, int *tcodes, int n, TVMValue *ret, int *rcode, void *resource) {
  (void)args;
  (void)tcodes;
  (void)n;
  (void)ret;
  (void)rcode;
  (void)resource;
  return 0;
}

/* A function of that name that returns nothing, and metadata that name a function nobody has. */
static void half_a_module_is_refused(TVMModuleHandle module) {
  static const TVMBackendPackedCFunc kNothing[] = {nothing};
  static const TVMFuncRegistry kEmpty = {"\001\000tvmgen_small_get_c_metadata\0", kNothing};
  static const TVMModule kHalf = {&kEmpty};
  TVMModuleHandle half;
  TVMAotExecutor *e = NULL;
  EXPECT(TVMModCreateFromCModule(&kHalf, &half) == 0);
  EXPECT(TVMAotExecutor_Create(half, kCpu, &e, "small") == -1 && e == NULL);
  EXPECT(TVMModFree(half) == 0);
  metadata.mod_name = "tvmgen_large";
  EXPECT(TVMAotExecutor_Create(module, kCpu, &e, "small") == 0);
  EXPECT(TVMAotExecutor_Run(e) == kTvmErrorFunctionNameNotFound);
  EXPECT(TVMAotExecutor_Release(e, kCpu) == 0);
  metadata.mod_name = "tvmgen_small";
}

static void bad_modules_are_refused(TVMModuleHandle module) {
  static const int64_t kLong[33] = {1};
  static const struct TVMTensorInfo kHuge[] = {{"x", kLong, 33, {kDLInt, 8, 1}}};
  static const int64_t kNegative[] = {2, -3};
  static const struct TVMTensorInfo kBad[] = {{"x", kNegative, 2, {kDLInt, 8, 1}}};
  char long_name[200];
  TVMAotExecutor *e = NULL;
  memset(long_name, 'x', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  EXPECT(TVMAotExecutor_Create(module, kCpu, &e, "other") == kTvmErrorFunctionNameNotFound);
  EXPECT(TVMAotExecutor_Create(module, kCpu, &e, long_name) == kTvmErrorBufferTooSmall);
  EXPECT(TVMAotExecutor_Create(NULL, kCpu, &e, "small") == -1);
  metadata.version = 2;
  EXPECT(TVMAotExecutor_Create(module, kCpu, &e, "small") == -1 && e == NULL);
  metadata.version = 1;
  metadata.inputs = kHuge;
  EXPECT(TVMAotExecutor_Create(module, kCpu, &e, "small") == -1 && e == NULL);
  metadata.inputs = kBad;
  EXPECT(TVMAotExecutor_Create(module, kCpu, &e, "small") == kTvmErrorFunctionCallInvalidArg);
  EXPECT(e == NULL);
  metadata.inputs = kInputs;
  metadata.num_outputs = INT64_MAX;
  EXPECT(TVMAotExecutor_Create(module, kCpu, &e, "small") == -1 && e == NULL);
  metadata.num_outputs = 2;
}

/* Calls a function of a module with up to two arguments. */
static int call(TVMModuleHandle module, const char *name, const TVMArgs *args, TVMPackedFunc *pf) {
  const int code = TVMPackedFunc_InitModuleFunc(pf, module, name, args);
  return code != 0 ? code : TVMPackedFunc_Call(pf);
}

static TVMArgs one(TVMValue value, int tcode) {
  TVMArgs args = TVMArgs_Create(NULL, NULL, 0);
  args.values[0] = value;
  args.tcodes[0] = tcode;
  args.values_count = 1;
  return args;
}

static TVMModuleHandle create_aot(TVMModuleHandle module) {
  TVMArgs args = TVMArgs_Create(NULL, NULL, 0);
  TVMPackedFunc pf;
  args.values[0].v_handle = module;
  args.tcodes[0] = kTVMModuleHandle;
  args.values[1].v_device = kCpu;
  args.tcodes[1] = kDLDevice;
  args.values[2].v_str = "small";
  args.tcodes[2] = kTVMStr;
  args.values_count = 3;
  EXPECT(TVMAotExecutorModule_Register() == kTvmErrorNoError);
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "tvm.aot_executor.create", &args) == 0);
  EXPECT(TVMPackedFunc_Call(&pf) == 0);
  module = TVMArgs_AsModuleHandle(&pf.ret_value, 0);
  module = another_one(&pf, module);
  args.values_count = 2;
  TVMPackedFunc_SetArgs(&pf, &args);
  EXPECT(TVMAotExecutorModule_Reset() == 0);
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorFunctionCallNumArguments);
  args.values_count = 3;
  TVMPackedFunc_SetArgs(&pf, &args);
  EXPECT(TVMPackedFunc_Call(&pf) == 0); /* the same module, with a new executor */
  EXPECT(TVMArgs_AsModuleHandle(&pf.ret_value, 0) == module);
  return module;
}

static void the_aot_module_works(TVMModuleHandle system_lib) {
  const TVMModuleHandle m = create_aot(system_lib);
  const TVMArgs none = TVMArgs_Create(NULL, NULL, 0);
  TVMPackedFunc pf;
  TVMValue value;
  DLTensor *x;
  int64_t shape[2] = {2, 3};
  int8_t data[6] = {1, 2, 3, 4, 5, 6};
  TVMArgs two;
  value.v_str = "x";
  EXPECT(call(m, "get_num_inputs", &none, &pf) == 0 && pf.ret_value.values[0].v_int64 == 1);
  EXPECT(call(m, "get_num_outputs", &none, &pf) == 0 && pf.ret_value.values[0].v_int64 == 2);
  two = one(value, kTVMStr);
  EXPECT(call(m, "get_input_index", &two, &pf) == 0 && pf.ret_value.values[0].v_int64 == 0);
  EXPECT(call(m, "get_input", &two, &pf) == 0 && pf.ret_value.tcodes[0] == kTVMNDArrayHandle);
  x = pf.ret_value.values[0].v_handle;
  EXPECT(x->ndim == 2 && x->shape[1] == 3);
  {
    DLTensor in = *x;
    in.data = data;
    in.shape = shape;
    two.values[1].v_handle = &in;
    two.tcodes[1] = kTVMDLTensorHandle;
    two.values_count = 2;
    EXPECT(call(m, "set_input", &two, &pf) == 0 && ((int8_t *)x->data)[5] == 6);
  }
  EXPECT(call(m, "run", &none, &pf) == 0);
  value.v_int64 = 0;
  two = one(value, kTVMArgInt);
  EXPECT(call(m, "get_output", &two, &pf) == 0);
  x = pf.ret_value.values[0].v_handle;
  EXPECT(((int8_t *)x->data)[5] == 7);
  EXPECT(call(m, "get_input_name", &two, &pf) == 0);
  EXPECT(pf.ret_value.tcodes[0] == kTVMStr && strcmp(pf.ret_value.values[0].v_str, "x") == 0);
  EXPECT(call(m, "share_params", &none, &pf) == kTvmErrorFunctionCallNotImplemented);
  value.v_int64 = 2;
  two = one(value, kTVMArgInt);
  EXPECT(call(m, "get_output", &two, &pf) == kTvmErrorExecutorModuleNoSuchInput);
  EXPECT(call(m, "get_input", &two, &pf) == kTvmErrorExecutorModuleNoSuchInput);
  EXPECT(call(m, "run", &two, &pf) == kTvmErrorFunctionCallNumArguments);
  EXPECT(TVMAotExecutorModule_Reset() == 0);
  EXPECT(call(m, "run", &none, &pf) == kTvmErrorExecutorModuleBadContext);
  EXPECT(TVMModFree(m) == 0);
}

static const char kGraph[] =
    "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]}],\"arg_nodes\":[0],\"heads\":[[0,0,"
    "0]],"
    "\"attrs\":{\"dltype\":[\"list_str\",[\"int8\"]],\"storage_id\":[\"list_int\",[0]],"
    "\"shape\":[\"list_shape\",[[2,3]]]},\"node_row_ptr\":[0,1]}";

static TVMModuleHandle create_graph(TVMModuleHandle system_lib) {
  TVMArgs args = TVMArgs_Create(NULL, NULL, 0);
  TVMModuleHandle module;
  TVMPackedFunc pf;
  args.values[0].v_str = kGraph;
  args.tcodes[0] = kTVMStr;
  args.values[1].v_handle = system_lib;
  args.tcodes[1] = kTVMModuleHandle;
  args.values[2].v_int64 = kDLCPU;
  args.tcodes[2] = kTVMArgInt;
  args.values[3].v_int64 = 0;
  args.tcodes[3] = kTVMArgInt;
  args.values_count = 4;
  EXPECT(TVMGraphExecutorModule_Register() == kTvmErrorNoError);
  EXPECT(TVMGraphExecutorModule_Register() == kTvmErrorFunctionAlreadyDefined);
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "tvm.graph_executor.create", &args) == 0);
  EXPECT(TVMPackedFunc_Call(&pf) == 0);
  module = TVMArgs_AsModuleHandle(&pf.ret_value, 0);
  module = another_one(&pf, module);
  return module;
}

static void the_graph_module_works(TVMModuleHandle system_lib) {
  static const char kNoParams[] = "\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7\0\0\0\0\0\0\0\0"
                                  "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
  const TVMByteArray params = {kNoParams, sizeof kNoParams};
  const TVMModuleHandle m = create_graph(system_lib);
  const TVMArgs none = TVMArgs_Create(NULL, NULL, 0);
  int64_t shape[2] = {2, 3};
  int8_t data[6] = {1, 2, 3, 4, 5, 6};
  TVMPackedFunc pf;
  TVMValue value;
  TVMArgs args;
  DLTensor in;
  value.v_int64 = 0;
  args = one(value, kTVMArgInt);
  EXPECT(call(m, "get_input", &args, &pf) == 0);
  in = *(DLTensor *)pf.ret_value.values[0].v_handle;
  in.data = data;
  in.shape = shape;
  args.values[1].v_handle = &in;
  args.tcodes[1] = kTVMDLTensorHandle;
  args.values_count = 2;
  EXPECT(call(m, "set_input", &args, &pf) == 0);
  EXPECT(call(m, "run", &none, &pf) == 0);
  args.values_count = 1;
  EXPECT(call(m, "get_output", &args, &pf) == 0);
  EXPECT(((DLTensor *)pf.ret_value.values[0].v_handle)->data == data); /* not copied */
  {
    union {
      const TVMByteArray *constant;
      void *handle;
    } bytes;
    bytes.constant = &params;
    value.v_handle = bytes.handle;
  }
  args = one(value, kTVMBytes);
  EXPECT(call(m, "load_params", &args, &pf) == 0);
  /* The names that TVM's registry lists but cannot reach. */
  EXPECT(call(m, "share_params", &none, &pf) == kTvmErrorFunctionCallNotImplemented);
  EXPECT(call(m, "set_input", &none, &pf) == kTvmErrorFunctionCallNumArguments);
  EXPECT(call(m, "get_num_inputs", &none, &pf) == 0 && pf.ret_value.values[0].v_int64 == 1);
  EXPECT(TVMGraphExecutorModule_Reset() == 0);
  EXPECT(TVMModFree(m) == 0);
}

int main(void) {
  TVMModuleHandle module;
  EXPECT(TVMPlatformInitialize() == kTvmErrorNoError);
  EXPECT(TVMInitializeRuntime() == kTvmErrorNoError);
  EXPECT(TVMModCreateFromCModule(&kModule, &module) == 0);
  the_executor_runs(module);
  rank_7_runs(module);
  bad_modules_are_refused(module);
  half_a_module_is_refused(module);
  the_aot_module_works(module);
  the_graph_module_works(module);
  return failures != 0;
}
