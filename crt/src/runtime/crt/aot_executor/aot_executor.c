/* The AOT executor: tensors as the module's metadata describe them, and one call. */
#include <string.h>
#include <tvm/runtime/crt/aot_executor.h>
#include <tvm/runtime/crt/internal/common/modules.h>
#include <tvm/runtime/crt/platform.h>

enum { kMaxFunctionName = TVM_CRT_MAX_STRLEN_FUNCTION_NAME };

/* "<prefix><name><suffix>" in `out`. */
static int join(char *out, const char *prefix, const char *name, const char *suffix) {
  const char *const pieces[] = {prefix, name, suffix};
  size_t used = 0;
  size_t i;
  for (i = 0; i < 3; i++) {
    const size_t length = strlen(pieces[i]);
    if (length >= kMaxFunctionName - used) {
      TVMAPISetLastError("a module name that is too long");
      return kTvmErrorBufferTooSmall;
    }
    memcpy(out + used, pieces[i], length + 1);
    used += length;
  }
  return 0;
}

/* Asks the module what its tensors are. */
static int get_metadata(TVMModuleHandle module, const char *module_name,
                        const TVMMetadata **metadata) {
  char name[kMaxFunctionName];
  TVMFunctionHandle function;
  TVMValue result;
  int result_tcode = kTVMNullptr;
  int code = join(name, "tvmgen_", module_name, "_get_c_metadata");
  if (code == 0) {
    code = TVMModGetFunction(module, name, 0, &function);
  }
  if (code == 0) {
    code = TVMFuncCall(function, NULL, NULL, 0, &result, &result_tcode);
  }
  if (code != 0) {
    return code;
  }
  if (result_tcode != kTVMOpaqueHandle || result.v_handle == NULL) {
    TVMAPIErrorf("%s returns no metadata", name);
    return -1;
  }
  *metadata = result.v_handle;
  return 0;
}

/* Within [0, INT32_MAX / 4]: four of them can be added. */
static int is_count(int64_t n) {
  return n >= 0 && n <= INT32_MAX / 4;
}

static int check_metadata(const TVMMetadata *m) {
  if (m->version != TVM_METADATA_VERSION || !is_count(m->num_inputs) || !is_count(m->num_outputs) ||
      !is_count(m->num_workspace_pools) || m->mod_name == NULL) {
    TVMAPISetLastError("metadata of another version");
    return -1;
  }
  return 0;
}

static const struct TVMTensorInfo *info_of(const TVMMetadata *m, int64_t arg) {
  if (arg < m->num_inputs) {
    return &m->inputs[arg];
  }
  arg -= m->num_inputs;
  return arg < m->num_outputs ? &m->outputs[arg] : &m->workspace_pools[arg - m->num_outputs];
}

/* Tensors for all arguments. Counts them as it goes, so that Release knows which exist. */
static int allocate_args(TVMAotExecutor *e) {
  const TVMMetadata *const m = e->metadata;
  const int64_t wanted = m->num_inputs + m->num_outputs + m->num_workspace_pools;
  while (e->num_args < wanted) {
    const struct TVMTensorInfo *const info = info_of(m, e->num_args);
    TVMNDArray *const arg = &e->args[e->num_args];
    int code;
    if (info->num_shape < 0 || info->num_shape > kTvmMostDimensions) {
      TVMAPIErrorf("a rank beyond 32: %s", info->name);
      return -1;
    }
    code = TVMNDArray_Empty((int32_t)info->num_shape, info->shape, info->dtype, e->device, arg);
    if (code != 0) {
      TVMAPIErrorf("no memory for %s", info->name);
      return code;
    }
    if (arg->dl_tensor.data != NULL) {
      memset(arg->dl_tensor.data, 0, (size_t)TVMNDArray_DataSizeBytes(arg));
    }
    e->num_args++;
  }
  return 0;
}

/* The values and type codes of the call follow the arguments. */
static TVMValue *values_of(const TVMAotExecutor *e, int64_t num_args) {
  return (TVMValue *)(void *)(e->args + num_args);
}

