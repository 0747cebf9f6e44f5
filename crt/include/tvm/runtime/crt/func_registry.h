/* Tables of functions by name: what generated code exports, and what an application adds. */
#ifndef TVM_RUNTIME_CRT_FUNC_REGISTRY_H_
#define TVM_RUNTIME_CRT_FUNC_REGISTRY_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef uint16_t tvm_function_index_t;
typedef uint16_t tvm_module_index_t;

/* `names` is the number of functions in two bytes, low byte first; then each name with its NUL, in
 * the order of `funcs`; then one more NUL. Also understood, by probing: the count in one byte, as
 * TVM wrote it before release 0.9, and in two bytes with the high byte first, as TVM's runtime
 * makes it on a big-endian machine. */
typedef struct TVMFuncRegistry {
  const char *names;
  const TVMBackendPackedCFunc *funcs;
} TVMFuncRegistry;

uint16_t TVMFuncRegistry_GetNumFuncs(const TVMFuncRegistry *reg);

/* Writes the count, in two bytes, through the `names` of a registry in RAM. */
int TVMFuncRegistry_SetNumFuncs(const TVMFuncRegistry *reg, const uint16_t num_funcs);

/* Where the names start. */
const char *TVMFuncRegistry_Get0thFunctionName(const TVMFuncRegistry *reg);

/* The index of a function: kTvmErrorFunctionNameNotFound, and nothing changed, if there is none. */
tvm_crt_error_t TVMFuncRegistry_Lookup(const TVMFuncRegistry *reg, const char *name,
                                       tvm_function_index_t *function_index);

/* The function of an index: kTvmErrorFunctionIndexInvalid, and nothing changed, if too large. */
tvm_crt_error_t TVMFuncRegistry_GetByIndex(const TVMFuncRegistry *reg, tvm_function_index_t index,
                                           TVMBackendPackedCFunc *out_func);

/* A registry that takes new functions. The buffer holds the names from its start and the functions
 * at its end. */
typedef struct TVMMutableFuncRegistry {
  TVMFuncRegistry registry;
  size_t max_functions;
} TVMMutableFuncRegistry;

/* How many functions a buffer is made for: its size divided by that of an entry with a name of this
 * length. Longer names mean fewer functions. */
#define TVM_AVERAGE_FUNCTION_NAME_SIZE_BYTES 10
#define kTvmAverageFunctionNameSizeBytes     ((size_t)TVM_AVERAGE_FUNCTION_NAME_SIZE_BYTES)
#define kTvmAverageFuncEntrySizeBytes        (kTvmAverageFunctionNameSizeBytes + 1 + sizeof(void *))

/* kTvmErrorBufferTooSmall when not even one function fits. */
tvm_crt_error_t TVMMutableFuncRegistry_Create(TVMMutableFuncRegistry *reg, uint8_t *buffer,
                                              size_t buffer_size_bytes);

/* Adds a function, copying its name, or replaces one if `override` is not 0. Otherwise
 * kTvmErrorFunctionAlreadyDefined; kTvmErrorFunctionRegistryFull when there is no more room. */
tvm_crt_error_t TVMMutableFuncRegistry_Set(TVMMutableFuncRegistry *reg, const char *name,
                                           TVMBackendPackedCFunc func, int override);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_FUNC_REGISTRY_H_ */
