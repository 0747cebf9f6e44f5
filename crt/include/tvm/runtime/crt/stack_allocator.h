/* A stack of memory blocks in a buffer of the application: the workspace of AOT code. */
#ifndef TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_
#define TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/crt/error_codes.h>

#include "crt_config.h"

/* With TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK every block is followed by its size xor this. */
#define STACK_ALLOCATOR_TAG            0xabcd1234
#define STACK_ALLOCATOR_TAG_SIZE_BYTES 4

/* Every block starts at a multiple of this: a power of two. */
#ifndef TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES
#define TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES 16
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint8_t *next_alloc; /* where the next block starts */
  uint8_t *workspace;  /* the first aligned byte of the buffer */
  size_t workspace_size;
} tvm_workspace_t;

/* Makes the buffer an empty stack. A buffer that is not aligned loses its first bytes; it must be
 * at least as large as that loss. */
tvm_crt_error_t StackMemoryManager_Init(tvm_workspace_t *tvm_runtime_workspace,
                                        uint8_t *g_aot_memory, size_t workspace_size);

/* Puts a block of `nbytes` on the stack; kTvmErrorPlatformNoMemory, and nothing changed, when it
 * does not fit. */
tvm_crt_error_t StackMemoryManager_Allocate(tvm_workspace_t *tvm_runtime_workspace, int32_t nbytes,
                                            void **current_alloc);

/* The same, with the last-in-first-out check chosen at run time. */
tvm_crt_error_t StackMemoryManager_Allocate_Body(tvm_workspace_t *tvm_runtime_workspace,
                                                 int32_t nbytes, void **current_alloc,
                                                 uint8_t do_lifo_check);

/* Takes the block at `ptr`, and all above it, off the stack. kTvmErrorPlatformStackAllocBadFree,
 * and nothing changed, when no block can start there, or (checked) when it is not the last one. */
tvm_crt_error_t StackMemoryManager_Free(tvm_workspace_t *tvm_runtime_workspace, void *ptr);

tvm_crt_error_t StackMemoryManager_Free_Body(tvm_workspace_t *tvm_runtime_workspace, void *ptr,
                                             uint8_t do_lifo_check);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_STACK_ALLOCATOR_H_ */
