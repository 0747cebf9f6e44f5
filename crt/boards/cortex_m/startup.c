/* What a Cortex-M does at reset and when it faults. */
#include "semihosting.h"
#include "start.h"

/* The linker script's marks (sections.ld). */
extern uint32_t __stack_bottom[], __stack_top[];
typedef void (*function)(void);

void reset_handler(void);

/* Every exception ends here. `frame` is what the processor pushed: word 6 is the return address.
 * Below the stack there is no memory, so after an overflow nothing was pushed. */
__attribute__((used, noreturn)) static void fault_report(const uint32_t *frame) {
  if (frame < __stack_bottom) {
    (void)semihosting(SYS_WRITE0, "fault: the stack overflowed\n");
    semihosting_exit(kStatusFault);
  }
  start_print_hex("fault: pc=0x", frame[6]);
  start_print_hex(" lr=0x", frame[5]);
  start_print_hex(" cfsr=0x", *(volatile uint32_t *)0xe000ed28u); /* which fault */
  start_print_hex(" bfar=0x", *(volatile uint32_t *)0xe000ed38u); /* at which address */
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
  __asm volatile("bl start\n");
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
