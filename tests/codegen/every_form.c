/* Runs modules of one archive in every form there is: by struct, by packed entry point found in the
 * system library, by the graph executor. Knows nothing of the compiler: tensors are in table.h,
 * made of the archive's JSON; graphs and parameters are read from the archive's files.
 *
 * For each module reads <name>.in, runs it twice with the same inputs, and writes <name>.out.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tvm/runtime/crt/crt.h>
#include <tvm/runtime/crt/graph_executor.h>
#include <tvm/runtime/crt/packed_func.h>

struct tensor {
  const char *name;
  size_t bytes;
  int ndim;
  DLDataType dtype;
  int64_t shape[8];
};

struct module {
  const char *name;
  const struct tensor *tensors;
  int inputs, outputs;
  int32_t (*run)(void **at); /* the struct interface, or NULL */
  int graph;
};

#include "table.h"

#define MAX_TENSORS 16

static void need(int condition, const char *module, const char *what) {
  if (!condition) {
    fprintf(stderr, "%s: %s\n", module, what);
    exit(1);
  }
}

static void *read_file(const char *module, const char *end, size_t *size) {
  char path[256];
  FILE *file;
  long length;
  char *data;
  snprintf(path, sizeof path, "%s%s", module, end);
  file = fopen(path, "rb");
  need(file != NULL, module, path);
  fseek(file, 0, SEEK_END);
  length = ftell(file);
  rewind(file);
  data = malloc((size_t)length + 1);
  need(fread(data, 1, (size_t)length, file) == (size_t)length, module, "cannot read");
  data[length] = '\0';
  fclose(file);
  *size = (size_t)length;
  return data;
}

static TVMModuleHandle system_lib(void) {
  TVMFunctionHandle function;
  TVMValue value, unused;
  int code, no_code = kTVMNullptr;
  unused.v_handle = NULL;
  need(TVMFuncGetGlobal("runtime.SystemLib", &function) == 0, "runtime", "no SystemLib");
  need(TVMFuncCall(function, &unused, &no_code, 0, &value, &code) == 0, "runtime", "SystemLib");
  return value.v_handle;
}

static void run_packed(const struct module *m, DLTensor *tensors) {
  char name[256];
  TVMFunctionHandle function;
  TVMValue values[MAX_TENSORS], result;
  int codes[MAX_TENSORS], code, i;
  snprintf(name, sizeof name, "tvmgen_%s_run", m->name);
  need(TVMModGetFunction(system_lib(), name, 0, &function) == 0 && function, m->name, "not found");
  for (i = 0; i < m->inputs + m->outputs; i++) {
    values[i].v_handle = &tensors[i];
    codes[i] = i % 2 ? kTVMDLTensorHandle : kTVMNDArrayHandle;
  }
  need(TVMFuncCall(function, values, codes, m->inputs + m->outputs, &result, &code) == 0, m->name,
       "run failed");
}

static void run_graph(const struct module *m, DLTensor *tensors) {
  const DLDevice cpu = {kDLCPU, 0};
  TVMGraphExecutor *executor = NULL;
  size_t size;
  char *graph = read_file(m->name, ".graph", &size);
  char *params;
  int i, k;
  need(TVMGraphExecutor_Create(graph, system_lib(), &cpu, &executor) == 0, m->name, "Create");
  params = read_file(m->name, ".params", &size);
  need(TVMGraphExecutor_LoadParams(executor, params, (uint32_t)size) == 0, m->name, "LoadParams");
  for (k = 0; k < 2; k++) {
    for (i = 0; i < m->inputs; i++) {
      need(TVMGraphExecutor_SetInput(executor, m->tensors[i].name, &tensors[i]) == 0, m->name,
           "SetInput");
    }
    need(TVMGraphExecutor_Run(executor) == 0, m->name, "Run");
  }
  need(TVMGraphExecutor_GetNumOutputs(executor) == m->outputs, m->name, "outputs");
  for (i = 0; i < m->outputs; i++) {
    need(TVMGraphExecutor_GetOutput(executor, i, &tensors[m->inputs + i]) == 0, m->name,
         "GetOutput");
  }
  need(TVMGraphExecutor_Release(&executor) == 0, m->name, "Release");
  free(graph);
  free(params);
}

int main(void) {
  size_t k;
  for (k = 0; k < sizeof modules / sizeof modules[0]; k++) {
    const struct module *m = &modules[k];
    DLTensor tensors[MAX_TENSORS];
    void *at[MAX_TENSORS];
    char path[256];
    FILE *file;
    size_t size, used = 0;
    char *data = read_file(m->name, ".in", &size);
    int i;
    need(TVMInitializeRuntime() == 0, m->name, "TVMInitializeRuntime");
    for (i = 0; i < m->inputs + m->outputs; i++) {
      const struct tensor *t = &m->tensors[i];
      at[i] = malloc(t->bytes);
      memset(at[i], 0xa5, t->bytes);
      if (i < m->inputs) {
        memcpy(at[i], data + used, t->bytes);
        used += t->bytes;
      }
      memset(&tensors[i], 0, sizeof tensors[i]);
      tensors[i].data = at[i];
      tensors[i].device.device_type = kDLCPU;
      tensors[i].ndim = t->ndim;
      tensors[i].dtype = t->dtype;
      tensors[i].shape = (int64_t *)t->shape;
    }
    need(used == size, m->name, "size of inputs");
    if (m->run != NULL) {
      need(m->run(at) == 0 && m->run(at) == 0, m->name, "run failed");
    } else if (m->graph) {
      run_graph(m, tensors);
    } else {
      run_packed(m, tensors);
      run_packed(m, tensors);
    }
    need(memcmp(data, at[0], m->tensors[0].bytes) == 0, m->name, "an input was overwritten");
    snprintf(path, sizeof path, "%s.out", m->name);
    file = fopen(path, "wb");
    for (i = 0; i < m->inputs + m->outputs; i++) {
      if (i >= m->inputs) {
        fwrite(at[i], 1, m->tensors[i].bytes, file);
      }
      free(at[i]);
    }
    fclose(file);
    free(data);
  }
  return 0;
}
