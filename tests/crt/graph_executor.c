/* The graph executor as an application uses it; prints what failed, exits 1 if any. Runs on the
 * host, on i386 and on a big-endian machine. */
#include "expect.h"

#include <string.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor.h>

/* y = x + p0, then z = y * 2 and w = y viewed as [4]; sum and double are packed functions. */
static const char kGraph[] =
    "{\"nodes\": [\n"
    "  {\"op\": \"null\", \"name\": \"x\", \"inputs\": []},\n"
    "  {\"op\": \"null\", \"name\": \"p0\", \"inputs\": []},\n"
    "  {\"op\": \"tvm_op\", \"name\": \"sum\", \"attrs\": {\"num_outputs\": \"1\", \"num_inputs\": "
    "\"2\",\n"
    "    \"flatten_data\": \"0\", \"func_name\": \"sum\", \"hash\": \"0123456789abcdef\"},\n"
    "    \"inputs\": [[0, 0, 0], [1, 0, 0]]},\n"
    "  {\"op\": \"tvm_op\", \"name\": \"reshape\", \"attrs\": {\"func_name\": \"__nop\", "
    "\"num_inputs\": \"1\",\n"
    "    \"num_outputs\": \"1\", \"flatten_data\": \"0\"}, \"inputs\": [[2, 0, 0]]},\n"
    "  {\"op\": \"tvm_op\", \"name\": \"twice\", \"attr\": {\"func_name\": \"twice\", "
    "\"num_inputs\": \"1\",\n"
    "    \"num_outputs\": \"1\", \"flatten_data\": \"0\"}, \"inputs\": [[3, 0, 0]]}],\n"
    " \"arg_nodes\": [0, 1], \"heads\": [[4, 0, 0], [3, 0, 0]],\n"
    " \"attrs\": {\"dltype\": [\"list_str\", [\"float32\", \"float32\", \"float32\", \"float32\", "
    "\"float32\"]],\n"
    "  \"device_index\": [\"list_int\", [1, 1, 1, 1, 1]],\n"
    "  \"storage_id\": [\"list_int\", [0, 1, 2, 2, 3]],\n"
    "  \"shape\": [\"list_shape\", [[2, 2], [2, 2], [2, 2], [4], [4]]]},\n"
    " \"node_row_ptr\": [0, 1, 2, 3, 4, 5],\n"
    " \"metadata\": {\"anything\": [1, -2.5e3, null, {\"a\": \"\\u00e9\"}]}}";

/* One array, p0 = {10, 20, 30, 40}. */
static const uint8_t kParams[] =
    "\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7\0\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0"
    "\2\0\0\0\0\0\0\0p0\1\0\0\0\0\0\0\0"
    "\x3f\xa1\xb4\x96\xf0\x40\x5e\xdd\0\0\0\0\0\0\0\0"
    "\1\0\0\0\0\0\0\0\2\0\0\0\2\x20\1\0\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0"
    "\x10\0\0\0\0\0\0\0\0\0\x20\x41\0\0\xa0\x41\0\0\xf0\x41\0\0\x20\x42";

static int fail_with; /* what `twice` returns */

static int sum(TVMValue *args, int *tcodes, int n, TVMValue *ret, int *rcode, void *resource) {
  const DLTensor *const a = args[0].v_handle;
  const DLTensor *const b = args[1].v_handle;
  const DLTensor *const out = args[2].v_handle;
  int i;
  (void)ret;
  (void)rcode;
  EXPECT(n == 3 && tcodes[0] == kTVMDLTensorHandle && tcodes[2] == kTVMDLTensorHandle);
  EXPECT(resource != NULL);
  for (i = 0; i < 4; i++) {
    ((float *)out->data)[i] = ((const float *)a->data)[i] + ((const float *)b->data)[i];
  }
  return 0;
}

static int twice(TVMValue *args, int *tcodes, int n, TVMValue *ret, int *rcode, void *resource) {
  const DLTensor *const in = args[0].v_handle;
  const DLTensor *const out = args[1].v_handle;
  int i;
  (void)tcodes;
  (void)ret;
  (void)rcode;
  (void)resource;
  EXPECT(n == 2 && in->ndim == 1 && in->shape[0] == 4);
  for (i = 0; i < 4; i++) {
    ((float *)out->data)[i] = 2.0f * ((const float *)in->data)[i];
  }
  return fail_with;
}

static const TVMBackendPackedCFunc kFunctions[] = {sum, twice};
static const TVMFuncRegistry kRegistry = {"\002\000sum\0twice\0", kFunctions};
static const TVMModule kModule = {&kRegistry};

const TVMModule *TVMSystemLibEntryPoint(void) {
  return &kModule;
}

