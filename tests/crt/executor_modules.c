/* Every function of both executor modules with every kind of argument: only what makes sense is
 * done, and nothing else happens. Prints what failed, exits 1 if any. */
#include "expect.h"

#include <string.h>
#include <tvm/runtime/crt/aot_executor_module.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor_module.h>
#include <tvm/runtime/crt/packed_func.h>
#include <tvm/runtime/metadata_types.h>

static const int64_t kShape[] = {4};
static const struct TVMTensorInfo kInputs[] = {{"x", kShape, 1, {kDLInt, 8, 1}}};
static const struct TVMTensorInfo kOutputs[] = {{"output0", kShape, 1, {kDLInt, 8, 1}}};
static struct TVMMetadata metadata = {1, kInputs, 1, kOutputs, 1, NULL, 0, NULL, 0, "tvmgen_m"};

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
  (void)args;
  (void)tcodes;
  (void)n;
  (void)ret;
  (void)rcode;
  (void)resource;
  return 0;
}

static const TVMBackendPackedCFunc kFunctions[] = {run, get_c_metadata};
static const TVMFuncRegistry kRegistry = {"\002\000tvmgen_m_run\0tvmgen_m_get_c_metadata\0",
                                          kFunctions};
static const TVMModule kModule = {&kRegistry};

static const char kGraph[] =
    "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]}],\"arg_nodes\":[0],\"heads\":[[0,0,"
    "0]],"
    "\"attrs\":{\"dltype\":[\"list_str\",[\"int8\"]],\"storage_id\":[\"list_int\",[0]],"
    "\"shape\":[\"list_shape\",[[4]]]},\"node_row_ptr\":[0,1]}";

static const char *const kNames[] = {"get_input",      "get_input_index", "get_input_info",
                                     "get_input_name", "get_num_inputs",  "get_num_outputs",
                                     "get_output",     "load_params",     "run",
                                     "set_input",      "share_params"};

/* One argument of each kind; a good one and, where that makes a difference, a bad one. */
enum { kKinds = 11, kMaxArgs = 3 };
static TVMValue values[kKinds];
static int tcodes[kKinds];
static int8_t data[4] = {1, 2, 3, 4};
static int64_t shape[1] = {4};
static int64_t other_shape[1] = {3};
static DLTensor tensor;
static DLTensor other_tensor;
static char params[] = "\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7\0\0\0\0\0\0\0\0"
                       "\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0";
static TVMByteArray bytes = {params, sizeof params};
static TVMByteArray too_many_bytes = {params, SIZE_MAX};

static void make_arguments(TVMModuleHandle module) {
  memset(&tensor, 0, sizeof tensor);
  tensor.data = data;
  tensor.device.device_type = kDLCPU;
  tensor.ndim = 1;
  tensor.shape = shape;
  tensor.dtype.code = kDLInt;
  tensor.dtype.bits = 8;
  tensor.dtype.lanes = 1;
  other_tensor = tensor;
  other_tensor.shape = other_shape;
  memset(values, 0, sizeof values);
  values[0].v_int64 = 0;
  values[1].v_int64 = 1; /* there is one input and one output */
  values[2].v_int64 = -1;
  tcodes[0] = tcodes[1] = tcodes[2] = kTVMArgInt;
  values[3].v_str = "x";
  values[4].v_str = "y";
  tcodes[3] = tcodes[4] = kTVMStr;
  values[5].v_handle = &tensor;
  tcodes[5] = kTVMDLTensorHandle;
  values[6].v_handle = &other_tensor;
  tcodes[6] = kTVMNDArrayHandle;
  values[7].v_handle = &bytes;
  tcodes[7] = kTVMBytes;
  values[8].v_handle = module;
  tcodes[8] = kTVMModuleHandle;
  values[9].v_device.device_type = kDLCPU;
  tcodes[9] = kDLDevice;
  values[10].v_handle = &too_many_bytes; /* a .params file has less than 4 GiB */
  tcodes[10] = sizeof(size_t) > 4 ? kTVMBytes : kTVMNullptr;
}

/* Calls with all lists of 0 to kMaxArgs arguments; returns how many succeed. */
static int try_all(TVMPackedFunc *pf) {
  int good = 0;
  int n;
  int list;
  int lists = 1;
  for (n = 0; n <= kMaxArgs; n++, lists *= kKinds) {
    for (list = 0; list < lists; list++) {
      int rest = list;
      int i;
      int code;
      pf->args.values_count = (uint32_t)n;
      for (i = 0; i < n; i++, rest /= kKinds) {
        pf->args.values[i] = values[rest % kKinds];
        pf->args.tcodes[i] = tcodes[rest % kKinds];
      }
      code = TVMPackedFunc_Call(pf);
      good += code == 0;
    }
  }
  return good;
}

static int lists_that_succeed(TVMModuleHandle module, const char *name) {
  TVMPackedFunc pf;
  if (TVMPackedFunc_InitModuleFunc(&pf, module, name, NULL) != 0) {
    return -1;
  }
  return try_all(&pf);
}

/* How many lists of arguments are right: kNames' for the graph executor's module, then the AOT's.
 */
static const int kGood[2][11] = {
    {2, 1, 0, -1, 1, 1, 2, 1, 1, 2, 0},
    {2, 1, 0, 1, 1, 1, 2, 0, 1, 2, 0},
};

static void functions_take_what_they_should(TVMModuleHandle module, int aot) {
  size_t i;
  for (i = 0; i < sizeof kNames / sizeof kNames[0]; i++) {
    const int good = lists_that_succeed(module, kNames[i]);
    if (good != kGood[aot][i]) {
      failures++;
      printf("%s of module %d: %d\n", kNames[i], aot, good);
    }
  }
}

