/* What the C runtime asks of the application; templates/platform.c.template implements it. */
#ifndef TVM_RUNTIME_CRT_PLATFORM_H_
#define TVM_RUNTIME_CRT_PLATFORM_H_

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Brings up what the functions below need. Called by the application, before anything else. */
tvm_crt_error_t TVMPlatformInitialize(void);

/* Execution cannot continue: report `code`, then stop or restart. */
#if defined(_MSC_VER)
__declspec(noreturn) void TVMPlatformAbort(tvm_crt_error_t code);
#else
void __attribute__((noreturn)) TVMPlatformAbort(tvm_crt_error_t code);
#endif

/* vsnprintf by another name: formats into `out_buf`, returns the number of characters written. */
size_t TVMPlatformFormatMessage(char *out_buf, size_t out_buf_size_bytes, const char *fmt,
                                va_list args);

/* `num_bytes` of memory, aligned for any tensor, in `*out_ptr`. Generated code frees in the reverse
 * order of allocation, so StackMemoryManager_Allocate will do. */
tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr);

tvm_crt_error_t TVMPlatformMemoryFree(void *ptr, DLDevice dev);

/* Starts the one timer; kTvmErrorPlatformTimerBadState when it already runs. */
tvm_crt_error_t TVMPlatformTimerStart(void);

/* Stops it and stores the seconds since TVMPlatformTimerStart. */
tvm_crt_error_t TVMPlatformTimerStop(double *elapsed_time_seconds);

/* Hooks around a measured run, and random bytes. Optional: `common` has weak ones, which do nothing
 * and return kTvmErrorFunctionCallNotImplemented for random bytes. An RPC server takes a byte of
 * them for the numbers of its sessions, which should differ from one reset to the next. */
tvm_crt_error_t TVMPlatformBeforeMeasurement(void);
tvm_crt_error_t TVMPlatformAfterMeasurement(void);
tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t *buffer, size_t num_bytes);

/* For an RPC server. Optional too. May a host read and write these bytes? The weak one says yes to
 * all; without an own one a wrong address of a host ends in a fault of the processor. */
tvm_crt_error_t TVMPlatformCheckAccess(const void *address, size_t num_bytes);

/* The largest block that can be allocated; the weak one says SIZE_MAX, which means "unknown". */
size_t TVMPlatformMemoryLeft(void);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_PLATFORM_H_ */
