/* The interpreter of the vm executor: bytecode that calls kernels, jumps and moves bytes.
 *
 * docs/vm.md describes the instructions. Everything is `static inline`, so a module that is run so
 * needs no library. No heap, no recursion. `mlf_vm_check` reads a program once before it is run and
 * refuses whatever could read or write outside its memory, so the interpreter need not look again.
 */
#ifndef MLF_VM_H_
#define MLF_VM_H_

#include "mlf/kernel.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Done before each instruction, at word `at`: to trace, or to feed a watchdog. */
#ifndef MLF_VM_STEP
#define MLF_VM_STEP(module, at) ((void)0)
#endif

enum mlf_vm_limits { kMlfVmVersion = 1, kMlfVmArguments = 64 };

/* Where an address points: the upper four bits. The lower 28 are an offset in the workspace, or the
 * number of an input, output or constant. */
enum mlf_vm_space { kMlfVmWorkspace = 0, kMlfVmInput = 1, kMlfVmOutput = 2, kMlfVmConstant = 3 };

enum mlf_vm_operation {
  kMlfVmHalt = 0,       /* */
  kMlfVmCall = 1,       /* function, an address for each of its parameters */
  kMlfVmJump = 2,       /* target */
  kMlfVmJumpUnless = 3, /* address of a bool, target */
  kMlfVmCopy = 4,       /* to, from, bytes */
  kMlfVmZero = 5,       /* to, bytes */
  kMlfVmSet = 6,        /* to an int64: the low and the high half of its value */
  kMlfVmAdd = 7,        /* to an int64: what is added, an int32 */
  kMlfVmLess = 8,       /* to a bool: whether one int64 is below another */
  kMlfVmGather = 9,     /* to, from, bytes, address of an int64 k, count, backwards: element k */
  kMlfVmScatter = 10,   /* to, from, bytes, address of an int64 k, count, backwards: to element k */
  kMlfVmNarrow = 11     /* to an int32, from an int64 */
};

enum mlf_vm_error {
  kMlfVmOk = 0,
  kMlfVmBadHeader = 1,
  kMlfVmBadCode = 2,
  kMlfVmBadAddress = 3,
  kMlfVmBadIndex = 4,
  kMlfVmKernelFailed = 5
};

/* A kernel with its parameters as an array of pointers. */
typedef int32_t (*mlf_vm_kernel)(void *const *arguments);

/* What a kernel takes: bytes of each parameter, and whether it writes there. */
struct mlf_vm_function {
  mlf_vm_kernel kernel;
  uint32_t count;
  const uint32_t *bytes;
  const uint8_t *writes;
};

struct mlf_vm_module {
  const uint32_t *code;
  uint32_t words;
  const struct mlf_vm_function *functions;
  uint32_t num_functions;
  const void *const *constants;
  const uint32_t *constant_bytes;
  uint32_t num_constants;
  const uint32_t *input_bytes;
  uint32_t num_inputs;
  const uint32_t *output_bytes;
  uint32_t num_outputs;
  uint32_t workspace_bytes;
};

/* Words after an operation, or 0xffffffff if it does not exist; a call has its own number. */
static inline uint32_t mlf_vm_operands(uint32_t operation) {
  static const uint8_t words[] = {0, 1, 1, 2, 3, 2, 3, 2, 3, 6, 6, 2};
  return operation < sizeof words ? words[operation] : UINT32_MAX;
}

/* Whether `bytes` at `address` are in one block that may be read, or written. */
static inline bool mlf_vm_inside(const struct mlf_vm_module *m, uint32_t address, uint32_t bytes,
                                 bool writes) {
  const uint32_t at = address & 0x0fffffffu;
  switch (address >> 28) {
  case kMlfVmWorkspace:
    return at <= m->workspace_bytes && bytes <= m->workspace_bytes - at;
  case kMlfVmInput:
    return !writes && at < m->num_inputs && bytes <= m->input_bytes[at];
  case kMlfVmOutput:
    return at < m->num_outputs && bytes <= m->output_bytes[at];
  case kMlfVmConstant:
    return !writes && at < m->num_constants && bytes <= m->constant_bytes[at];
  default:
    return false;
  }
}

