/* What the MPS2 boards share: an instruction counter and a guard below the stack.
 *
 * The counter is the CMSDK APB timer 0, 32 bits, counting down. It runs at the system clock of 25
 * MHz, so a tick is 40 ns: 40 instructions under QEMU's
 * `-icount shift=0`. It wraps after 1.7e11 instructions; no inference comes near that.
 */
#ifndef MLF_BOARDS_MPS2_H_
#define MLF_BOARDS_MPS2_H_

#include <stdint.h>

#define BOARD_COUNTER_MILLIINSTRUCTIONS_PER_TICK 40000u

/* CTRL 0x0 (bit 0 enables), VALUE 0x4, RELOAD 0x8. */
static volatile uint32_t *const board_timer = (volatile uint32_t *)0x40000000u;

static inline void board_counter_start(void) {
  board_timer[0] = 0;
  board_timer[2] = UINT32_MAX;
  board_timer[1] = UINT32_MAX;
  board_timer[0] = 1;
}

/* Ticks since board_counter_start. */
static inline uint64_t board_counter_ticks(void) {
  return UINT32_MAX - board_timer[1];
}

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
