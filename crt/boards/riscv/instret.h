/* The instruction counter that every RISC-V processor has, in ticks of 64 instructions: longer than
 * what reading it takes. */
#ifndef MLF_BOARDS_RISCV_INSTRET_H_
#define MLF_BOARDS_RISCV_INSTRET_H_

#include <stdint.h>

#include "cpu.h"

#define BOARD_COUNTER_MILLIINSTRUCTIONS_PER_TICK 64000u

/* It runs from reset on. */
static inline void board_counter_start(void) {
}

#if __riscv_xlen == 32
/* The halves are read until the upper one did not change. */
static inline uint64_t board_counter_ticks(void) {
  uint32_t high;
  uint32_t low;
  uint32_t again;
  do {
    __asm volatile(CPU_CSR("csrr %0, minstreth\n"
                           "csrr %1, minstret\n"
                           "csrr %2, minstreth\n")
                   : "=&r"(high), "=&r"(low), "=&r"(again));
  } while (high != again);
  return (((uint64_t)high << 32) | low) >> 6;
}
#else
static inline uint64_t board_counter_ticks(void) {
  uint64_t now;
  __asm volatile(CPU_CSR("csrr %0, minstret\n") : "=r"(now));
  return now >> 6;
}
#endif

/* The stack is at the start of RAM, and what is below may be memory too. Physical memory protection
 * makes it read-only, from the program's first instruction on: below that are the board's devices.
 * The range is locked, so it holds for machine mode. */
static inline void board_guard_stack(void) {
  extern uint32_t __stack_bottom[]; /* sections.ld */
  extern void reset_handler(void);  /* startup.c */
  __asm volatile(CPU_CSR("csrw pmpaddr0, %0\n"
                         "csrw pmpaddr1, %1\n"
                         "csrw pmpcfg0, %2\n")::"r"((uintptr_t)reset_handler >> 2),
                 "r"((uintptr_t)__stack_bottom >> 2),
                 "r"((uintptr_t)0x8d00)); /* the second: locked, top of range, execute and read */
}

#endif /* MLF_BOARDS_RISCV_INSTRET_H_ */
