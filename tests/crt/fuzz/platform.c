/* The platform of the fuzzers and of loader.c: malloc with a limit, and a count of what is not yet
 * given back. */
#include "fuzz.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <tvm/runtime/crt/logging.h>
#include <tvm/runtime/crt/platform.h>

#ifndef FUZZ_MAX_BLOCK
#define FUZZ_MAX_BLOCK (1 << 16)
#endif

int fuzz_live_blocks;
int fuzz_blocks_left = INT_MAX;

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr) {
  (void)dev;
  *out_ptr = num_bytes <= FUZZ_MAX_BLOCK && fuzz_blocks_left > 0 ? malloc(num_bytes) : NULL;
  if (*out_ptr == NULL) {
    return kTvmErrorPlatformNoMemory;
  }
  fuzz_blocks_left -= fuzz_blocks_left < INT_MAX;
  fuzz_live_blocks++;
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformMemoryFree(void *ptr, DLDevice dev) {
  (void)dev;
  fuzz_live_blocks--;
  free(ptr);
  return kTvmErrorNoError;
}

void TVMPlatformAbort(tvm_crt_error_t code) {
  fprintf(stderr, "TVMPlatformAbort: 0x%04x\n", (unsigned)code);
  abort();
}

size_t TVMPlatformFormatMessage(char *out_buf, size_t out_buf_size_bytes, const char *fmt,
                                va_list args) {
#ifdef FUZZ_TEXT
  return (size_t)vsnprintf(out_buf, out_buf_size_bytes, fmt, args);
#else /* it costs half of the time, and nobody reads it */
  (void)fmt;
  (void)args;
  out_buf[out_buf_size_bytes - 1] = '\0';
  return 0;
#endif
}

tvm_crt_error_t TVMPlatformTimerStart(void) {
  return kTvmErrorFunctionCallNotImplemented;
}

tvm_crt_error_t TVMPlatformTimerStop(double *elapsed_time_seconds) {
  *elapsed_time_seconds = 0;
  return kTvmErrorFunctionCallNotImplemented;
}
