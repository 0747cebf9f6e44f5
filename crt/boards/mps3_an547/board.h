/* The instruction counter of the MPS3 board: the SSE-300's system counter, 64 bits at 32 MHz.
 *
 * A tick is 31.25 ns: 31.25 instructions under QEMU's `-icount shift=0`. SysTick would do too, but
 * its 24 bits wrap after 524 million instructions.
 */
#ifndef MLF_BOARDS_MPS3_AN547_BOARD_H_
#define MLF_BOARDS_MPS3_AN547_BOARD_H_

#include <stdint.h>

#define BOARD_COUNTER_MILLIINSTRUCTIONS_PER_TICK 31250u

/* The control frame: CNTCR 0x0 (bit 0 enables), CNTCV 0x8 and 0xc. */
static volatile uint32_t *const board_timer = (volatile uint32_t *)0x58100000u;

static inline void board_counter_start(void) {
  board_timer[0] = 0;
  board_timer[2] = 0;
  board_timer[3] = 0;
  board_timer[0] = 1;
}

/* Ticks since board_counter_start. The halves are read until the upper one did not change. */
static inline uint64_t board_counter_ticks(void) {
  uint32_t high;
  uint32_t low;
  do {
    high = board_timer[3];
    low = board_timer[2];
  } while (high != board_timer[3]);
  return ((uint64_t)high << 32) | low;
}

/* Nothing to do: what lies below RAM faults as it is. */
static inline void board_guard_stack(void) {
}

#endif /* MLF_BOARDS_MPS3_AN547_BOARD_H_ */
