/* The stack allocator and the workspace functions above it; prints what failed, exits 1 if any.
 * Compiled with and without TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK. */
#include <stdio.h>
#include <string.h>
#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/platform.h>
#include <tvm/runtime/crt/stack_allocator.h>

static int failures;
#define EXPECT(condition)                                                                          \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      failures++;                                                                                  \
      printf("line %d: %s\n", __LINE__, #condition);                                               \
    }                                                                                              \
  } while (0)

enum { kAlign = TVM_RUNTIME_ALLOC_ALIGNMENT_BYTES, kPoolBytes = 20 * kAlign };
static uint8_t memory[kPoolBytes + 2 * kAlign];

static uint8_t *aligned_pool(void) {
  return memory + ((size_t)(-(uintptr_t)memory) & (kAlign - 1));
}

static int is_aligned(const void *p) {
  return ((uintptr_t)p & (kAlign - 1)) == 0;
}

static void blocks_are_aligned_and_disjoint(uint8_t check) {
  tvm_workspace_t w;
  void *a;
  void *b;
  void *c;
  EXPECT(StackMemoryManager_Init(&w, aligned_pool(), kPoolBytes) == kTvmErrorNoError);
  EXPECT(StackMemoryManager_Allocate_Body(&w, 1, &a, check) == kTvmErrorNoError);
  EXPECT(StackMemoryManager_Allocate_Body(&w, 2 * kAlign + 1, &b, check) == kTvmErrorNoError);
  EXPECT(StackMemoryManager_Allocate_Body(&w, 0, &c, check) == kTvmErrorNoError);
  EXPECT(a == aligned_pool());
  EXPECT(is_aligned(b) && is_aligned(c));
  EXPECT((uint8_t *)b >= (uint8_t *)a + 1);
  EXPECT((uint8_t *)c >= (uint8_t *)b + 2 * kAlign + 1);
  memset(a, 0x5a, 1);
  memset(b, 0x5a, 2 * kAlign + 1); /* does not reach the tags */
  EXPECT(StackMemoryManager_Free_Body(&w, c, check) == kTvmErrorNoError);
  EXPECT(StackMemoryManager_Free_Body(&w, b, check) == kTvmErrorNoError);
  EXPECT(StackMemoryManager_Free_Body(&w, a, check) == kTvmErrorNoError);
  EXPECT(w.next_alloc == w.workspace);
}

static void sizes_that_do_not_fit_change_nothing(uint8_t check) {
  const int32_t tag = check ? STACK_ALLOCATOR_TAG_SIZE_BYTES : 0;
  tvm_workspace_t w;
  void *p = memory;
  EXPECT(StackMemoryManager_Init(&w, aligned_pool(), kPoolBytes - 1) == kTvmErrorNoError);
  EXPECT(StackMemoryManager_Allocate_Body(&w, kPoolBytes - tag, &p, check) ==
         kTvmErrorPlatformNoMemory);
  EXPECT(p == NULL);
  EXPECT(StackMemoryManager_Allocate_Body(&w, INT32_MAX, &p, check) == kTvmErrorPlatformNoMemory);
  EXPECT(StackMemoryManager_Allocate_Body(&w, -1, &p, check) == kTvmErrorPlatformNoMemory);
  EXPECT(w.next_alloc == w.workspace);
  EXPECT(StackMemoryManager_Allocate_Body(&w, kPoolBytes - 1 - tag, &p, check) == kTvmErrorNoError);
  EXPECT(w.next_alloc == w.workspace + kPoolBytes - 1);
  EXPECT(StackMemoryManager_Allocate_Body(&w, 1, &p, check) == kTvmErrorPlatformNoMemory);
}

static void an_unaligned_buffer_is_aligned(uint8_t check) {
  size_t shift;
  for (shift = 0; shift < kAlign; shift++) {
    tvm_workspace_t w;
    void *p;
    EXPECT(StackMemoryManager_Init(&w, aligned_pool() + shift, kPoolBytes) == kTvmErrorNoError);
    EXPECT(StackMemoryManager_Allocate_Body(&w, kAlign, &p, check) == kTvmErrorNoError);
    EXPECT(is_aligned(p));
    EXPECT(w.workspace + w.workspace_size == aligned_pool() + shift + kPoolBytes);
  }
}

static void bad_buffers_are_refused(void) {
  tvm_workspace_t w;
  EXPECT(StackMemoryManager_Init(&w, NULL, 100) == kTvmErrorPlatformNoMemory);
  EXPECT(StackMemoryManager_Init(&w, aligned_pool() + 1, kAlign - 2) == kTvmErrorPlatformNoMemory);
  EXPECT(StackMemoryManager_Init(&w, aligned_pool() + 1, kAlign - 1) == kTvmErrorNoError);
}

