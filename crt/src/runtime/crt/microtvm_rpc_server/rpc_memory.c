/* Memory that the host of a session allocates, so that it can be given back when the host is gone.
 */
#include <tvm/runtime/crt/internal/common/modules.h>
#include <tvm/runtime/crt/internal/rpc/server.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/crt/stack_allocator.h> /* TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES */

/* Just before the data. */
typedef struct Block {
  struct Block *next;
  void *allocated; /* what the platform gave */
} Block;

enum {
  kLeast = TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES < 16 ? 16 : TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES,
  kMostAlignment = 4096
};

static Block *blocks;

static DLDevice cpu(void) {
  DLDevice device;
  device.device_type = kDLCPU;
  device.device_id = 0;
  return device;
}

tvm_crt_error_t TVMRpcMemory_Allocate(size_t num_bytes, size_t alignment, DLDevice device,
                                      void **data) {
  void *allocated = NULL;
  Block *block;
  uintptr_t start;
  size_t total;
  tvm_crt_error_t code;
  *data = NULL;
  if (device.device_type != kDLCPU || device.device_id != 0 || alignment > kMostAlignment ||
      (alignment & (alignment - 1)) != 0) {
    return kTvmErrorFunctionCallInvalidArg;
  }
  if (alignment < kLeast) {
    alignment = kLeast;
  }
  /* A multiple of the alignment that has room for the block before it is among the first two.
   * num_bytes is at most TVM_CRT_MAX_TENSOR_BYTES, so the sum is one of 32 bits. */
  total = num_bytes + alignment + kLeast;
  code = TVMMemoryAllocate(total, device, &allocated);
  if (code != kTvmErrorNoError) {
    return code;
  }
  start = ((uintptr_t)allocated + kLeast + alignment - 1) & ~(uintptr_t)(alignment - 1);
  *data = (uint8_t *)allocated + (start - (uintptr_t)allocated);
  block = (Block *)*data - 1;
  block->next = blocks;
  block->allocated = allocated;
  blocks = block;
  return kTvmErrorNoError;
}

int TVMRpcMemory_Free(const void *data) {
  Block **link = &blocks;
  while (*link != NULL) {
    Block *const block = *link;
    if (block + 1 == data) {
      *link = block->next;
      return (int)TVMPlatformMemoryFree(block->allocated, cpu());
    }
    link = &block->next;
  }
  return -1;
}

void TVMRpcMemory_FreeAll(void) {
  while (blocks != NULL) {
    Block *const block = blocks;
    blocks = block->next;
    (void)TVMPlatformMemoryFree(block->allocated, cpu());
  }
}
