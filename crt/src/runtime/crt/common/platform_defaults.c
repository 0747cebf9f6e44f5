/* The optional hooks, for platforms that do not define them. */
#include <tvm/runtime/crt/platform.h>

#if defined(__GNUC__)
#define WEAK __attribute__((weak))
#else
#define WEAK
#endif

WEAK tvm_crt_error_t TVMPlatformBeforeMeasurement(void) {
  return kTvmErrorNoError;
}

WEAK tvm_crt_error_t TVMPlatformAfterMeasurement(void) {
  return kTvmErrorNoError;
}

/* Deliberately no numbers that only look random. */
WEAK tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t *buffer, size_t num_bytes) {
  (void)buffer;
  (void)num_bytes;
  return kTvmErrorFunctionCallNotImplemented;
}

WEAK tvm_crt_error_t TVMPlatformCheckAccess(const void *address, size_t num_bytes) {
  (void)address;
  (void)num_bytes;
  return kTvmErrorNoError;
}

WEAK size_t TVMPlatformMemoryLeft(void) {
  return SIZE_MAX;
}
