/* One network, three ways to run it, in one program.
 *
 * The archive every_gesture of executors.yaml holds it three times: called through a struct, called
 * as a packed function that is found by name, and run by the graph executor over functions that are
 * found by name. The last two share one system library. All give the same bits.
 */
#include <stdio.h>
#include <string.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/packed_func.h>

#include "tvmgen_gesture.h"
#include "tvmgen_gesture_graph_graph.h"

enum { kIn = TVMGEN_GESTURE_ACCELERATION_SIZE, kOut = TVMGEN_GESTURE_PROBABILITY_SIZE };

static int8_t acceleration[kIn];
static int8_t probability[3][kOut];

static int64_t in_shape[] = {1, 3, kIn / 3};
static int64_t out_shape[] = {1, kOut};

static DLTensor tensor(void *data, int64_t *shape, int32_t ndim) {
  const DLTensor made = {data, {kDLCPU, 0}, ndim, {kDLInt, 8, 1}, shape, NULL, 0};
  return made;
}

/* tvmgen_gesture_run: nothing but a function. */
static int by_struct(void) {
  struct tvmgen_gesture_inputs inputs = {acceleration};
  struct tvmgen_gesture_outputs outputs = {probability[0]};
  return tvmgen_gesture_run(&inputs, &outputs);
}

/* tvmgen_gesture_packed_run, found in the system library as TVM's applications do. */
static int by_packed_function(TVMModuleHandle functions) {
  DLTensor in = tensor(acceleration, in_shape, 3), out = tensor(probability[1], out_shape, 2);
  TVMValue values[2], result;
  int codes[2] = {kTVMDLTensorHandle, kTVMDLTensorHandle}, result_code = kTVMNullptr;
  TVMFunctionHandle run = NULL;
  int status = TVMModGetFunction(functions, "tvmgen_gesture_packed_run", 0, &run);
  if (status != 0) {
    return status;
  }
  values[0].v_handle = &in;
  values[1].v_handle = &out;
  return TVMFuncCall(run, values, codes, 2, &result, &result_code);
}

/* What the archive's graph says, over kernels of the system library. */
static int by_graph_executor(TVMModuleHandle functions) {
  const DLDevice device = {kDLCPU, 0};
  DLTensor in = tensor(acceleration, in_shape, 3), out = tensor(probability[2], out_shape, 2);
  TVMGraphExecutor *executor = NULL;
  int status = TVMGraphExecutor_CreateSized(
      tvmgen_gesture_graph_graph, tvmgen_gesture_graph_graph_size, functions, &device, &executor);
  if (status == 0) {
    status = TVMGraphExecutor_LoadParams(executor, tvmgen_gesture_graph_params,
                                         (uint32_t)tvmgen_gesture_graph_params_size);
  }
  if (status == 0) {
    status = TVMGraphExecutor_SetInput(executor, "acceleration", &in);
  }
  if (status == 0) {
    status = TVMGraphExecutor_Run(executor);
  }
  if (status == 0) {
    status = TVMGraphExecutor_GetOutput(executor, 0, &out);
  }
  TVMGraphExecutor_Release(&executor);
  return status;
}

int main(void) {
  TVMModuleHandle functions = NULL;
  int status;
  for (int i = 0; i < kIn; i++) {
    acceleration[i] = (int8_t)(i * 37 % 101 - 50);
  }
  status = (int)TVMInitializeRuntime();
  if (status == 0) {
    status = TVMModCreateFromCModule(TVMSystemLibEntryPoint(), &functions);
  }
  if (status != 0 || by_struct() != 0 || by_packed_function(functions) != 0) {
    printf("a run failed: %d\n", status);
    return 1;
  }
  if (by_graph_executor(functions) != 0) {
    printf("the graph: %s\n", TVMGetLastError());
    return 1;
  }
  if (memcmp(probability[0], probability[1], kOut) != 0 ||
      memcmp(probability[0], probability[2], kOut) != 0) {
    printf("the executors do not agree\n");
    return 1;
  }
  printf("most probable: gesture with %d of 127\n", probability[0][0]);
  return 0;
}
