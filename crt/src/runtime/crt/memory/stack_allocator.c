/* The stack allocator. Differences from TVM's, all deliberate: a buffer that starts unaligned is
 * aligned first, the check's tag does not misalign the block above it, and a pointer that cannot be
 * a block is refused even when the check is off. */
#include <string.h>
#include <tvm/runtime/crt/stack_allocator.h>

#ifdef TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK
#define LIFO_CHECK 1
#else
#define LIFO_CHECK 0
#endif

static const size_t kMask = TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES - 1;

tvm_crt_error_t StackMemoryManager_Init(tvm_workspace_t *tvm_runtime_workspace,
                                        uint8_t *g_aot_memory, size_t workspace_size) {
  const size_t lost = (size_t)(-(uintptr_t)g_aot_memory) & kMask;
  if (g_aot_memory == NULL || lost > workspace_size) {
    return kTvmErrorPlatformNoMemory;
  }
  tvm_runtime_workspace->workspace = g_aot_memory + lost;
  tvm_runtime_workspace->next_alloc = g_aot_memory + lost;
  tvm_runtime_workspace->workspace_size = workspace_size - lost;
  return kTvmErrorNoError;
}

tvm_crt_error_t StackMemoryManager_Allocate_Body(tvm_workspace_t *tvm_runtime_workspace,
                                                 int32_t nbytes, void **current_alloc,
                                                 uint8_t do_lifo_check) {
  uint8_t *const block = tvm_runtime_workspace->next_alloc;
  const size_t used = (size_t)(block - tvm_runtime_workspace->workspace);
  const size_t left = tvm_runtime_workspace->workspace_size - used;
  const size_t tag_bytes = do_lifo_check ? STACK_ALLOCATOR_TAG_SIZE_BYTES : 0;
  size_t total_bytes;

  *current_alloc = NULL;
  /* Compared one by one, so that no sum can wrap around. */
  if (nbytes < 0 || (size_t)nbytes > left || tag_bytes > left - (size_t)nbytes) {
    return kTvmErrorPlatformNoMemory;
  }
  total_bytes = ((size_t)nbytes + tag_bytes + kMask) & ~kMask;
  if (total_bytes > left) { /* the block that fills the buffer needs no padding */
    total_bytes = left;
  }
  if (do_lifo_check) {
    const uint32_t tag = STACK_ALLOCATOR_TAG ^ (uint32_t)total_bytes;
    memcpy(block + total_bytes - sizeof tag, &tag, sizeof tag);
  }
  tvm_runtime_workspace->next_alloc = block + total_bytes;
  *current_alloc = block;
  return kTvmErrorNoError;
}

tvm_crt_error_t StackMemoryManager_Allocate(tvm_workspace_t *tvm_runtime_workspace, int32_t nbytes,
                                            void **current_alloc) {
  return StackMemoryManager_Allocate_Body(tvm_runtime_workspace, nbytes, current_alloc, LIFO_CHECK);
}

tvm_crt_error_t StackMemoryManager_Free_Body(tvm_workspace_t *tvm_runtime_workspace, void *ptr,
                                             uint8_t do_lifo_check) {
  const uintptr_t begin = (uintptr_t)tvm_runtime_workspace->workspace;
  const uintptr_t end = (uintptr_t)tvm_runtime_workspace->next_alloc;
  const uintptr_t block = (uintptr_t)ptr;

  if (block < begin || block > end || ((block - begin) & kMask) != 0) {
    return kTvmErrorPlatformStackAllocBadFree;
  }
  if (do_lifo_check) {
    /* The tag at the top of the stack holds the size of the last block: it must lead to `ptr`. */
    uint32_t tag;
    if (end - block < sizeof tag) {
      return kTvmErrorPlatformStackAllocBadFree;
    }
    memcpy(&tag, tvm_runtime_workspace->next_alloc - sizeof tag, sizeof tag);
    if ((tag ^ STACK_ALLOCATOR_TAG) != (uint32_t)(end - block)) {
      return kTvmErrorPlatformStackAllocBadFree;
    }
  }
  tvm_runtime_workspace->next_alloc = (uint8_t *)ptr;
  return kTvmErrorNoError;
}

tvm_crt_error_t StackMemoryManager_Free(tvm_workspace_t *tvm_runtime_workspace, void *ptr) {
  return StackMemoryManager_Free_Body(tvm_runtime_workspace, ptr, LIFO_CHECK);
}
