/* Memory of the platform, for the runtime's own parts. */
#include <tvm/runtime/crt/internal/common/modules.h>
#include <tvm/runtime/crt/platform.h>

static size_t last_refused;

tvm_crt_error_t TVMMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr) {
  const tvm_crt_error_t code = TVMPlatformMemoryAllocate(num_bytes, dev, out_ptr);
  if (code == kTvmErrorPlatformNoMemory) {
    last_refused = num_bytes;
  }
  return code;
}

size_t TVMMemoryLastRefused(void) {
  return last_refused;
}
