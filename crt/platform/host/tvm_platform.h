/* Beyond TVMPlatform*: calling what may abort. */
#ifndef MLF_TVM_PLATFORM_H_
#define MLF_TVM_PLATFORM_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What `call` returns, or the code of the TVMPlatformAbort that it ended in. */
int32_t tvm_platform_guard(int32_t (*call)(void));

#ifdef __cplusplus
}
#endif

#endif /* MLF_TVM_PLATFORM_H_ */
