/* What the simulated boards' C needs to know of a RISC-V processor of 32 or 64 bits. */
#ifndef MLF_BOARDS_RISCV_CPU_H_
#define MLF_BOARDS_RISCV_CPU_H_

#include <stdint.h>

/* Assembler with instructions for control and status registers, which -march=rv32imc does not name
 * and every processor has. */
#ifdef __clang__
#define CPU_CSR(text) text
#else
#define CPU_CSR(text) ".option push\n.option arch, +zicsr\n" text ".option pop\n"
#endif

/* A semihosting call: a breakpoint between two shifts that change nothing. The three are known by
 * their 32-bit forms, and must not cross a page. */
static inline intptr_t cpu_semihosting(intptr_t operation, const void *argument) {
  register intptr_t a0 __asm("a0") = operation;
  register const void *a1 __asm("a1") = argument;
  __asm volatile(".balign 16\n"
                 ".option push\n"
                 ".option norvc\n"
                 "slli x0, x0, 0x1f\n"
                 "ebreak\n"
                 "srai x0, x0, 7\n"
                 ".option pop\n"
                 : "+r"(a0)
                 : "r"(a1)
                 : "memory");
  return a0;
}

/* A loop of two instructions per turn. */
static inline void cpu_count_down(uint32_t turns) {
  __asm volatile("1: addi %0, %0, -1\n"
                 "bnez %0, 1b\n"
                 : "+r"(turns));
}

/* The interrupt controller of the platform. */
#define CPU_PLIC 0x0c000000u

/* Makes an interrupt end cpu_sleep. None is taken, so no handler is needed. */
static inline void cpu_wake_by(uint32_t interrupt) {
  volatile uint32_t *const priority = (volatile uint32_t *)CPU_PLIC;
  volatile uint32_t *const enable = (volatile uint32_t *)(CPU_PLIC + 0x2000u);
  const uintptr_t external = UINT32_C(1) << 11;
  priority[interrupt] = 1;
  enable[interrupt / 32] = UINT32_C(1) << interrupt % 32;
  __asm volatile(CPU_CSR("csrs mie, %0\n")::"r"(external));
}

/* Returns at once if an interrupt came that was not forgotten since. */
static inline void cpu_sleep(void) {
  __asm volatile("wfi" ::: "memory");
}

/* To be called when its source asks for it no longer: claims it and says that it is done. */
static inline void cpu_forget(uint32_t interrupt) {
  volatile uint32_t *const claim = (volatile uint32_t *)(CPU_PLIC + 0x200004u);
  (void)*claim;
  *claim = interrupt;
}

static inline uint32_t *cpu_stack_pointer(void) {
  uint32_t *now;
  __asm volatile("mv %0, sp" : "=r"(now));
  return now;
}

#endif /* MLF_BOARDS_RISCV_CPU_H_ */
