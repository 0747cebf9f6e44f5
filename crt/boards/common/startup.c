/* From reset to main(argc, argv) on a Cortex-M, and to the simulator's exit status after it. */
#include "board.h"
#include "semihosting.h"

/* The linker script's marks (sections.ld). */
extern uint32_t __data_start[], __data_end[], __data_load[], __bss_start[], __bss_end[];
extern uint32_t __stack_bottom[], __stack_top[];
typedef void (*function)(void);
extern const function __init_array_start[], __init_array_end[];

int main(int argc, char **argv);
void reset_handler(void);

/* Exit status of a program that crashed; programs use small numbers of their own. */
enum { kStatusFault = 70 };

static void print_hex(const char *label, uint32_t value) {
  char digits[9];
  int i;
  for (i = 0; i < 8; i++) {
    digits[i] = "0123456789abcdef"[(value >> (28 - 4 * i)) & 15u];
  }
  digits[8] = '\0';
  (void)semihosting(SYS_WRITE0, label);
  (void)semihosting(SYS_WRITE0, digits);
}

/* Every exception ends here. `frame` is what the processor pushed: word 6 is the return address.
 * Below the stack there is no memory, so after an overflow nothing was pushed. */
__attribute__((used, noreturn)) static void fault_report(const uint32_t *frame) {
  if (frame < __stack_bottom) {
    (void)semihosting(SYS_WRITE0, "fault: the stack overflowed\n");
    semihosting_exit(kStatusFault);
  }
  print_hex("fault: pc=0x", frame[6]);
  print_hex(" lr=0x", frame[5]);
  print_hex(" cfsr=0x", *(volatile uint32_t *)0xe000ed28u); /* which fault */
  print_hex(" bfar=0x", *(volatile uint32_t *)0xe000ed38u); /* at which address */
  (void)semihosting(SYS_WRITE0, "\n");
  semihosting_exit(kStatusFault);
}

/* Reports on the other end of the stack's memory: the fault may be the stack's own overflow. */
__attribute__((naked)) static void fault_handler(void) {
  __asm volatile("mrs r0, msp\n"
                 "ldr r1, =__stack_top\n"
                 "mov sp, r1\n"
                 "b %c0\n" ::"i"(fault_report));
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
__attribute__((optimize("no-tree-loop-distribute-patterns"))) static void set_up_memory(void) {
  const uint32_t *from = __data_load;
  uint32_t *to;
  for (to = __data_start; (uintptr_t)to < (uintptr_t)__data_end; to++) {
    *to = *from++;
  }
  for (to = __bss_start; (uintptr_t)to < (uintptr_t)__bss_end; to++) {
    *to = 0;
  }
}

__attribute__((used, noreturn)) static void start(void) {
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

/* CPACR: full access to coprocessors 10 and 11, the FPU and MVE, before any code uses them. ARMv6-M
 * has no coprocessors, and not all of these instructions. */
__attribute__((naked, noreturn)) void reset_handler(void) {
#if __ARM_ARCH >= 7
  __asm volatile("ldr r0, =0xe000ed88\n"
                 "ldr r1, [r0]\n"
                 "orr r1, r1, #0xf00000\n"
                 "str r1, [r0]\n"
                 "dsb\n"
                 "isb\n");
#endif
  __asm volatile("b %c0\n" ::"i"(start));
}

/* The first 16 vectors; no interrupt is enabled. */
__attribute__((section(".vectors"), used)) static const function vectors[16] = {
    (function)(uintptr_t)__stack_top,
    reset_handler,
    fault_handler, /* NMI */
    fault_handler, /* HardFault */
    fault_handler, /* MemManage */
    fault_handler, /* BusFault */
    fault_handler, /* UsageFault */
    fault_handler, /* SecureFault */
    NULL,
    NULL,
    NULL,
    fault_handler, /* SVCall */
    fault_handler, /* DebugMonitor */
    NULL,
    fault_handler, /* PendSV */
    fault_handler  /* SysTick */
};
