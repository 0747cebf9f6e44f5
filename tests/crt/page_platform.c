/* A platform on the page allocator, as an application with 32 KiB of RAM to spare has it. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/platform.h>

static uint8_t pool[32768];
static MemoryManagerInterface *manager;

tvm_crt_error_t TVMPlatformInitialize(void) {
  return PageMemoryManagerCreate(&manager, pool, sizeof pool, 6);
}

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr) {
  return manager->Allocate(manager, num_bytes, dev, out_ptr);
}

tvm_crt_error_t TVMPlatformMemoryFree(void *ptr, DLDevice dev) {
  return manager->Free(manager, ptr, dev);
}

void TVMPlatformAbort(tvm_crt_error_t code) {
  exit((int)code);
}

size_t TVMPlatformFormatMessage(char *out_buf, size_t out_buf_size_bytes, const char *fmt,
                                va_list args) {
  return (size_t)vsnprintf(out_buf, out_buf_size_bytes, fmt, args);
}

/* A timer that shows nothing. */
tvm_crt_error_t TVMPlatformTimerStart(void) {
  return kTvmErrorNoError;
}

tvm_crt_error_t TVMPlatformTimerStop(double *elapsed_time_seconds) {
  *elapsed_time_seconds = 0.0;
  return kTvmErrorNoError;
}
