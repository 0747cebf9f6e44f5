/* What the simulated boards' C needs to know of a Cortex-M. */
#ifndef MLF_BOARDS_CORTEX_M_CPU_H_
#define MLF_BOARDS_CORTEX_M_CPU_H_

#include <stdint.h>

/* A semihosting call, which a debugger or simulator takes for its own. */
static inline intptr_t cpu_semihosting(intptr_t operation, const void *argument) {
  register intptr_t r0 __asm("r0") = operation;
  register const void *r1 __asm("r1") = argument;
  __asm volatile("bkpt 0xab" : "+r"(r0) : "r"(r1) : "memory");
  return r0;
}

/* A loop of two instructions per turn. */
static inline void cpu_count_down(uint32_t turns) {
  __asm volatile(".syntax unified\n"
                 "1: subs %0, %0, #1\n"
                 "bne 1b\n"
                 : "+l"(turns)
                 :
                 : "cc");
}

/* Makes an interrupt end cpu_sleep. None is taken, so no handler is needed. */
static inline void cpu_wake_by(uint32_t interrupt) {
  volatile uint32_t *const enable = (volatile uint32_t *)0xe000e100u;
  __asm volatile("cpsid i" ::: "memory");
  enable[interrupt / 32] = UINT32_C(1) << interrupt % 32;
}

/* Returns at once if an interrupt came that was not forgotten since. */
static inline void cpu_sleep(void) {
  __asm volatile("dsb\n"
                 "wfi\n" ::
                     : "memory");
}

/* To be called when its source asks for it no longer. */
static inline void cpu_forget(uint32_t interrupt) {
  volatile uint32_t *const pending = (volatile uint32_t *)0xe000e280u;
  pending[interrupt / 32] = UINT32_C(1) << interrupt % 32;
}

static inline uint32_t *cpu_stack_pointer(void) {
  uint32_t *now;
  __asm volatile("mov %0, sp" : "=r"(now));
  return now;
}

#endif /* MLF_BOARDS_CORTEX_M_CPU_H_ */
