/* archive_client INPUTS OUTPUTS [GRAPH PARAMS]: runs the one module of the system library on
 * samples from a file: with the graph executor if there is a graph, else with the AOT executor
 * (module name "digits"). Written on crt/platform, so that it runs on the host and on a board. */
#include "platform.h"

#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/platform.h>

enum { kMaxFile = 32768 };
static char graph_text[kMaxFile];
static char param_bytes[kMaxFile];
static const DLDevice kCpu = {kDLCPU, 0};

/* 0, or the exit status: complains with the runtime's last message. */
static int check(int code, const char *what) {
  if (code != 0) {
    platform_complain(what);
    platform_complain(": ");
    platform_complain(TVMGetLastError());
    platform_complain("\n");
  }
  return code != 0;
}

static uint32_t read_whole(const char *path, char *bytes) {
  const platform_file file = platform_open_to_read(path);
  const int64_t size = file < 0 ? -1 : platform_size(file);
  if (size < 0 || size > kMaxFile || platform_read(file, bytes, (size_t)size) != 0) {
    return 0;
  }
  return platform_close(file) == 0 ? (uint32_t)size : 0;
}

typedef struct {
  TVMGraphExecutor *graph; /* one of them is NULL */
  TVMAotExecutor *aot;
} Executor;

static int create(TVMModuleHandle module, int argc, char **argv, Executor *e) {
  uint32_t size;
  e->graph = NULL;
  e->aot = NULL;
  if (argc < 5) {
    return check(TVMAotExecutor_Create(module, kCpu, &e->aot, "digits"), "create");
  }
  size = read_whole(argv[3], graph_text);
  if (check(TVMGraphExecutor_CreateSized(graph_text, size, module, &kCpu, &e->graph), "create")) {
    return 1;
  }
  size = read_whole(argv[4], param_bytes);
  return check(TVMGraphExecutor_LoadParams(e->graph, param_bytes, size), "load");
}

static DLTensor *input_of(const Executor *e) {
  return e->aot != NULL ? &e->aot->args[0].dl_tensor : TVMGraphExecutor_GetInputTensor(e->graph, 0);
}

static DLTensor *output_of(const Executor *e) {
  return e->aot != NULL ? &e->aot->args[e->aot->metadata->num_inputs].dl_tensor
                        : TVMGraphExecutor_GetOutputTensor(e->graph, 0);
}

static size_t bytes_of(const DLTensor *t) {
  size_t bytes = 0;
  return TVMTensor_SizeBytes(t->ndim, t->shape, t->dtype, &bytes) == 0 ? bytes : 0;
}

static int run_all(const Executor *e, platform_file from, platform_file to) {
  DLTensor *const in = input_of(e);
  DLTensor *const out = output_of(e);
  int64_t left = platform_size(from);
  for (; left > 0; left -= (int64_t)bytes_of(in)) {
    if (platform_read(from, in->data, bytes_of(in)) != 0) {
      return 1;
    }
    if (check(e->aot != NULL ? TVMAotExecutor_Run(e->aot) : TVMGraphExecutor_Run(e->graph),
              "run")) {
      return 1;
    }
    if (platform_write(to, out->data, bytes_of(out)) != 0) {
      return 1;
    }
  }
  return platform_close(to);
}

int main(int argc, char **argv) {
  TVMPackedFunc pf;
  Executor e;
  int status;
  if (argc < 3 || TVMPlatformInitialize() != kTvmErrorNoError ||
      TVMInitializeRuntime() != kTvmErrorNoError ||
      TVMPackedFunc_InitGlobalFunc(&pf, "runtime.SystemLib", NULL) != 0 ||
      check(TVMPackedFunc_Call(&pf), "system library") ||
      create(TVMArgs_AsModuleHandle(&pf.ret_value, 0), argc, argv, &e)) {
    return 2;
  }
  status = run_all(&e, platform_open_to_read(argv[1]), platform_open_to_write(argv[2]));
  if (e.aot != NULL) {
    return check(TVMAotExecutor_Release(e.aot, kCpu), "release") || status;
  }
  return check(TVMGraphExecutor_Release(&e.graph), "release") || status;
}
