/* Handles, as the parts of the runtime see them: modules that own memory, names of functions, and
 * memory that was asked for in vain. */
#ifndef TVM_RUNTIME_CRT_INTERNAL_COMMON_MODULES_H_
#define TVM_RUNTIME_CRT_INTERNAL_COMMON_MODULES_H_

#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/module.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Gives back what a module owns. 0 or a code. */
typedef int (*TVMModuleDeleter)(const TVMModule *module);

/* TVMModCreateFromCModule for a module that is made and freed while the program runs. TVMModFree
 * calls the deleter, and the handle is not given to another module for the next 126. */
int TVMModCreateOwned(const TVMModule *mod, TVMModuleDeleter deleter, TVMModuleHandle *out_handle);

/* Frees a module that has a deleter. Others, and handles that are no longer valid, stay as they
 * are: a host frees each of its objects once, and several can be the system library. */
int TVMModFreeIfOwned(TVMModuleHandle mod);

/* Frees all modules that have a deleter. 0, or the first code. */
int TVMModFreeAllOwned(void);

/* The name that a function is registered by; "a function" for handles of none. */
const char *TVMFuncName(TVMFunctionHandle func);

/* TVMPlatformMemoryAllocate, remembering the size when there was no memory for it. */
tvm_crt_error_t TVMMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr);
size_t TVMMemoryLastRefused(void);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_INTERNAL_COMMON_MODULES_H_ */
