/* What generated kernels call: workspace memory and parallel loops. */
#ifndef TVM_RUNTIME_C_BACKEND_API_H_
#define TVM_RUNTIME_C_BACKEND_API_H_

#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A packed function: arguments with their type codes in, one result out. 0, or -1 on failure. */
typedef int (*TVMBackendPackedCFunc)(TVMValue *args, int *type_codes, int num_args,
                                     TVMValue *out_ret_value, int *out_ret_tcode,
                                     void *resource_handle);

/* `nbytes` of workspace from TVMPlatformMemoryAllocate, or NULL when there is not enough. Blocks
 * are given back in the reverse order of their allocation. The hints name the element type (a
 * DLDataTypeCode and a width) and are not used. */
TVM_DLL void *TVMBackendAllocWorkspace(int device_type, int device_id, uint64_t nbytes,
                                       int dtype_code_hint, int dtype_bits_hint);

/* Gives back a block of TVMBackendAllocWorkspace. 0, or a tvm_crt_error_t. */
TVM_DLL int TVMBackendFreeWorkspace(int device_type, int device_id, void *ptr);

/* What a task of a parallel loop knows about its group. */
typedef struct {
  void *sync_handle; /* for barriers; the C runtime has none */
  int32_t num_task;
} TVMParallelGroupEnv;

typedef int (*FTVMParallelLambda)(int task_id, TVMParallelGroupEnv *penv, void *cdata);

/* Runs `flambda` as a group of one task, in this thread, whatever `num_task` asks for. Returns what
 * the task returns: 0, or -1 on failure. */
TVM_DLL int TVMBackendParallelLaunch(FTVMParallelLambda flambda, void *cdata, int num_task);

/* Would wait for the other tasks of the group, but a group has one: 0. */
TVM_DLL int TVMBackendParallelBarrier(int task_id, TVMParallelGroupEnv *penv);

/* Calls `f` with `cdata` unless it was called for this `handle` before, which starts as NULL. What
 * `f` returns; 0 for the calls that are left out. */
TVM_DLL int TVMBackendRunOnce(void **handle, int (*f)(void *), void *cdata, int nbytes);

/* Makes a TVMBackendPackedCFunc global, as TVMFuncRegisterGlobal does. */
TVM_DLL int TVMBackendRegisterSystemLibSymbol(const char *name, void *ptr);

/* The global function `func_name`: kTvmErrorFunctionNameNotFound, and NULL, when there is none. C
 * modules have no imports, so `mod_node` is not looked at. */
TVM_DLL int TVMBackendGetFuncFromEnv(void *mod_node, const char *func_name, TVMFunctionHandle *out);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_C_BACKEND_API_H_ */
