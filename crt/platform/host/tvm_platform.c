/* The C runtime's platform on a desktop computer: malloc, a clock, standard error. */
#define _POSIX_C_SOURCE 200112L /* posix_memalign, clock_gettime */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/crt/stack_allocator.h> /* TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES */

static struct timespec timer_start;
static int timer_runs;

tvm_crt_error_t TVMPlatformInitialize(void) {
  return kTvmErrorNoError;
}

/* Weak: runner/guard.c has one that ends the call only. */
__attribute__((weak)) void TVMPlatformAbort(tvm_crt_error_t code) {
  fprintf(stderr, "TVMPlatformAbort: 0x%04x\n", (unsigned)code);
  abort();
}

size_t TVMPlatformFormatMessage(char *out_buf, size_t out_buf_size_bytes, const char *fmt,
                                va_list args) {
  const int length = vsnprintf(out_buf, out_buf_size_bytes, fmt, args);
  if (length < 0 || out_buf_size_bytes == 0) {
    return 0;
  }
  return (size_t)length < out_buf_size_bytes ? (size_t)length : out_buf_size_bytes - 1;
}

void TVMLogf(const char *fmt, ...) {
  va_list args;
  va_start(args, fmt);
  vfprintf(stderr, fmt, args);
  va_end(args);
}

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr) {
  (void)dev;
  if (posix_memalign(out_ptr, TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES, num_bytes > 0 ? num_bytes : 1) !=
      0) {
    *out_ptr = NULL;
    return kTvmErrorPlatformNoMemory;
  }
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformMemoryFree(void *ptr, DLDevice dev) {
  (void)dev;
  free(ptr);
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformTimerStart(void) {
  if (timer_runs || clock_gettime(CLOCK_MONOTONIC, &timer_start) != 0) {
    return kTvmErrorPlatformTimerBadState;
  }
  timer_runs = 1;
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformTimerStop(double *elapsed_time_seconds) {
  struct timespec now;
  if (!timer_runs || clock_gettime(CLOCK_MONOTONIC, &now) != 0) {
    return kTvmErrorPlatformTimerBadState;
  }
  timer_runs = 0;
  *elapsed_time_seconds =
      (double)(now.tv_sec - timer_start.tv_sec) + (double)(now.tv_nsec - timer_start.tv_nsec) / 1e9;
  return kTvmErrorNoError;
}

/* The same numbers in every run (splitmix64), which is what a test wants. */
tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t *buffer, size_t num_bytes) {
  static uint64_t state;
  size_t i;
  for (i = 0; i < num_bytes; i++) {
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    buffer[i] = (uint8_t)((z ^ (z >> 31)) >> 56);
  }
  return kTvmErrorNoError;
}
