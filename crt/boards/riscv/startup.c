/* What a RISC-V processor does at reset and when it faults. */
#include "semihosting.h"
#include "start.h"

/* The linker script's marks (sections.ld). */
extern uint32_t __stack_bottom[], __stack_top[];

void reset_handler(void);
void fault_handler(void);
void fault_report(const uint32_t *stack, uintptr_t return_address);

#define READ(name)                                                                                 \
  __extension__({                                                                                  \
    uintptr_t value;                                                                               \
    __asm volatile(CPU_CSR("csrr %0, " name "\n") : "=r"(value));                                  \
    value;                                                                                         \
  })

/* Every trap ends here, with the stack pointer and the return address it found. */
__attribute__((used, noreturn)) void fault_report(const uint32_t *stack, uintptr_t return_address) {
  if ((uintptr_t)stack < (uintptr_t)__stack_bottom) {
    (void)semihosting(SYS_WRITE0, "fault: the stack overflowed\n");
    semihosting_exit(kStatusFault);
  }
  start_print_hex("fault: pc=0x", READ("mepc"));
  start_print_hex(" ra=0x", return_address);
  start_print_hex(" mcause=0x", READ("mcause")); /* which fault */
  start_print_hex(" mtval=0x", READ("mtval"));   /* at which address */
  (void)semihosting(SYS_WRITE0, "\n");
  semihosting_exit(kStatusFault);
}

/* Reports on the other end of the stack's memory: the fault may be the stack's own overflow. */
__attribute__((naked, aligned(4))) void fault_handler(void) {
  __asm volatile("mv a0, sp\n"
                 "mv a1, ra\n"
                 "la sp, __stack_top\n"
                 "j fault_report\n");
}

/* First in flash, where the processor starts: the stack, the trap vector, and the FPU, which is off
 * until mstatus.FS says otherwise. */
__attribute__((naked, section(".vectors"), used)) void reset_handler(void) {
  __asm volatile("la sp, __stack_top\n"
                 "la t0, fault_handler\n" CPU_CSR("csrw mtvec, t0\n")
#ifdef __riscv_flen
                     "li t0, 0x2000\n" CPU_CSR("csrs mstatus, t0\n"
                                               "csrw fcsr, zero\n")
#endif
                         "j start\n");
}
