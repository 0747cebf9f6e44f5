/* loader GRAPH.json PARAMS [BLOCKS]: loads both and runs the graph, with a platform that gives
 * BLOCKS blocks of memory of at most 64 MiB. Exit 0 if they are accepted; 3, and the code and
 * message on standard output, if they are refused. Anything else is a fault. */
#include "fuzz/fuzz.h"

#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor.h>

static int nothing(TVMValue *args, int *tcodes, int n, TVMValue *ret, int *rcode, void *resource) {
  (void)args;
  (void)tcodes;
  (void)n;
  (void)ret;
  (void)rcode;
  (void)resource;
  return 0;
}

static const TVMBackendPackedCFunc kFunctions[] = {nothing};
static const TVMFuncRegistry kRegistry = {"\001\000add\0", kFunctions};
static const TVMModule kModule = {&kRegistry};

/* A file in a block of just its size, so that a sanitizer sees the first byte read beyond it. */
static char *read_file(const char *path, size_t *size) {
  FILE *const file = fopen(path, "rb");
  char *bytes;
  if (file == NULL || fseek(file, 0, SEEK_END) != 0) {
    exit(1);
  }
  *size = (size_t)ftell(file);
  rewind(file);
  bytes = malloc(*size > 0 ? *size : 1);
  if (bytes == NULL || fread(bytes, 1, *size, file) != *size) {
    exit(1);
  }
  fclose(file);
  return bytes;
}

int main(int argc, char **argv) {
  const DLDevice cpu = {kDLCPU, 0};
  TVMGraphExecutor *executor = NULL;
  TVMModuleHandle module;
  size_t size;
  char *bytes;
  int code;
  if (argc < 3 || TVMInitializeRuntime() != kTvmErrorNoError ||
      TVMModCreateFromCModule(&kModule, &module) != 0) {
    return 1;
  }
  if (argc == 4) {
    fuzz_blocks_left = atoi(argv[3]);
  }
  bytes = read_file(argv[1], &size);
  code = TVMGraphExecutor_CreateSized(bytes, size, module, &cpu, &executor);
  free(bytes); /* the executor does not need it any more */
  if (code == 0) {
    bytes = read_file(argv[2], &size);
    code = TVMGraphExecutor_LoadParams(executor, bytes, (uint32_t)size);
    free(bytes);
  }
  if (code == 0) {
    code = TVMGraphExecutor_Run(executor);
  }
  if (TVMGraphExecutor_Release(&executor) != 0 || fuzz_live_blocks != 0) {
    return 1;
  }
  if (code != 0) {
    printf("%d %s\n", code, TVMGetLastError());
    return 3;
  }
  return 0;
}
