/* Blocks of whole pages, given and taken back in any order, in a buffer of the application. */
#ifndef TVM_RUNTIME_CRT_PAGE_ALLOCATOR_H_
#define TVM_RUNTIME_CRT_PAGE_ALLOCATOR_H_

#include <stddef.h>
#include <stdint.h>
#include <tvm/runtime/c_runtime_api.h>
#include <tvm/runtime/crt/error_codes.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct MemoryManagerInterface MemoryManagerInterface;

struct MemoryManagerInterface {
  /* The first run of free pages that holds `num_bytes`; kTvmErrorPlatformNoMemory, and NULL, if
   * there is none. Its contents are undefined. */
  tvm_crt_error_t (*Allocate)(MemoryManagerInterface *interface, size_t num_bytes, DLDevice dev,
                              void **out_ptr);

  /* kTvmErrorPlatformStackAllocBadFree, and nothing changed, for any other address. */
  tvm_crt_error_t (*Free)(MemoryManagerInterface *interface, void *ptr, DLDevice dev);

  /* How many blocks are allocated. */
  int vleak_size;
};

/* Puts a manager and its table (4 bytes per page) at the start of the buffer and makes pages of
 * 2^page_size_bytes_log2 bytes, at least TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES, of the rest.
 * kTvmErrorPlatformNoMemory when no page is left. */
tvm_crt_error_t PageMemoryManagerCreate(MemoryManagerInterface **manager, uint8_t *memory_pool,
                                        size_t memory_pool_size_bytes, size_t page_size_bytes_log2);

/* The largest block that Allocate would give now. */
size_t PageMemoryManagerLeft(const MemoryManagerInterface *manager);

#ifdef __cplusplus
}
#endif

#endif /* TVM_RUNTIME_CRT_PAGE_ALLOCATOR_H_ */
