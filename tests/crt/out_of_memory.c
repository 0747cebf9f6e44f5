/* Whatever takes memory fails cleanly wherever the memory ends, and leaves nothing behind. Prints
 * what failed, exits 1 if any. Runs on fuzz/platform.c. */
#include "expect.h"

#include "fuzz/fuzz.h"

#include <limits.h>
#include <string.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/packed_func.h>

static const DLDevice kCpu = {kDLCPU, 0};
static const DLDataType kInt8 = {kDLInt, 8, 1};
static const int64_t kShape[] = {4};
static const struct TVMTensorInfo kTensors[] = {{"x", kShape, 1, {kDLInt, 8, 1}}};
static struct TVMMetadata metadata = {1,        kTensors, 1,    kTensors, 1,
                                      kTensors, 1,        NULL, 0,        "tvmgen_m"};

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

static const TVMBackendPackedCFunc kFunctions[] = {get_c_metadata};
static const TVMFuncRegistry kRegistry = {"\001\000tvmgen_m_get_c_metadata\0", kFunctions};
static const TVMModule kModule = {&kRegistry};
static TVMModuleHandle module;

static int graph_executor(void) {
  TVMGraphExecutor *e = NULL;
  const int code = TVMGraphExecutor_Create(
      "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]}],\"arg_nodes\":[0],\"heads\":[["
      "0,0,0]],\"attrs\":{\"dltype\":[\"list_str\",[\"int8\"]],\"storage_id\":[\"list_int\",[0]],"
      "\"shape\":[\"list_shape\",[[4]]]},\"node_row_ptr\":[0,1]}",
      module, &kCpu, &e);
  EXPECT((code == 0) == (e != NULL));
  EXPECT(TVMGraphExecutor_Release(&e) == 0);
  return code;
}

static int aot_executor(void) {
  TVMAotExecutor *e = NULL;
  const int code = TVMAotExecutor_Create(module, kCpu, &e, "m");
  EXPECT((code == 0) == (e != NULL));
  EXPECT(TVMAotExecutor_Release(e, kCpu) == 0);
  return code;
}

static int array_alloc(void) {
  DLTensor *t = NULL;
  const int code = TVMArrayAlloc(kShape, 1, kDLInt, 8, 1, kDLCPU, 0, &t);
  EXPECT((code == 0) == (t != NULL));
  return code == 0 ? TVMArrayFree(t) : code;
}

static int array_and_view(void) {
  TVMNDArray array;
  TVMNDArray view;
  int code = TVMNDArray_Empty(1, kShape, kInt8, kCpu, &array);
  if (code != 0) {
    return code;
  }
  code = TVMNDArray_CreateView(&array, kShape, 1, kInt8, &view);
  EXPECT(code != 0 || TVMNDArray_Release(&view) == 0);
  EXPECT(TVMNDArray_Release(&array) == 0);
  return code;
}

static int workspace(void) {
  void *const block = TVMBackendAllocWorkspace(kDLCPU, 0, 8, kDLInt, 8);
  return block == NULL ? kTvmErrorPlatformNoMemory : TVMBackendFreeWorkspace(kDLCPU, 0, block);
}

/* Asked to measure get_c_metadata; this platform's timer does not start either. */
static int measurement(void) {
  TVMArgs args = TVMArgs_Create(NULL, NULL, 0);
  TVMPackedFunc pf;
  int code;
  memset(args.values, 0, sizeof args.values);
  args.values[0].v_handle = module;
  args.tcodes[0] = kTVMModuleHandle;
  args.values[1].v_str = "tvmgen_m_get_c_metadata";
  args.tcodes[1] = kTVMStr;
  args.values[4].v_int64 = 1;
  args.values[5].v_int64 = 1;
  args.values_count = 7;
  EXPECT(TVMPackedFunc_InitGlobalFunc(&pf, "runtime.RPCTimeEvaluator", &args) == 0);
  EXPECT(TVMPackedFunc_Call(&pf) == 0);
  pf.fexec = pf.ret_value.values[0].v_handle;
  code = TVMPackedFunc_Call(&pf);
  return code == kTvmErrorFunctionCallNotImplemented ? 0 : code;
}

/* Gives a task all memory, then one block less each time. `blocks` is what it needs. */
static void shrink(int (*task)(void), int blocks) {
  int given;
  fuzz_blocks_left = blocks;
  EXPECT(task() == 0 && fuzz_live_blocks == 0);
  for (given = 0; given < blocks; given++) {
    fuzz_blocks_left = given;
    EXPECT(task() == kTvmErrorPlatformNoMemory);
    EXPECT(fuzz_live_blocks == 0);
  }
  fuzz_blocks_left = INT_MAX;
}

/* This platform has no random numbers, so the runtime's default hook answers. */
static void random_numbers_are_not_made_up(void) {
  int8_t data[4] = {1, 2, 3, 4};
  int64_t shape[1] = {4};
  DLTensor t;
  memset(&t, 0, sizeof t);
  t.data = data;
  t.ndim = 1;
  t.shape = shape;
  t.dtype = kInt8;
  EXPECT(TVMTensor_RandomFill(&t) == kTvmErrorFunctionCallNotImplemented && data[3] == 4);
}

int main(void) {
  EXPECT(TVMInitializeRuntime() == kTvmErrorNoError);
  EXPECT(TVMModCreateFromCModule(&kModule, &module) == 0);
  shrink(graph_executor, 2);
  shrink(aot_executor, 4); /* itself and three tensors */
  shrink(array_alloc, 2);
  shrink(array_and_view, 2);
  shrink(workspace, 1);
  shrink(measurement, 1);
  random_numbers_are_not_made_up();
  return failures != 0;
}
