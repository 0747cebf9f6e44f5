/* The RPC server's executors side by side, graphs, and times. Prints what failed, exits 1 if any.
 */
#include "rpc_client.h"

#include <tvm/runtime/crt/graph_executor_module.h>

static void free_module(uint64_t module) {
  start();
  sequence(CODES(3, 0));
  put(&body, module, 8);
  put(&body, 9, 8);
  EXPECT(ask(10, &body) == kReturn && is_void());
}

static void modules_run_side_by_side(void) {
  const size_t left = TVMPlatformMemoryLeft();
  const uint64_t a = aot("a");
  const uint64_t b = aot("b");
  const uint64_t again = aot("a");
  EXPECT(a != b && b != again && a != again);
  EXPECT(copy_to(tensor_of(a, "get_input"), 0, "\1\2\3\4", 4) == kReturn);
  EXPECT(copy_to(tensor_of(b, "get_input"), 0, "\5\6\7\10", 4) == kReturn);
  call(function_of(a, "run"));
  sequence(0, NULL);
  EXPECT(ask(3, &body) == kReturn && result(4) == 0);
  call(function_of(b, "run"));
  sequence(0, NULL);
  EXPECT(ask(3, &body) == kReturn && result(4) == 0);
  EXPECT(copy_from(tensor_of(a, "get_output"), 0, 4) == 8);
  EXPECT(memcmp(answer + 12, "\2\3\4\5", 4) == 0);
  EXPECT(copy_from(tensor_of(b, "get_output"), 0, 4) == 8);
  EXPECT(memcmp(answer + 12, "\6\7\10\11", 4) == 0);
  free_module(a);
  EXPECT(function_of(a, "run") == 0 && refused("was freed or replaced"));
  free_module(a); /* twice does no harm, and the system library stays */
  free_module(system_lib());
  EXPECT(function_of(system_lib(), "echo") != 0);
  free_module(b);
  free_module(again);
  EXPECT(TVMPlatformMemoryLeft() == left);
}

/* A host makes executor after executor, and drops none. */
static void the_oldest_executor_makes_room(void) {
  uint64_t first = 0;
  int i;
  for (i = 0; i < 300; i++) {
    const uint64_t module = aot("a");
    EXPECT(module != 0 && module != first);
    first = i == 0 ? module : first;
    EXPECT(function_of(module, "run") != 0);
  }
  begin_session();
}

static void measured(const char *name, int64_t number, int64_t repeat, int64_t min_ms) {
  const uint64_t lib = system_lib();
  uint64_t f;
  int i;
  call(global("runtime.RPCTimeEvaluator"));
  sequence(CODES(9, 11, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11));
  put(&body, lib, 8);
  put_text(name);
  put(&body, 1, 8);
  put(&body, 0, 8);
  put(&body, (uint64_t)number, 8);
  put(&body, (uint64_t)repeat, 8);
  put(&body, (uint64_t)min_ms, 8);
  put(&body, 100, 8);
  put(&body, 5, 8); /* cooldown */
  for (i = 0; i < 2; i++) {
    put(&body, 0, 8);
  }
  put_text("");
  if (ask(3, &body) == kReturn) {
    f = result(10);
    call(f);
    sequence(0, NULL);
    (void)ask(3, &body);
  }
}

static void times_are_measured(void) {
  int i;
  measured("tvmgen_a_run", 10, 3, 0);
  EXPECT(result(12) == 24 && answer_size == 40 + 24);
  for (i = 0; i < 3 && answer_size == 64; i++) {
    const uint64_t bits = number_at(answer + 40 + 8 * i, 8);
    double seconds;
    memcpy(&seconds, &bits, 8);
    EXPECT(seconds > 0.999e-6 && seconds < 1.001e-6);
  }
  calls = 0;
  measured("tvmgen_a_run", 1, 2, 1); /* a thousand calls make a millisecond */
  EXPECT(calls >= 2000 && calls < 10000);
  measured("tvmgen_a_run", 1, 300, 0);
  EXPECT(refused("more bytes than a packet holds"));
  measured("tvmgen_a_run", 0, 1, 0);
  EXPECT(refused("runtime.RPCTimeEvaluator: error 0x803"));
  measured("none", 1, 1, 0);
  EXPECT(refused("runtime.RPCTimeEvaluator: error 0x100: no function named none"));
  measured("fails", 1, 1, 0);
  EXPECT(refused("runtime.RPCTimeEvaluator: error -3"));
}

/* A graph that is too long for a packet comes in a tensor. */
static void graphs_come_in_tensors(void) {
  static const char kGraph[] =
      "{\"nodes\":[{\"op\":\"null\",\"name\":\"x\",\"inputs\":[]}],\"arg_nodes\":[0],\"heads\":[["
      "0,0,0]],\"attrs\":{\"dltype\":[\"list_str\",[\"int8\"]],\"storage_id\":[\"list_int\",[0]],"
      "\"shape\":[\"list_shape\",[[4]]]},\"node_row_ptr\":[0,1]}";
  const int64_t shape[] = {sizeof kGraph - 1};
  const uint64_t lib = system_lib();
  const uint64_t text = allocated(sizeof kGraph, 16);
  EXPECT(copy_to(text, 0, kGraph, sizeof kGraph - 1) == kReturn);
  call(global("tvm.graph_executor.create"));
  sequence(CODES(7, 9, 0, 0));
  put_tensor(text, 8, 1, shape, 0);
  put(&body, lib, 8);
  put(&body, 1, 8);
  put(&body, 0, 8);
  EXPECT(ask(3, &body) == kReturn);
  EXPECT(tensor_of(result(9), "get_input") != 0);
}

int main(void) {
  boot();
  EXPECT(TVMGraphExecutorModule_Register() == kTvmErrorNoError);
  modules_run_side_by_side();
  the_oldest_executor_makes_room();
  times_are_measured();
  graphs_come_in_tensors();
  return failures != 0;
}
