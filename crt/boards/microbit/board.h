/* The instruction counter of the micro:bit: TIMER0 of the nRF51, 32 bits at 16 MHz.
 *
 * A tick is 62.5 ns: 62.5 instructions under QEMU's `-icount shift=0`. It wraps after 2.6e11.
 */
#ifndef MLF_BOARDS_MICROBIT_BOARD_H_
#define MLF_BOARDS_MICROBIT_BOARD_H_

#include <stdint.h>

#define BOARD_COUNTER_MILLIINSTRUCTIONS_PER_TICK 62500u

/* Words: tasks START 0x000, CLEAR 0x00c, CAPTURE[0] 0x040; BITMODE 0x508 (3: 32 bits), PRESCALER
 * 0x510, CC[0] 0x540. */
static volatile uint32_t *const board_timer = (volatile uint32_t *)0x40008000u;

static inline void board_counter_start(void) {
  board_timer[0x508 / 4] = 3;
  board_timer[0x510 / 4] = 0;
  board_timer[0x00c / 4] = 1;
  board_timer[0] = 1;
}

/* Ticks since board_counter_start. */
static inline uint64_t board_counter_ticks(void) {
  board_timer[0x040 / 4] = 1;
  return board_timer[0x540 / 4];
}

/* Nothing to do: what lies below RAM faults as it is. */
static inline void board_guard_stack(void) {
}

#endif /* MLF_BOARDS_MICROBIT_BOARD_H_ */
