/* What the MPS2 boards share: an instruction counter and a guard below the stack.
 *
 * The counter runs at the system clock of 25 MHz, so a tick is 40 ns: 40 instructions under QEMU's
 * `-icount shift=0`.
 */
#ifndef MLF_BOARDS_MPS2_H_
#define MLF_BOARDS_MPS2_H_

#define BOARD_COUNTER_MILLIINSTRUCTIONS_PER_TICK 40000u
#define BOARD_TIMER                              0x40000000u
#include "cmsdk_timer.h"

/* Below RAM, where the stack overflows to, QEMU's board ignores writes and reads zeros. The memory
 * protection unit makes the 16 MiB there a fault: one region without any access, everything else as
 * without MPU (PRIVDEFENA). Registers: CTRL 0x4, RNR 0x8, RBAR 0xc, RASR 0x10. */
static inline void board_guard_stack(void) {
  volatile uint32_t *const mpu = (volatile uint32_t *)0xe000ed90u;
  mpu[2] = 0;
  mpu[3] = 0x1f000000u;
  mpu[4] = (23u << 1) | 1u; /* 2^(23+1) bytes, enabled */
  mpu[1] = 5;
}

#endif /* MLF_BOARDS_MPS2_H_ */
