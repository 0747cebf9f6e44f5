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

static inline uint32_t *cpu_stack_pointer(void) {
  uint32_t *now;
  __asm volatile("mov %0, sp" : "=r"(now));
  return now;
}

#endif /* MLF_BOARDS_CORTEX_M_CPU_H_ */
