/* From a processor that has a stack to main(argc, argv), and to the simulator's exit status. */
#include "start.h"

#include "board.h"
#include "semihosting.h"

/* The linker script's marks (sections.ld). */
extern uint32_t __data_start[], __data_end[], __data_load[], __bss_start[], __bss_end[];
typedef void (*function)(void);
extern const function __init_array_start[], __init_array_end[];

int main(int argc, char **argv);

void start_print_hex(const char *label, uintptr_t value) {
  enum { kDigits = 2 * sizeof value };
  char digits[kDigits + 1];
  int i;
  for (i = kDigits - 1; i >= 0; i--) {
    digits[i] = "0123456789abcdef"[value & 15u];
    value >>= 4;
  }
  digits[kDigits] = '\0';
  (void)semihosting(SYS_WRITE0, label);
  (void)semihosting(SYS_WRITE0, digits);
}

/* argv from the command line the simulator was given, split at spaces: names without them. */
static int split_command_line(char *line, char **argv, int limit) {
  int argc = 0;
  while (*line != '\0' && argc < limit) {
    argv[argc++] = line;
    while (*line != '\0' && *line != ' ') {
      line++;
    }
    if (*line == ' ') {
      *line++ = '\0';
    }
  }
  return argc;
}

/* Plain loops: the C library's memcpy and memset may want what is not set up yet. Marks are
 * compared as numbers, since C only orders pointers into one object. */
PLAIN_LOOPS static void set_up_memory(void) {
  const uint32_t *from = __data_load;
  uint32_t *to;
  for (to = __data_start; (uintptr_t)to < (uintptr_t)__data_end; to++) {
    *to = *from++;
  }
  for (to = __bss_start; (uintptr_t)to < (uintptr_t)__bss_end; to++) {
    *to = 0;
  }
}

void start(void) {
  static char line[256];
  static char *argv[9];
  const uintptr_t block[2] = {(uintptr_t)line, sizeof line};
  const function *initialise;
  int argc = 0;
  board_guard_stack();
  set_up_memory();
  for (initialise = __init_array_start; (uintptr_t)initialise < (uintptr_t)__init_array_end;
       initialise++) {
    (*initialise)();
  }
  if (semihosting(SYS_GET_CMDLINE, block) == 0) {
    argc = split_command_line(line, argv, 8);
  }
  semihosting_exit(main(argc, argv));
}
