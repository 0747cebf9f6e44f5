/* The aot executor as a module of packed functions, for a host that drives the device. */
#ifndef TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_
#define TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_

#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Registers the global function tvm.aot_executor.create, which takes (module, device, module name)
 * and returns a module with the functions get_input, get_input_index, get_num_inputs,
 * get_num_outputs, get_output, load_params, run, set_input and more. TVMModFree ends the
 * module's executor. There can be TVM_CRT_MAX_REGISTERED_MODULES - 1; another one takes the place
 * of the oldest, whose handles are invalid from then on. */
tvm_crt_error_t TVMAotExecutorModule_Register(void);

/* Ends all executors and gives back their memory. Their module handles are to be freed with
 * TVMModFree. */
int TVMAotExecutorModule_Reset(void);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_ */
