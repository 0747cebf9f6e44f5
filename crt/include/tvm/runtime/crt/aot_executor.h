/* Runs a module that was compiled with executor aot, interface `packed` and a system library: the
 * tensors are described by `tvmgen_<module>_get_c_metadata`, the entry is `tvmgen_<module>_run`. */
#ifndef TVM_RUNTIME_CRT_AOT_EXECUTOR_H_
#define TVM_RUNTIME_CRT_AOT_EXECUTOR_H_

#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/internal/common/ndarray.h>
#include <tvm/runtime/metadata_types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TVMMetadata TVMMetadata;

/* `args` are the inputs, the outputs and the workspace pools in the order of the metadata; the
 * application writes to and reads from args[i].dl_tensor.data. */
typedef struct TVMAotExecutor {
  const TVMMetadata *metadata;
  TVMModuleHandle module_handle;
  DLDevice device;
  TVMNDArray *args;
  int64_t num_args;
} TVMAotExecutor;

/* Finds the module's functions and allocates its tensors, zeroed. 0; otherwise `*executor` is NULL:
 * kTvmErrorFunctionNameNotFound when the module has no such functions, -1 for metadata that make no
 * sense, kTvmErrorPlatformNoMemory. */
int TVMAotExecutor_Create(TVMModuleHandle module_handle, const DLDevice device,
                          TVMAotExecutor **executor, const char *module_name);

/* Gives back all memory, in the reverse order of its allocation. `executor` may be NULL. */
int TVMAotExecutor_Release(TVMAotExecutor *executor, const DLDevice device);

int TVMAotExecutor_GetNumInputs(TVMAotExecutor *executor);
int TVMAotExecutor_GetNumOutputs(TVMAotExecutor *executor);

/* -1 when there is no such input. */
int TVMAotExecutor_GetInputIndex(TVMAotExecutor *executor, const char *name);

/* 0, or -1 (and nothing stored) for an index out of range. */
int TVMAotExecutor_GetInputName(TVMAotExecutor *executor, int index, const char **name);

/* Calls the module. 0, or what its run function returns. */
int TVMAotExecutor_Run(TVMAotExecutor *executor);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_AOT_EXECUTOR_H_ */
