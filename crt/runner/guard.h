/* Calling what may end in TVMPlatformAbort. */
#ifndef MLF_RUNNER_GUARD_H_
#define MLF_RUNNER_GUARD_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What `call` returns, or the code of the TVMPlatformAbort that it ended in: a failed check is then
 * the end of one inference, and not of the program or of the Python that loaded the module. */
int32_t runner_guard(int32_t (*call)(void));

#ifdef __cplusplus
}
#endif

#endif /* MLF_RUNNER_GUARD_H_ */
