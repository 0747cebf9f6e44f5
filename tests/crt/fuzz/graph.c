/* Any bytes as graph JSON: refused, or a graph that runs within its memory and gives it back. */
#include "fuzz.h"

#include <string.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor.h>

/* Reads and writes all that a kernel may. */
static int touch(TVMValue *args, int *tcodes, int n, TVMValue *ret, int *rcode, void *resource) {
  int i;
  (void)tcodes;
  (void)ret;
  (void)rcode;
  (void)resource;
  for (i = 0; i < n; i++) {
    const DLTensor *const t = args[i].v_handle;
    size_t bytes = ((size_t)t->dtype.bits + 7) / 8 * t->dtype.lanes;
    size_t k;
    int32_t d;
    for (d = 0; d < t->ndim; d++) {
      bytes *= (size_t)t->shape[d];
    }
    for (k = 0; k < bytes; k++) {
      ((uint8_t *)t->data)[k]++;
    }
  }
  return 0;
}

static const TVMBackendPackedCFunc kFunctions[] = {touch, touch};
static const TVMFuncRegistry kRegistry = {"\002\000f\0g\0", kFunctions};
static const TVMModule kModule = {&kRegistry};

static void use(TVMGraphExecutor *e) {
  int i;
  for (i = 0; i < TVMGraphExecutor_GetNumInputs(e); i++) {
    const char *const name = TVMGraphExecutor_GetInputName(e, i);
    REQUIRE(TVMGraphExecutor_GetInputIndex(e, name) <= i);
    REQUIRE(TVMGraphExecutor_SetInput(
                e, name,
                TVMGraphExecutor_GetInputTensor(e, TVMGraphExecutor_GetInputIndex(e, name))) == 0);
  }
  REQUIRE(TVMGraphExecutor_Run(e) == 0);
  for (i = 0; i < TVMGraphExecutor_GetNumOutputs(e); i++) {
    DLTensor out = *TVMGraphExecutor_GetOutputTensor(e, i);
    REQUIRE(TVMGraphExecutor_GetOutput(e, i, &out) == 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static TVMModuleHandle module;
  const DLDevice cpu = {kDLCPU, 0};
  TVMGraphExecutor *e = NULL;
  int code;
  if (module == NULL) {
    REQUIRE(TVMInitializeRuntime() == kTvmErrorNoError);
    REQUIRE(TVMModCreateFromCModule(&kModule, &module) == 0);
  }
  code = TVMGraphExecutor_CreateSized((const char *)data, size, module, &cpu, &e);
  REQUIRE((code == 0) == (e != NULL));
  if (e != NULL) {
    use(e);
    REQUIRE(TVMGraphExecutor_Release(&e) == 0);
  }
  REQUIRE(fuzz_live_blocks == 0);
  return 0;
}

#define SEED(text)                                                                                 \
  { text, sizeof(text) - 1 }
#define OP(func, ins, inputs)                                                                      \
  "{\"op\":\"tvm_op\",\"name\":\"n\",\"attrs\":{\"func_name\":\"" func "\",\"num_inputs\":\"" ins  \
  "\",\"num_outputs\":\"1\",\"flatten_data\":\"0\"},\"inputs\":" inputs "}"
#define ARG(name) "{\"op\":\"null\",\"name\":\"" name "\",\"inputs\":[]}"

const fuzz_seed fuzz_seeds[] = {
    SEED("{\"nodes\":[" ARG("x") "],\"arg_nodes\":[0],\"heads\":[[0,0,0]],\"attrs\":{\"dltype\":["
                                 "\"list_str\",[\"int8\"]],\"storage_id\":[\"list_int\",[0]],"
                                 "\"shape\":[\"list_shape\",[[]]"
                                 "]},\"node_row_ptr\":[0,1]}"),
    SEED("{\"nodes\":[" ARG("x") "," ARG("p0") "," OP(
        "f", "2", "[[0,0,0],[1,0,0]]") "],"
                                       "\"arg_nodes\":[0,1],\"heads\":[[2,0,0]],\"attrs\":{"
                                       "\"dltype\":[\"list_str\",[\"float32\","
                                       "\"float32\",\"bool\"]],\"device_index\":[\"list_int\",[1,1,"
                                       "1]],\"storage_id\":["
                                       "\"list_int\",[0,1,2]],\"shape\":[\"list_shape\",[[1,8],[8,"
                                       "1],[2,4]]]},\"node_row_ptr\":"
                                       "[0,1,2,3]}"),
    SEED("{\"nodes\":[" ARG("a") "," OP("__nop", "1", "[[0,0,0]]") "," OP(
        "g", "1",
        "[[1,0]]") "],\"arg_nodes\":[0],\"heads\":[[2,0,0],[0,0,0]],\"attrs\":{\"storage_id\":["
                   "\"list_int\","
                   "[0,0,1]],\"dltype\":[\"list_str\",[\"uint8\",\"uint8\",\"int64\"]],\"shape\":["
                   "\"list_shape\",[[2,3],[6],[0]]]},\"node_row_ptr\":[0,1,2,3],\"metadata\":{"
                   "\"a\":[1,-2e3,"
                   "null,{\"b\":\"\\u00e9\\n\"}]}}"),
};
const size_t fuzz_seed_count = sizeof fuzz_seeds / sizeof fuzz_seeds[0];
