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
 * makes it read-only: entries 1 and 2 are one locked range from 0 to there, which holds for machine
 * mode. Entry 0 comes before it and leaves the first 512 MiB open, which are devices. */
static inline void board_guard_stack(void) {
  extern uint32_t __stack_bottom[]; /* sections.ld */
  const uintptr_t devices = (0x20000000u >> 3) - 1u;
  __asm volatile(CPU_CSR("csrw pmpaddr0, %0\n"
                         "csrw pmpaddr1, zero\n"
                         "csrw pmpaddr2, %1\n"
                         "csrw pmpcfg0, %2\n")::"r"(devices),
                 "r"((uintptr_t)__stack_bottom >> 2),
                 /* top of a range, locked, execute and read; off; a power of two, read and write */
                 "r"((uintptr_t)0x8d001b));
}

#endif /* MLF_BOARDS_RISCV_INSTRET_H_ */
