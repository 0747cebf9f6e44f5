/* The one call that readies the C runtime. */
#ifndef TVM_RUNTIME_CRT_CRT_H_
#define TVM_RUNTIME_CRT_CRT_H_

#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Forgets all modules and global functions, then registers the runtime's own: runtime.SystemLib,
 * tvm.rpc.server.ModuleGetFunction, tvm.rpc.server.GetCRTMaxPacketSize, runtime.RPCTimeEvaluator
 * and tvm.contrib.random.random_fill. Call it after TVMPlatformInitialize and before all else. */
tvm_crt_error_t TVMInitializeRuntime(void);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_CRT_H_ */