static void bad_frees_are_refused(void) {
  tvm_workspace_t w;
  void *a;
  void *b;
  EXPECT(StackMemoryManager_Init(&w, aligned_pool(), kPoolBytes) == kTvmErrorNoError);
  EXPECT(StackMemoryManager_Free_Body(&w, w.workspace, 1) == kTvmErrorPlatformStackAllocBadFree);
  EXPECT(StackMemoryManager_Allocate_Body(&w, 8, &a, 1) == kTvmErrorNoError);
  EXPECT(StackMemoryManager_Allocate_Body(&w, 8, &b, 1) == kTvmErrorNoError);
  EXPECT(StackMemoryManager_Free_Body(&w, a, 1) == kTvmErrorPlatformStackAllocBadFree);
  EXPECT(StackMemoryManager_Free_Body(&w, (uint8_t *)b + 1, 0) ==
         kTvmErrorPlatformStackAllocBadFree);
  EXPECT(StackMemoryManager_Free_Body(&w, w.next_alloc + kAlign, 0) ==
         kTvmErrorPlatformStackAllocBadFree);
  EXPECT(StackMemoryManager_Free_Body(&w, w.workspace - kAlign, 0) ==
         kTvmErrorPlatformStackAllocBadFree);
  EXPECT(StackMemoryManager_Free_Body(&w, b, 1) == kTvmErrorNoError);
  EXPECT(StackMemoryManager_Free_Body(&w, a, 1) == kTvmErrorNoError);
}

static void default_check_is_the_configured_one(void) {
#ifdef TVM_CRT_STACK_ALLOCATOR_ENABLE_LIFO_CHECK
  const tvm_crt_error_t expected = kTvmErrorPlatformStackAllocBadFree;
#else
  const tvm_crt_error_t expected = kTvmErrorNoError;
#endif
  tvm_workspace_t w;
  void *a;
  void *b;
  EXPECT(StackMemoryManager_Init(&w, aligned_pool(), kPoolBytes) == kTvmErrorNoError);
  EXPECT(StackMemoryManager_Allocate(&w, 8, &a) == kTvmErrorNoError);
  EXPECT(StackMemoryManager_Allocate(&w, 8, &b) == kTvmErrorNoError);
  EXPECT(StackMemoryManager_Free(&w, a) == expected); /* `a` is not the last block */
}

static int task(int task_id, TVMParallelGroupEnv *penv, void *cdata) {
  *(int *)cdata += 1;
  return task_id == 0 && penv->num_task == 1 ? 7 : -1;
}

/* Through templates/platform.c.template, as an application would. */
static void kernels_get_workspace(void) {
  int calls = 0;
  void *a;
  void *b;
  EXPECT(TVMPlatformInitialize() == kTvmErrorNoError);
  a = TVMBackendAllocWorkspace(kDLCPU, 0, 100, kDLFloat, 32);
  b = TVMBackendAllocWorkspace(kDLCPU, 0, 100, kDLInt, 8);
  EXPECT(a != NULL && b != NULL && a != b);
  EXPECT(TVMBackendAllocWorkspace(kDLCPU, 0, (uint64_t)1 << 32, kDLInt, 8) == NULL);
  EXPECT(TVMBackendAllocWorkspace(kDLCPU, 0, UINT64_MAX, kDLInt, 8) == NULL);
  EXPECT(TVMBackendFreeWorkspace(kDLCPU, 0, b) == 0);
  EXPECT(TVMBackendFreeWorkspace(kDLCPU, 0, a) == 0);
  EXPECT(TVMBackendFreeWorkspace(kDLCPU, 0, &calls) == kTvmErrorPlatformStackAllocBadFree);
  EXPECT(TVMBackendParallelLaunch(task, &calls, 4) == 7 && calls == 1);
}

static void the_timer_knows_its_state(void) {
  double seconds = -1.0;
  EXPECT(TVMPlatformTimerStop(&seconds) == kTvmErrorPlatformTimerBadState);
  EXPECT(TVMPlatformTimerStart() == kTvmErrorNoError);
  EXPECT(TVMPlatformTimerStart() == kTvmErrorPlatformTimerBadState);
  EXPECT(TVMPlatformTimerStop(&seconds) == kTvmErrorNoError && seconds >= 0.0);
}

int main(void) {
  uint8_t check;
  for (check = 0; check < 2; check++) {
    blocks_are_aligned_and_disjoint(check);
    sizes_that_do_not_fit_change_nothing(check);
    an_unaligned_buffer_is_aligned(check);
  }
  bad_buffers_are_refused();
  bad_frees_are_refused();
  default_check_is_the_configured_one();
  kernels_get_workspace();
  the_timer_knows_its_state();
  return failures != 0;
}