static void without_an_executor_nothing_works(TVMModuleHandle module) {
  size_t i;
  for (i = 0; i < sizeof kNames / sizeof kNames[0]; i++) {
    EXPECT(lists_that_succeed(module, kNames[i]) <= 0);
  }
}

/* Creates with good arguments, and with each of them of another kind. */
static TVMModuleHandle create(const char *name, const TVMArgs *good) {
  TVMPackedFunc pf;
  uint32_t i;
  int kind;
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, name, good) == 0);
  for (i = 0; i < good->values_count; i++) {
    for (kind = 0; kind < kKinds; kind++) {
      pf.args = *good;
      pf.args.values[i] = values[kind];
      pf.args.tcodes[i] = tcodes[kind];
      if (tcodes[kind] != good->tcodes[i]) {
        /* A tensor can hold the text of a graph; these hold none. */
        const int is_text = good->tcodes[i] == kTVMStr && i == 0 && (kind == 5 || kind == 6);
        EXPECT(TVMPackedFunc_Call(&pf) == (is_text ? -1 : kTvmErrorFunctionCallWrongArgType));
      }
    }
  }
  pf.args = *good;
  pf.args.values_count--;
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorFunctionCallNumArguments);
  pf.args = *good;
  EXPECT(TVMPackedFunc_Call(&pf) == 0);
  return pf.ret_value.values[0].v_handle;
}

static void the_graph_module(TVMModuleHandle system_lib) {
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
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "tvm.graph_executor.create", &args) == 0);
  pf.args.values[3].v_int64 = 1;
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorExecutorModuleBadContext);
  pf.args.values[3].v_int64 = 0;
  pf.args.values[0].v_str = "{}";
  EXPECT(TVMPackedFunc_Call(&pf) == -1);
  module = create("tvm.graph_executor.create", &args);
  functions_take_what_they_should(module, 0);
  EXPECT(TVMGraphExecutorModule_Reset() == 0);
  without_an_executor_nothing_works(module);
  EXPECT(TVMModFree(module) == 0);
}

static void the_aot_module(TVMModuleHandle system_lib) {
  TVMArgs args = TVMArgs_Create(NULL, NULL, 0);
  TVMModuleHandle module;
  TVMPackedFunc pf;
  args.values[0].v_handle = system_lib;
  args.tcodes[0] = kTVMModuleHandle;
  memset(&args.values[1], 0, sizeof args.values[1]);
  args.values[1].v_device.device_type = kDLCPU;
  args.tcodes[1] = kDLDevice;
  args.values[2].v_str = "m";
  args.tcodes[2] = kTVMStr;
  args.values_count = 3;
  EXPECT(TVMAotExecutorModule_Register() == kTvmErrorNoError);
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "tvm.aot_executor.create", &args) == 0);
  pf.args.values[1].v_device.device_id = 1;
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorExecutorModuleBadContext);
  pf.args.values[1].v_device.device_id = 0;
  pf.args.values[2].v_str = "n";
  EXPECT(TVMPackedFunc_Call(&pf) == kTvmErrorFunctionNameNotFound);
  module = create("tvm.aot_executor.create", &args);
  functions_take_what_they_should(module, 1);
  EXPECT(TVMAotExecutorModule_Reset() == 0);
  without_an_executor_nothing_works(module);
  EXPECT(TVMModFree(module) == 0);
}

/* A module handle is needed, and there are none left: the executor does not stay behind. */
static void modules_run_out(TVMModuleHandle system_lib) {
  static TVMModule kModules[TVM_CRT_MAX_REGISTERED_MODULES];
  TVMModuleHandle handle;
  TVMArgs args = TVMArgs_Create(NULL, NULL, 0);
  TVMPackedFunc pf;
  int i;
  for (i = 0; i < TVM_CRT_MAX_REGISTERED_MODULES - 1; i++) {
    kModules[i].registry = &kRegistry;
    EXPECT(TVMModCreateFromCModule(&kModules[i], &handle) == 0);
  }
  args.values[0].v_handle = system_lib;
  args.tcodes[0] = kTVMModuleHandle;
  args.values[1] = values[9];
  args.tcodes[1] = kDLDevice;
  args.values[2].v_str = "m";
  args.tcodes[2] = kTVMStr;
  args.values_count = 3;
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "tvm.aot_executor.create", &args) == 0);
  EXPECT(TVMPackedFunc_Call(&pf) == -1 && TVMPackedFunc_Call(&pf) == -1);
  args.values[3].v_int64 = 0;
  args.tcodes[3] = kTVMArgInt;
  args.values[2].v_int64 = kDLCPU;
  args.tcodes[2] = kTVMArgInt;
  args.values[1] = args.values[0];
  args.tcodes[1] = kTVMModuleHandle;
  args.values[0].v_str = kGraph;
  args.tcodes[0] = kTVMStr;
  args.values_count = 4;
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "tvm.graph_executor.create", &args) == 0);
  EXPECT(TVMPackedFunc_Call(&pf) == -1 && TVMPackedFunc_Call(&pf) == -1);
}

int main(void) {
  TVMModuleHandle module;
  EXPECT(TVMPlatformInitialize() == kTvmErrorNoError);
  EXPECT(TVMInitializeRuntime() == kTvmErrorNoError);
  EXPECT(TVMModCreateFromCModule(&kModule, &module) == 0);
  make_arguments(module);
  the_graph_module(module);
  the_aot_module(module);
  modules_run_out(module);
  return failures != 0;
}
