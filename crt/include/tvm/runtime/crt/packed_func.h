/* Calling a function by its name, with arguments and results in fixed arrays. */
#ifndef TVM_RUNTIME_CRT_PACKED_FUNC_H_
#define TVM_RUNTIME_CRT_PACKED_FUNC_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/module.h>
#include <tvm/runtime/crt/platform.h>

#include "crt_config.h"

#ifdef __cplusplus
extern "C" {
#endif

/* "float32", "int8", "bool", "uint8x4"; a type of 0 bits when the text names none. */
DLDataType String2DLDataType(const char *s);

typedef struct TVMArgs {
  TVMValue values[TVM_CRT_MAX_ARGS];
  int tcodes[TVM_CRT_MAX_ARGS];
  uint32_t values_count;
} TVMArgs;

/* Copies at most TVM_CRT_MAX_ARGS arguments. */
TVMArgs TVMArgs_Create(TVMValue *values, uint32_t *tcodes, uint32_t values_count);

typedef struct TVMPackedFunc {
  char name[200];
  TVMFunctionHandle fexec;
  TVMArgs args;
  TVMArgs ret_value; /* one result after a call */
  int (*Call)(struct TVMPackedFunc *pf);
  void (*SetArgs)(struct TVMPackedFunc *pf, const struct TVMArgs *args);
} TVMPackedFunc;

/* 0; kTvmErrorFunctionNameNotFound when there is no such function; kTvmErrorBufferTooSmall for a
 * name of 200 characters or more. `args` may be NULL for none. */
int TVMPackedFunc_InitGlobalFunc(TVMPackedFunc *pf, const char *name, const TVMArgs *args);
int TVMPackedFunc_InitModuleFunc(TVMPackedFunc *pf, TVMModuleHandle module, const char *name,
                                 const TVMArgs *args);

/* Returns what the function returns. */
int TVMPackedFunc_Call(TVMPackedFunc *pf);

void TVMPackedFunc_SetArgs(TVMPackedFunc *pf, const TVMArgs *args);

/* The module among `args` at `index`; anything else there ends in TVMPlatformAbort. */
static inline TVMModuleHandle TVMArgs_AsModuleHandle(const TVMArgs *args, size_t index) {
  if (index >= args->values_count || args->tcodes[index] != kTVMModuleHandle) {
    TVMPlatformAbort(kTvmErrorFunctionCallWrongArgType);
  }
  return args->values[index].v_handle;
}

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_PACKED_FUNC_H_ */