static DLTensor tensor_of(float *data, int64_t *shape, int ndim) {
  DLTensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.device.device_type = kDLCPU;
  t.ndim = ndim;
  t.dtype.code = kDLFloat;
  t.dtype.bits = 32;
  t.dtype.lanes = 1;
  t.shape = shape;
  return t;
}

static TVMModuleHandle system_lib(void) {
  TVMArgs none = TVMArgs_Create(NULL, NULL, 0);
  TVMPackedFunc pf;
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "runtime.SystemLib", &none) == 0);
  EXPECT(pf.Call(&pf) == 0);
  return TVMArgs_AsModuleHandle(&pf.ret_value, 0);
}

static void a_graph_runs(TVMGraphExecutor *e) {
  float x[4] = {1, 2, 3, 4};
  float out[4] = {0};
  int64_t flat[1] = {4};
  int64_t square[2] = {2, 2};
  DLTensor in = tensor_of(x, square, 2);
  DLTensor result = tensor_of(out, flat, 1);
  EXPECT(TVMGraphExecutor_GetNumInputs(e) == 2 && TVMGraphExecutor_GetNumOutputs(e) == 2);
  EXPECT(TVMGraphExecutor_GetInputIndex(e, "x") == 0);
  EXPECT(TVMGraphExecutor_GetInputIndex(e, "p0") == 1);
  EXPECT(TVMGraphExecutor_LoadParams(e, (const char *)kParams, sizeof kParams - 1) == 0);
  EXPECT(TVMGraphExecutor_SetInput(e, "x", &in) == 0);
  EXPECT(TVMGraphExecutor_Run(e) == 0);
  EXPECT(TVMGraphExecutor_GetOutput(e, 0, &result) == 0);
  EXPECT(out[0] == 22 && out[1] == 44 && out[2] == 66 && out[3] == 88);
  EXPECT(TVMGraphExecutor_GetOutput(e, 1, &result) == 0);
  EXPECT(out[0] == 11 && out[3] == 44);
  x[0] = 100; /* not copied: seen by the next run */
  EXPECT(TVMGraphExecutor_Run(e) == 0);
  EXPECT(TVMGraphExecutor_GetOutput(e, 1, &result) == 0);
  EXPECT(out[0] == 110);
}

static void wrong_use_is_an_error(TVMGraphExecutor *e) {
  float data[8] = {0};
  int64_t shape[2] = {2, 2};
  int64_t large[1] = {8};
  int64_t strides[2] = {1, 2};
  int64_t row_major[2] = {2, 1};
  DLTensor t = tensor_of(data, shape, 2);
  DLTensor larger = tensor_of(data, large, 1);
  EXPECT(TVMGraphExecutor_GetInputIndex(e, "sum") == -1);
  EXPECT(TVMGraphExecutor_SetInput(e, "y", &t) == -1);
  EXPECT(strcmp(TVMGetLastError(), "no input named y") == 0);
  EXPECT(TVMGraphExecutor_SetInput(e, "x", &larger) == kTvmErrorFunctionCallInvalidArg);
  EXPECT(TVMGraphExecutor_GetOutput(e, 0, &larger) == kTvmErrorFunctionCallInvalidArg);
  EXPECT(TVMGraphExecutor_GetOutput(e, 0, &t) == kTvmErrorFunctionCallInvalidArg); /* rank */
  EXPECT(TVMGraphExecutor_GetOutput(e, 2, &t) == -1);
  EXPECT(TVMGraphExecutor_GetOutput(e, -1, &t) == -1);
  t.strides = strides;
  EXPECT(TVMGraphExecutor_SetInput(e, "x", &t) == kTvmErrorFunctionCallInvalidArg);
  t.strides = row_major;
  EXPECT(TVMGraphExecutor_SetInput(e, "x", &t) == 0);
  t.strides = NULL;
  t.dtype.code = kDLInt;
  EXPECT(TVMGraphExecutor_SetInput(e, "x", &t) == kTvmErrorFunctionCallInvalidArg);
  t.dtype.code = kDLFloat;
  t.data = NULL;
  EXPECT(TVMGraphExecutor_SetInput(e, "x", &t) == kTvmErrorFunctionCallInvalidArg);
  fail_with = 42;
  EXPECT(TVMGraphExecutor_Run(e) == 42);
  fail_with = 0;
}

/* LoadParams copies to the graph's memory even after SetInput has pointed elsewhere. */
static void parameters_do_not_go_to_the_callers_memory(TVMGraphExecutor *e) {
  float mine[4] = {1, 1, 1, 1};
  int64_t shape[2] = {2, 2};
  DLTensor t = tensor_of(mine, shape, 2);
  EXPECT(TVMGraphExecutor_SetInput(e, "p0", &t) == 0);
  EXPECT(TVMGraphExecutor_GetInputTensor(e, 1)->data == mine);
  EXPECT(TVMGraphExecutor_LoadParams(e, (const char *)kParams, sizeof kParams - 1) == 0);
  EXPECT(mine[0] == 1);
  EXPECT(((float *)TVMGraphExecutor_GetInputTensor(e, 1)->data)[3] == 40);
}

