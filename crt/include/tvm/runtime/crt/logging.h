/* Log lines below TVM_CRT_LOG_LEVEL, and checks that end in TVMPlatformAbort.
 *
 * The application supplies TVMLogf. A message is a format and its arguments in one macro argument
 * list, so that no compiler extension is needed for a message without arguments.
 */
#ifndef TVM_RUNTIME_CRT_LOGGING_H_
#define TVM_RUNTIME_CRT_LOGGING_H_

#include <tvm/runtime/crt/platform.h>

#define TVM_CRT_LOG_LEVEL_DEBUG 3
#define TVM_CRT_LOG_LEVEL_INFO  2
#define TVM_CRT_LOG_LEVEL_WARN  1
#define TVM_CRT_LOG_LEVEL_ERROR 0

/* Its values are the four names above, so it is included after them. */
#include "crt_config.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
__attribute__((format(printf, 1, 2)))
#endif
void TVMLogf(const char *fmt, ...);

#define LOG(level, ...)                                                                            \
  do {                                                                                             \
    if (TVM_CRT_LOG_LEVEL >= (level)) {                                                            \
      TVMLogf(__VA_ARGS__);                                                                        \
    }                                                                                              \
  } while (0)

#define LOG_ERROR(...) LOG(TVM_CRT_LOG_LEVEL_ERROR, __VA_ARGS__)
#define LOG_WARN(...)  LOG(TVM_CRT_LOG_LEVEL_WARN, __VA_ARGS__)
#define LOG_INFO(...)  LOG(TVM_CRT_LOG_LEVEL_INFO, __VA_ARGS__)
#define LOG_DEBUG(...) LOG(TVM_CRT_LOG_LEVEL_DEBUG, __VA_ARGS__)

#ifndef CHECK
#define CHECK(x)                                                                                   \
  do {                                                                                             \
    if (!(x)) {                                                                                    \
      LOG_ERROR("%s:%d: Check failed: %s\n", __FILE__, __LINE__, #x);                              \
      TVMPlatformAbort(kTvmErrorPlatformCheckFailure);                                             \
    }                                                                                              \
  } while (0)
#endif

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_LOGGING_H_ */
