/* The C runtime's platform of that firmware: pages of one array, the counter of the machine, and
 * texts with numbers without the C library's printf, which is larger than the server. */
#include <string.h>
#include <tvm/runtime/crt/page_allocator.h>
#include <tvm/runtime/crt/platform.h>

#include "platform.h"

/* All that the host allocates, and the executors: tensors, graph, workspace. */
#ifndef TVM_WORKSPACE_SIZE_BYTES
#define TVM_WORKSPACE_SIZE_BYTES (2 * 1024 * 1024)
#endif

/* Small blocks take a page, and a page takes 4 bytes more. */
#ifndef MLF_RPC_PAGE_LOG2
#define MLF_RPC_PAGE_LOG2 6
#endif

static uint8_t arena[TVM_WORKSPACE_SIZE_BYTES];
static MemoryManagerInterface *manager;
static uint64_t timer_start;
static int timer_runs;
static int counter_state; /* 1: it counts; -1: it does not */

tvm_crt_error_t TVMPlatformInitialize(void) {
  return PageMemoryManagerCreate(&manager, arena, sizeof arena, MLF_RPC_PAGE_LOG2);
}

void TVMPlatformAbort(tvm_crt_error_t code) {
  (void)code;
  platform_complain("TVMPlatformAbort\n");
  for (;;) {
  }
}

tvm_crt_error_t TVMPlatformMemoryAllocate(size_t num_bytes, DLDevice dev, void **out_ptr) {
  return manager->Allocate(manager, num_bytes, dev, out_ptr);
}

tvm_crt_error_t TVMPlatformMemoryFree(void *ptr, DLDevice dev) {
  return manager->Free(manager, ptr, dev);
}

size_t TVMPlatformMemoryLeft(void) {
  return PageMemoryManagerLeft(manager);
}

/* What a host may touch: the arena, without asking whose a block is. */
tvm_crt_error_t TVMPlatformCheckAccess(const void *address, size_t num_bytes) {
  const uintptr_t start = (uintptr_t)arena;
  const uintptr_t at = (uintptr_t)address;
  return at >= start && at - start <= sizeof arena && num_bytes <= sizeof arena - (at - start)
             ? kTvmErrorNoError
             : kTvmErrorFunctionCallInvalidArg;
}

tvm_crt_error_t TVMPlatformTimerStart(void) {
  if (counter_state == 0) {
    counter_state = platform_counter_start() == 0 ? 1 : -1;
  }
  if (timer_runs || counter_state < 0) {
    return kTvmErrorPlatformTimerBadState;
  }
  timer_runs = 1;
  timer_start = platform_counter_begin();
  return kTvmErrorNoError;
}

/* The counters are in nanoseconds: of the host's clock, or of a simulator for which an instruction
 * takes one. */
tvm_crt_error_t TVMPlatformTimerStop(double *elapsed_time_seconds) {
  if (!timer_runs) {
    return kTvmErrorPlatformTimerBadState;
  }
  timer_runs = 0;
  *elapsed_time_seconds = (double)platform_counter_cost(timer_start, platform_counter_end()) * 1e-9;
  return kTvmErrorNoError;
}

/* What moves between two resets, if anything does: the counter. */
tvm_crt_error_t TVMPlatformGenerateRandom(uint8_t *buffer, size_t num_bytes) {
  static uint64_t state;
  size_t i;
  if (state == 0) {
    state = platform_counter_end() | 1u;
  }
  for (i = 0; i < num_bytes; i++) {
    uint64_t z = state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    buffer[i] = (uint8_t)((z ^ (z >> 31)) >> 56);
  }
  return kTvmErrorNoError;
}

typedef struct {
  char *text;
  size_t size;
  size_t used;
} Text;

static void add(Text *to, char c) {
  if (to->used + 1 < to->size) {
    to->text[to->used++] = c;
  }
}

static void add_number(Text *to, unsigned long number, unsigned base, int width) {
  char digits[24];
  int count = 0;
  do {
    digits[count++] = "0123456789abcdef"[number % base];
    number /= base;
  } while (number != 0);
  while (width-- > count) {
    add(to, '0');
  }
  while (count > 0) {
    add(to, digits[--count]);
  }
}

static void add_text(Text *to, const char *text) {
  while (*text != '\0') {
    add(to, *text++);
  }
}

static void add_signed(Text *to, long number) {
  if (number < 0) {
    add(to, '-');
  }
  add_number(to, number < 0 ? 0ul - (unsigned long)number : (unsigned long)number, 10, 0);
}

/* %s, %d, %u, %x, %p and %c; h, l, z, precision and flags are read, and zeros put in front. */
size_t TVMPlatformFormatMessage(char *out_buf, size_t out_buf_size_bytes, const char *fmt,
                                va_list args) {
  Text to;
  to.text = out_buf;
  to.size = out_buf_size_bytes;
  to.used = 0;
  for (; *fmt != '\0'; fmt++) {
    int width = 0;
    int is_long = 0;
    if (*fmt != '%') {
      add(&to, *fmt);
      continue;
    }
    while (*++fmt != '\0' && strchr("0123456789-.hlz+ #", *fmt) != NULL) {
      is_long |= *fmt == 'l' || *fmt == 'z';
      width = *fmt >= '0' && *fmt <= '9' ? (width * 10 + (*fmt - '0')) % 32 : width;
    }
    switch (*fmt) {
    case 's':
      add_text(&to, va_arg(args, const char *));
      break;
    case 'c':
      add(&to, (char)va_arg(args, int));
      break;
    case 'd':
    case 'i':
      add_signed(&to, is_long ? va_arg(args, long) : (long)va_arg(args, int));
      break;
    case 'u':
      add_number(&to, is_long ? va_arg(args, unsigned long) : va_arg(args, unsigned), 10, width);
      break;
    case 'p':
      add_number(&to, (unsigned long)(uintptr_t)va_arg(args, void *), 16, 2 * (int)sizeof(void *));
      break;
    case 'x':
      add_number(&to, is_long ? va_arg(args, unsigned long) : va_arg(args, unsigned), 16, width);
      break;
    case '\0':
      fmt--; /* a lone % at the end */
      break;
    default:
      add(&to, *fmt);
    }
  }
  if (out_buf_size_bytes > 0) {
    out_buf[to.used] = '\0';
  }
  return to.used;
}
