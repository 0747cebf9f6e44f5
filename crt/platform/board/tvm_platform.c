/* The C runtime's platform on a board: a stack in memory of the runner's descriptor, and no clock.
 * Generated code and the graph executor free in the reverse order of allocation. */
#include <string.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/crt/stack_allocator.h>

#include "platform.h"
#include "runner.h"

static tvm_workspace_t stack;

tvm_crt_error_t TVMPlatformInitialize(void) {
  return StackMemoryManager_Init(&stack, runner_pool, runner_pool_bytes);
}

/* Without the arguments: printf would be the largest part of the firmware. */
size_t TVMPlatformFormatMessage(char *out_buf, size_t out_buf_size_bytes, const char *fmt,
                                va_list args) {
  size_t length = strlen(fmt);
  (void)args;
  if (out_buf_size_bytes == 0) {
    return 0;
  }
  if (length >= out_buf_size_bytes) {
    length = out_buf_size_bytes - 1;
  }
  memcpy(out_buf, fmt, length);
  out_buf[length] = '\0';
  return length;
}

void TVMLogf(const char *fmt, ...) {
  platform_complain(fmt);
}

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr) {
  (void)dev;
  if (stack.workspace == NULL) {
    const tvm_crt_error_t code = TVMPlatformInitialize();
    if (code != kTvmErrorNoError) {
      return code;
    }
  }
  if (num_bytes > INT32_MAX) {
    return kTvmErrorPlatformNoMemory;
  }
  return StackMemoryManager_Allocate(&stack, (int32_t)num_bytes, out_ptr);
}

tvm_crt_error_t TVMPlatformMemoryFree(void *ptr, DLDevice dev) {
  (void)dev;
  return StackMemoryManager_Free(&stack, ptr);
}

tvm_crt_error_t TVMPlatformTimerStart(void) {
  return kTvmErrorFunctionCallNotImplemented;
}

tvm_crt_error_t TVMPlatformTimerStop(double *elapsed_time_seconds) {
  (void)elapsed_time_seconds;
  return kTvmErrorFunctionCallNotImplemented;
}
