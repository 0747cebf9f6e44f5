/* The C runtime's platform on a desktop computer, where an archive that somebody else made is run:
 * memory from malloc, and an abort that ends the call and not the process. */
#include "tvm_platform.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/platform.h>

enum { kAlignment = 64 }; /* a cache line, and enough for every vector type */

static jmp_buf escape;
static int guarded;
static tvm_crt_error_t abort_code;
static clock_t timer_start;
static int timer_runs;

int32_t tvm_platform_guard(int32_t (*call)(void)) {
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

tvm_crt_error_t TVMPlatformInitialize(void) {
  return kTvmErrorNoError;
}

void TVMPlatformAbort(tvm_crt_error_t code) {
  if (!guarded) {
    abort();
  }
  abort_code = code;
  longjmp(escape, 1);
}

size_t TVMPlatformFormatMessage(char *out_buf, size_t out_buf_size_bytes, const char *fmt,
                                va_list args) {
  const int length = vsnprintf(out_buf, out_buf_size_bytes, fmt, args);
  return length < 0 ? 0 : (size_t)length;
}

void TVMLogf(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  (void)vfprintf(stderr, fmt, args);
  va_end(args);
}

/* Zeroed, which TVM's graph executor silently counts on. The block starts behind what malloc gave,
 * whose address is kept in front of it. */
tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr) {
  char *raw;
  size_t skip;
  (void)dev;
  if (num_bytes > SIZE_MAX - sizeof raw - kAlignment) {
    return kTvmErrorPlatformNoMemory;
  }
  raw = calloc(1, num_bytes + sizeof raw + kAlignment);
  if (raw == NULL) {
    return kTvmErrorPlatformNoMemory;
  }
  skip = sizeof raw + (kAlignment - ((uintptr_t)raw + sizeof raw) % kAlignment) % kAlignment;
  memcpy(raw + skip - sizeof raw, &raw, sizeof raw);
  *out_ptr = raw + skip;
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformMemoryFree(void *ptr, DLDevice dev) {
  char *raw;
  (void)dev;
  if (ptr != NULL) {
    memcpy(&raw, (char *)ptr - sizeof raw, sizeof raw);
    free(raw);
  }
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformTimerStart(void) {
  if (timer_runs) {
    return kTvmErrorPlatformTimerBadState;
  }
  timer_runs = 1;
  timer_start = clock();
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformTimerStop(double *elapsed_time_seconds) {
  if (!timer_runs) {
    return kTvmErrorPlatformTimerBadState;
  }
  timer_runs = 0;
  *elapsed_time_seconds = (double)(clock() - timer_start) / CLOCKS_PER_SEC;
  return kTvmErrorNoError;
}
