/* The aot executor as a module of packed functions, for a host that drives the device. */
#ifndef TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_
#define TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_

#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Registers the global function tvm.aot_executor.create, which takes (module, device, module name)
 * and returns a module with the functions get_input, get_input_index, get_num_inputs,
 * get_num_outputs, get_output, load_params, run, set_input and more. There is one executor at a
 * time: kTvmErrorExecutorModuleAlreadyCreated for a second. */
tvm_crt_error_t TVMAotExecutorModule_Register(void);

/* Ends the executor, if there is one, and gives back its memory. Its module handle is to be freed
 * with TVMModFree. */
int TVMAotExecutorModule_Reset(void);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_AOT_EXECUTOR_MODULE_H_ */