/* The addresses of the instruction at `code`; kernel parameters among them. */
static inline bool mlf_vm_addresses(const struct mlf_vm_module *m, const uint32_t *code) {
  switch (code[0]) {
  case kMlfVmCall:
    for (uint32_t k = 0; k < m->functions[code[1]].count; k++) {
      const struct mlf_vm_function *const f = &m->functions[code[1]];
      if (!mlf_vm_inside(m, code[2 + k], f->bytes[k], f->writes[k] != 0)) {
        return false;
      }
    }
    return true;
  case kMlfVmJumpUnless:
    return mlf_vm_inside(m, code[1], 1, false);
  case kMlfVmCopy:
    return mlf_vm_inside(m, code[1], code[3], true) && mlf_vm_inside(m, code[2], code[3], false);
  case kMlfVmZero:
    return mlf_vm_inside(m, code[1], code[2], true);
  case kMlfVmSet:
  case kMlfVmAdd:
    return mlf_vm_inside(m, code[1], 8, true);
  case kMlfVmLess:
    return mlf_vm_inside(m, code[1], 1, true) && mlf_vm_inside(m, code[2], 8, false) &&
           mlf_vm_inside(m, code[3], 8, false);
  case kMlfVmGather:
  case kMlfVmScatter: {
    const bool gathers = code[0] == kMlfVmGather;
    const uint64_t all = (uint64_t)code[3] * code[5];
    return all <= UINT32_MAX && mlf_vm_inside(m, code[4], 8, false) &&
           mlf_vm_inside(m, code[1], gathers ? code[3] : (uint32_t)all, true) &&
           mlf_vm_inside(m, code[2], gathers ? (uint32_t)all : code[3], false);
  }
  case kMlfVmNarrow:
    return mlf_vm_inside(m, code[1], 4, true) && mlf_vm_inside(m, code[2], 8, false);
  default:
    return true;
  }
}

/* Words of the instruction at `at`, 0 if it is invalid or does not end inside the code. */
static inline uint32_t mlf_vm_length(const struct mlf_vm_module *m, uint32_t at) {
  const uint32_t left = m->words - at;
  uint32_t words = 1 + mlf_vm_operands(m->code[at]);
  if (words == 0 || words > left) {
    return 0;
  }
  if (m->code[at] == kMlfVmCall) {
    if (m->code[at + 1] >= m->num_functions ||
        m->functions[m->code[at + 1]].count > kMlfVmArguments) {
      return 0;
    }
    words += m->functions[m->code[at + 1]].count;
  }
  return words <= left ? words : 0;
}

/* Whether an instruction starts at word `target`. Jumps are few, so a walk is cheap enough. */
static inline bool mlf_vm_starts(const struct mlf_vm_module *m, uint32_t target) {
  uint32_t at = 1;
  while (at < target && at < m->words) {
    at += mlf_vm_length(m, at);
  }
  return at == target && at < m->words;
}

/* kMlfVmOk if the program can be run, else why not. */
static inline int32_t mlf_vm_check(const struct mlf_vm_module *m) {
  uint32_t last = kMlfVmCall;
  if (m->words < 2 || m->code[0] != (0x4d560000u | kMlfVmVersion)) {
    return kMlfVmBadHeader;
  }
  for (uint32_t at = 1; at < m->words; at += mlf_vm_length(m, at)) {
    if (mlf_vm_length(m, at) == 0) {
      return kMlfVmBadCode;
    }
    last = m->code[at];
    if (!mlf_vm_addresses(m, m->code + at)) {
      return kMlfVmBadAddress;
    }
  }
  if (last != kMlfVmHalt && last != kMlfVmJump) {
    return kMlfVmBadCode;
  }
  for (uint32_t at = 1; at < m->words; at += mlf_vm_length(m, at)) {
    const uint32_t op = m->code[at];
    if ((op == kMlfVmJump && !mlf_vm_starts(m, m->code[at + 1])) ||
        (op == kMlfVmJumpUnless && !mlf_vm_starts(m, m->code[at + 2]))) {
      return kMlfVmBadCode;
    }
  }
  return kMlfVmOk;
}

/* The memory of one inference. */
struct mlf_vm_memory {
  const struct mlf_vm_module *module;
  void *const *inputs;
  void *const *outputs;
  uint8_t *workspace; /* aligned to 16 */
};

