#include "guard.h"

#include <setjmp.h>
#include <stdlib.h>
#include <tvm/runtime/crt/platform.h>

static jmp_buf escape;
static int guarded;
static tvm_crt_error_t abort_code;

int32_t runner_guard(int32_t (*call)(void)) {
  int32_t status;
  if (setjmp(escape) != 0) {
    guarded = 0;
    return (int32_t)abort_code;
  }
  guarded = 1;
  status = call();
  guarded = 0;
  return status;
}

void TVMPlatformAbort(tvm_crt_error_t code) {
  if (!guarded) {
    abort();
  }
  abort_code = code;
  longjmp(escape, 1);
}