/* The executor and its tables in one block. */
static int allocate(const TVMMetadata *m, DLDevice device, TVMAotExecutor **executor) {
  const size_t head = (sizeof **executor + 7) / 8 * 8;
  const uint64_t rows = (uint64_t)(m->num_inputs + m->num_outputs + m->num_workspace_pools);
  const uint64_t bytes = head + rows * (sizeof(TVMNDArray) + sizeof(TVMValue) + sizeof(int));
  void *block = NULL;
  int code = kTvmErrorPlatformNoMemory;
  if (bytes <= SIZE_MAX / 2) {
    code = (int)TVMMemoryAllocate((size_t)bytes, device, &block);
  }
  if (code != 0) {
    TVMAPISetLastError("no memory for the executor");
    return code;
  }
  memset(block, 0, (size_t)bytes);
  *executor = block;
  (*executor)->metadata = m;
  (*executor)->device = device;
  (*executor)->args = (TVMNDArray *)(void *)((uint8_t *)block + head);
  return 0;
}

int TVMAotExecutor_Create(TVMModuleHandle module_handle, const DLDevice device,
                          TVMAotExecutor **executor, const char *module_name) {
  const TVMMetadata *metadata = NULL;
  int code;
  *executor = NULL;
  code = get_metadata(module_handle, module_name, &metadata);
  if (code == 0) {
    code = check_metadata(metadata);
  }
  if (code == 0) {
    code = allocate(metadata, device, executor);
  }
  if (code != 0) {
    return code;
  }
  (*executor)->module_handle = module_handle;
  code = allocate_args(*executor);
  if (code != 0) {
    (void)TVMAotExecutor_Release(*executor, device);
    *executor = NULL;
  }
  return code;
}

int TVMAotExecutor_Release(TVMAotExecutor *executor, const DLDevice device) {
  int first = 0;
  int code;
  if (executor == NULL) {
    return 0;
  }
  while (executor->num_args > 0) {
    code = TVMNDArray_Release(&executor->args[--executor->num_args]);
    first = first != 0 ? first : code;
  }
  code = (int)TVMPlatformMemoryFree(executor, device);
  return first != 0 ? first : code;
}

int TVMAotExecutor_GetNumInputs(TVMAotExecutor *executor) {
  return (int)executor->metadata->num_inputs;
}

int TVMAotExecutor_GetNumOutputs(TVMAotExecutor *executor) {
  return (int)executor->metadata->num_outputs;
}

int TVMAotExecutor_GetInputIndex(TVMAotExecutor *executor, const char *name) {
  int i;
  for (i = 0; i < TVMAotExecutor_GetNumInputs(executor); i++) {
    if (strcmp(executor->metadata->inputs[i].name, name) == 0) {
      return i;
    }
  }
  TVMAPIErrorf("no input named %s", name);
  return -1;
}

int TVMAotExecutor_GetInputName(TVMAotExecutor *executor, int index, const char **name) {
  if (index < 0 || index >= TVMAotExecutor_GetNumInputs(executor)) {
    TVMAPISetLastError("no such input");
    return -1;
  }
  *name = executor->metadata->inputs[index].name;
  return 0;
}

int TVMAotExecutor_Run(TVMAotExecutor *executor) {
  TVMValue *const values = values_of(executor, executor->num_args);
  int *const tcodes = (int *)(void *)(values + executor->num_args);
  char name[kMaxFunctionName];
  TVMFunctionHandle function;
  TVMValue result;
  int result_tcode = kTVMNullptr;
  int64_t i;
  int code = join(name, executor->metadata->mod_name, "_run", "");
  if (code == 0) {
    code = TVMModGetFunction(executor->module_handle, name, 0, &function);
  }
  if (code != 0) {
    return code;
  }
  for (i = 0; i < executor->num_args; i++) {
    values[i].v_handle = &executor->args[i].dl_tensor;
    tcodes[i] = kTVMDLTensorHandle;
  }
  return TVMFuncCall(function, values, tcodes, (int)executor->num_args, &result, &result_tcode);
}