static inline uint8_t *mlf_vm_at(const struct mlf_vm_memory *m, uint32_t address) {
  const uint32_t at = address & 0x0fffffffu;
  const void *constant;
  uint8_t *pointer;
  switch (address >> 28) {
  case kMlfVmWorkspace:
    return m->workspace + at;
  case kMlfVmInput:
    return (uint8_t *)m->inputs[at];
  case kMlfVmOutput:
    return (uint8_t *)m->outputs[at];
  default: /* read only, as the check has seen; the copy drops a const */
    constant = m->module->constants[at];
    memcpy(&pointer, &constant, sizeof pointer);
    return pointer;
  }
}

static inline int64_t mlf_vm_int64(const struct mlf_vm_memory *m, uint32_t address) {
  int64_t value;
  memcpy(&value, mlf_vm_at(m, address), sizeof value);
  return value;
}

/* Gather or Scatter: `code` is the instruction. */
static inline int32_t mlf_vm_element(const struct mlf_vm_memory *m, const uint32_t *code) {
  const int64_t k = mlf_vm_int64(m, code[4]);
  const uint32_t bytes = code[3];
  uint8_t *const to = mlf_vm_at(m, code[1]);
  const uint8_t *const from = mlf_vm_at(m, code[2]);
  size_t at;
  if (k < 0 || k >= (int64_t)code[5]) {
    return kMlfVmBadIndex;
  }
  at = (size_t)(code[6] ? (int64_t)code[5] - 1 - k : k) * bytes;
  if (code[0] == kMlfVmGather) {
    memmove(to, from + at, bytes);
  } else {
    memmove(to + at, from, bytes);
  }
  return kMlfVmOk;
}

/* Any instruction but calls and jumps. */
static inline int32_t mlf_vm_move(const struct mlf_vm_memory *m, const uint32_t *code) {
  uint8_t *const to = mlf_vm_at(m, code[1]);
  int64_t wide;
  int32_t narrow;
  switch (code[0]) {
  case kMlfVmCopy:
    memmove(to, mlf_vm_at(m, code[2]), code[3]);
    return kMlfVmOk;
  case kMlfVmZero:
    memset(to, 0, code[2]);
    return kMlfVmOk;
  case kMlfVmSet:
    wide = (int64_t)(((uint64_t)code[3] << 32) | code[2]);
    memcpy(to, &wide, sizeof wide);
    return kMlfVmOk;
  case kMlfVmAdd:
    wide = (int64_t)((uint64_t)mlf_vm_int64(m, code[1]) + (uint64_t)(int64_t)(int32_t)code[2]);
    memcpy(to, &wide, sizeof wide);
    return kMlfVmOk;
  case kMlfVmLess:
    *to = mlf_vm_int64(m, code[2]) < mlf_vm_int64(m, code[3]);
    return kMlfVmOk;
  case kMlfVmNarrow:
    narrow = (int32_t)mlf_vm_int64(m, code[2]);
    memcpy(to, &narrow, sizeof narrow);
    return kMlfVmOk;
  default:
    return mlf_vm_element(m, code);
  }
}

/* Runs a program that mlf_vm_check has accepted. */
static inline int32_t mlf_vm_run(const struct mlf_vm_module *module, void *const *inputs,
                                 void *const *outputs, uint8_t *workspace) {
  const struct mlf_vm_memory memory = {module, inputs, outputs, workspace};
  void *arguments[kMlfVmArguments];
  uint32_t at = 1;
  for (;;) {
    const uint32_t *const code = module->code + at;
    int32_t status = kMlfVmOk;
    MLF_VM_STEP(module, at);
    switch (code[0]) {
    case kMlfVmHalt:
      return kMlfVmOk;
    case kMlfVmCall: {
      const struct mlf_vm_function *const f = &module->functions[code[1]];
      for (uint32_t k = 0; k < f->count; k++) {
        arguments[k] = mlf_vm_at(&memory, code[2 + k]);
      }
      status = f->kernel(arguments) == 0 ? kMlfVmOk : kMlfVmKernelFailed;
      at += 2 + f->count;
      break;
    }
    case kMlfVmJump:
      at = code[1];
      break;
    case kMlfVmJumpUnless:
      at = *mlf_vm_at(&memory, code[1]) ? at + 3 : code[2];
      break;
    default:
      status = mlf_vm_move(&memory, code);
      at += 1 + mlf_vm_operands(code[0]);
      break;
    }
    if (status != kMlfVmOk) {
      return status;
    }
  }
}

#ifdef __cplusplus
}
#endif

#endif /* MLF_VM_H_ */
