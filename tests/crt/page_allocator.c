/* The page allocator: disjoint aligned blocks, reuse, refusals. Prints what failed, exits 1 if any.
 */
#include "expect.h"

#include <string.h>
#include <tvm/runtime/crt/page_allocator.h>

enum { kPage = 64, kLog2 = 6, kPoolBytes = 64 * 68 + 200 };
static uint8_t pool[kPoolBytes];
static const DLDevice kCpu = {kDLCPU, 0};

static void *take(MemoryManagerInterface *m, size_t bytes) {
  void *block = pool;
  const tvm_crt_error_t code = m->Allocate(m, bytes, kCpu, &block);
  EXPECT((code == kTvmErrorNoError) == (block != NULL));
  EXPECT(((uintptr_t)block & 15) == 0);
  if (block != NULL) {
    EXPECT((uint8_t *)block >= pool && (uint8_t *)block + bytes <= pool + sizeof pool);
    memset(block, 0xa5, bytes);
  }
  return block;
}

static void give(MemoryManagerInterface *m, void *block) {
  EXPECT(m->Free(m, block, kCpu) == kTvmErrorNoError);
}

static void blocks_come_back(void) {
  MemoryManagerInterface *m;
  void *a;
  void *b;
  void *c;
  EXPECT(PageMemoryManagerCreate(&m, pool, sizeof pool, kLog2) == kTvmErrorNoError);
  a = take(m, 1);
  b = take(m, 2 * kPage + 1);
  c = take(m, kPage);
  EXPECT((uint8_t *)b == (uint8_t *)a + kPage && (uint8_t *)c == (uint8_t *)b + 3 * kPage);
  EXPECT(m->vleak_size == 3);
  give(m, a);
  give(m, b); /* their four pages are one block now */
  EXPECT(take(m, 4 * kPage) == a);
  give(m, a);
  EXPECT(take(m, kPage) == a); /* and can be divided again */
  EXPECT(take(m, 0) == b);
  EXPECT(m->vleak_size == 3);
}

static void a_full_pool_refuses(void) {
  MemoryManagerInterface *m;
  void *blocks[80];
  int n = 0;
  EXPECT(PageMemoryManagerCreate(&m, pool, sizeof pool, kLog2) == kTvmErrorNoError);
  EXPECT(take(m, SIZE_MAX) == NULL);
  EXPECT(take(m, sizeof pool) == NULL);
  while (n < 80 && (blocks[n] = take(m, kPage)) != NULL) {
    n++;
  }
  EXPECT(n >= 60 && n <= 68);
  EXPECT(take(m, 1) == NULL);
  give(m, blocks[n / 2]);
  EXPECT(take(m, kPage + 1) == NULL);
  EXPECT(take(m, kPage) == blocks[n / 2]);
  while (n > 0) {
    give(m, blocks[--n]);
  }
  EXPECT(m->vleak_size == 0);
}

/* The largest free block is there to be taken, and nothing larger. */
static void what_is_left_is_known(void) {
  MemoryManagerInterface *m;
  uint8_t *first, *second, *rest;
  EXPECT(PageMemoryManagerCreate(&m, pool, sizeof pool, kLog2) == kTvmErrorNoError);
  first = take(m, PageMemoryManagerLeft(m));
  EXPECT(first != NULL && PageMemoryManagerLeft(m) == 0);
  give(m, first);
  first = take(m, kPage);
  second = take(m, kPage);
  rest = take(m, PageMemoryManagerLeft(m) - kPage);
  EXPECT(PageMemoryManagerLeft(m) == kPage);
  give(m, first);
  EXPECT(PageMemoryManagerLeft(m) == kPage); /* there are two, apart */
  give(m, second);
  EXPECT(PageMemoryManagerLeft(m) == 2 * kPage && take(m, 2 * kPage + 1) == NULL);
  give(m, rest);
}

static void bad_frees_are_refused(void) {
  MemoryManagerInterface *m;
  uint8_t *block;
  EXPECT(PageMemoryManagerCreate(&m, pool, sizeof pool, kLog2) == kTvmErrorNoError);
  block = take(m, 2 * kPage);
  EXPECT(m->Free(m, block + 1, kCpu) == kTvmErrorPlatformStackAllocBadFree);
  EXPECT(m->Free(m, block + kPage, kCpu) == kTvmErrorPlatformStackAllocBadFree);
  EXPECT(m->Free(m, block + 2 * kPage, kCpu) == kTvmErrorPlatformStackAllocBadFree);
  EXPECT(m->Free(m, &m, kCpu) == kTvmErrorPlatformStackAllocBadFree);
  EXPECT(m->Free(m, NULL, kCpu) == kTvmErrorPlatformStackAllocBadFree);
  give(m, block);
  EXPECT(m->Free(m, block, kCpu) == kTvmErrorPlatformStackAllocBadFree);
}

static void any_buffer_will_do_or_is_refused(void) {
  size_t shift;
  size_t size;
  for (shift = 0; shift < 16; shift++) {
    for (size = 0; size + shift <= 400; size++) {
      MemoryManagerInterface *m;
      if (PageMemoryManagerCreate(&m, pool + shift, size, kLog2) == kTvmErrorNoError) {
        uint8_t *const block = take(m, kPage);
        EXPECT(block + kPage <= pool + shift + size);
      } else {
        EXPECT(m == NULL && size < 200);
      }
    }
  }
  {
    MemoryManagerInterface *m;
    EXPECT(PageMemoryManagerCreate(&m, pool, sizeof pool, 3) == kTvmErrorPlatformNoMemory);
    EXPECT(PageMemoryManagerCreate(&m, pool, sizeof pool, 20) == kTvmErrorPlatformNoMemory);
    EXPECT(PageMemoryManagerCreate(&m, pool, sizeof pool, 200) == kTvmErrorPlatformNoMemory);
  }
}

int main(void) {
  blocks_come_back();
  a_full_pool_refuses();
  what_is_left_is_known();
  bad_frees_are_refused();
  any_buffer_will_do_or_is_refused();
  return failures != 0;
}
