/* Limits of the C runtime on a desktop computer: those of templates/crt_config.h.template where
 * archives rely on them, and room for more modules and functions. */
#ifndef TVM_RUNTIME_CRT_CONFIG_H_
#define TVM_RUNTIME_CRT_CONFIG_H_

#define TVM_CRT_LOG_LEVEL                       TVM_CRT_LOG_LEVEL_DEBUG
#define TVM_CRT_DEBUG                           0
#define TVM_CRT_MAX_NDIM                        6
#define TVM_CRT_MAX_ARGS                        10
#define TVM_CRT_GLOBAL_FUNC_REGISTRY_SIZE_BYTES 4096
#define TVM_CRT_MAX_REGISTERED_MODULES          16
#define TVM_CRT_MAX_PACKET_SIZE_BYTES           8192
#define TVM_CRT_MAX_STRLEN_DLTYPE               10
#define TVM_CRT_MAX_STRLEN_FUNCTION_NAME        120
#define TVM_CRT_MAX_STRLEN_PARAM_NAME           80

#endif /* TVM_RUNTIME_CRT_CONFIG_H_ */
