/* The instruction counter of the MPS2 boards: the CMSDK APB timer 0, 32 bits, counting down.
 *
 * It runs at the system clock of 25 MHz, so a tick is 40 ns: 40 instructions under QEMU's
 * `-icount shift=0`. It wraps after 1.7e11 instructions; no inference comes near that.
 */
#ifndef MLF_BOARDS_CMSDK_TIMER_H_
#define MLF_BOARDS_CMSDK_TIMER_H_

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

#endif /* MLF_BOARDS_CMSDK_TIMER_H_ */
