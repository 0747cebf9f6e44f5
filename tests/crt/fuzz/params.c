/* Any bytes as parameters of a graph: all of them are loaded, or none, and nothing else changes. */
#include "fuzz.h"

#include <string.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor.h>

static const char kGraph[] =
    "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]},{\"op\":\"null\",\"name\":\"p0\","
    "\"inputs\":[]},{\"op\":\"null\",\"name\":\"p1\",\"inputs\":[]}],\"arg_nodes\":[0,1,2],"
    "\"heads\":[[0,0,0]],\"attrs\":{\"dltype\":[\"list_str\",[\"float32\",\"int16\",\"bool\"]],"
    "\"storage_id\":[\"list_int\",[0,1,2]],\"shape\":[\"list_shape\",[[1,2],[3],[]]]},"
    "\"node_row_ptr\":[0,1,2,3]}";

enum { kArgs = 3 };
static const size_t kBytes[kArgs] = {8, 6, 1};

static TVMGraphExecutor *the_graph(void) {
  static const TVMFuncRegistry kRegistry = {"\000\000", NULL};
  static const TVMModule kModule = {&kRegistry};
  static TVMGraphExecutor *graph;
  if (graph == NULL) {
    const DLDevice cpu = {kDLCPU, 0};
    TVMModuleHandle module;
    REQUIRE(TVMInitializeRuntime() == kTvmErrorNoError);
    REQUIRE(TVMModCreateFromCModule(&kModule, &module) == 0);
    REQUIRE(TVMGraphExecutor_Create(kGraph, module, &cpu, &graph) == 0);
  }
  return graph;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  TVMGraphExecutor *const graph = the_graph();
  const int blocks = fuzz_live_blocks;
  int code;
  int i;
  size_t k;
  for (i = 0; i < kArgs; i++) {
    memset(TVMGraphExecutor_GetInputTensor(graph, i)->data, 0x5a, kBytes[i]);
  }
  code = TVMGraphExecutor_LoadParams(graph, (const char *)data, (uint32_t)size);
  for (i = 0; code != 0 && i < kArgs; i++) {
    for (k = 0; k < kBytes[i]; k++) {
      REQUIRE(((uint8_t *)TVMGraphExecutor_GetInputTensor(graph, i)->data)[k] == 0x5a);
    }
  }
  REQUIRE(fuzz_live_blocks == blocks);
  return 0;
}

#define SEED(text)                                                                                 \
  { text, sizeof(text) - 1 }
#define ZERO  "\0\0\0\0\0\0\0\0"
#define LIST  "\xb7\x9c\x04\x05\x4f\x8d\xe5\xf7" ZERO
#define ARRAY "\x3f\xa1\xb4\x96\xf0\x40\x5e\xdd" ZERO "\1\0\0\0\0\0\0\0"

const fuzz_seed fuzz_seeds[] = {
    SEED(LIST ZERO ZERO),
    SEED(LIST "\1\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0x\1\0\0\0\0\0\0\0" ARRAY
              "\2\0\0\0\2\x20\1\0\1\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\x8\0\0\0\0\0\0\0"
              "abcdefgh"),
    SEED(LIST "\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0p1\2\0\0\0\0\0\0\0p0\2\0\0\0\0\0\0\0" ARRAY
              "\0\0\0\0\1\1\1\0\1\0\0\0\0\0\0\0\1" ARRAY
              "\1\0\0\0\0\x10\1\0\3\0\0\0\0\0\0\0\6\0\0\0\0\0\0\0"
              "abcdef"),
};
const size_t fuzz_seed_count = sizeof fuzz_seeds / sizeof fuzz_seeds[0];
