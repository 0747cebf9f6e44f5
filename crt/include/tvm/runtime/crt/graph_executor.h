/* Runs a graph (executor-config/graph/<module>.graph) of packed functions.
 *
 * Everything is checked when the graph is created; nothing is allocated afterwards. An executor
 * takes two blocks from TVMPlatformMemoryAllocate and gives them back in the reverse order, so that
 * a stack of blocks will do as the platform's memory. */
#ifndef TVM_RUNTIME_CRT_GRAPH_EXECUTOR_H_
#define TVM_RUNTIME_CRT_GRAPH_EXECUTOR_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/packed_func.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TVMGraphExecutor TVMGraphExecutor;

/* Reads a graph, finds its functions in the module and allocates its tensors, zeroed, on
 * devices[0]. The text is not needed afterwards. 0; otherwise `*executor` is NULL: -1 for a text
 * that is no such graph, or a code (kTvmErrorFunctionNameNotFound, kTvmErrorPlatformNoMemory,
 * kTvmErrorGeneratedInvalidStorageId). */
int TVMGraphExecutor_Create(const char *sym_json, TVMModuleHandle module_handle,
                            const DLDevice *devices, TVMGraphExecutor **executor);

/* The same for a text that does not end in NUL. */
int TVMGraphExecutor_CreateSized(const char *sym_json, size_t length, TVMModuleHandle module_handle,
                                 const DLDevice *devices, TVMGraphExecutor **executor);

/* Inputs, in the order of the graph's arg_nodes; parameters are inputs too. -1 for no such name. */
int TVMGraphExecutor_GetNumInputs(TVMGraphExecutor *executor);
int TVMGraphExecutor_GetInputIndex(TVMGraphExecutor *executor, const char *name);

/* Makes the graph read this input from data_in->data, which is not copied and must stay valid while
 * the graph runs. -1 when there is no such input, kTvmErrorFunctionCallInvalidArg when the tensor
 * differs in type or number of elements, or is not compact. */
int TVMGraphExecutor_SetInput(TVMGraphExecutor *executor, const char *name, DLTensor *data_in);

int TVMGraphExecutor_GetNumOutputs(TVMGraphExecutor *executor);

/* Copies an output to out->data. `out` has the output's rank, type and number of elements. */
int TVMGraphExecutor_GetOutput(TVMGraphExecutor *executor, const int32_t index, DLTensor *out);

/* Copies the parameters of a .params file to the inputs of their names: all of them, or none if
 * anything is wrong. 0 or -1. */
int TVMGraphExecutor_LoadParams(TVMGraphExecutor *executor, const char *param_blob,
                                const uint32_t param_size);

/* Calls the functions in order. 0, or what the first that fails returns. */
int TVMGraphExecutor_Run(TVMGraphExecutor *executor);

/* Gives back all memory and makes `*executor` NULL, which it may be already. */
int TVMGraphExecutor_Release(TVMGraphExecutor **executor);

/* Beyond TVM: the tensors themselves, and the names. NULL for an index out of range. A tensor's
 * data is where the graph reads or writes it; do not change anything else of it. */
DLTensor *TVMGraphExecutor_GetInputTensor(TVMGraphExecutor *executor, int index);
DLTensor *TVMGraphExecutor_GetOutputTensor(TVMGraphExecutor *executor, int index);
const char *TVMGraphExecutor_GetInputName(TVMGraphExecutor *executor, int index);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_GRAPH_EXECUTOR_H_ */
