/* Any words as bytecode. What mlf_vm_check accepts must run without leaving its memory; kernels
 * here touch every byte they were promised. */
#include "fuzz.h"

#include <string.h>

static int steps_left;
#define MLF_VM_STEP(module, at)                                                                    \
  do {                                                                                             \
    REQUIRE((at) < (module)->words);                                                               \
    if (steps_left-- == 0) {                                                                       \
      return kMlfVmOk; /* a loop without end is no finding */                                      \
    }                                                                                              \
  } while (0)
#include "mlf/vm.h"

enum { kWords = 512, kWorkspace = 48 };

static const uint32_t sizes[][3] = {{16, 16, 0}, {1, 8, 4}, {0, 0, 0}};
static const uint8_t writes[][3] = {{0, 1, 0}, {0, 0, 1}, {0, 0, 0}};

static void touch(void *const *a, const uint32_t *bytes, const uint8_t *written, uint32_t count) {
  volatile uint8_t sum = 0;
  for (uint32_t k = 0; k < count; k++) {
    for (uint32_t i = 0; i < bytes[k]; i++) {
      sum = (uint8_t)(sum + ((const uint8_t *)a[k])[i]);
      if (written[k]) {
        ((uint8_t *)a[k])[i] = sum;
      }
    }
  }
}

static int32_t first(void *const *a) {
  touch(a, sizes[0], writes[0], 2);
  return 0;
}

static int32_t second(void *const *a) {
  touch(a, sizes[1], writes[1], 3);
  return 0;
}

static int32_t third(void *const *a) {
  (void)a;
  return 1;
}

/* A block of its own for each tensor, so that a sanitizer sees every byte beside it. */
static void *block(size_t size) {
  uint8_t *const made = malloc(size);
  REQUIRE(made != NULL);
  memset(made, 1, size);
  return made;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const struct mlf_vm_function functions[] = {
      {first, 2, sizes[0], writes[0]}, {second, 3, sizes[1], writes[1]}, {third, 0, NULL, NULL}};
  static const uint32_t tensor_bytes[] = {16, 24};
  uint32_t *const code = malloc(size + 1);
  void *inputs[2], *outputs[2];
  uint8_t *const workspace = block(kWorkspace);
  uint8_t *const constants[2] = {block(16), block(24)};
  const void *const fixed[2] = {constants[0], constants[1]};
  const struct mlf_vm_module module = {code,  (uint32_t)(size / 4), functions, 3,
                                       fixed, tensor_bytes,         2,         tensor_bytes,
                                       2,     tensor_bytes,         2,         kWorkspace};
  REQUIRE(code != NULL);
  memcpy(code, data, size / 4 * 4);
  for (int k = 0; k < 2; k++) {
    inputs[k] = block(tensor_bytes[k]);
    outputs[k] = block(tensor_bytes[k]);
  }
  steps_left = 500;
  if (size / 4 <= kWords && mlf_vm_check(&module) == kMlfVmOk) {
    mlf_vm_run(&module, inputs, outputs, workspace);
    for (uint32_t k = 0; k < 2 * 16; k++) { /* what is read only was not written */
      REQUIRE(((const uint8_t *)(k & 1 ? inputs[0] : constants[0]))[k / 2] == 1);
    }
  }
  for (int k = 0; k < 2; k++) {
    free(inputs[k]);
    free(outputs[k]);
    free(constants[k]);
  }
  free(workspace);
  free(code);
  return 0;
}

/* Words as the machine has them: the fuzzers run on little-endian ones. */
#define W(a)                                                                                       \
  (char)((a)&0xff), (char)(((a) >> 8) & 0xff), (char)(((a) >> 16) & 0xff),                         \
      (char)((uint32_t)(a) >> 24)
#define HEAD W(0x4d560001)

static const char calls[] = {HEAD, W(1),  W(0), W(0x10000000), W(0),  W(1),
                             W(1), W(16), W(8), W(0x20000000), W(4),  W(16),
                             W(0), W(8),  W(5), W(0),          W(48), W(0)};
static const char loop[] = {HEAD,  W(6),          W(0),          W(0),  W(0),  W(6), W(8),  W(3),
                            W(0),  W(8),          W(16),         W(0),  W(8),  W(3), W(16), W(33),
                            W(10), W(0x20000001), W(0x30000000), W(8),  W(0),  W(3), W(0),  W(9),
                            W(24), W(0x10000001), W(8),          W(0),  W(3),  W(1), W(7),  W(0),
                            W(1),  W(2),          W(9),          W(11), W(20), W(0), W(0)};
static const char jumps[] = {HEAD, W(3), W(0x10000000), W(6), W(2), W(4), W(1), W(2), W(0)};

const fuzz_seed fuzz_seeds[] = {{calls, sizeof calls}, {loop, sizeof loop}, {jumps, sizeof jumps}};
const size_t fuzz_seed_count = sizeof fuzz_seeds / sizeof fuzz_seeds[0];
