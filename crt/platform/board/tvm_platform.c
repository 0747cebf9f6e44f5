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

/* `text` and a number after it, without printf. */
static char *append(char *at, const char *text, size_t number) {
  char digits[24];
  size_t count = 0;
  while (*text != '\0') {
    *at++ = *text++;
  }
  do {
    digits[count++] = (char)('0' + number % 10);
    number /= 10;
  } while (number > 0);
  while (count > 0) {
    *at++ = digits[--count];
  }
  return at;
}

/* The pool is as large as the archive's metadata say. */
static void tell_no_memory(size_t num_bytes) {
  const size_t used = (size_t)(stack.next_alloc - stack.workspace);
  char text[120];
  char *at = append(text, "runner: out of memory: asked for ", num_bytes);
  at = append(at, " bytes, left ", runner_pool_bytes - used);
  at = append(at, " of ", runner_pool_bytes);
  *at = '\0';
  platform_complain(text);
}

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr) {
  tvm_crt_error_t code = kTvmErrorPlatformNoMemory;
  (void)dev;
  if (stack.workspace == NULL) {
    code = TVMPlatformInitialize();
    if (code != kTvmErrorNoError) {
      return code;
    }
  }
  if (num_bytes <= INT32_MAX) {
    code = StackMemoryManager_Allocate(&stack, (int32_t)num_bytes, out_ptr);
  }
  if (code != kTvmErrorNoError) {
    tell_no_memory(num_bytes);
  }
  return code;
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
