/* The platform of a simulated board: semihosting, an instruction counter, a painted stack. */
#include "platform.h"

#include "board.h"
#include "semihosting.h"
#include "start.h"

extern uint32_t __stack_bottom[]; /* sections.ld */

const char platform_counter_name[] = "instructions";
const uint32_t platform_counter_scale = 1;

void platform_print(const char *text) {
  (void)semihosting(SYS_WRITE0, text);
}

void platform_complain(const char *text) {
  (void)semihosting(SYS_WRITE0, text);
}

/* A call's block of arguments is an array of words; pointers are words here. */
static platform_file open_file(const char *path, uintptr_t mode) {
  uintptr_t length = 0;
  while (path[length] != '\0') {
    length++;
  }
  {
    const uintptr_t block[3] = {(uintptr_t)path, mode, length};
    return (platform_file)semihosting(SYS_OPEN, block);
  }
}

platform_file platform_open_to_read(const char *path) {
  return open_file(path, 1); /* "rb" */
}

platform_file platform_open_to_write(const char *path) {
  return open_file(path, 5); /* "wb" */
}

int64_t platform_size(platform_file file) {
  const intptr_t block[1] = {file};
  return semihosting(SYS_FLEN, block);
}

/* SYS_READ and SYS_WRITE return the number of bytes they did not transfer. */
static int transfer(intptr_t operation, platform_file file, uintptr_t data, size_t bytes) {
  const uintptr_t block[3] = {(uintptr_t)file, data, bytes};
  return semihosting(operation, block) == 0 ? 0 : -1;
}

int platform_read(platform_file file, void *data, size_t bytes) {
  return transfer(SYS_READ, file, (uintptr_t)data, bytes);
}

int platform_write(platform_file file, const void *data, size_t bytes) {
  return transfer(SYS_WRITE, file, (uintptr_t)data, bytes);
}

int platform_close(platform_file file) {
  const intptr_t block[1] = {file};
  return semihosting(SYS_CLOSE, block) == 0 ? 0 : -1;
}

/* Waits for the counter to move, so that what follows starts at the beginning of a tick: a
 * measured length is then cut to whole ticks, never rounded up by a tick that began earlier. */
uint64_t platform_counter_begin(void) {
  const uint64_t before = board_counter_ticks();
  uint64_t now;
  do {
    now = board_counter_ticks();
  } while (now == before);
  return now;
}

/* The counter is a timer of the board. QEMU's `-icount shift=0` lets virtual time pass by one
 * nanosecond per instruction, so the timer counts instructions; without that option it counts time
 * and this check fails: a loop of 2,000,000 instructions must measure as 2,000,000. */
int platform_counter_start(void) {
  uint64_t begin;
  uint64_t end;
  board_counter_start();
  begin = platform_counter_begin();
  cpu_count_down(1000000);
  end = platform_counter_end();
  return platform_counter_cost(begin, end) == 2000000u ? 0 : -1;
}

uint64_t platform_counter_end(void) {
  return board_counter_ticks();
}

uint64_t platform_counter_cost(uint64_t begin, uint64_t end) {
  return (end - begin) * BOARD_COUNTER_MILLIINSTRUCTIONS_PER_TICK / 1000u;
}

static const uint32_t kPaint = 0xa5c3961eu; /* unlikely as data, an address or an instruction */
enum { kUnmarkedWords = 16 };
static uint32_t *marked_from; /* the stack pointer at the mark */

/* noinline, so that the stack pointer read here is no higher than the caller's. The words next to
 * it stay unmarked, for this function's own frame; calls are taken to use them. */
__attribute__((noinline)) PLAIN_LOOPS void platform_stack_mark(void) {
  uint32_t *word;
  marked_from = cpu_stack_pointer();
  for (word = __stack_bottom; word < marked_from - kUnmarkedWords; word++) {
    *word = kPaint;
  }
}

size_t platform_stack_used(void) {
  const uint32_t *word = __stack_bottom;
  if (*word != kPaint) {
    return SIZE_MAX;
  }
  while (word < marked_from - kUnmarkedWords && *word == kPaint) {
    word++;
  }
  return (size_t)(marked_from - word) * sizeof *word;
}
