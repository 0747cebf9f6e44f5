/* The page allocator. The table says of each page: free, first of a run of n, or within a run. So
 * neighbouring free pages are one free block, without anything to split or to merge. */
#include <string.h>
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/stack_allocator.h> /* TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES */

enum { kAlignment = TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES, kFree = 0 };
#define WITHIN UINT32_MAX

typedef struct {
  MemoryManagerInterface interface; /* first, so that a pointer to it is one to the whole */
  uint32_t *table;
  uint8_t *pages;
  size_t num_pages;
  size_t page_log2;
} PageManager;

/* The first of `wanted` free pages in a row, or num_pages. */
static size_t find_run(const PageManager *m, size_t wanted) {
  size_t start = 0;
  size_t page = 0;
  while (page < m->num_pages && page - start < wanted) {
    if (m->table[page] == kFree) {
      page++;
    } else {
      page += m->table[page]; /* never WITHIN: runs are stepped over whole */
      start = page;
    }
  }
  return page - start == wanted ? start : m->num_pages;
}

static tvm_crt_error_t allocate(MemoryManagerInterface *interface, size_t num_bytes, DLDevice dev,
                                void **out_ptr) {
  PageManager *const m = (PageManager *)(void *)interface;
  const size_t page_bytes = (size_t)1 << m->page_log2;
  const size_t rest = num_bytes & (page_bytes - 1);
  size_t wanted = (num_bytes >> m->page_log2) + (rest != 0);
  size_t start;
  size_t i;
  (void)dev;
  *out_ptr = NULL;
  if (wanted == 0) { /* an empty block has its own address too */
    wanted = 1;
  }
  start = find_run(m, wanted);
  if (start == m->num_pages) {
    return kTvmErrorPlatformNoMemory;
  }
  m->table[start] = (uint32_t)wanted;
  for (i = 1; i < wanted; i++) {
    m->table[start + i] = WITHIN;
  }
  interface->vleak_size++;
  *out_ptr = m->pages + (start << m->page_log2);
  return kTvmErrorNoError;
}

static tvm_crt_error_t release(MemoryManagerInterface *interface, void *ptr, DLDevice dev) {
  PageManager *const m = (PageManager *)(void *)interface;
  const size_t offset = (size_t)((uintptr_t)ptr - (uintptr_t)m->pages);
  const size_t start = offset >> m->page_log2;
  (void)dev;
  if (start >= m->num_pages || (start << m->page_log2) != offset || m->table[start] == kFree ||
      m->table[start] == WITHIN) {
    return kTvmErrorPlatformStackAllocBadFree;
  }
  memset(&m->table[start], 0, m->table[start] * sizeof m->table[0]);
  interface->vleak_size--;
  return kTvmErrorNoError;
}

/* Up to a multiple of the alignment, from a number far below SIZE_MAX. */
static size_t align_up(size_t n) {
  return (n + kAlignment - 1) & ~(size_t)(kAlignment - 1);
}

tvm_crt_error_t PageMemoryManagerCreate(MemoryManagerInterface **manager, uint8_t *memory_pool,
                                        size_t memory_pool_size_bytes,
                                        size_t page_size_bytes_log2) {
  const size_t lost = (size_t)(-(uintptr_t)memory_pool) & (kAlignment - 1);
  const size_t head = lost + align_up(sizeof(PageManager));
  PageManager *const m = (PageManager *)(void *)(memory_pool + lost);
  size_t page_bytes;
  size_t num_pages;
  *manager = NULL;
  if (page_size_bytes_log2 >= sizeof(size_t) * 8 - 1 || memory_pool_size_bytes < head ||
      memory_pool_size_bytes - head < kAlignment) {
    return kTvmErrorPlatformNoMemory;
  }
  page_bytes = (size_t)1 << page_size_bytes_log2;
  /* The alignment of the first page may take kAlignment - 1 bytes, so they are not shared out. */
  num_pages = (memory_pool_size_bytes - head - (kAlignment - 1)) / (page_bytes + sizeof(uint32_t));
  if (num_pages == 0 || num_pages >= WITHIN || page_bytes < kAlignment) {
    return kTvmErrorPlatformNoMemory;
  }
  m->interface.Allocate = allocate;
  m->interface.Free = release;
  m->interface.vleak_size = 0;
  m->table = (uint32_t *)(void *)(memory_pool + head);
  m->num_pages = num_pages;
  m->pages = memory_pool + head + align_up(num_pages * sizeof(uint32_t));
  m->page_log2 = page_size_bytes_log2;
  memset(m->table, 0, num_pages * sizeof(uint32_t));
  *manager = &m->interface;
  return kTvmErrorNoError;
}

size_t PageMemoryManagerLeft(const MemoryManagerInterface *manager) {
  const PageManager *const m = (const PageManager *)(const void *)manager;
  size_t longest = 0;
  size_t run = 0;
  size_t page = 0;
  while (page < m->num_pages) {
    if (m->table[page] == kFree) {
      page++;
      run++;
      longest = run > longest ? run : longest;
    } else {
      page += m->table[page];
      run = 0;
    }
  }
  return longest << m->page_log2;
}
