/* A module in C: a registry of functions. */
#ifndef TVM_RUNTIME_CRT_MODULE_H_
#define TVM_RUNTIME_CRT_MODULE_H_

#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/func_registry.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct TVMModule {
  const TVMFuncRegistry *registry;
} TVMModule;

/* A handle for a module, which must stay where it is. A module that has one keeps it. -1 when
 * TVM_CRT_MAX_REGISTERED_MODULES are in use. */
int TVMModCreateFromCModule(const TVMModule *mod, TVMModuleHandle *out_handle);

/* The module of the functions that generated code exports. Defined in <module>_lib0.c of archives
 * made with a system library; the runtime also links without. */
const TVMModule *TVMSystemLibEntryPoint(void);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_MODULE_H_ */
