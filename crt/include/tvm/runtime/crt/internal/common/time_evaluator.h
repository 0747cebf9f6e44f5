/* runtime.RPCTimeEvaluator: measures a function of a module. */
#ifndef TVM_RUNTIME_CRT_INTERNAL_COMMON_TIME_EVALUATOR_H_
#define TVM_RUNTIME_CRT_INTERNAL_COMMON_TIME_EVALUATOR_H_

#include <tvm/runtime/c_runtime_api.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The packed function: (module, name, device type, device id, number, repeat, min_repeat_ms, ...)
 * -> a function that takes the arguments of `name` and returns `repeat` times, each the mean of
 * `number` calls, as kTVMBytes of little-endian doubles in seconds. There is one such function: it
 * measures what was asked for last. Arguments beyond the seventh are for hosts. */
int TVMTimeEvaluator_Create(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_value,
                            int *ret_tcode, void *resource_handle);

/* Forgets what was asked for; and the handle of the function that Create returns. */
void TVMTimeEvaluator_Reset(void);
extern const TVMFunctionHandle kTVMTimeEvaluatorHandle;

/* What a call of that function does. */
int TVMTimeEvaluator_Call(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_value,
                          int *ret_tcode);

/* TVMFuncCall of any other function. The evaluator calls this one, so that nothing calls itself. */
int TVMPlainFunction_Call(TVMFunctionHandle func, TVMValue *arg_values, int *type_codes,
                          int num_args, TVMValue *ret_val, int *ret_type_code);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_INTERNAL_COMMON_TIME_EVALUATOR_H_ */