static void scalars_bools_and_empty_tensors(TVMModuleHandle module) {
  static const char kText[] =
      "{\"nodes\":[{\"op\":\"null\",\"name\":\"s\",\"inputs\":[]},"
      "{\"op\":\"null\",\"name\":\"b\",\"inputs\":[]},{\"op\":\"null\",\"name\":\"e\",\"inputs\":[]"
      "}],"
      "\"arg_nodes\":[0,1,2],\"heads\":[[0,0,0],[1,0,0],[2,0,0]],\"attrs\":{"
      "\"dltype\":[\"list_str\",[\"int64\",\"bool\",\"float64\"]],"
      "\"storage_id\":[\"list_int\",[0,1,2]],\"shape\":[\"list_shape\",[[],[11],[0,3]]]},"
      "\"node_row_ptr\":[0,1,2,3]}";
  const DLDevice cpu = {kDLCPU, 0};
  TVMGraphExecutor *e = NULL;
  uint8_t flags[11];
  int64_t shape[1] = {11};
  DLTensor out;
  EXPECT(TVMGraphExecutor_Create(kText, module, &cpu, &e) == 0);
  EXPECT(TVMGraphExecutor_GetInputTensor(e, 0)->ndim == 0);
  *(int64_t *)TVMGraphExecutor_GetInputTensor(e, 0)->data = -7;
  memset(TVMGraphExecutor_GetInputTensor(e, 1)->data, 1, 11); /* a byte each */
  EXPECT(TVMGraphExecutor_Run(e) == 0);
  memset(&out, 0, sizeof out);
  out.data = flags;
  out.ndim = 1;
  out.shape = shape;
  out.dtype.code = kDLUInt;
  out.dtype.bits = 1;
  out.dtype.lanes = 1;
  EXPECT(TVMGraphExecutor_GetOutput(e, 1, &out) == 0 && flags[10] == 1);
  out = *TVMGraphExecutor_GetOutputTensor(e, 0);
  EXPECT(*(int64_t *)out.data == -7);
  EXPECT(((uintptr_t)out.data & 15) == 0);
  EXPECT(TVMGraphExecutor_Release(&e) == 0);
}

static void a_text_of_2_gib_is_not_looked_at(TVMModuleHandle module) {
  const DLDevice cpu = {kDLCPU, 0};
  TVMGraphExecutor *e = NULL;
  EXPECT(TVMGraphExecutor_CreateSized(kGraph, (size_t)INT32_MAX + 1, module, &cpu, &e) == -1);
  EXPECT(strcmp(TVMGetLastError(), "graph JSON, byte 0: a text of more than 2 GiB") == 0);
}

static void a_full_table_of_modules_is_an_error(TVMModuleHandle system_lib_handle) {
  static TVMModule modules[TVM_CRT_MAX_REGISTERED_MODULES];
  TVMModuleHandle handle;
  TVMPackedFunc pf;
  int i;
  EXPECT(TVMModFree(system_lib_handle) == 0);
  for (i = 0; i < TVM_CRT_MAX_REGISTERED_MODULES; i++) {
    modules[i].registry = &kRegistry;
    EXPECT(TVMModCreateFromCModule(&modules[i], &handle) == 0);
  }
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "runtime.SystemLib", NULL) == 0);
  EXPECT(TVMPackedFunc_Call(&pf) == -1);
}

int main(void) {
  const DLDevice cpu = {kDLCPU, 0};
  TVMGraphExecutor *e = NULL;
  TVMModuleHandle module;
  EXPECT(TVMPlatformInitialize() == kTvmErrorNoError);
  EXPECT(TVMInitializeRuntime() == kTvmErrorNoError);
  module = system_lib();
  EXPECT(TVMGraphExecutor_Create(kGraph, module, &cpu, &e) == 0);
  if (e == NULL) {
    printf("%s\n", TVMGetLastError());
    return 1;
  }
  a_graph_runs(e);
  wrong_use_is_an_error(e);
  parameters_do_not_go_to_the_callers_memory(e);
  EXPECT(TVMGraphExecutor_Release(&e) == 0 && e == NULL);
  EXPECT(TVMGraphExecutor_Release(&e) == 0);
  scalars_bools_and_empty_tensors(module);
  a_text_of_2_gib_is_not_looked_at(module);
  a_full_table_of_modules_is_an_error(module);
  return failures != 0;
}
